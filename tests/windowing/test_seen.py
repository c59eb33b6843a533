"""Events as an output sees them: derived columns with the values of `model/expressions`, and what is Spark's."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import Files, Source
from latecomer.model.expressions import expression
from latecomer.model.strategies import Bounded
from latecomer.store.layout import EventLayout
from latecomer.windowing.visible_events import as_seen, condition, spark_expressions

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
def test_what_only_spark_computes_is_named(sql: str) -> None:
    made = output(new=sql)
    assert list(spark_expressions(made, layout_of(made)).values()) == [sql]


def test_a_condition_is_spark_s_where_the_model_does_not_know_it() -> None:
    made = output(new="upper(s)", plain="n + 1").model_copy(update={"where": "plain > 1 and s like 'x%'"})
    layout = layout_of(made)
    assert list(spark_expressions(made, layout).values()) == ["upper(s)", "plain > 1 and s like 'x%'"]
    simple = made.model_copy(update={"where": "plain > 1 or new = 'X'"})
    assert list(spark_expressions(simple, layout).values()) == ["upper(s)"]
    other = made.model_copy(update={"columns": output(new="upper(s)", plain="n + 2").columns})
    shared = spark_expressions(made, layout).keys() & spark_expressions(other, layout).keys()
    assert len(shared) == 1, "a condition over another column is another one"


def test_what_spark_computed_is_taken_from_the_events() -> None:
    made = output(new="upper(s)").model_copy(update={"where": "s like 'x%' and new is not null"})
    layout = layout_of(made)
    by_spark, kept_by_spark = spark_expressions(made, layout)
    events = logged(layout, [{"s": "x"}, {"s": "y"}, {"s": None}])
    events = events.append_column(by_spark, pa.array([{"value": "X"}, {"value": None}, None]))
    events = events.append_column(kept_by_spark, pa.array([{"value": True}, None, {"value": None}]))
    seen = as_seen(events, layout, made)
    assert seen.column("new").to_pylist() == ["X", None, None]
    assert [mask.tolist() for mask in seen.failed.values() if mask is not None] == [[False, False, True]]
    holds, failed = condition(seen, made)
    assert (holds.tolist(), failed is not None and failed.tolist()) == (
        [True, False, False],
        [False, True, False],
    )


def test_a_condition_that_cannot_be_computed_keeps_no_event() -> None:
    made = output().model_copy(update={"where": "n / t > 1 or ok"})
    layout = layout_of(made)
    rows = [{"n": 4, "t": 2}, {"n": 4, "t": 0}, {"n": 4, "t": 0, "ok": True}, {"n": None, "t": 1}]
    holds, failed = condition(as_seen(logged(layout, rows), layout, made), made)
    assert holds.tolist() == [True, False, False, False]
    assert failed is not None
    assert failed.tolist() == [False, True, True, False]


def test_odd_numbers_are_in_order_as_in_spark() -> None:
    made = output(half="d / 2").model_copy(update={"where": "d > 1"})
    layout = layout_of(made)
    rows: list[dict[str, object]] = [{"d": each} for each in (float("inf"), float("nan"), -0.0, 2.0)]
    seen = as_seen(logged(layout, rows), layout, made)
    assert condition(seen, made)[0].tolist() == [True, True, False, True]
    assert str(seen.column("half").to_pylist()) == "[inf, nan, -0.0, 1.0]"
