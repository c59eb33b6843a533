"""Which bucket a key belongs to: tasks share the keys of an output out by it, and files are named for it.

The numbers are in the names of files, so they must never change. The number of buckets is always a power of two: where
it doubles, each bucket is cut in halves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from latecomer.log.hashes import hash_ids
from latecomer.model.array_types import Integers, Unsigned
from latecomer.model.arrays import flat
from latecomer.windowing.aggregates.base import one_zero

_NAMED = re.compile(r"-([0-9]+)of([0-9]+)-")
_MIX = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0x27D4EB2F165667C5)


def bucket_of(rows: pa.Table, keys: Sequence[str], count: int) -> Integers:
    """The bucket of each row, by the values of its key: equal keys are in one.

    >>> bucket_of(pa.table({"k": ["a", "b", "a", None]}), ["k"], 1).tolist()
    [0, 0, 0, 0]
    """
    codes = np.zeros(rows.num_rows, np.uint64)
    if count == 1 or not keys:
        return codes.astype(np.int64)
    for key in keys:
        column = flat(rows.column(key)).dictionary_encode()
        values = np.append(_hashes(column.dictionary), _NULL)
        codes = (codes ^ values[np.asarray(column.indices.fill_null(-1))]) * _MIX
        codes ^= codes >> np.uint64(29)
    return (codes % np.uint64(count)).astype(np.int64)


def _hashes(values: pa.Array) -> Unsigned:
    kind = values.type
    if pa.types.is_floating(kind):
        values = one_zero(values).cast(pa.float64()).view(pa.int64())
    elif pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    return hash_ids(values if pa.types.is_binary(kind) else values.cast(pa.string()))


def bucket_name(nth: int, count: int, token: str) -> str:
    """The name of a file with the rows of a bucket.

    >>> bucket_name(1, 4, "x")
    'part-1of4-x.parquet'
    """
    return f"part-{nth}of{count}-{token}.parquet"


def may_hold(name: str, nth: int, count: int) -> tuple[bool, bool]:
    """Whether a file of this name may hold rows of a bucket, and whether it may hold others, too.

    >>> may_hold("part-1of4-x.parquet", 1, 2), may_hold("part-1of4-x.parquet", 0, 2), may_hold("part.parquet", 0, 2)
    ((True, False), (False, False), (True, True))
    """
    found = _NAMED.search(name)
    if found is None:
        return True, count > 1
    own, of = int(found[1]), int(found[2])
    if of >= count:
        return own % count == nth, False
    return nth % of == own, True
