"""The wall clock of a publication in sinks: the store's own value, and what an earlier version made goes on without."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from latecomer.config.contract import PaneShape, SinkLogic
from latecomer.model.durations import to_moment
from latecomer.sink.keeper import SinkKeeper
from sink.feeding_kit import Fed, HandClock, published
from sink.sink_kit import (
    FIRED,
    SHAPE,
    Place,
    insert,
    lines_of,
    opened,
    rows_of_delta,
    rows_of_sqlite,
    table_of,
)

PUBLISHED = FIRED + 3_723_000_000
WITH_CLOCK = PaneShape(
    SHAPE.output,
    SHAPE.keys,
    SHAPE.values,
    SHAPE.schema.append(pa.field("published_at", pa.timestamp("us", "UTC"))),
)
SINKS = "[{sqlite: results.db}, {delta: results}, {jsonl: lines}, {parquet: files}]"


def moments(rows: Sequence[dict[str, Any]]) -> dict[int, datetime | None]:
    found = {row["batch"]: row["published_at"] for row in rows}
    return {batch: datetime.fromisoformat(at) if isinstance(at, str) else at for batch, at in found.items()}


def test_every_sink_has_the_time_that_the_store_has(tmp_path: Path) -> None:
    fed = Fed(tmp_path, SINKS)
    for batch, merchants in enumerate((["chai", None], [], ["dosa"])):
        fed.publish(batch, *merchants)
    keeper = SinkKeeper(fed.store, HandClock())
    keeper.start(1)
    keeper.announce(2)
    keeper.finish()
    keeper.close()
    expected = {batch: to_moment(published(batch)) for batch in (0, 2)}
    assert moments(rows_of_sqlite(tmp_path / "results.db", "totals")) == expected
    assert moments(rows_of_delta(tmp_path / "results")) == expected
    assert moments(lines_of(tmp_path / "lines")) == expected
    files = sorted((tmp_path / "files").glob("*.parquet"))
    assert moments([row for file in files for row in pq.read_table(file).to_pylist()]) == expected


def give(sink: SinkLogic, batch: int, window: int) -> None:
    panes = table_of(batch, [insert(window, "chai", 0)])
    at = pa.array([PUBLISHED + batch], pa.timestamp("us", "UTC"))
    sink.apply(batch, panes.append_column("published_at", at))


def test_a_table_of_an_earlier_version_goes_on_without_the_column(place: Place) -> None:
    before = opened(place.kind, place.path)
    give(before, 0, 0)
    before.close()
    sink = opened(place.kind, place.path, WITH_CLOCK)
    give(sink, 1, 1)
    rows = place.rows(place.path)
    assert sorted(row["batch"] for row in rows) == [0, 1]
    assert not any("published_at" in row for row in rows)
    # Taken away, it is made anew with all of them.
    sink.close()
    place.take_away()
    sink.open()
    assert sink.last_batch() == -1
    give(sink, 0, 0)
    assert [row["published_at"] for row in place.rows(place.path)] in (
        [to_moment(PUBLISHED)],
        ["2026-04-25T15:12:03Z"],
    )


def test_a_column_that_is_added_by_hand_is_filled_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    give(opened("sqlite", path), 0, 0)
    with sqlite3.connect(path) as database:
        database.execute("alter table minute_totals add column published_at text")
    give(opened("sqlite", path, WITH_CLOCK), 1, 1)
    assert [row["published_at"] for row in rows_of_sqlite(path)] == [None, "2026-04-25T15:12:03.000001Z"]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_folder_of_an_earlier_version_goes_on_without_the_column(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "changes"
    give(opened(kind, path), 0, 0)
    owner = (path / ".latecomer.json").read_bytes()
    give(opened(kind, path, WITH_CLOCK), 1, 1)
    assert (path / ".latecomer.json").read_bytes() == owner
    assert "published_at" not in json.loads(owner)["columns"]
    names = [
        pq.read_schema(file).names if kind == "parquet" else list(json.loads(file.read_text()))
        for file in sorted(path.glob("batch-*"))
    ]
    assert names == [SHAPE.schema.names] * 2
