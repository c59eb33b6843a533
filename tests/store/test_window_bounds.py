"""A file whose bounds Delta does not keep may hold any window: it is read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from latecomer.store.delta.data_files import DataFile, batch_of
from latecomer.windowing.firing.merge_bucket import PaneFile
from latecomer.windowing.firing.output import bounded

GAP = 10


def at(micros: int) -> datetime:
    return datetime.fromtimestamp(0, UTC).replace(microsecond=micros)


def file(start: int | None, end: int | None) -> DataFile:
    low = {} if start is None else {"window_start": at(start), "batch": 1}
    high = {} if end is None else {"window_end": at(end), "batch": 1}
    return DataFile("data/0000000001-token/0.parquet", 1, 1, low, high)


def test_bounds_are_microseconds_or_none() -> None:
    assert file(20, 40).windows == (20, 40)
    assert file(None, 40).windows == (None, 40)
    assert DataFile("a", 1, 1, {"window_start": None}, {"window_end": None}).windows == (None, None)


def test_sessions_look_into_every_file_that_may_hold_one() -> None:
    known = bounded([file(20, 40), file(None, None), file(None, 40), file(200, None)])
    assert [each.windows for each in known] == [(20, 40), (None, None), (None, 40), (200, None)]
    panes = [PaneFile(Path(each.path), *each.windows) for each in known]

    def touched(*times: int) -> list[bool]:
        return [each.holds_one(np.array(times, np.int64), GAP) for each in panes]

    assert touched(10) == touched(40) == touched(9, 35) == [True, True, True, False]
    assert touched(9) == [False, True, True, False]
    assert touched(905) == touched(190) == [False, True, False, True]
    assert touched() == [False, False, False, False]


def test_a_file_that_another_program_wrote_is_known_by_the_batches_of_its_rows() -> None:
    (known,) = bounded([replace(file(20, 40), path="part-00000-of-another-program.parquet")])
    assert batch_of(known) == 1
