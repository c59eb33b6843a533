"""Whole numbers and decimals as Arrow has them, added up exactly: as whole numbers of 64 bits, or not at all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.fast import Declined

_LOW = (1 << 32) - 1
_ROOM = 1 << 30
"""High halves within this leave a sum of 64 bits room, whatever the low halves of a million rows come to."""


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            return column.chunk(0) if column.num_chunks else pa.array([], column.type)
    return column


def unscaled(column: pa.Array) -> pa.Array:
    """A column of whole numbers or decimals as 64 bits: of a decimal, its digits without the point."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    if not pa.types.is_decimal128(column.type):
        raise Declined(f"sums of {column.type}")
    if not len(column):
        return pa.array([], pa.int64())
    halves = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset :][: 2 * len(column)].reshape(
        -1, 2
    )
    valid = np.asarray(column.is_valid())
    if np.any((halves[:, 1] != halves[:, 0] >> 63) & valid):
        raise Declined("a number beyond 64 bits")
    return pa.array(np.where(valid, halves[:, 0], 0), pa.int64(), mask=~valid)


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


def finite(column: pa.Array) -> pa.Array:
    """Floating point numbers of which both paths think alike: no infinity, none that is no number, no zero below 0."""
    numbers = np.asarray(column.fill_null(1.0))
    if not np.all(np.isfinite(numbers)) or np.any(np.signbit(numbers) & (numbers == 0)):
        raise Declined("a number that is infinite, no number, or -0.0")
    return column
