"""Aggregates: how they are written, what they mean."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.aggregates import FUNCTIONS, Aggregate, parse_aggregate
from scenarios import quick


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("sum(paise)", Aggregate(function="sum", column="paise")),
        (" SUM ( paise ) ", Aggregate(function="sum", column="paise")),
        ("count(*)", Aggregate(function="count")),
        ("count(payer)", Aggregate(function="count", column="payer")),
        ("mean(fare)", Aggregate(function="avg", column="fare")),
        ("std(fare)", Aggregate(function="stddev", column="fare")),
        ("var(fare)", Aggregate(function="variance", column="fare")),
        ("max(`odd, name`)", Aggregate(function="max", column="odd, name")),
        ("max(`a``b`)", Aggregate(function="max", column="a`b")),
        ("sum(`net amount`)", Aggregate(function="sum", column="net amount")),
        ("count(distinct payer)", Aggregate(function="count_distinct", column="payer")),
        ("COUNT( Distinct `a``b` )", Aggregate(function="count_distinct", column="a`b")),
        ("count(distinct`x`)", Aggregate(function="count_distinct", column="x")),
        ("count(distinct)", Aggregate(function="count", column="distinct")),
        ("count(`distinct x`)", Aggregate(function="count", column="distinct x")),
        ("median(fare)", Aggregate(function="median", column="fare")),
        ("top_k(`net amount`, 3)", Aggregate(function="top_k", column="net amount", argument=3)),
        ("collect(payer, 10000)", Aggregate(function="collect", column="payer", argument=10_000)),
        ("percentile_approx(fare, 1)", Aggregate(function="approx_percentile", column="fare", argument=1.0)),
    ],
)
def test_an_aggregate_is_read_as_it_is_written(written: str, read: Aggregate) -> None:
    assert parse_aggregate(written) == read


@pytest.mark.parametrize(
    ("written", "fix"),
    [
        ("paise", r"write function\(column\)"),
        ("sum(paise", r"write function\(column\)"),
        ("sum()", r"write function\(column\)"),
        ("sum(a, b, c)", r"write function\(column\)"),
        ("sum(a) + 1", r"write function\(column\)"),
        (7, r"write function\(column\)"),
        ("sum(abs(paise))", "one function of one column and no expression"),
        ("sum(a) / sum(b)", "compute expressions in a column first"),
        ("middle(paise)", "unknown function middle; there are sum, count"),
        ("medain(paise)", r"did you mean median\?"),
        ("mode(paise)", r"did you mean top_k\(column, 1\)\?"),
        ("array_agg(paise)", r"did you mean collect\(column, 100\)\?"),
        ("sum(distinct paise)", r"distinct goes with count alone; write count\(distinct column\), or sum"),
        ("count(distinct *)", r"count\(distinct column\) needs a column"),
        ("count(distinct a, b)", r"count\(distinct column\) takes one column and nothing else"),
        ("top_k(paise)", r"top_k needs a number of values from 1 to 1000, as in top_k\(merchant, 10\)"),
        ("top_k(paise, 1001)", "from 1 to 1000"),
        ("collect(paise, 0)", "collect needs a number of values from 1 to 10000"),
        ("collect(paise, -1)", "from 1 to 10000"),
        ("collect(paise, some)", "from 1 to 10000"),
        ("sum(*)", r"sum needs a column; only count takes \*"),
        ("sum(paise, 2)", "sum takes one column and nothing else"),
        ("approx_percentile(fare)", "needs a share from 0 to 1"),
        ("approx_percentile(fare, 95)", "needs a share from 0 to 1"),
        ("approx_percentile(fare, -0.1)", "needs a share from 0 to 1"),
        ("approx_percentile(fare, nan)", "needs a share from 0 to 1"),
        ("approx_percentile(fare, most)", "needs a share from 0 to 1"),
    ],
)
def test_a_wrong_aggregate_is_refused_with_the_fix(written: object, fix: str) -> None:
    with pytest.raises(ValueError, match=fix):
        parse_aggregate(written)


def test_count_of_rows_takes_no_argument() -> None:
    with pytest.raises(ValueError, match="nothing else"):
        parse_aggregate("count(*, 1)")


@pytest.mark.parametrize(
    "written",
    [
        "sum(paise)",
        "count(*)",
        "approx_percentile(fare, 0.95)",
        "count(distinct x)",
        "top_k(x, 3)",
        "collect(x, 9)",
    ],
)
def test_an_aggregate_is_written_as_it_was_read(written: str) -> None:
    assert str(parse_aggregate(written)) == written


@pytest.mark.parametrize(
    "written", ["max(`odd, name`)", "sum(`a(b)`)", "count(`*`)", "count(`distinct x`)", "top_k(`a``, b`, 2)"]
)
def test_a_quoted_column_survives_being_written(written: str) -> None:
    read = parse_aggregate(written)
    assert parse_aggregate(str(read)) == read


@pytest.mark.parametrize(
    ("written", "values", "result"),
    [
        ("sum(x)", [1, None, 2], 3),
        ("sum(x)", [0.1] * 10, 1.0),
        ("sum(x)", [Decimal("0.10"), Decimal("0.20")], Decimal("0.30")),
        ("count(*)", [None, None, 1], 3),
        ("count(x)", [None, None, 1], 1),
        ("min(x)", [3, None, -2], -2),
        ("max(x)", ["a", None, "b"], "b"),
        ("avg(x)", [1, None, 2], 1.5),
        ("avg(x)", [Decimal(1), Decimal(2)], Decimal("1.5")),
        ("variance(x)", [1, 2, None, 3, 4], 5 / 3),
        ("var_pop(x)", [1, 2, None, 3, 4], 1.25),
        ("stddev(x)", [2, 4], math.sqrt(2)),
        ("stddev_pop(x)", [2, 4], 1.0),
        ("variance(x)", [10**16 + 1, 10**16 + 3], 2.0),
        ("variance(x)", [7], None),
        ("var_pop(x)", [7], 0.0),
        ("approx_count_distinct(x)", [1, 1, None, 2], 2),
        ("count(distinct x)", [1, 1, None, 2], 2),
        ("count(distinct x)", [0.0, -0.0, math.nan, math.nan, 1.0], 3),
        ("first(x)", [None, 3, 1, None], 3),
        ("last(x)", [None, 3, 1, None], 1),
        ("median(x)", [4, None, 1, 3], 3),
        ("median(x)", [4, 1, 3, 2], Decimal("2.5")),
        ("median(x)", [2**62 + 1, 2**62], Decimal(2**62) + Decimal("0.5")),
        ("median(x)", [Decimal("0.05"), Decimal("0.10")], Decimal("0.075")),
        ("median(x)", [0.5, 4.0, 1.5, 2.5], 2.0),
        ("top_k(x, 2)", ["b", "a", "c", "c", None, "b"], '[{"value":"b","count":2},{"value":"c","count":2}]'),
        ("top_k(x, 9)", [Decimal("1.50")], '[{"value":1.50,"count":1}]'),
        ("collect(x, 3)", ["b", None, "a", "b", "z"], '["b","a","b"]'),
        ("approx_percentile(x, 0.5)", [4, 1, None, 3, 2], 2),
        ("approx_percentile(x, 0)", [4, 1, 3, 2], 1),
        ("approx_percentile(x, 0.75)", [4, 1, 3, 2], 3),
        ("approx_percentile(x, 0.76)", [4, 1, 3, 2], 4),
        ("approx_percentile(x, 1)", [4, 1, 3, 2], 4),
    ],
)
def test_an_aggregate_ignores_nulls_and_is_exact(written: str, values: list[Any], result: Any) -> None:
    assert parse_aggregate(written).evaluate(values) == result


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("values", [[], [None, None]])
def test_counts_of_nothing_are_zero_and_the_rest_is_null(function: str, values: list[None]) -> None:
    argument = {"approx_percentile": 0.5, "top_k": 3, "collect": 3}.get(function)
    result = Aggregate(function=function, column="x", argument=argument).evaluate(values)
    assert result == (0 if "count" in function else None)


def test_a_sum_of_long_decimals_is_exact() -> None:
    assert parse_aggregate("sum(x)").evaluate([Decimal(10) ** 30, Decimal(1)]) == 10**30 + 1


@given(st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=30))
@quick
def test_the_moments_are_those_of_the_statistics_module(values: list[int]) -> None:
    assert parse_aggregate("variance(x)").evaluate(values) == pytest.approx(statistics.variance(values))
    assert parse_aggregate("stddev_pop(x)").evaluate(values) == pytest.approx(statistics.pstdev(values))
