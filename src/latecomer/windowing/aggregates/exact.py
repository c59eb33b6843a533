"""Whole numbers and decimals added up exactly, column by column.

A number is cut into *limbs* of 32 bits, the lowest first and the highest with the sign. Each limb is added up by itself
in 64 bits, which has room for two billion numbers; `Wholes` are the results. Numbers of up to 18 digits have two limbs,
all others four.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model import types
from latecomer.windowing.aggregates.base import Flags, Integers, part, valid

TOO_LONG = 10**types.MOST_DIGITS
"""The first whole number that no decimal holds."""
_LIMB = (1 << 32) - 1
_WORD = (1 << 64) - 1
_FEW_DIGITS = 18
"""Every number of so many digits fits 64 bits."""


def limb_count(kind: str) -> int:
    """How many limbs numbers of a type have."""
    if kind in types.INTEGERS:
        return 2
    return 2 if types.whole_digits(kind) + types.scale_of(kind) <= _FEW_DIGITS else 4


def limb_names(name: str, count: int) -> list[str]:
    return [part(name, str(nth)) for nth in range(count)]


def limbs(column: pa.Array, count: int) -> list[pa.Array]:
    """Whole numbers, or decimals without their point, in limbs. Null stays null."""
    if not pa.types.is_decimal(column.type):
        numbers = column.cast(pa.int64())
        low, high = pc.bit_wise_and(numbers, _LIMB), pc.shift_right(numbers, 32)
        if count == 2:
            return [low, high]
        sign = pc.shift_right(high, 31)
        return [low, pc.bit_wise_and(high, _LIMB), pc.bit_wise_and(sign, _LIMB), sign]
    low, high = words(column)
    middle = (low >> 32) & _LIMB
    found = [low & _LIMB, (high << 32) | middle]
    if count == 4:
        found = [low & _LIMB, middle, high & _LIMB, high >> 32]
    empty = None if not column.null_count else ~valid(column)
    return [pa.array(each, pa.int64(), mask=empty) for each in found]


def words(column: pa.Array) -> tuple[Integers, Integers]:
    """The 128 bits of each decimal: the lower 64, and the upper with the sign."""
    bits = np.frombuffer(column.buffers()[1] or b"", np.int64)
    both = bits[2 * column.offset :][: 2 * len(column)].reshape(-1, 2)
    return both[:, 0], both[:, 1]


def limbs_of(numbers: Sequence[int | None]) -> list[pa.Array]:
    """Whole numbers of any length in four limbs."""
    shifts = ((0, _LIMB), (32, _LIMB), (64, _LIMB), (96, -1))
    return [
        pa.array([None if each is None else (each >> shift) & mask for each in numbers], pa.int64())
        for shift, mask in shifts
    ]


def squared_limbs(column: pa.Array) -> tuple[list[pa.Array], Flags]:
    """The squares of whole numbers, or of decimals without their point, in four limbs, and where a square has more than
    38 digits. The limbs of null and of such a square are 0."""
    if pa.types.is_decimal(column.type):
        low, high = words(column)
        negative = high < 0
        size = np.where(negative, -low, low).view(np.uint64)
        above = np.where(negative, ~high + (low == 0), high)
    else:
        numbers = np.asarray(column.cast(pa.int64()).fill_null(0))
        size, above = np.abs(numbers).view(np.uint64), np.zeros(len(numbers), np.int64)
    known = valid(column)
    lost = ((above != 0) | (size >= np.uint64(10 ** (types.MOST_DIGITS // 2)))) & known
    size = np.where(known & ~lost, size, np.uint64(0))
    half = np.uint64(_LIMB)
    a, b = size & half, size >> np.uint64(32)
    low, across, high = a * a, a * b, b * b
    shift, two = np.uint64(32), np.uint64(2)
    found = (
        low & half,
        (low >> shift) + two * (across & half),
        two * (across >> shift) + (high & half),
        high >> shift,
    )
    return [pa.array(each.view(np.int64)) for each in found], lost


@dataclass(frozen=True)
class Wholes:
    """Whole numbers of up to 158 bits: added limbs."""

    low: Integers
    """The lower 64 bits."""
    high: Integers
    """The next 64 bits."""
    top: Integers
    """What is above them, with the sign."""
    valid: Flags

    @classmethod
    def of(cls, parts: Sequence[pa.Array]) -> Wholes:
        known = valid(parts[0])
        each = [np.asarray(part.fill_null(0)) for part in parts]
        if len(each) == 2:
            upper = each[1] + (each[0] >> 32)
            return cls((upper << 32) | (each[0] & _LIMB), upper >> 32, upper >> 63, known)
        first, second, third, fourth = each
        second = second + (first >> 32)
        third = third + (second >> 32)
        fourth = fourth + (third >> 32)
        low = ((second & _LIMB) << 32) | (first & _LIMB)
        return cls(low, (fourth << 32) | (third & _LIMB), fourth >> 32, known)

    @classmethod
    def of_merged(cls, merged: Mapping[str, pa.Array], names: Sequence[str]) -> Wholes:
        return cls.of([merged[name] for name in names])

    @cached_property
    def is_short(self) -> Flags:
        """Where 64 bits hold the number."""
        found: Flags = (self.high == self.low >> 63) & self._in_two_words
        return found

    @cached_property
    def is_decimal(self) -> Flags:
        """Where 38 digits hold it."""
        low = self.low.view(np.uint64)
        above, below = np.int64(TOO_LONG >> 64), np.int64((1 - TOO_LONG) >> 64)
        less = (self.high < above) | ((self.high == above) & (low < np.uint64(TOO_LONG & _WORD)))
        more = (self.high > below) | ((self.high == below) & (low >= np.uint64((1 - TOO_LONG) & _WORD)))
        found: Flags = less & more & self._in_two_words
        return found

    @property
    def _in_two_words(self) -> Flags:
        found: Flags = self.top == self.high >> 63
        return found

    def numbers(self) -> list[int | None]:
        """As numbers of Python; None for null."""
        if np.all(self.is_short):
            return [
                each if known else None
                for each, known in zip(self.low.tolist(), self.valid.tolist(), strict=True)
            ]
        rows = zip(self.low.tolist(), self.high.tolist(), self.top.tolist(), self.valid.tolist(), strict=True)
        return [
            (top << 128) + ((high & _WORD) << 64) + (low & _WORD) if known else None
            for low, high, top, known in rows
        ]

    def doubles(self) -> pa.Array:
        """The nearest doubles."""
        if np.all(self.is_short):
            return pa.array(self.low.astype(np.float64), mask=~self.valid)
        return pa.array([None if each is None else float(each) for each in self.numbers()], pa.float64())

    def as_type(self, kind: pa.DataType, where: Flags | None = None) -> pa.Array:
        """As a column of 64 bits or of decimals; null where there is none, it does not fit, or `where` is false."""
        if pa.types.is_integer(kind):
            kept = self.valid & self.is_short
            return pa.array(self.low, kind, mask=~(kept if where is None else kept & where))
        kept = self.valid & self.is_decimal
        return decimals(self.low, self.high, kept if where is None else kept & where, kind)


def decimals(low: Integers, high: Integers, known: Flags, kind: pa.DataType) -> pa.Array:
    """Decimals from their 128 bits."""
    both = np.ascontiguousarray(np.stack([low, high], axis=1))
    bitmap = pa.py_buffer(np.packbits(known, bitorder="little").tobytes())
    missing = int(np.count_nonzero(~known))
    return pa.Array.from_buffers(kind, len(low), [bitmap, pa.py_buffer(both)], null_count=missing)


def add_limbs(left: Sequence[pa.Array], right: Sequence[pa.Array], times: int = 1) -> list[pa.Array]:
    """Two columns of limbs added up, and multiplied by a small number."""
    return [pc.multiply(pc.add(one, other), times) for one, other in zip(left, right, strict=True)]


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


def unscaled(column: pa.Array) -> list[int | None]:
    """Decimals without their point, as numbers of Python."""
    low, high = words(column)
    return Wholes(low, high, high >> 63, valid(column)).numbers()
