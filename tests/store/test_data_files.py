"""What the statistics of a table's files say of their rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from latecomer.after.dataframes.filters import Condition
from latecomer.model.durations import to_micros
from latecomer.store.delta.data_files import DataFile
from latecomer.store.delta.tables import files_of

MOMENT = datetime(2026, 4, 25, 14, 0, 0, 123_456, UTC)


@pytest.fixture
def file(tmp_path: Path) -> DataFile:
    """A file with one moment, written by another program: it cuts its statistics off at the millisecond."""
    write_deltalake(tmp_path, pa.table({"at": pa.array([MOMENT], pa.timestamp("us", "UTC"))}))
    (file,) = files_of(DeltaTable(tmp_path))
    assert file.maximum["at"] == MOMENT.replace(microsecond=123_000)
    return file


def test_a_moment_beyond_the_cut_off_maximum_is_looked_for(file: DataFile) -> None:
    at = to_micros(MOMENT)
    assert file.may_hold("at", at, at + 1)
    assert not file.may_hold("at", at + 1000, None)
    assert all(Condition("at", op, "", (MOMENT,)).may_hold(file) for op in ("=", ">=", "<="))
    assert not Condition("at", ">", "", (MOMENT.replace(microsecond=124_000),)).may_hold(file)


def test_what_is_exact_or_no_moment_is_taken_as_it_is() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    assert DataFile("x", 1, 1, maximum={"at": last, "batch": 3}).last("at") == last
    assert DataFile("x", 1, 1, maximum={"at": last, "batch": 3}).last("batch") == 3
