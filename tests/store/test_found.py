"""Which files were found: written down before they are read, and kept small for as long as the source is followed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.errors import StoreError
from latecomer.store import source_files as found
from latecomer.store.source_files import Found, FoundLog, PathSet, digests_of


def some(*names: str) -> list[Found]:
    return [Found(f"/in/{name}", nth) for nth, name in enumerate(names)]


def opened(home: Path, accepted: int = -1, logged: bool = False) -> FoundLog:
    log = FoundLog(home)
    log.open(accepted, logged)
    return log


def names(files: object) -> list[str]:
    assert isinstance(files, (list, tuple))
    return [file.path.removeprefix("/in/") for file in files]


def known(log: FoundLog, *written: str) -> list[bool]:
    found = log.known.holds(digests_of([f"/in/{name}" for name in written]))
    return [bool(each) for each in found]


def test_batches_are_cut_where_they_were_cut_first(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.write(some("a", "b", "c"), 2)
    log.write(some("d"), 7)
    for each in (log, opened(tmp_path), opened(tmp_path, accepted=0, logged=True)):
        assert each.last == 2
        assert [names(each.batch(number)) for number in range(3)] == [["a", "b"], ["c"], ["d"]]
        assert each.batch(3) is None
        assert known(each, "a", "b", "c", "d", "e") == [True] * 4 + [False]


def test_names_may_be_odd(tmp_path: Path) -> None:
    odd = [
        "a b",
        "100%",
        "a?",
        "a*",
        "日本",
        'say "x"',
        "line\nname",
        "tab\tname",
        "back\\slash",
        "e\u0301",
        "\u2028",
    ]
    opened(tmp_path).write(some(*odd), 100)
    again = opened(tmp_path)
    assert names(again.batch(0)) == odd
    assert all(known(again, *odd))


@given(
    st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=6), max_size=9)
)
def test_a_path_is_known_if_it_was_added(added: list[list[str]]) -> None:
    paths = PathSet()
    for each in added:
        paths.add(digests_of(each))
    expected = {path for each in added for path in each}
    asked = sorted(expected | {"x", "yy", "", "\0"})
    assert dict(zip(asked, paths.holds(digests_of(asked)).tolist(), strict=True)) == {
        path: path in expected for path in asked
    }


def test_many_batches_are_few_files(tmp_path: Path) -> None:
    log, most = opened(tmp_path), 0
    for number in range(1_000):
        log.write(some(f"{number}"), 1)
        log.forget(number)
        most = max(most, len(list(log.folder.iterdir())))
    assert most < found.MOST_RECORDS + 12
    assert sum(file.stat().st_size for file in log.folder.iterdir()) < 1_000 * 16 + 64 * 100
    again = opened(tmp_path, accepted=999)
    assert again.last == 999
    assert all(known(again, *map(str, range(1_000))))
    assert known(again, "1000") == [False]


def test_many_files_at_once_are_some_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "MOST_FILES", 10)
    log = opened(tmp_path)
    log.write(some(*map(str, range(25))), 3)
    assert [file.name for file in sorted(log.folder.iterdir())] == [
        "000000000000.json",
        "000000000003.json",
        "000000000006.json",
    ]
    assert [len(log.batch(number) or ()) for number in range(9)] == [3] * 8 + [1]


@pytest.mark.parametrize(
    "torn", [b"", b"{", b"\0" * 40, b'{"first":1,"size":1,"passed_over":[],"files":[["/in/b"']
)
def test_a_torn_record_is_found_anew_where_no_batch_needs_it(tmp_path: Path, torn: bytes) -> None:
    log = opened(tmp_path)
    for name in "abc":
        log.write(some(name), 1)
    (log.folder / "000000000001.json").write_bytes(torn)
    (log.folder / ".000000000003.json").write_bytes(torn)
    with pytest.raises(
        StoreError, match=r"which files batch 1 of the source has \(0*1\.json is incomplete, as after"
    ):
        opened(tmp_path, accepted=0, logged=True)
    with pytest.raises(StoreError, match="restore the store from a backup"):
        opened(tmp_path, accepted=2)
    again = opened(tmp_path, accepted=0)
    assert again.last == 0
    assert known(again, "a", "b", "c") == [True, False, False]
    assert [file.name for file in again.folder.iterdir()] == ["000000000000.json"]


def test_an_interrupted_summary_says_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests are on the disk before records go: at each moment between, all of them are known."""
    monkeypatch.setattr(found, "MOST_RECORDS", 3)
    log, gone = opened(tmp_path), list[Path]()
    with monkeypatch.context() as patched:
        patched.setattr(found.files, "remove", gone.append)
        for number in range(7):
            log.write(some(f"{number}"), 1)
            log.forget(number)
    assert len(gone) > 6
    for file in sorted(gone)[:3]:
        file.unlink()
    again = opened(tmp_path, accepted=6)
    assert again.last == 6
    assert all(known(again, *"0123456"))
    assert not any(file.exists() for file in gone)


def test_torn_digests_are_made_again_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "MOST_RECORDS", 2)
    log = opened(tmp_path)
    for name in "ab":
        log.write(some(name), 1)
    kept = {file: file.read_bytes() for file in log.folder.iterdir()}
    log.forget(1)
    (summed,) = log.folder.iterdir()
    whole = summed.read_bytes()
    for torn in (b"", whole[:-16], whole[:7], b"\0" * len(whole)):
        summed.write_bytes(torn)
        with pytest.raises(StoreError, match="is incomplete, as after a power cut"):
            opened(tmp_path, accepted=1)
    for file, written in kept.items():
        file.write_bytes(written)
    assert all(known(opened(tmp_path, accepted=1), *"ab"))
    assert summed.read_bytes() == whole


def test_what_is_not_of_the_store_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "MOST_RECORDS", 2)
    with pytest.raises(StoreError, match="which files batch 0 of the source has; if this is a copy"):
        opened(tmp_path, accepted=0)
    log = opened(tmp_path)
    for name in "abcd":
        log.write(some(name), 1)
    with pytest.raises(StoreError, match="which files batch 4 of the source has"):
        opened(tmp_path, accepted=3, logged=True)
    log.forget(1)
    with pytest.raises(
        StoreError, match="which files batch 1 of the source has"
    ):  # its files would be missing
        opened(tmp_path, accepted=0)
    (log.folder / "000000000002.json").unlink()
    with pytest.raises(StoreError, match="which files batch 2 of the source has"):
        opened(tmp_path, accepted=2)
    assert opened(tmp_path, accepted=1).last == 1


def test_digests_are_compared_whole() -> None:
    paths = PathSet()
    paths.add(np.array([b"\1" * 15 + b"\0"], dtype="S16"))
    asked = np.array([b"\1" * 15 + b"\0", b"\1" * 14 + b"\0\0", b"\1" * 16], dtype="S16")
    assert paths.holds(asked).tolist() == [True, False, False]
