"""Every aggregate over every kind of column, merged through batches and late updates, is what the whole
list of values says; and how the input was cut into batches does not show."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.model.aggregates import Aggregate
from latecomer.model.oracle.interpreter import Arrival
from latecomer.model.panes import Pane, surviving
from latecomer.model.strategies import Bounded
from scenarios import cut
from spark_kit import Bench, stored_panes

SECOND, MINUTE = 1_000_000, 60_000_000
BEGIN = 1_794_139_200 * SECOND  # 2026-11-08T12:00:00Z
PAYLOAD = {
    "key": "string",
    "whole": "bigint",
    "money": "decimal(18,4)",
    "real": "double",
    "huge": "bigint",
    "city": "string",
    "when": "timestamp",
}
NUMBERS = ("sum", "avg", "variance", "var_pop", "stddev", "stddev_pop")
AGGREGATES = {
    "rows": "count(*)",
    **{
        f"{function}_{column}": f"{function}({column})"
        for column in ("whole", "money", "real")
        for function in NUMBERS
    },
    **{
        f"{function}_{column}": f"{function}({column})"
        for column in ("whole", "money", "real", "city", "when")
        for function in ("count", "min", "max")
    },
    **{f"{function}_huge": f"{function}(huge)" for function in NUMBERS},
    **{
        f"{function}_{column}": f"{function}({column})"
        for column in ("money", "real", "city", "when")
        for function in ("first", "last")
    },
    **{f"exactly_{column}": f"count(distinct {column})" for column in ("whole", "real", "city", "when")},
    **{f"middle_{column}": f"median({column})" for column in ("whole", "money", "real", "huge")},
    **{f"top_{column}": f"top_k({column}, 4)" for column in ("huge", "city")},
    **{f"some_{column}": f"collect({column}, 5)" for column in ("money", "city", "when")},
    "cities": "approx_count_distinct(city)",
    "wholes": "approx_count_distinct(whole)",
    "median_whole": "approx_percentile(whole, 0.5)",
    "p95_real": "approx_percentile(real, 0.95)",
    "p10_money": "approx_percentile(money, 0.1)",
}
OUTPUT = Output(
    window={"tumbling": "1m"}, by=["key"], aggregates=AGGREGATES, allowed_lateness="1h", late="update"
)
Place = tuple[int, int, tuple[Any, ...]]


def arrivals() -> list[Arrival]:
    """Five minutes of events, a third of them late but none too late; keys with nulls, and one of nulls only."""
    chance = random.Random(20261108)
    found = []
    for nth in range(900):
        seen = BEGIN + nth * SECOND // 3
        behind = chance.choice((0, 0, 0, 0, 3, 100, 200)) * SECOND
        key = chance.choice(("amul", "amul", "bata", None, "nothing"))
        payload: dict[str, Any] = dict.fromkeys(PAYLOAD)
        payload["key"] = key
        if key != "nothing":
            payload |= {
                "whole": chance.randrange(-10_000, 10_000),
                "money": Decimal(chance.randrange(-(10**15), 10**15)).scaleb(-4),
                "real": chance.gauss(1e6, 1.0),
                "huge": chance.choice((9 * 10**18, -9 * 10**18, 1)),
                "city": f"city {chance.randrange(400)}",
                "when": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=chance.randrange(10**14)),
            }
            payload[chance.choice(("whole", "money", "real", "huge", "city", "when"))] = None
        found.append(Arrival(max(seen - behind, BEGIN), seen, payload=payload))
    return found


def results(bench: Bench, batches: Sequence[Sequence[Arrival]]) -> dict[Place, Pane]:
    written = [
        [replace(each, payload={**each.payload, "when": _iso(each.payload["when"])}) for each in batch]
        for batch in batches
    ]
    store = bench.run(written, drain=True)
    assert check_ledger(bench.pipeline, bench.spark) == []
    return dict(surviving(pane for _, pane in stored_panes(store, "all")))


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def expected(events: Sequence[Arrival]) -> dict[Place, list[Mapping[str, Any]]]:
    groups: dict[Place, list[Mapping[str, Any]]] = {}
    for each in sorted(events, key=lambda each: (each.event_time, each.arrival_time)):
        place = *OUTPUT.window.assign(each.event_time), (each.payload["key"],)
        groups.setdefault(place, []).append(each.payload)
    return groups


def assert_means(found: Any, aggregate: Aggregate, rows: Sequence[Mapping[str, Any]]) -> None:
    """What Spark found is what the aggregate means over these rows, as exactly as its type allows."""
    values = [row[aggregate.column] if aggregate.column else 1 for row in rows]
    wanted = aggregate.evaluate(values)
    if wanted is None or found is None:
        assert found is None
        assert wanted is None
    elif aggregate.function == "approx_percentile":
        present = sorted(value for value in values if value is not None)
        share = aggregate.argument or 0.0
        below = sum(float(value) < float(found) for value in present) / len(present)
        upto = sum(float(value) <= float(found) for value in present) / len(present)
        step = 1 / len(present)
        assert below - 0.02 - step <= share <= upto + 0.02 + step
    elif isinstance(wanted, Decimal) and aggregate.function == "avg":
        assert found == wanted.quantize(Decimal(1).scaleb(-8))
    elif isinstance(wanted, float) and aggregate.function not in ("min", "max"):
        assert found == pytest.approx(wanted, rel=1e-9)
    else:
        assert found == wanted


@pytest.mark.long
@pytest.mark.parametrize("sizes", [[450], pytest.param([120, 500], marks=pytest.mark.long)])
def test_any_cut_into_batches_gives_what_the_whole_list_gives(
    spark: SparkSession, tmp_path: Path, sizes: list[int]
) -> None:
    events = arrivals()
    bench = Bench(spark, tmp_path, Bounded("2s"), {"all": OUTPUT}, PAYLOAD, measures=("whole",), ids=False)
    first = results(bench, cut(events, sizes))
    groups = expected(events)
    assert first.keys() == groups.keys()
    assert {key for *_, key in groups} == {("amul",), ("bata",), (None,), ("nothing",)}
    assert sum(pane.sequence > 0 for pane in first.values()) > 10  # late updates did come
    for place, rows in groups.items():
        for name, aggregate in OUTPUT.aggregates.items():
            found = first[place].values[name]
            try:
                assert_means(found, aggregate, rows)
            except AssertionError as error:
                error.add_note(f"{aggregate} at {place} over {len(rows)} rows: {found!r}")
                raise

    nothing = next(pane for (*_, key), pane in first.items() if key == ("nothing",))
    zero = {name for name, value in nothing.values.items() if value == 0}
    counts = {name for name in AGGREGATES if name.startswith(("count_", "exactly_"))}
    assert zero == counts | {"cities", "wholes"}
    assert all(nothing.values[name] is None for name in AGGREGATES if name not in zero and name != "rows")


def test_numbers_too_long_for_exact_squares_are_near_and_stop_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Squares of 38 digits and more; a decimal that fills its type; spreads that cancel."""
    payload = {"key": "string", "huge": "bigint", "long": "decimal(38,4)"}
    functions = {
        f"{function}_{column}": f"{function}({column})"
        for column in ("huge", "long")
        for function in ("variance", "stddev_pop", "min", "max")
    }
    output = Output(
        window={"tumbling": "1m"}, by=["key"], aggregates=functions, allowed_lateness="1h", late="update"
    )
    most = Decimal("9" * 34 + ".9999")
    rows = {
        "apart": [
            (9 * 10**18, most),
            (-9 * 10**18, most.copy_negate()),
            (9 * 10**18, most),
            (-(1 << 63), Decimal(1)),
        ],
        "alike": [(9 * 10**18, most), (9 * 10**18, most), (9 * 10**18, most), (9 * 10**18, most)],
    }
    events = [
        Arrival(BEGIN + nth, BEGIN + nth * 40 * SECOND, payload={"key": key, "huge": huge, "long": long})
        for key, pairs in rows.items()
        for nth, (huge, long) in enumerate(pairs)
    ]
    events.sort(key=lambda each: each.arrival_time)
    bench = Bench(spark, tmp_path, Bounded("0s"), {"all": output}, payload, measures=(), ids=False)
    store = bench.run(cut(events, [3]), drain=True)
    standing = surviving(pane for _, pane in stored_panes(store, "all"))
    for (_, _, (key,)), pane in standing.items():
        for name, aggregate in output.aggregates.items():
            values = [huge if aggregate.column == "huge" else long for huge, long in rows[key]]
            wanted, found = aggregate.evaluate(values), pane.values[name]
            if aggregate.function in ("min", "max"):
                assert found == wanted
            elif key == "alike":
                assert found is not None
                assert 0 <= found < 1e-6 * float(values[0]) ** (2 if aggregate.function == "variance" else 1)
            else:
                assert float(found) == pytest.approx(float(wanted), rel=1e-9), (key, name)
