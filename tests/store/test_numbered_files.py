"""A file that many replace at the same time, without a lock: nobody replaces what somebody else has replaced before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from latecomer.store import local_files
from latecomer.store.local_files import put_numbered, read_numbered

COUNT = """
import sys
from pathlib import Path
from latecomer.store.local_files import put_numbered, read_numbered
folder, done = Path(sys.argv[1]), 0
print("ready", flush=True)
while done < int(sys.argv[2]):
    content, tag = read_numbered(folder)
    done += put_numbered(folder, str(int(content) + 1).encode(), tag) is not None
"""


def test_a_version_replaces_the_one_that_was_read(tmp_path: Path) -> None:
    file = tmp_path / "lease"
    assert read_numbered(file) is None
    assert put_numbered(file, b"a", None) == "1"
    assert put_numbered(file, b"b", None) is None
    assert put_numbered(file, b"c", "1") == "2"
    assert put_numbered(file, b"d", "1") is None
    assert read_numbered(file) == (b"c", "2")
    assert os.listdir(file) == ["000000000002.json"]


def test_a_number_that_was_removed_long_ago_is_not_had_again(tmp_path: Path) -> None:
    file = tmp_path / "lease"
    tag = None
    for nth in range(5):
        tag = put_numbered(file, b"%d" % nth, tag)
    for slow in (None, "1", "2", "3"):
        assert put_numbered(file, b"slow", slow) is None
    assert read_numbered(file) == (b"4", "5")


def test_a_link_that_was_made_twice_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def twice(*names: Path) -> None:
        link(*names)
        link(*names)

    monkeypatch.setattr(local_files.os, "link", twice)
    assert put_numbered(tmp_path / "lease", b"a", None) == "1"


def test_processes_that_replace_it_all_the_time_lose_nothing(tmp_path: Path) -> None:
    """One of them is stopped again and again, wherever it is: the others go on."""
    file = tmp_path / "lease"
    put_numbered(file, b"0", None)
    command = [sys.executable, "-c", COUNT, str(file), "150"]
    counting = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    for each in counting:
        assert each.stdout is not None
        assert each.stdout.readline() == b"ready\n"
    while counting[1].poll() is None or counting[2].poll() is None:
        if counting[0].poll() is None:
            counting[0].send_signal(signal.SIGSTOP)
            time.sleep(0.02)
            counting[0].send_signal(signal.SIGCONT)
        time.sleep(0.003)
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(lambda each: each.wait(120), counting)) == [0, 0, 0]
    found = read_numbered(file)
    assert found is not None
    # Each version was made of the one before it, though some of them were replaced before their writers knew.
    assert int(found[0]) == int(found[1]) - 1 >= 450
    assert os.listdir(file) == [f"{int(found[1]):012}.json"]
    for each in counting:
        assert each.stdout is not None
        each.stdout.close()
