"""What tasks are given to read comes to what the reader says, however it is cut. No Spark."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from after.dataframes.dataframes_kit import make_lake, planned, publish, read_by, same_rows
from cli.cli_kit import Lake, at, pane
from latecomer.after.dataframes import tables
from latecomer.after.dataframes.filters import conditions
from latecomer.after.dataframes.tables import Asked, Table, plan_of
from latecomer.after.reading.reader import Reader
from latecomer.store.files import scratch

KEYS = ("a", "b", None)


@st.composite
def histories(draw: st.DrawFn, output: str) -> list[list[dict[str, Any]]]:
    """Batches of panes, as an engine publishes them: each number follows the one before it, or takes it back first."""
    newest: dict[tuple[int, str | None], int] = {}
    batches = []
    for _ in range(draw(st.integers(1, 4))):
        places = draw(st.sets(st.tuples(st.integers(0, 9), st.sampled_from(KEYS)), min_size=1, max_size=5))
        panes = []
        for minute, key in sorted(places, key=str):
            sequence = newest.get((minute, key), -1)
            if sequence >= 0 and output == "minutes":
                panes.append(pane(minute, sequence, "retract", merchant=key, paise=sequence))
                if draw(st.booleans()):  # it is taken back, and nothing takes its place
                    newest[minute, key] = sequence + 1
                    continue
            panes.append(pane(minute, sequence + 1, merchant=key, paise=sequence + 1))
            newest[minute, key] = sequence + 1
        batches.append(panes)
    return batches


@settings(max_examples=5, deadline=None)
@given(st.data(), st.sampled_from(["minutes", "added"]), st.integers(1, 6))
def test_slices_come_to_what_stands(data: st.DataObject, output: str, rows_each: int) -> None:
    batches = data.draw(histories(output))
    with scratch() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ROWS_EACH", rows_each)
        lake = make_lake(Path(folder))
        for number, panes in enumerate(batches):
            publish(lake, number, *panes, output=output)
        reader = Reader(lake.pipeline)
        same_rows(planned(lake, Asked(output=output)), reader.results(output))
        same_rows(planned(lake, Asked(Table.PANES, output)), reader.panes(output))
        for minute in range(len(batches)):
            moment = at(minute, 30)
            same_rows(planned(lake, Asked(output=output, as_of=moment)), reader.results(output, as_of=moment))
            found = planned(lake, Asked(output=output, as_of_arrival=moment))
            same_rows(found, reader.results(output, as_of_arrival=moment))


def test_a_large_table_is_shared_out_by_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS_EACH", 10)
    lake = make_lake(tmp_path)
    for batch in range(4):
        panes = [pane(minute, 0, merchant=str(batch), paise=1) for minute in range(batch * 5, batch * 5 + 10)]
        publish(lake, batch, *panes)
    slices = list(plan_of(Reader(lake.pipeline), Asked(output="minutes")).slices())
    counted = [sum(batch.num_rows for batch in each.batches()) for each in slices]
    assert len(slices) == 4
    assert sum(counted) == 40
    assert max(counted) <= 15
    assert all(len(each.tables["t"].files) < 4 for each in slices)  # type: ignore[attr-defined]


def test_what_is_committed_later_is_not_seen(lake: Lake) -> None:
    """A slice that was made before a correction, and is read after it."""
    slices = list(plan_of(Reader(lake.pipeline), Asked(output="minutes")).slices())
    before = read_by(lake, Table.RESULTS)
    publish(lake, 3, pane(1, 1, merchant="b", paise=99))
    sent = pickle.loads(pickle.dumps(slices))
    same_rows(pa.Table.from_batches([batch for each in sent for batch in each.batches()]), before)


def test_a_slice_is_small(lake: Lake) -> None:
    """It is sent to every task: no pipeline, no store, no rows."""
    for table in (Table.RESULTS, Table.PANES, Table.LATE):
        for each in plan_of(Reader(lake.pipeline), Asked(table, "minutes")).slices():
            assert len(pickle.dumps(each)) < 20_000


FILTERS: list[tuple[list[Filter], str]] = [
    ([EqualTo(("window_start",), at(1))], "window_start = at(1)"),
    ([GreaterThan(("window_start",), at(1))], ">"),
    ([GreaterThanOrEqual(("window_start",), at(2)), EqualTo(("merchant",), "a")], ">= and key"),
    ([LessThan(("window_end",), at(2))], "<"),
    ([LessThanOrEqual(("window_end",), at(1))], "<="),
    ([In(("merchant",), ("b", None, "it's"))], "in"),
    ([EqualNullSafe(("merchant",), None)], "<=> null"),
    ([EqualNullSafe(("merchant",), "a")], "<=>"),
    ([IsNull(("merchant",))], "is null"),
    ([IsNotNull(("merchant",)), IsNotNull(("window_start",))], "is not null"),
]
LEFT_TO_SPARK: list[Filter] = [
    EqualTo(("paise",), Decimal(9)),  # what stands must be known first
    EqualTo(("sequence",), 1),
    Not(EqualTo(("merchant",), "a")),
    StringStartsWith(("merchant",), "a"),
    EqualTo(("merchant", "x"), "a"),
    EqualTo(("WINDOW_START",), at(1)),
    EqualTo(("merchant",), 5),
]


@pytest.mark.parametrize("filters", [each for each, _ in FILTERS], ids=[name for _, name in FILTERS])
def test_a_filter_keeps_what_spark_would_keep(lake: Lake, filters: list[Filter]) -> None:
    plan = plan_of(Reader(lake.pipeline), Asked(output="minutes"))
    outcome = conditions(filters, plan.columns)
    assert len(outcome) == len(filters)
    rows: list[dict[str, Any]] = read_by(lake, Table.RESULTS).to_pylist()
    kept = [row for row in rows if all(_meets(row, each) for each in filters)]
    assert 0 < len(kept) < len(rows)
    same_rows(planned(lake, Asked(output="minutes"), outcome), pa.Table.from_pylist(kept, plan.schema))


def _meets(row: dict[str, Any], asked: Any) -> bool:
    held = row[asked.attribute[0]]
    match asked:
        case IsNull():
            return held is None
        case IsNotNull():
            return held is not None
        case EqualNullSafe():
            return bool(held == asked.value)
        case _ if held is None:
            return False
        case EqualTo():
            return bool(held == asked.value)
        case GreaterThan():
            return bool(held > asked.value)
        case GreaterThanOrEqual():
            return bool(held >= asked.value)
        case LessThan():
            return bool(held < asked.value)
        case LessThanOrEqual():
            return bool(held <= asked.value)
        case In():
            return held in asked.value
    raise AssertionError(asked)


@pytest.mark.parametrize("asked", LEFT_TO_SPARK, ids=str)
def test_what_cannot_be_told_is_left_to_spark(lake: Lake, asked: Filter) -> None:
    assert conditions([asked], plan_of(Reader(lake.pipeline), Asked(output="minutes")).columns) == []


def test_keys_of_every_type_are_compared_by_value(lake: Lake) -> None:
    day = datetime(2026, 4, 25, tzinfo=UTC).date()
    rows = [
        {"Order No": "1", "ok": True, "day": day, "select": 1},
        {"Order No": "x y", "ok": False, "day": day + timedelta(days=1), "select": 2},
    ]
    publish(lake, 3, *(pane(minute, 0, **row) for minute, row in enumerate(rows)), output="odd")
    columns = plan_of(Reader(lake.pipeline), Asked(output="odd")).columns
    for filters, expected in [
        ([EqualTo(("Order No",), "x y")], [2]),
        ([EqualTo(("ok",), True)], [1]),
        ([LessThan(("day",), day + timedelta(days=1))], [1]),
        ([GreaterThan(("day",), day)], [2]),
    ]:
        outcome = conditions(filters, columns)
        assert len(outcome) == 1
        assert planned(lake, Asked(output="odd"), outcome)["select"].to_pylist() == expected


def test_files_without_rows_of_interest_are_not_read(lake: Lake) -> None:
    publish(lake, 3, *(pane(minute, 0, merchant="a", paise=1) for minute in range(100, 110)))
    panes = lake.tables("minutes").panes
    for file in panes.files():
        if file.minimum["window_start"] < at(50):
            Path(panes.location(file)).unlink()
    columns = plan_of(Reader(lake.pipeline), Asked(output="minutes")).columns
    outcome = conditions([GreaterThan(("window_start",), at(0) + timedelta(minutes=60))], columns)
    assert planned(lake, Asked(output="minutes"), outcome).num_rows == 10
    assert planned(lake, Asked(Table.PANES, "minutes"), outcome).num_rows == 10
