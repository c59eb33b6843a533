"""Stores of earlier versions, which have Spark's checkpoint: what was read is known, and what is left is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from latecomer.config.paths import SourcePath
from latecomer.errors import StoreError, StoreMismatch
from latecomer.source.checkpoint import PARTS, Cut, taken_over
from latecomer.source.finding import Finder
from latecomer.store.source_files import Found


def entry(number: int, *names: str) -> list[dict[str, Any]]:
    return [
        {"path": f"file:///in/{name}", "timestamp": nth, "batchId": number} for nth, name in enumerate(names)
    ]


class Kept:
    """What Spark kept of a source whose folder in the store is `home`."""

    def __init__(self, home: Path) -> None:
        self.home, self.root = home, home / "checkpoint"
        for folder in ("offsets", "commits", "sources/0"):
            (self.root / folder).mkdir(parents=True)
        (self.root / "metadata").write_text('{"id":"7d1c"}')

    def planned(self, number: int, *names: str) -> Path:
        """A batch of the stream that is to be run."""
        self.wrote(f"offsets/{number}", [{"batchWatermarkMs": 0}, {"logOffset": number}])
        return self.wrote(f"sources/0/{number}", entry(number, *names))

    def run(self, number: int) -> Path:
        return self.wrote(f"commits/{number}", [{}])

    def cut(self, number: int, size: int, parts: int, path: str = "/in/*", **more: Any) -> None:
        about = {"source_batch": number, "path": path, "size": size, "parts": parts, **more}
        (self.home / PARTS).write_text(json.dumps(about))

    def wrote(self, name: str, lines: Sequence[dict[str, Any]]) -> Path:
        file = self.root / name
        file.write_text("\n".join(["v1", *(json.dumps(line, separators=(",", ":")) for line in lines)]))
        (file.parent / f".{file.name}.crc").write_text("whatever")
        return file

    def taken(self, accepted: int, parts: int = 1, logged: bool = False) -> tuple[str, str, int]:
        """The names of what was read and of what is left, and how many of these are read at a time."""
        found = taken_over(self.home, accepted, parts, logged)
        read = "".join(sorted(Path(path).name for path in found.read))
        return read, "".join(Path(file.path).name for file in found.left), found.size


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_nothing_was_found(kept: Kept) -> None:
    assert kept.taken(-1, 0) == ("", "", 1)


def test_whole_batches_are_known(kept: Kept) -> None:
    for number, names in enumerate(("ab", "c", "de")):
        kept.planned(number, *names)
        kept.run(number)
    kept.cut(2, 1, 2)
    assert kept.taken(2, 2) == ("abcde", "", 1)


def test_entries_that_were_summed_up_are_known(kept: Kept) -> None:
    for number in range(12):
        kept.planned(number, "abcdefghijkl"[number])
        kept.run(number)
    summed = [line for number in range(10) for line in entry(number, "abcdefghijkl"[number])]
    kept.wrote("sources/0/9.compact", summed)
    for number in range(10):
        (kept.root / "sources/0" / str(number)).unlink()
        (kept.root / "offsets" / str(number)).unlink()
    assert kept.taken(11) == ("abcdefghijkl", "", 1)
    (kept.root / "sources/0/10").unlink()
    with pytest.raises(
        StoreError, match=r"which files batch 11 of the source has: .*sources/0/10 is missing"
    ):
        kept.taken(11)


@pytest.mark.parametrize(
    ("parts", "logged", "expected"),
    [(1, False, ("abc", "de", 2)), (1, True, ("abc", "de", 2)), (2, False, ("abcde", "", 2))],
)
def test_a_batch_that_was_accepted_in_part_is_read_on_as_it_was_cut(
    kept: Kept, parts: int, logged: bool, expected: tuple[str, str, int]
) -> None:
    kept.planned(0, "a")
    kept.run(0)
    kept.planned(1, *"bcde")
    kept.cut(1, 2, 2)
    assert kept.taken(1, parts, logged) == expected


@pytest.mark.parametrize("logged", [False, True])
def test_a_batch_that_was_cut_and_not_accepted_is_read_as_it_was_cut(kept: Kept, logged: bool) -> None:
    kept.planned(0, "a")
    kept.run(0)
    kept.planned(1, *"bcde")
    kept.cut(1, 3, 2)
    assert kept.taken(0, 1, logged) == ("a", "bcde", 3)


def test_a_batch_that_was_not_cut_is_found_anew(kept: Kept) -> None:
    kept.planned(0, "a")
    kept.run(0)
    kept.cut(0, 3, 1)
    kept.planned(1, "b")
    assert kept.taken(0) == ("a", "", 1)


def test_before_there_were_parts_a_batch_was_logged_whole(kept: Kept) -> None:
    kept.planned(0, "a")
    kept.run(0)
    kept.planned(1, *"bcd")
    assert kept.taken(0, logged=True) == ("a", "bcd", 3)
    assert kept.taken(0) == ("a", "", 1)
    assert kept.taken(1) == ("abcd", "", 1)


def test_files_that_are_not_the_sources_own_are_passed_over(kept: Kept) -> None:
    kept.planned(0, *"ab")
    kept.run(0)
    kept.planned(1, "x.csv")
    kept.run(1)
    kept.cut(1, 1, 0)
    assert kept.taken(0, 2) == ("abx.csv", "", 1)
    kept.planned(2, "loop/c", "c", "d", ".e")
    kept.cut(2, 1, 2, "/in/**", loops=["/in/loop"])
    assert kept.taken(0, 2)[1:] == ("cd", 1)


def test_paths_are_as_the_operating_system_has_them() -> None:
    found = [Found(f"/in/{name}", nth) for nth, name in enumerate(("a b", "%41", "?", "日本"))]
    assert Cut(0, "/in/*", 1, 4).files(found) == found


def test_odd_names_are_read_out_of_urls(kept: Kept) -> None:
    kept.planned(0, "a%20b", "%2541", "%3F", "caf%C3%A9", "日本")
    kept.run(0)
    assert taken_over(kept.home, 0, 1, False).read == ["/in/a b", "/in/%41", "/in/?", "/in/café", "/in/日本"]


@pytest.mark.parametrize("torn", ["", "v", "\0\0\0", "v1\n{", "v1\n"])
def test_what_a_power_cut_left_incomplete_is_found_anew_where_nothing_rests_on_it(
    kept: Kept, torn: str
) -> None:
    kept.planned(0, "a")
    kept.run(0)
    found = kept.planned(1, *"bc")
    kept.cut(1, 1, 2)
    found.write_text(torn)
    assert kept.taken(0) == ("a", "", 1)
    with pytest.raises(StoreError, match=r"which files batch 1 of the source has: .*; if this is a copy"):
        kept.taken(0, logged=True)
    with pytest.raises(StoreError, match=r"which files batch 1 of the source has"):
        kept.taken(1)


@pytest.mark.parametrize("torn", ["", "v", "\0\0\0"])
def test_that_a_batch_was_run_may_be_forgotten_and_how_far_it_goes_may_not(kept: Kept, torn: str) -> None:
    kept.planned(0, "a")
    kept.run(0)
    kept.planned(1, "b")
    kept.run(1).write_text(torn)
    kept.cut(1, 1, 1)
    assert kept.taken(1) == ("ab", "", 1)
    (kept.root / "offsets/1").write_text(torn)
    with pytest.raises(StoreError, match="does not say how far batch 1 of the source goes"):
        kept.taken(1)


def test_a_gap_is_refused(kept: Kept) -> None:
    kept.planned(0, "a")
    kept.run(0)
    with pytest.raises(StoreError, match="hands in batch 1, and the last that was accepted is none"):
        kept.taken(-1, 0)
    kept.planned(1, *"bc")
    kept.run(1)
    kept.cut(1, 1, 2)
    with pytest.raises(StoreError, match="part 1 of the 2 of batch 1"):
        kept.taken(1, 1)
    with pytest.raises(StoreError, match="part 0 of the 2 of batch 1"):
        kept.taken(0)
    (kept.home / PARTS).write_text("{")
    with pytest.raises(StoreMismatch, match=r"parts\.json cannot be read"):
        kept.taken(1, 2)


def test_a_store_is_taken_over_once(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    source = kept.home / "in"
    source.mkdir()
    for name in "abcdef":
        (source / name).write_text("{}\n")

    def url(name: str) -> dict[str, Any]:
        return {"path": f"file://{source}/{name}", "timestamp": ord(name), "batchId": 0}

    kept.wrote("offsets/0", [{}, {"logOffset": 0}])
    kept.wrote("sources/0/0", [url(name) for name in "abcde"])
    kept.cut(0, 2, 3, str(source))

    def resumed(accepted: int, parts: int = 1) -> Finder:
        finder = Finder(kept.home, SourcePath(str(source)), 7)
        finder.resume(accepted, True, parts)
        return finder

    class Killed(Exception):
        pass

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:  # it is begun, and once more from the start
        patched.setattr("latecomer.source.finding.remove_checkpoint", killed)
        with pytest.raises(Killed):
            resumed(0, 1)
    finder = resumed(0, 1)
    assert not (kept.home / "checkpoint").exists()
    assert not (kept.home / PARTS).exists()
    finder.look(0)
    for each in (finder, resumed(0), resumed(1)):
        handed = [[file.named.name for file in each.files(number) or ()] for number in range(1, 5)]
        assert handed == [["c", "d"], ["e"], ["f"], []]
