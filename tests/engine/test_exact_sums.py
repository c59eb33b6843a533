"""Sums near the bounds of their types: exact in any order and in any number of steps, null where they do not fit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from latecomer.windowing.exact_sums import EXACT, long_sum, whole_sum
from latecomer.windowing.state_logic import StateLogic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.store.layout import arrow_type
from latecomer.store.sql import quoted

LARGEST = (1 << 63) - 1
GROUPS = 300
WHOLE = [0, 1, -1, (1 << 32) - 1, 1 << 32, LARGEST, LARGEST - 1, -LARGEST - 1, -LARGEST, None]


def long_numbers(scale: int) -> list[Decimal | None]:
    nines, twenty = 10**38 - 1, 10**20
    near = [0, 1, -1, twenty - 1, -twenty, 5 * twenty, nines, nines - 1, -nines, -nines + 1, nines // 2]
    with localcontext(prec=80):
        return [None, *(Decimal(each).scaleb(-scale) for each in near)]


def merged(logic: StateLogic, inputs: DataFrame) -> DataFrame:
    """One step: inputs of a group become its value and its state."""
    folded = inputs.groupBy("g").agg(*(F.expr(sql).alias(name) for name, sql in logic.merge.items()))
    return folded.selectExpr("g", *(f"{sql} as {quoted(name)}" for name, sql in logic.finish.items()))


def inputs(rows: DataFrame, given: Any) -> DataFrame:
    return rows.selectExpr("g", *(f"{sql} as {quoted(name)}" for name, sql in given.items()))


def in_two_steps(spark: SparkSession, logic: StateLogic, kind: str, groups: Sequence[list[Any]]) -> list[Any]:
    """Half of each group's numbers, then those of the other half and the state of the first."""

    def frame(halves: Sequence[list[Any]]) -> DataFrame:
        flat = [(g, value) for g, values in enumerate(halves) for value in values]
        columns = {"g": [g for g, _ in flat], "v": pa.array([value for _, value in flat], arrow_type(kind))}
        return spark.createDataFrame(pa.table(columns))

    halves = [len(values) // 2 for values in groups]
    first = frame([values[:half] for values, half in zip(groups, halves, strict=True)])
    second = frame([values[half:] for values, half in zip(groups, halves, strict=True)])
    state = merged(logic, inputs(first, logic.from_event))
    both = inputs(state, logic.from_state).unionByName(inputs(second, logic.from_event))
    found = {row["g"]: row["s"] for row in merged(logic, both).toArrow().to_pylist()}
    return [found.get(g) for g in range(len(groups))]


def exact(values: Sequence[Any], limit: Any) -> Any:
    present = [value for value in values if value is not None]
    with localcontext(prec=80):
        total = sum(present, Decimal(0))
        return total if present and -limit < total < limit else None


def drawn(numbers: Sequence[Any]) -> list[list[Any]]:
    chance = random.Random(7)
    return [[chance.choice(numbers) for _ in range(chance.randint(0, 9))] for _ in range(GROUPS)]


@pytest.mark.parametrize(("kind", "limit"), [(EXACT, 10**38), ("bigint", LARGEST + 1)])
def test_whole_numbers_near_64_bits(spark: SparkSession, kind: str, limit: int) -> None:
    groups = drawn(WHOLE)
    found = in_two_steps(spark, whole_sum("s", "v", kind), "bigint", groups)
    # -2^63 itself fits 64 bits, and no drawn sum is exactly that without being it by one number.
    assert [
        exact(values, limit) if total != -limit else total
        for values, total in zip(groups, found, strict=True)
    ] == found
    assert sum(total is None for total in found) < GROUPS / 2


@pytest.mark.parametrize("scale", [0, 2, 18, 35, 36, 38])
def test_decimals_near_38_digits(spark: SparkSession, scale: int) -> None:
    kind, groups = f"decimal(38,{scale})", drawn(long_numbers(scale))
    found = in_two_steps(spark, long_sum("s", "v", kind), kind, groups)
    with localcontext(prec=80):
        limit = Decimal(10**38).scaleb(-scale)
    assert found == [exact(values, limit) for values in groups]
    assert 20 < sum(total is None for total in found) < GROUPS - 20
