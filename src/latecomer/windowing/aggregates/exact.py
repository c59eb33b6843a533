"""Whole numbers and decimals added up exactly. Decimals are added up without their point: as whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model import types
from latecomer.model.array_types import Flags
from latecomer.windowing.aggregates.base import only

SHORT, LONG = pa.decimal128(types.MOST_DIGITS, 0), pa.decimal256(76, 0)
"""The type of numbers that are added up, and that of sums of them that may have more than 38 digits."""
_SMALL = 1 << 30
"""The sum of four billion numbers whose upper 64 bits are less than this has at most 38 digits."""
TOO_LONG = 10**types.MOST_DIGITS
"""The first whole number that no decimal column holds."""
_ROOT_DIGITS = types.MOST_DIGITS // 2
"""The square of a number of so many digits has at most 38 digits."""


def wholes(column: pa.Array, kind: pa.DataType = SHORT) -> pa.Array:
    """Whole numbers, or decimals without their point.

    >>> wholes(pa.array([Decimal("1.25"), None])).to_pylist()
    [Decimal('125'), None]
    """
    if pa.types.is_decimal(column.type):
        return column.view(SHORT).cast(kind)
    return column.cast(pa.int64()).cast(kind)


def with_room(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers in a type that has room for their sum. Most are small: Arrow adds them up fast in 128 bits."""
    return numbers if all(map(_are_small, numbers.chunks)) else numbers.cast(LONG)


def _are_small(numbers: pa.Array) -> bool:
    words = np.frombuffer(numbers.buffers()[1] or b"", np.int64)
    upper = words[2 * numbers.offset :][1 : 2 * len(numbers) : 2]
    return bool(np.all((upper >= -_SMALL) & (upper < _SMALL)))


def squares(column: pa.Array) -> tuple[pa.Array, Flags]:
    """The squares of whole numbers, or of decimals without their point, and where a square has more than 38 digits. Of
    null and of such a square there is null."""
    numbers = wholes(column)
    short = _within(numbers, 1 - 10**_ROOT_DIGITS, 10**_ROOT_DIGITS - 1)
    roots = only(numbers, short).cast(pa.decimal256(_ROOT_DIGITS, 0))
    return pc.multiply(roots, roots).cast(SHORT), ~short


def fits_64_bits(numbers: pa.Array) -> Flags:
    """Where 64 bits hold a number; null fits."""
    return _within(numbers, -1 << 63, (1 << 63) - 1)


def fits_decimal(numbers: pa.Array) -> Flags:
    """Where 38 digits hold a number; null fits."""
    return _within(numbers, 1 - TOO_LONG, TOO_LONG - 1)


def _within(numbers: pa.Array, least: int, most: int) -> Flags:
    low, high = (pa.scalar(Decimal(each), SHORT) for each in (least, most))
    within = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    return np.asarray(pc.fill_null(within, True))


def as_type(numbers: pa.Array, kind: pa.DataType, where: Flags | None = None) -> pa.Array:
    """As a column of 64 bits or of decimals; null where there is none, it does not fit, or `where` is false."""
    whole = pa.types.is_integer(kind)
    fits = fits_64_bits(numbers) if whole else fits_decimal(numbers)
    kept = only(numbers, fits if where is None else fits & where)
    return kept.cast(kind) if whole else kept.cast(SHORT).view(kind)


def integers(numbers: pa.Array) -> list[int | None]:
    """As numbers of Python; None for null."""
    if np.all(fits_64_bits(numbers)):
        return list(numbers.cast(pa.int64()).to_pylist())
    return [None if each is None else int(each) for each in numbers.to_pylist()]


def doubles(numbers: pa.Array) -> pa.Array:
    """The nearest doubles; Arrow's own are not always the nearest."""
    if np.all(fits_64_bits(numbers)):
        return numbers.cast(pa.int64()).cast(pa.float64(), safe=False)
    return pa.array([None if each is None else float(each) for each in numbers.to_pylist()], pa.float64())


def decimals(numbers: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    """Decimals from their digits without the point."""
    return pa.array([None if each is None else Decimal(each) for each in numbers], SHORT).view(kind)


def _rounded(number: int, by: int) -> int:
    return (2 * number + by) // (2 * by)


_SHORT = 30
"""Digits of a sum that is divided with all the digits that an average has."""
_SHORT_COUNT = 10
"""Digits of a count by which such a sum is divided."""
_PLACES = types.MOST_DIGITS + 1
"""How many digits after the point a quotient has before Spark rounds it to its type."""


def quotient(number: int, count: int, scale: int, wanted: int) -> int | None:
    """A decimal without its point, divided by a count and rounded to the `wanted` digits after the point: three times,
    half up, as Spark does. None where 38 digits do not hold it.

    >>> quotient(1, 3, 2, 6), quotient(-5, 2, 0, 0)
    (3333, -3)
    """
    size, before = abs(number), max(_SHORT, scale) - scale
    found = None
    if size < 10 ** max(_SHORT, scale) and count < 10**_SHORT_COUNT:
        found = _quotient(size, count, scale, _places(before, scale, _SHORT_COUNT), wanted)
    if found is None:
        # Spark gives a quotient the fewer digits the longer its terms may be.
        found = _quotient(size, count, scale, _places(types.MOST_DIGITS - scale, scale, 20), wanted)
    return found if found is None or number >= 0 else -found


def _quotient(size: int, count: int, scale: int, places: int, wanted: int) -> int | None:
    exact = _rounded(size * 10 ** (_PLACES - scale), count)
    rough = _rounded(exact, 10 ** (_PLACES - places))
    if rough >= TOO_LONG:
        return None
    found = _rounded(rough * 10 ** max(wanted - places, 0), 10 ** max(places - wanted, 0))
    return found if found < TOO_LONG else None


def _places(before: int, scale: int, count_digits: int) -> int:
    """How many digits after the point Spark gives a decimal with `before` digits before it, when it is divided by a
    whole number of `count_digits` digits."""
    places = max(6, scale + count_digits + 1)
    return places if before + places <= types.MOST_DIGITS else max(types.MOST_DIGITS - before, min(places, 6))
