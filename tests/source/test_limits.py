"""Lines that are too long and files that unpack to too much, found in little memory."""

from __future__ import annotations

import bz2
import gzip
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from examples_kit import drawn
from latecomer.config.damage import DamagedFile
from latecomer.source.decode import limits
from latecomer.source.decode.limits import KEPT, Limits, LongLine

UNPACKED = 1 << 20
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "a.json": bytes,
    "a.json.gz": lambda content: gzip.compress(content, 1),
    "a.json.bz2": bz2.compress,
}
SOME_TEXT = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"x", b"xx", b"yyyyyy", b"\0", b"\n\0", b"\0\n"]), max_size=30
).map(b"".join)


def naive(content: bytes, longest: int, end: bytes) -> list[LongLine]:
    """A line counts with its end, a byte order mark does not."""
    at = 3 if content.startswith(b"\xef\xbb\xbf") else 0
    lines = re.findall(rb".*?(?:%s)|.+$" % end, content[at:], re.DOTALL)
    found = []
    for line in lines:
        if len(line) > longest:
            found.append(LongLine(at, len(line), line[:KEPT]))
        at += len(line)
    return found


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize(
    ("encoding", "end"),
    [("utf-8", rb"\r\n|\r|\n"), ("utf-16le", rb"\n\x00"), ("utf-16be", rb"\x00\n")],
)
def test_exactly_the_lines_that_are_too_long_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, encoding: str, end: bytes
) -> None:
    monkeypatch.setattr(limits, "_BLOCK", 3)
    monkeypatch.setattr(limits, "_CHUNK", 4)
    file = tmp_path / name

    @given(SOME_TEXT, st.integers(4, 12), st.booleans())
    @drawn(30, suppress_health_check=list(HealthCheck))
    def check(text: bytes, longest: int, marked: bool) -> None:
        content = (b"\xef\xbb\xbf" if marked else b"") + text
        file.write_bytes(PACKED[name](content))
        found = Limits(longest, UNPACKED).long_lines(file, encoding)
        assert list(found) == naive(content, longest, end)

    check()


@pytest.mark.parametrize("name", ["a.json.gz", "a.json.bz2"])
def test_a_bomb_is_unpacked_to_its_limit_in_little_memory(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    million = b"\n" * (1 << 20)
    bomb = PACKED[name](million) * 200  # 200 MiB, in some 200 kB
    file.write_bytes(bomb)
    assert Limits(1 << 16, 200 << 20).long_lines(file, "utf-8") == ()
    tracemalloc.start()
    with pytest.raises(DamagedFile, match=r"unpacks to more than 128MiB \(source\.files\.max_unpacked\)"):
        Limits(1 << 16, 128 << 20).long_lines(file, "utf-8")
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def test_a_long_line_is_measured_in_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with open(file, "wb") as content:
        content.write(b"{}\n")
        content.truncate(1 << 30)
        content.seek(0, 2)
        content.write(b"\n{}\n")
    tracemalloc.start()
    (line,) = Limits(16 << 20, UNPACKED).long_lines(file, "utf-8")
    assert (line.start, line.size, line.first) == (3, (1 << 30) - 3 + 1, b"\0" * KEPT)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def test_a_line_that_spark_cannot_pass_over_sets_its_file_aside(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with open(file, "wb") as content:
        content.truncate(3 << 30)
    with pytest.raises(DamagedFile, match="the line at byte 0 has 3221225472 bytes"):
        Limits(1 << 30, UNPACKED).long_lines(file, "utf-8")


def test_a_file_of_nothing_but_long_lines_is_set_aside(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes((b"x" * 20 + b"\n") * 101)
    with pytest.raises(DamagedFile, match="more than 100 of its lines have over 10 bytes"):
        Limits(10, UNPACKED).long_lines(file, "utf-8")


@pytest.mark.parametrize("suffix", [".gz", ".bz2"])
def test_a_damaged_compressed_file_is_said_to_be_one(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.json{suffix}"
    whole = PACKED[f"a.json{suffix}"](bytes(range(256)) * 400)
    for damaged in (whole[:-9], whole[: len(whole) // 2], b"no archive", b"\x1f"):
        file.write_bytes(damaged)
        with pytest.raises(DamagedFile):
            Limits(10, UNPACKED).long_lines(file, "utf-8")


def test_what_is_compressed_in_other_ways_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match=r"compressed as \.zst are not read; use \.gz or \.bz2"):
        Limits(10, UNPACKED).long_lines(tmp_path / "a.json.zst", "utf-8")
