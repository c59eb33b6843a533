"""Derived columns without Spark: the values of `model/expressions`, row by row; or none."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.config.models import Event, Output, Pipeline
from latecomer.config.sources import Files, Source
from latecomer.fast import Declined
from latecomer.model.expressions import expression
from latecomer.model.strategies import Bounded
from latecomer.store.layout import EventLayout
from latecomer.windowing import derived_in_process
from latecomer.windowing.derived_in_process import as_seen, expressions_of

COLUMNS = {
    "at": "string",
    "n": "bigint",
    "t": "tinyint",
    "s": "string",
    "ok": "boolean",
    "d": "double",
    "batch": "int",
}
MADE = {
    "sum": "n + t",
    "product": "n * 9223372036854775807",
    "ratio": "n / t",
    "size": "case when n > 5 and ok then 'big' when s = 'x' then s else 'small' end",
    "any": "coalesce(s, 'none') || '!'",
    "tick": "batch + 1",
    "fixed": "2 * 3",
    "flag": "not ok or n is null",
    "half": "d / 2",
    "among": "n in (1, 2.5, t)",
    "near": "d > 1 and n between -5 and d",
}
ROWS = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-9, 9),
        "t": st.none() | st.integers(-128, 127),
        "s": st.sampled_from([None, "", "x", "é"]),
        "ok": st.none() | st.booleans(),
        "d": st.sampled_from([None, 0.5, 3.0]),
        "batch": st.integers(0, 5),
    }
)


def output(**columns: str) -> Output:
    return Output(window={"tumbling": "1m"}, aggregates={"n": "count(*)"}, columns=columns)


def layout_of(made: Output) -> EventLayout:
    pipeline = Pipeline(
        name="derived",
        store="store",
        source=Source(files=Files(path="in"), columns=COLUMNS),
        event=Event(time="at"),
        watermark=Bounded("1s"),
        outputs={"o": made},
    )
    return EventLayout(pipeline, COLUMNS)


def logged(layout: EventLayout, rows: list[dict[str, object]]) -> pa.Table:
    stored = [{layout.view[name]: value for name, value in row.items()} for row in rows]
    return pa.Table.from_pylist(stored, layout.schema)


@given(st.lists(ROWS, max_size=8))
def test_values_are_the_models(rows: list[dict[str, object]]) -> None:
    made = output(**MADE)
    layout = layout_of(made)
    seen = as_seen(logged(layout, rows), layout, made)
    for name, sql in MADE.items():
        expected = expression(sql, layout.types)
        assert seen.types[name] == expected.kind
        assert seen.column(name).to_pylist() == [expected.of(row) for row in rows]
    assert seen.column("batch").to_pylist() == [row["batch"] for row in rows]


@pytest.mark.parametrize(
    "sql", ["hour(at)", "upper(s)", "n in (1, s)", "d * 2 > s", "cast(s as bigint)", "n % 2"]
)
def test_what_only_spark_computes_declines(sql: str) -> None:
    made = output(new=sql)
    with pytest.raises(Declined, match="only Spark computes"):
        expressions_of(made, layout_of(made).types)


def test_many_rows_and_odd_numbers_decline(monkeypatch: pytest.MonkeyPatch) -> None:
    made = output(half="d / 2")
    layout = layout_of(made)
    with pytest.raises(Declined, match="infinite"):
        as_seen(logged(layout, [{"d": float("inf")}]), layout, made)
    monkeypatch.setattr(derived_in_process, "MOST_BY_ROW", 1)
    with pytest.raises(Declined, match="more than 1 rows"):
        as_seen(logged(layout, [{"d": 1.0}, {"d": 2.0}]), layout, made)
