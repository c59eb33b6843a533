"""Sums near the bounds of their types: exact in any order and in any number of steps, null where they do not fit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest

from latecomer.store.layout import arrow_type
from latecomer.store.state_types import WHOLE
from latecomer.windowing.aggregates.exact import (
    LONG,
    SHORT,
    doubles,
    fits_64_bits,
    fits_decimal,
    integers,
    quotient,
    squares,
    wholes,
    with_room,
)
from latecomer.windowing.aggregates.sums import Column, ExactSum, LongSum, NarrowSum
from merging_kit import Given, merged_groups

LARGEST = (1 << 63) - 1
GROUPS = 300
WHOLES = [0, 1, -1, (1 << 32) - 1, 1 << 32, LARGEST, LARGEST - 1, -LARGEST - 1, -LARGEST, None]


def long_numbers(scale: int) -> list[Decimal | None]:
    nines, twenty = 10**38 - 1, 10**20
    near = [0, 1, -1, twenty - 1, -twenty, 5 * twenty, nines, nines - 1, -nines, -nines + 1, nines // 2]
    with localcontext(prec=80):
        return [None, *(Decimal(each).scaleb(-scale) for each in near)]


def in_two_steps(state: ExactSum, kind: str, groups: Sequence[list[Any]]) -> list[Any]:
    """Half of each group's numbers, then those of the other half and the state of the first."""
    numbers = [len(values) // 2 for values in groups]
    firsts = [values[:half] for values, half in zip(groups, numbers, strict=True)]
    seconds = [values[half:] for values, half in zip(groups, numbers, strict=True)]
    made = merged_groups(state, [state.init(given(firsts, kind))], [places(firsts)], len(groups))
    stored = state.stored(pa.table(made), fresh=False)
    both = merged_groups(
        state,
        [state.init(given(seconds, kind)), stored],
        [places(seconds), list(range(len(groups)))],
        len(groups),
    )
    return list(both["s"].to_pylist())


def given(groups: Sequence[list[Any]], kind: str) -> Given:
    return Given({"v": pa.array([value for values in groups for value in values], arrow_type(kind))})


def places(groups: Sequence[list[Any]]) -> list[int]:
    return [group for group, values in enumerate(groups) for _ in values]


def exact(values: Sequence[Any], limit: Any) -> Any:
    present = [value for value in values if value is not None]
    with localcontext(prec=80):
        total = sum(present, Decimal(0))
        return total if present and -limit < total < limit else None


def drawn(numbers: Sequence[Any]) -> list[list[Any]]:
    chance = random.Random(7)
    return [[chance.choice(numbers) for _ in range(chance.randint(0, 9))] for _ in range(GROUPS)]


@pytest.mark.parametrize(
    ("sums", "kind", "limit"), [(ExactSum, WHOLE, 10**38), (NarrowSum, "bigint", LARGEST + 1)]
)
def test_whole_numbers_near_64_bits(sums: type[ExactSum], kind: str, limit: int) -> None:
    groups = drawn(WHOLES)
    found = in_two_steps(sums("s", Column("v"), kind), "bigint", groups)
    # -2^63 itself fits 64 bits, and no drawn sum is exactly that without being it by one number.
    assert [
        exact(values, limit) if total != -limit else total
        for values, total in zip(groups, found, strict=True)
    ] == found
    assert sum(total is None for total in found) < GROUPS / 2


@pytest.mark.parametrize("scale", [0, 2, 18, 35, 36, 38])
def test_decimals_near_38_digits(scale: int) -> None:
    kind, groups = f"decimal(38,{scale})", drawn(long_numbers(scale))
    found = in_two_steps(LongSum("s", Column("v"), kind), kind, groups)
    with localcontext(prec=80):
        limit = Decimal(10**38).scaleb(-scale)
    assert found == [exact(values, limit) for values in groups]
    assert 20 < sum(total is None for total in found) < GROUPS - 20


def test_what_is_beyond_38_digits_is_kept_in_halves_of_the_same_sign() -> None:
    state = LongSum("s", Column("v"), "decimal(38,2)")
    most, least = Decimal("9" * 36 + ".99"), Decimal("-" + "9" * 36 + ".99")
    given_ = given([[least, least], [most]], "decimal(38,2)")
    made = merged_groups(state, [state.init(given_)], [[0, 0, 1]], 2)
    assert made["s"].to_pylist() == [None, most]
    high, low = (made[f"_lc_s_beyond_{half}"].to_pylist() for half in ("high", "low"))
    assert (high[1], low[1]) == (None, None)
    assert int(high[0]) * 10**20 + int(low[0] * 100) == -2 * (10**38 - 1)
    assert high[0] < 0
    assert low[0] < 0


def test_a_sum_that_no_column_holds_is_refused() -> None:
    state = ExactSum("_lc_measure_x", Column("v"), WHOLE)
    given_ = given([[Decimal(10**38 - 1)] * 2], "decimal(38,0)")
    with pytest.raises(OverflowError, match="38 digits"):
        merged_groups(state, [state.init(given_)], [[0, 0]], 1)


@pytest.mark.parametrize("number", [0, 1, -1, 3 * 10**18, -(2**63), 10**19 - 1, 1 - 10**19, 2**64 - 1])
def test_squares_are_exact_until_they_have_more_than_38_digits(number: int) -> None:
    column = pa.array([Decimal(number), None], pa.decimal128(38, 0))
    found, lost = squares(column)
    assert integers(found) == [None if abs(number) >= 10**19 else number * number, None]
    assert lost.tolist() == [abs(number) >= 10**19, False]
    if -(2**63) <= number < 2**63:
        assert integers(squares(pa.array([number]))[0]) == [number * number]


@pytest.mark.parametrize("number", [0, -1, 2**32, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("kind", [SHORT, LONG])
def test_numbers_are_added_up_without_their_point(number: int, kind: pa.DataType) -> None:
    column = pa.array([number, None, number], pa.int64()).slice(1)
    for each in (column, column.cast(pa.decimal128(38, 0)).view(pa.decimal128(38, 5))):
        assert integers(wholes(each, kind)) == [None, number]


def test_numbers_of_more_than_38_digits() -> None:
    numbers = [10**45, -(10**45), 10**38, 10**38 - 1, -(10**38) + 1, -(10**38), None]
    found = pa.array([None if each is None else Decimal(each) for each in numbers], LONG)
    assert integers(found) == numbers
    assert fits_decimal(found).tolist() == [False, False, False, True, True, False, True]
    assert not fits_64_bits(found)[:6].any()


@pytest.mark.parametrize("number", [2**94, -(2**94) - 1, 10**38 - 1, 1 - 10**38])
def test_only_large_numbers_are_added_up_in_more_than_128_bits(number: int) -> None:
    column = pa.array([Decimal(number), None, Decimal(2**94 - 1), Decimal(-(2**94))], SHORT)
    assert with_room(pa.chunked_array([column])).type == LONG
    assert with_room(pa.chunked_array([column.slice(2), column])).type == LONG
    for small in ([column.slice(1)], [column.slice(1, 2), column.slice(3)], [column.slice(4)]):
        assert with_room(pa.chunked_array(small)).type == SHORT
    assert with_room(pa.chunked_array([], SHORT)).type == SHORT
    assert with_room(pa.chunked_array([pa.nulls(3, SHORT)])).type == SHORT
    assert (2**94) * (1 << 32) < 10**38


def test_doubles_are_the_nearest() -> None:
    numbers = [2**63 - 1, -(2**53) - 1, 10**38 - 1, 0x7B_E0BB_5D0C_98CB_D4F7, None]
    wide = pa.array([None if each is None else Decimal(each) for each in numbers], LONG)
    for found in (wide, wide.slice(0, 2), wide.slice(4)):
        assert doubles(found).to_pylist() == [
            None if each is None else float(each) for each in integers(found)
        ]


def test_an_average_has_the_fewer_digits_the_longer_its_sum_is() -> None:
    assert quotient(10, 3, 2, 6) == 33333
    assert quotient(-2 * 10**34, 3, 2, 6) == -66666666666666666666666666666666666667
    assert quotient(10**38 - 1, 1, 2, 6) is None, "four digits more do not fit"
    assert quotient(10**30, 3, 2, 6) == 3333333333333333333333333333333333
