"""The merger: any cut of any events, in any number of steps, comes to what the oracle says of the whole list."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.model import types
from latecomer.model.aggregates import NUMERIC, parse_aggregate
from latecomer.model.strategies import Bounded
from latecomer.model.verdicts import Fate
from latecomer.source.private_columns import ORIGIN, POSITION
from latecomer.store.layout import EventLayout, PaneLayout, arrow_type
from latecomer.store.private_columns import EVENTS, HELD, UNSETTLED, WAITING_EVENTS, late_column, new_column
from latecomer.windowing.fate_counts import CODES
from latecomer.windowing.merge import Merger
from latecomer.windowing.private_columns import (
    END,
    FATE,
    LAST_ARRIVAL,
    LAST_SEQUENCE,
    LAST_WATERMARK,
    START,
)
from merging_kit import Given
from scenarios import quick
from spark_kit import pipeline_over

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "tinyint": st.integers(-128, 127),
    "bigint": st.integers(-3, 3) | st.integers(-(2**62), 2**62),
    "decimal(18,2)": st.integers(-(10**18) + 1, 10**18 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
    "decimal(28,6)": st.integers(-(10**28) + 1, 10**28 - 1).map(lambda whole: Decimal(whole).scaleb(-6)),
    "double": st.sampled_from((0.0, 0.5, 1e9)) | st.floats(-1e6, 1e6).map(lambda number: number + 0.0),
    "float": st.sampled_from((0.0, 0.5, -2.25, 1e6)),
    "string": st.sampled_from(("", "a", "b", "é\n", "😀")),
    "binary": st.binary(max_size=40),
    "boolean": st.booleans(),
    "date": st.dates(date(1, 1, 1), date(9999, 12, 31)),
    "timestamp": st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(
        lambda moment: moment.replace(tzinfo=UTC)
    ),
}
WRITTEN = (
    "count(*)",
    "count(x)",
    "min(x)",
    "max(x)",
    "count(distinct x)",
    "first(x)",
    "last(x)",
    "top_k(x, 2)",
    "collect(x, 3)",
    "approx_count_distinct(x)",
)
OF_NUMBERS = (
    "sum(x)",
    "avg(x)",
    "variance(x)",
    "var_pop(x)",
    "stddev(x)",
    "stddev_pop(x)",
    "median(x)",
    "approx_percentile(x, 0.5)",
)


def merger_over(kind: str, wide_sums: bool = True, **settings: Any) -> Merger:
    """An output with every aggregate that a column of this type can have."""
    numeric = types.is_numeric(kind)
    written = [*WRITTEN, *(OF_NUMBERS if numeric else ())]
    aggregates = {f"a{nth}": each for nth, each in enumerate(written)}
    output = Output(**{"window": {"tumbling": "1m"}, "by": ["k"], "aggregates": aggregates, **settings})
    measures = ("x",) if kind in ("bigint", "tinyint", "decimal(18,2)") else ()
    pipeline = pipeline_over(
        Path("/nowhere"), Bounded("1s"), {"out": output}, {"k": "string", "x": kind}, measures, ids=False
    )
    layout = EventLayout(pipeline, dict(pipeline.source.columns or {}), wide_sums)
    return Merger(PaneLayout(output, layout), dict.fromkeys(measures, kind))


def events_of(rows: Sequence[tuple[str, int, int, Any]], kind: str) -> Given:
    """Events: key, time, position and value."""
    made = Given(
        {
            "k": pa.array([key for key, _, _, _ in rows], pa.string()),
            "x": pa.array([value for *_, value in rows], arrow_type(kind)),
            ORIGIN: pa.array(["file"] * len(rows), pa.string()),
            POSITION: pa.array([position for _, _, position, _ in rows], pa.int64()),
        }
    )
    made.time = np.array([time for _, time, _, _ in rows], np.int64)
    made.arrival = np.zeros(len(rows), np.int64)
    return made


def as_panes(merger: Merger, merged: pa.Table) -> pa.Table:
    count = merged.num_rows
    constant = {
        "sequence": pa.array([3] * count, pa.int64()),
        "timing": pa.array(["ON_TIME"] * count),
        "op": pa.array(["insert"] * count),
        "is_last": pa.array([False] * count),
        "batch": pa.array([1] * count, pa.int64()),
        "fired_at": merged.column(LAST_ARRIVAL),
        "watermark": merged.column(LAST_WATERMARK),
    }
    return merger.published(merged, constant)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, list[list[tuple[str, int, int, Any]]]]:
    kind = draw(st.sampled_from(sorted(VALUES)))
    count = draw(st.integers(0, 24))
    rows = [
        (draw(st.sampled_from("ab")), draw(st.integers(0, 5)), place, draw(st.none() | VALUES[kind]))
        for place in range(count)
    ]
    parts: list[list[tuple[str, int, int, Any]]] = [[] for _ in range(draw(st.integers(1, 4)))]
    for row in rows:
        parts[draw(st.integers(0, len(parts) - 1))].append(row)
    return kind, parts


def expected(written: str, kind: str, rows: Sequence[tuple[str, int, int, Any]]) -> Any:
    aggregate = parse_aggregate(written)
    in_order = [value for *_, value in sorted(rows, key=lambda row: (row[1], row[2]))]
    if aggregate.function == "approx_count_distinct":  # a sketch does not count what is empty
        in_order = [value for value in in_order if value not in ("", b"")]
    found = aggregate.evaluate(in_order)
    if aggregate.function == "avg" and isinstance(found, Decimal):
        with localcontext(prec=80):
            return found.quantize(Decimal(1).scaleb(-types.scale_of(kind) - 4), ROUND_HALF_UP)
    if aggregate.function == "approx_percentile" and isinstance(found, Decimal):
        return float(found)
    return found


@given(cases())
@quick
def test_any_cut_comes_to_what_the_whole_list_comes_to(
    case: tuple[str, list[list[tuple[str, int, int, Any]]]],
) -> None:
    kind, parts = case
    merger = merger_over(kind)
    inputs: list[pa.Table] = []
    for part in parts:  # each part meets the panes of those before it
        merged = merger.merge([*inputs, merger.of_events(events_of(part, kind))])
        inputs = [merger.of_states(as_panes(merger, merged), Fate.ON_TIME)]
    for row in merger.merge(inputs).to_pylist():
        rows = [each for part in parts for each in part if each[0] == row["k"]]
        assert row[EVENTS] == len(rows)
        assert row[new_column(EVENTS)] == 0
        for name, aggregate in merger.output.aggregates.items():
            wanted = expected(str(aggregate), kind, rows)
            if isinstance(wanted, float) and aggregate.function in NUMERIC:
                wanted = pytest.approx(wanted, rel=1e-9, abs=1e-3 if kind in types.FLOATS else 0)
            assert row[name] == wanted, str(aggregate)


@pytest.mark.parametrize("kind", ["double", "float"])
def test_nan_is_the_largest_number_and_there_is_one(kind: str) -> None:
    merger = merger_over(kind)
    rows = [("a", 0, 0, math.nan), ("a", 1, 1, 1.0), ("a", 2, 2, -math.inf), ("a", 3, 3, -math.nan)]
    (found,) = merger.merge([merger.of_events(events_of(rows, kind))]).to_pylist()
    named = {str(aggregate): found[name] for name, aggregate in merger.output.aggregates.items()}
    assert named["min(x)"] == -math.inf
    assert all(
        math.isnan(named[each]) for each in ("max(x)", "sum(x)", "avg(x)", "variance(x)", "stddev_pop(x)")
    )
    assert named["count(distinct x)"] == 3
    assert named["top_k(x, 2)"] == '[{"value":"NaN","count":2},{"value":"-Infinity","count":1}]'
    assert named["collect(x, 3)"] == '["NaN",1.0,"-Infinity"]'


def test_keys_are_the_same_where_spark_says_so() -> None:
    output = Output(window={"tumbling": "1m"}, by=["x"], aggregates={"n": "count(*)"})
    pipeline = pipeline_over(
        Path("/nowhere"), Bounded("1s"), {"out": output}, {"x": "double"}, measures=(), ids=False
    )
    merger = Merger(PaneLayout(output, EventLayout(pipeline, dict(pipeline.source.columns or {}))), {})
    events = Given({"x": pa.array([0.0, -0.0, math.nan, -math.nan, None, None, 1.0])})
    found = merger.merge([merger.of_events(events)]).to_pylist()
    assert [row["n"] for row in found] == [2, 2, 2, 1]
    assert math.copysign(1, found[0]["x"]) == 1


def test_a_window_without_events_counts_nothing_and_knows_nothing() -> None:
    merger = merger_over("bigint", window={"session": "1m"})
    places = pa.table({START: [0], END: [60], "k": ["a"]})
    (found,) = merger.merge([merger.of_nothing(places)]).to_pylist()
    assert {name for name, value in found.items() if name.startswith("a") and value == 0} == {
        name
        for name, each in merger.output.aggregates.items()
        if each.function in ("count", "count_distinct", "approx_count_distinct")
    }
    assert [found[name] for name in (EVENTS, HELD, UNSETTLED, WAITING_EVENTS)] == [0, 0, 0, 0]
    assert found[LAST_SEQUENCE] is None
    again = merger.merge([merger.of_nothing(places), merger.of_events(events_of([("a", 1, 1, 5)], "bigint"))])
    by_name = {str(each): again[name][0].as_py() for name, each in merger.output.aggregates.items()}
    assert (by_name["sum(x)"], by_name["count(x)"], by_name["max(x)"]) == (5, 1, 5)


def test_events_of_a_session_are_merged_by_its_number_and_span_it() -> None:
    merger = merger_over("bigint", window={"session": "1m"}, allowed_lateness="1h", late="update")
    events = events_of([("a", 0, 0, 1), ("a", 40, 1, 2), ("a", 500, 2, 4)], "bigint")
    events.start, events.end = events.time, events.time + 60
    events.fate = np.array([0, CODES[Fate.LATE_ACCEPTED], 0], np.int8)
    inputs = merger.of_events(events)
    one_fate = inputs.set_column(inputs.schema.get_field_index(FATE), FATE, pa.array([0, 0, 0], pa.int8()))
    inputs = one_fate.append_column("session", pa.array([1, 1, 2]))
    found = merger.merge([inputs], within="session").to_pylist()
    assert [(row[START], row[END], row[EVENTS]) for row in found] == [(0, 100, 2), (500, 560, 1)]
    assert [(row[UNSETTLED], row[WAITING_EVENTS], row[late_column(EVENTS)]) for row in found] == [
        (1, 1, 1),
        (1, 0, 0),
    ]


def test_what_was_published_is_taken_out_of_panes() -> None:
    aggregates = {"s": "sum(x)", "n": "count(*)", "m": "max(x)"}
    for wide in (True, False):
        merger = merger_over("bigint", wide, aggregates=aggregates)
        merged = merger.merge([merger.of_events(events_of([("a", 0, 0, 2**62)] * 4, "bigint"))])
        panes = as_panes(merger, merged)
        (empty,) = merger.emptied(panes).to_pylist()
        assert (empty["s"], empty["n"], empty["m"], empty[EVENTS]) == (None, 0, None, 0)


def test_what_is_fresh_counts_as_new_and_what_was_stored_does_not() -> None:
    merger = merger_over("bigint")
    panes = as_panes(merger, merger.merge([merger.of_events(events_of([("a", 0, 0, 7)], "bigint"))]))
    for fresh, new in ((True, 1), (False, 0)):
        (row,) = merger.merge([merger.of_states(panes, Fate.ON_TIME, fresh)]).to_pylist()
        assert (row[EVENTS], row[new_column(EVENTS)], row["_lc_measure_x"], row["_lc_new_measure_x"]) == (
            1,
            new,
            7,
            7 * new,
        )


def test_parts_come_to_what_they_come_to_at_once() -> None:
    merger = merger_over("decimal(18,2)")
    rows = [("ab"[nth % 2], nth, nth, Decimal(nth)) for nth in range(50)]
    parts = [events_of(rows[begin : begin + 7], "decimal(18,2)") for begin in range(0, 50, 7)]
    found, wanted = (
        merger.merge_parts(parts),
        merger.merge([merger.of_events(events_of(rows, "decimal(18,2)"))]),
    )
    assert found is not None
    sketches = [
        f"_lc_{name}_sketch" for name, each in merger.output.aggregates.items() if "approx" in str(each)
    ]
    assert found.drop_columns(sketches) == wanted.drop_columns(sketches)
    assert merger.merge_parts([]) is None
