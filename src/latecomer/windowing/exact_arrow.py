"""Whole numbers and decimals as Arrow has them, added up exactly.

Sums are whole numbers of 64 bits, in two halves; those of squares, of up to 128 bits, in four quarters. What is beyond
is declined.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.fast import Declined

TOO_LONG = 10**38
"""The first whole number that no decimal holds."""
_LOW = (1 << 32) - 1
_ROOM = 1 << 30
"""High halves within this leave a sum of 64 bits room, whatever the low halves of a million rows come to."""


def unscaled(column: pa.Array) -> pa.Array:
    """A column of whole numbers or decimals as 64 bits: of a decimal, its digits without the point."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    if not pa.types.is_decimal128(column.type):
        raise Declined(f"sums of {column.type}")
    if not len(column):
        return pa.array([], pa.int64())
    halves = _halves_of_decimals(column)
    valid = np.asarray(column.is_valid())
    if np.any((halves[:, 1] != halves[:, 0] >> 63) & valid):
        raise Declined("a number beyond 64 bits")
    return pa.array(np.where(valid, halves[:, 0], 0), pa.int64(), mask=~valid)


def _halves_of_decimals(column: pa.Array) -> npt.NDArray[np.int64]:
    """The 128 bits of each decimal: the lower 64, and the upper with the sign."""
    bits = np.frombuffer(column.buffers()[1] or b"", np.int64)
    return bits[2 * column.offset :][: 2 * len(column)].reshape(-1, 2)


def scaled(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    """64 bits as a column of this type; the other way round."""
    if pa.types.is_integer(kind):
        return numbers.cast(kind)
    valid = np.asarray(numbers.is_valid())
    low = np.asarray(numbers.fill_null(0))
    halves = np.stack([low, low >> 63], axis=1).astype(np.int64)
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    buffers = [bitmap, pa.py_buffer(np.ascontiguousarray(halves))]
    return pa.Array.from_buffers(kind, len(numbers), buffers, null_count=int(np.count_nonzero(~valid)))


def halves(numbers: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The low and the high half of each number: both can be summed up without an overflow."""
    return pc.bit_wise_and(numbers, _LOW), pc.shift_right(numbers, 32)


def whole(low: pa.Array, high: pa.Array) -> pa.Array:
    """The sums that halves add up to."""
    if len(high) and (pc.any(pc.greater(pc.abs(high), _ROOM)).as_py() or False):
        raise Declined("a sum beyond 64 bits")
    return pc.add(pc.multiply(high, 1 << 32), low)


def quarters(column: pa.Array) -> list[pa.Array]:
    """A column of `decimal(38,0)` in four parts of 32 bits, the lowest first and the highest with the sign: each can
    be summed up without an overflow."""
    if column.null_count:
        raise Declined("a sum that was lost")
    low, high = _halves_of_decimals(column).T
    return [pa.array(each) for each in (low & _LOW, (low >> 32) & _LOW, high & _LOW, high >> 32)]


def squares(numbers: pa.Array) -> list[pa.Array]:
    """The squares of whole numbers of 64 bits, in such parts."""
    size = np.abs(np.asarray(numbers)).view(np.uint64)
    low, high = size & np.uint64(_LOW), size >> np.uint64(32)
    below, across, above = low * low, np.uint64(2) * low * high, high * high
    first, rest = _parted(below)
    second, third = _parted(across)
    last, over = _parted(above)
    return [pa.array(each.view(np.int64)) for each in (first, rest + second, third + last, over)]


def _parted(numbers: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    return numbers & np.uint64(_LOW), numbers >> np.uint64(32)


def put_together(parts: Sequence[pa.Array]) -> list[int]:
    """The sums that quarters add up to."""
    columns = [part.to_pylist() for part in parts]
    return [
        sum(part << (32 * place) for place, part in enumerate(each)) for each in zip(*columns, strict=True)
    ]


def decimals(numbers: Sequence[int]) -> pa.Array:
    """Whole numbers as a column of `decimal(38,0)`."""
    if any(abs(each) >= TOO_LONG for each in numbers):
        raise Declined("a sum of more than 38 digits")
    return pa.array(list(map(Decimal, numbers)), pa.decimal128(38, 0))


def finite(column: pa.Array) -> pa.Array:
    """Floating point numbers of which both paths think alike: no infinity, none that is no number, no zero below 0."""
    numbers = np.asarray(column.fill_null(1.0))
    if not np.all(np.isfinite(numbers)) or np.any(np.signbit(numbers) & (numbers == 0)):
        raise Declined("a number that is infinite, no number, or -0.0")
    return column
