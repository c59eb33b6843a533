"""Arrow columns in one chunk."""

from __future__ import annotations

import pyarrow as pa


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one chunk.

    >>> flat(pa.chunked_array([[1], [2]])).to_pylist()
    [1, 2]
    """
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # for extension types and very long columns
        return whole.chunk(0) if whole.num_chunks else pa.array([], whole.type)
    return whole
