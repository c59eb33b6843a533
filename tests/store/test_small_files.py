"""Files that are read whole are small: a device may have no end, and a pipe is read to its end."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from latecomer.objects.access import keys_in_file
from latecomer.objects.locations import Storage
from latecomer.objects.small_files import TooLarge, named_file, small_bytes, small_text

DEVICES = ["/dev/zero", "/dev/full", "/dev/urandom"]


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_without_an_end_is_refused(device: str) -> None:
    with pytest.raises(TooLarge, match=f"it has more than 4,194,304 bytes: '{device}'"):
        small_bytes(Path(device))


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_holds_no_credentials(device: str) -> None:
    with pytest.raises(OSError, match=rf"{device} cannot be read; mend the file, or name another in storage"):
        keys_in_file(Storage(credentials=device))


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("~nobody-is-called-so/keys", "there is no such user"),
        ("a\0b", "a path cannot hold a NUL character"),
        ("binary", "it is no text"),
        ("missing", "No such file or directory"),
        (".", "Is a directory"),
    ],
)
def test_what_is_wrong_with_a_file_is_an_error_of_the_operating_system(
    tmp_path: Path, written: str, reason: str
) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(OSError, match=reason) as refused:
        small_text(named_file(written, tmp_path))
    assert refused.value.strerror == reason


def test_a_file_may_have_as_many_bytes_as_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "full").write_bytes(b"12345678")
    assert small_bytes(tmp_path / "full", 8) == b"12345678"
    with pytest.raises(TooLarge):
        small_bytes(tmp_path / "full", 7)


def test_the_ends_of_lines_are_newlines(tmp_path: Path) -> None:
    (tmp_path / "mixed").write_bytes("à\r\nb\rc\n".encode())
    assert small_text(tmp_path / "mixed") == "à\nb\nc\n"


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """As a shell gives it: --token-file <(pass show registry)."""
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=("secret\n",))
    writer.start()
    assert small_text(tmp_path / "pipe") == "secret\n"
    writer.join()
