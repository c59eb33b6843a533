"""Random inputs for pipelines of every shape: whatever the columns are, `play` takes them."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import Files, Source
from latecomer.model.strategies import Bounded, Punctuated, Strategy
from latecomer.testing import Row, Scenario, Times, assert_balances, assert_fates, assert_panes, play
from latecomer.testing.checking import compare
from latecomer.testing.rows import UNFIT, as_json, typed
from latecomer.testing.scenario import Batch
from latecomer.testing.strategies import rows, scenarios, values

KINDS = [
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(10,0)",
    "decimal(18,2)",
    "decimal(2,2)",
    "decimal(38,6)",
    "string",
    "boolean",
    "date",
    "timestamp",
    "timestamp_ntz",
    "binary",
]
NUMBERS = ("bigint", "double", "decimal(20,0)", "decimal(24,2)", "decimal(38,9)")
TIMES = [
    *(("string", None), ("timestamp", None), ("timestamp_ntz", None), ("date", None), ("int", "s")),
    *((kind, unit) for kind in NUMBERS for unit in ("s", "ms", "us", "ns")),
]
few = settings(
    deadline=None,
    max_examples=8,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
BOUNDED = Bounded("30s", every="event", max_future="5m")


def pipeline(
    columns: dict[str, str],
    watermark: Strategy = BOUNDED,
    by: tuple[str, ...] = ("x",),
    least: tuple[str, ...] = ("x",),
    **event: Any,
) -> Pipeline:
    """Numbers by the column x; times are text unless `columns` says otherwise."""
    return Pipeline(
        name="kit",
        store="lake",
        source=Source(
            files=Files(path="in", order_by="seen"),
            columns={"at": "string", "seen": "string", "x": "string", **columns},
        ),
        event=Event.model_validate({"time": "at", **event}),
        watermark=watermark,
        outputs={
            "numbers": Output.model_validate(
                {
                    "window": {"tumbling": "1m"},
                    "by": by,
                    "aggregates": {
                        "rows": "count(*)",
                        "most": "max(x)",
                        **{f"least_{name}": f"min({name})" for name in least},
                    },
                    "allowed_lateness": "1h",
                    "late": "retract",
                }
            )
        },
    )


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@few
def test_a_column_of_any_type(kind: str, data: st.DataObject) -> None:
    around = pipeline({"x": kind})
    assert_balances(play(around, data.draw(scenarios(around, max_size=8))))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@few
def test_an_id_and_a_partition_of_any_type(kind: str, data: st.DataObject) -> None:
    around = pipeline({"txn": kind, "x": kind}, id="txn", partition="x")
    assert_balances(play(around, data.draw(scenarios(around, max_size=8))))


@pytest.mark.parametrize(("kind", "unit"), TIMES)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
@given(data=st.data())
@few
def test_times_and_marks_of_any_type(kind: str, unit: str | None, zone: str, data: st.DataObject) -> None:
    columns = {"at": kind, "seen": kind, "mark": kind}
    around = pipeline(columns, Punctuated(marker="mark", every="event"), unit=unit, zone=zone)
    assert_balances(play(around, data.draw(scenarios(around, max_size=8))))


@given(data=st.data())
@few
def test_a_column_of_ones_own_goes_first(data: st.DataObject) -> None:
    around = pipeline({"txn": "string"}, id="txn")
    drawn = data.draw(rows(around, columns={"txn": st.just("7"), "x": st.just("mine")}))
    assert {(row.fields["txn"], row.fields["x"]) for row in drawn} <= {("7", "mine")}


@pytest.mark.parametrize(
    ("kind", "unit", "outcome"),
    [
        ("float", "s", "at: a float has too few digits for a time; declare the column as double"),
        ("int", "ms", "at: a time in ms is too large for int; declare a larger type"),
        ("decimal(10,2)", "s", r"at: a time in s is too large for decimal\(10,2\)"),
    ],
)
@given(data=st.data())
@few
def test_what_cannot_hold_a_time_is_refused(kind: str, unit: str, outcome: str, data: st.DataObject) -> None:
    around = pipeline({"at": kind}, unit=unit)
    with pytest.raises(ValueError, match=outcome):
        play(around, [Batch((Row(0 if kind == "float" else Times().read("14:00"), 0),))])
    with pytest.raises(ValueError, match=outcome):
        assume(data.draw(rows(around, corrupt=False)))


def test_a_type_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="unknown type 'money'"):
        values("money")


@pytest.mark.parametrize(
    ("columns", "row", "outcome"),
    [
        ({"x": "timestamp"}, {"x": "a"}, "x: a is not of type timestamp"),
        ({"x": "timestamp"}, {"x": [5]}, r"x: \[5\] is not of type timestamp"),
        ({"x": "date"}, {"x": 7}, "x: 7 is not of type date"),
        ({"x": "bigint"}, {"x": 1.5}, "x: 1.5 is not of type bigint"),
        ({"x": "bigint"}, {"x": float("inf")}, "x: inf is not of type bigint"),
        ({"x": "float"}, {"x": 1e300}, "is not of type float"),
        ({"x": "decimal(3,2)"}, {"x": "10.00"}, r"x: 10.00 is not of type decimal\(3,2\)"),
        (
            {"x": "string"},
            {"x": "a"},
            "x: a is not a time, but a mark of the watermark is one; write 14:00:10",
        ),
        ({"at": "bigint"}, {}, "at: 14:00:00.5 does not fit bigint of s; write a time that it can hold"),
        ({"at": "date"}, {}, "at: 14:00:00.5 does not fit date; write"),
    ],
)
def test_a_value_that_its_column_does_not_hold(
    columns: dict[str, str], row: dict[str, Any], outcome: str
) -> None:
    marked = outcome.endswith("14:00:10")
    watermark = Punctuated(marker="x", every="event") if marked else BOUNDED
    with pytest.raises(ValueError, match=outcome):
        play(pipeline(columns, watermark, unit="s"), Scenario().event("14:00:00.5", **row))


def test_a_value_is_the_same_however_it_is_given() -> None:
    seen = Scenario().event("14:00", x=datetime(2026, 4, 25, 9, 0)).event("14:00", x="14:30+05:30")
    assert_panes(play(pipeline({"x": "timestamp"}), seen.drain()), ["14:00..14:01 x=9:00 rows=2 most=09:00"])
    text = Scenario().event("14:00", x=b"two words").event("14:00", x="two words").drain()
    assert_panes(play(pipeline({"x": "binary"}), text), ['14:00..14:01 x="two words" rows=2'])


def test_spark_reads_every_type_as_the_oracle_does(spark: SparkSession) -> None:
    """One pipeline with a column of every type: each in an aggregate, some of them keys."""
    names = {f"c{number}": kind for number, kind in enumerate(KINDS)}
    columns = {"at": "timestamp_ntz", "seen": "decimal(18,3)", "mark": "double", "txn": "timestamp"}
    around = pipeline(
        {**names, **columns, "x": "binary"},
        Punctuated(marker="mark", every="event", delay="20s"),
        by=("c12", "c13", "x"),
        least=tuple(names),
        id="txn",
        unit="ms",
        zone="Asia/Kolkata",
    )
    steps = _some(names, random.Random(5))
    expected = play(around, steps)
    assert_balances(expected)
    assert len(expected.panes()) > 5
    found = compare(expected, play(around, steps, on="engine", spark=spark))
    assert not found, "\n\n".join(map(str, found))


def test_a_clock_without_a_zone_cannot_hold_the_second_of_two_hours() -> None:
    """In New York it shows 01:30 at 05:30 and at 06:30 UTC; the oracle, as Spark, reads the first."""
    around = pipeline({"at": "timestamp_ntz"}, zone="America/New_York")
    first = Scenario("2013-11-03").event("05:30", x=1).event("07:30", x=1).drain()
    assert_panes(play(around, first), ["05:30..05:31 x=1 rows=1", "07:30..07:31 x=1 rows=1"])
    with pytest.raises(ValueError, match="06:30 does not fit timestamp_ntz"):
        play(around, Scenario("2013-11-03").event("06:30", x=1).drain())


@pytest.mark.parametrize("kind", ["string", "bigint", "timestamp", "date"])
def test_what_cannot_be_read_has_the_reason_that_spark_gives(spark: SparkSession, kind: str) -> None:
    around = pipeline({"at": kind}, unit="s")
    scenario = Scenario().corrupt(arrives="14:00").corrupt(arrives="14:01", written=None).drain()
    expected = play(around, scenario)
    reason = "unreadable_event_time" if kind == "string" else "unreadable"
    assert_fates(expected, [f"dead_letter {reason}", "dead_letter no_event_time"])
    assert compare(expected, play(around, scenario, on="spark", spark=spark)) == []


def _some(names: dict[str, str], rng: random.Random) -> Scenario:
    """A few rows with values of every type."""
    moment, scenario = datetime(2026, 4, 25, 14, 0, tzinfo=UTC), Scenario()
    choices: dict[str, list[Any]] = {
        "float": [1.5, -2.25],
        "double": [1.1, -1e6],
        "string": ["a", 'é "q"'],
        "boolean": [True, False],
        "date": [date(2026, 4, 25), date(1969, 12, 31)],
        "timestamp": [moment, moment.replace(microsecond=7)],
        "timestamp_ntz": [moment, moment.replace(microsecond=7)],
        "binary": [b"a", b"\x00\xff"],
    }
    for number in range(24):
        values = {
            name: rng.choice([None, *choices.get(kind, [Decimal("0.25") if "2" in kind else 7, -0])])
            for name, kind in names.items()
        }
        at = f"14:{rng.randrange(5):02d}:{rng.randrange(60):02d}.25"
        txn = moment.replace(minute=number // 3) if rng.random() < 0.5 else None
        scenario.event(
            at, delay="5m", mark=rng.choice([None, at]), txn=txn, x=rng.choice([b"k", None]), **values
        )
        if number % 9 == 8:
            scenario.cut()
    return scenario


@given(st.data())
def test_values_of_lists_and_maps_are_such_that_their_columns_hold_them(data: st.DataObject) -> None:
    kind = data.draw(
        st.sampled_from(
            ["array<bigint>", "map<string,array<decimal(9,2)>>", "array<struct<sku:string,at:timestamp>>"]
        )
    )
    value = data.draw(values(kind))
    assert typed(value, kind, Times()) == value
    json.dumps(as_json(value, kind))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("a", "array<string>"),
        (["x"], "array<bigint>"),
        ([1], "map<string,int>"),
        ({"a": "x"}, "map<string,int>"),
    ],
)
def test_what_is_no_such_list_does_not_fit(value: Any, kind: str) -> None:
    with pytest.raises(UNFIT):
        typed(value, kind, Times())
