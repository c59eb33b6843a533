"""Sketches made without Spark: the same bytes as Spark's, and the same answers when both are merged."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from latecomer.store.layout import arrow_type
from latecomer.store.sketches import counted, merged_counter, merged_percentile

VALUES: dict[str, list[Any]] = {
    "bigint": [0, 1, -1, 2**63 - 1, -(2**63)],
    "tinyint": [-128, 127],
    "string": ["", "a", "é\n", "😀", "1.0"],
    "boolean": [True, False],
    "decimal(18,8)": [Decimal("0.00000001"), Decimal("-1.50000000"), Decimal("0E-8"), Decimal(10**9)],
    "decimal(38,0)": [Decimal(10**37), Decimal(-1)],
    "double": [
        0.0,
        -0.0,
        0.1,
        1e-3,
        9.99e-4,
        1e7,
        9999999.5,
        -1.5e300,
        float("inf"),
        float("nan"),
        1 / 3,
    ],
    "float": [0.5, 1e10, 3.4028234663852886e38],
    "date": [date(2026, 11, 16), date(1, 1, 1)],
    "timestamp": [
        datetime(2026, 11, 16, 1, 2, 3, tzinfo=UTC),
        datetime(2026, 11, 16, 1, 2, 3, 450_000, tzinfo=UTC),
        datetime(2026, 11, 16, 1, 2, 3, 1, tzinfo=UTC),
    ],
}


def of_spark(spark: SparkSession, values: list[Any], kind: str, sketch: str) -> bytes:
    rows = spark.createDataFrame(pa.table({"x": pa.array(values, arrow_type(kind))}))
    return bytes(rows.selectExpr(f"{sketch} as s").collect()[0]["s"])


def counter(values: list[Any], kind: str) -> bytes:
    return merged_counter([counted(value, kind) for value in values], ())[0]


def distinct(*sketches: bytes) -> int:
    return merged_counter((), sketches)[1]


def counting(kind: str) -> str:
    return (
        f"hll_sketch_agg({'cast(x as bigint)' if kind in ('bigint', 'tinyint') else 'cast(x as string)'}, 12)"
    )


def test_distinct_values_of_every_type_are_sketched_as_spark_does(spark: SparkSession) -> None:
    for kind, values in VALUES.items():
        assert counter(values, kind) == of_spark(spark, values, kind, counting(kind)), kind


@pytest.mark.parametrize("count", [0, 1, 100, 5_000])
def test_sketches_of_both_sides_merge(spark: SparkSession, count: int) -> None:
    words = [f"payer {each}" for each in range(count)]
    theirs = of_spark(spark, words, "string", counting("string"))
    ours = counter([f"payer {each}" for each in range(count // 2, 2 * count)], "string")
    assert distinct(theirs, ours) == pytest.approx(2 * count, rel=0.06)
    assert distinct(theirs, theirs) == distinct(theirs)
    merged = spark.createDataFrame(pa.table({"s": pa.array([theirs, ours], pa.binary())}))
    (answer,) = merged.selectExpr("hll_sketch_estimate(hll_union_agg(s, true)) as n").collect()
    assert answer["n"] == distinct(theirs, ours)


@pytest.mark.parametrize("count", [0, 100, 384, 385, 700, 5_000])
def test_a_counter_is_the_same_in_whatever_order_and_however_many_steps(count: int) -> None:
    """Where an executor is lost, a batch is cut elsewhere and its parts come in another order."""
    words, chance, found = [f"payer {each}" for each in range(count)], Random(7), set[int]()
    for _ in range(30):
        chance.shuffle(words)
        parts = chance.choice((1, 2, 5, 30))
        merged = [counter(words[nth::parts], "string") for nth in range(parts)]
        early = chance.randrange(parts + 1)
        late = [word for nth in range(early, parts) for word in words[nth::parts]]
        found.add(merged_counter(late, merged[:early])[1])
    assert len(found) == 1
    assert found.pop() == pytest.approx(count, rel=0.06)


@pytest.mark.parametrize(("kind", "family"), [("bigint", "bigint"), ("double", "double")])
def test_percentiles_of_both_sides_merge(spark: SparkSession, kind: str, family: str) -> None:
    for count in (0, 1, 4, 5_000):
        number = int if kind == "bigint" else float
        theirs = of_spark(spark, [number(n) for n in range(count)], kind, f"kll_sketch_agg_{family}(x)")
        ours = merged_percentile([number(n) for n in range(count, 2 * count)], (), kind, 0.5)[0]
        middle = merged_percentile((), [theirs, ours], kind, 0.5)[1]
        if count <= 4:
            assert middle == (count - 1 if count else None)
        else:
            assert middle == pytest.approx(count, rel=0.06)
        merged = spark.createDataFrame(pa.table({"a": [theirs], "b": [ours]}))
        (answer,) = merged.selectExpr(
            f"kll_sketch_get_n_{family}(kll_sketch_merge_{family}(a, b)) as n"
        ).collect()
        assert answer["n"] == 2 * count
