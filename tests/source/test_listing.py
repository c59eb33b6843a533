"""Listing a source's files again and again: what is new is found, and what has not changed is not read again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from latecomer.config.paths import SourcePath, list_files
from latecomer.errors import SourceOutage
from latecomer.source import finding
from latecomer.source.finding import Listing
from latecomer.store.source_files import PathSet, digests_of


class Looking:
    """A listing, what it knows, and the folders that it reads."""

    def __init__(self, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.listing = Listing(SourcePath(path))
        self.known = PathSet()
        self.read: list[str] = []
        self.now = 100.0
        scandir = os.scandir

        def listen(folder: str) -> object:
            self.read.append(folder)
            return scandir(folder)

        monkeypatch.setattr(finding.os, "scandir", listen)
        monkeypatch.setattr(finding.time, "monotonic", lambda: self.now)

    def __call__(self, after: float = 0.2) -> list[str]:
        """What is new, after a while."""
        self.now += after
        self.read = []
        new_files = self.listing.new_files(self.known)
        self.known.add(digests_of([*(file.path for file in new_files.files), *new_files.loops]))
        return [file.path for file in new_files.files]


Looks = Callable[[str], Looking]


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return lambda path: Looking(path, monkeypatch)


def put(file: Path, at: float = 1_000.0) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}\n")
    os.utime(file, (at, at))
    return str(file)


NAMES = [
    *("a.json", "b.csv", ".a.json", "_a.json", "a.json._COPYING_", "day=1/a.json", "day=1/hour=2/a.json"),
    *("deep/a.json", "deep/er/a.json", "deep/er/b.csv", "_hidden/a.json", ".hidden/a.json", "_day=1/a.json"),
    *(
        "deep/_er/a.json",
        "deep/.er/a.json",
        "deep/er/.a.json",
        "x1/a.json",
        "x2/y/a.json",
        "x[1]/a.json",
        "=1/a.json",
    ),
]
PATTERNS = [
    "",
    "/*.json",
    "/*",
    "/**",
    "/**/*.json",
    "/*/a.json",
    "/x?/*",
    "/deep/**/a.json",
    "/{deep,x1}/*.json",
]


@pytest.mark.parametrize(
    "pattern", [*PATTERNS, "/deep/er", "/*/er/*", "/x\\[1\\]/*", "/day=1/**/*", "/*/*/[a-c].*"]
)
def test_what_is_found_is_what_the_path_names(tmp_path: Path, looking: Looks, pattern: str) -> None:
    for name in NAMES:
        put(tmp_path / name)
    look = looking(f"{tmp_path}{pattern}")
    assert look() == list_files(f"{tmp_path}{pattern}")
    assert look() == []
    late = put(tmp_path / "deep/er/a2.json")
    assert look() == ([late] if late in list_files(f"{tmp_path}{pattern}") else [])


def test_folders_that_cannot_hold_any_are_not_read(tmp_path: Path, looking: Looks) -> None:
    for name in NAMES:
        put(tmp_path / name)
    flat, nested = looking(f"{tmp_path}/*.json"), looking(f"{tmp_path}/deep/*/a.json")
    flat()
    assert flat.read == [str(tmp_path)]
    nested()
    assert nested.read == [str(tmp_path / "deep"), str(tmp_path / "deep/er")]


def test_files_are_in_order_of_milliseconds_and_then_of_paths(tmp_path: Path, looking: Looks) -> None:
    for name, nanos in {
        "c": 5_000_000,
        "a": 5_999_999,
        "b": 5_000_001,
        "z": 4_999_999,
        "é": 5_000_000,
    }.items():
        os.utime(put(tmp_path / name), ns=(0, nanos))
    found = Listing(SourcePath(str(tmp_path))).new_files(PathSet()).files
    assert [(Path(file.path).name, file.landed) for file in found] == [
        ("z", 4_000),
        ("a", 5_000),
        ("b", 5_000),
        ("c", 5_000),
        ("é", 5_000),
    ]


def test_a_folder_that_stays_as_it_is_is_not_read_again(tmp_path: Path, looking: Looks) -> None:
    first = [put(tmp_path / "day=1" / "a.json"), put(tmp_path / "day=2" / "b.json")]
    look = looking(str(tmp_path))
    assert look() == first
    assert look() == []
    assert len(look.read) == 3, "it may still be written to within the tick of its clock"
    look(finding.SETTLED)
    assert len(look.read) == 3
    assert look() == [] == look.read
    late = put(tmp_path / "day=2" / "c.json")
    assert look() == [late]
    assert look.read == [str(tmp_path / "day=2")], "the others stayed as they were"
    new = put(tmp_path / "day=3" / "hour=1" / "d.json")
    assert look() == [new]


def test_every_folder_is_read_now_and_then(tmp_path: Path, looking: Looks) -> None:
    """Not all file systems keep the times of folders."""
    put(tmp_path / "a.json")
    look = looking(str(tmp_path))
    look()
    look(finding.SETTLED)
    about = tmp_path.stat()
    late = put(tmp_path / "b.json")
    os.utime(tmp_path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert look() == []
    assert look(1.0) == [late]


def test_a_file_is_known_by_its_path(tmp_path: Path, looking: Looks) -> None:
    file = put(tmp_path / "a.json")
    look = looking(str(tmp_path))
    assert look() == [file]
    (tmp_path / "a.json").write_text("more\n")
    assert look() == []
    (tmp_path / "a.json").unlink()
    assert look() == []
    put(tmp_path / "a.json", 2_000)
    assert look() == []
    (tmp_path / "a.json").rename(tmp_path / "b.json")
    assert look() == [str(tmp_path / "b.json")]


def test_a_link_to_nothing_is_found_once_it_leads_to_a_file(tmp_path: Path, looking: Looks) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").symlink_to(tmp_path / "elsewhere.json")
    (folder / "itself.json").symlink_to("itself.json")
    look = looking(str(folder))
    for _ in range(5):
        assert look(finding.SETTLED) == []
    put(tmp_path / "elsewhere.json")
    assert look() == [str(folder / "a.json")]


def test_links_that_lead_back_are_warned_of_once_and_passed_over(
    tmp_path: Path, looking: Looks, caplog: pytest.LogCaptureFixture
) -> None:
    files = [put(tmp_path / name) for name in ("a.json", "x/b.json", "y/c.json")]
    (tmp_path / "here").symlink_to(".")
    (tmp_path / "x" / "up").symlink_to("..")
    (tmp_path / "y" / "to_x").symlink_to("../x")  # a link to another folder is followed
    look = looking(f"{tmp_path}/**/*.json")
    assert sorted(look()) == sorted([*files, str(tmp_path / "y/to_x/b.json")])
    look(finding.SETTLED)
    assert sorted(caplog.messages) == [
        f"{tmp_path / link} is a link to a folder that it lies in: nothing below it is read; remove it"
        for link in ("here", "x/up", "y/to_x/up")
    ]


def test_a_name_that_is_not_text_is_left_out_and_told(
    tmp_path: Path, looking: Looks, caplog: pytest.LogCaptureFixture
) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9.json")
    odd.write_text("{}")
    good = [put(tmp_path / name) for name in (" ", "#", "%20", "*", "?", "a\nb", "caf\u00e9", "日本")]
    look = looking(str(tmp_path))
    assert look() == good
    look()
    assert caplog.messages == [f"{str(odd)!r} is not read: its name is not UTF-8; rename it"]


def test_what_is_no_file_is_found_and_named_once(
    tmp_path: Path, looking: Looks, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    look = looking(str(tmp_path))
    assert look() == [str(tmp_path / "pipe.json")]
    look()
    assert caplog.messages == [f"{tmp_path}/pipe.json is not read: it is a pipe; it is a dead letter"]


def test_a_folder_that_cannot_be_read_is_an_outage(
    tmp_path: Path, looking: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in"
    kept = put(folder / "day=1" / "a.json")
    look = looking(str(folder))
    assert look() == [kept]
    (folder / "day=1").rename(tmp_path / "day=1")
    assert look() == [], "a folder may go"
    folder.rename(tmp_path / "away")
    with pytest.raises(SourceOutage, match=f"source folder {folder} cannot be listed: No such file"):
        look()
    (tmp_path / "away").rename(folder)
    put(folder / "day=2" / "b.json")
    scandir = os.scandir

    def refused(each: str) -> object:
        if each.endswith("day=2"):
            raise PermissionError(13, "Permission denied", each)
        return scandir(each)

    with monkeypatch.context() as patched:
        patched.setattr(finding.os, "scandir", refused)
        with pytest.raises(SourceOutage, match=r"day=2 cannot be listed: Permission denied"):
            look()
    assert look() == [str(folder / "day=2" / "b.json")]


def test_an_empty_folder_of_another_file_system_is_not_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a").write_text("{}")
    found = Listing(SourcePath(str(folder)))
    assert len(found.new_files(PathSet()).files) == 1
    state = Listing._state
    elsewhere = lambda self, place: (7, *(state(self, place) or (0, 0, 0))[1:])  # noqa: E731
    monkeypatch.setattr(Listing, "_state", elsewhere)
    found.new_files(PathSet())  # another one, with files in it, is mounted there
    monkeypatch.setattr(Listing, "_state", state)
    (folder / "a").unlink()
    with pytest.raises(SourceOutage, match="is empty, and on another file system than before; mount it"):
        found.new_files(PathSet())
