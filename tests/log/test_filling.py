"""Which files of the log are written again together, by the folders that they lie in."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.log import filling
from latecomer.log.log_task import lane_folders
from latecomer.log.private_columns import LogLane
from latecomer.store.delta.data_files import DataFile


def written(batch: int, lane: LogLane, part: int = 0) -> DataFile:
    """A file of a batch, as a task of the log names it."""
    folder = Path("data", f"{batch:010d}-0a1b2c")
    path = lane_folders(folder, folder, folder)[lane] / f"part-{part:05d}-{batch}.parquet"
    return DataFile(path.as_posix(), 10, 1)


def merged(first: int, last: int, name: str = "part.parquet") -> DataFile:
    return DataFile(f"data/{first:010d}to{last:010d}-0a1b2c/{name}", 10, 1)


def test_the_duplicates_of_many_batches_are_written_together() -> None:
    files = [written(batch, LogLane.DUPLICATES, part) for batch in (2, 0, 1) for part in (0, 1)]
    (group,) = filling._groups(files)
    assert group == [*files[2:], *files[:2]]


def test_events_behind_the_watermark_stay_apart() -> None:
    files = [written(batch, lane) for batch in (0, 1) for lane in (LogLane.EVENTS, LogLane.BEHIND)]
    assert list(filling._groups(files)) == [files[::2], files[1::2]]


def test_merged_files_stay_as_they_are() -> None:
    batches = {"batch": 3}
    files = [
        merged(0, 4),
        merged(5, 9, "part-00001.parquet"),
        merged(5, 9),
        DataFile("theirs.parquet", 1, 1, batches, batches),
    ]
    assert sorted(filling._groups(files), key=lambda group: group[0].path) == [[each] for each in files]


def test_a_group_has_no_more_than_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "GROUP_BYTES", 20)
    files = [written(batch, LogLane.DUPLICATES) for batch in range(5)]
    assert list(filling._groups(files)) == [files[:2], files[2:4], files[4:]]
