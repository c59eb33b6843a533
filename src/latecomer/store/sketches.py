"""Approximations merged without Spark, by the same sketches of Apache DataSketches that Spark writes.

The library's binary form is the same in Java and in C++. So sketches made here and by Spark can be merged by either
(`windowing/aggregates/sketched.py` has the states). tests/store/test_sketches.py compares them byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
from datasketches import (
    PyLongsSerDe,
    hll_sketch,
    hll_union,
    kll_doubles_sketch,
    kll_items_sketch,
    tgt_hll_type,
)

from latecomer.model import types
from latecomer.model.json_text import double_text, float_text

_BITS = 12
"""The logarithm of the number of registers: about 2 % of error."""
_RANKS = 200
"""Values kept on each level of a percentile's sketch: about 1.5 % of error in rank."""
_FEW = 7
"""How many hashes a sketch can have that is a plain list."""
_FLAGS, _MODE, _BY_ORDER = 5, 7, slice(8, 16)
"""Where a counter's binary form has its flags, its mode (one of three forms), and the estimate that depends on
order."""
_OUT_OF_ORDER, _REGISTERS = 16, 2
_SEED = 9001
_WORD = (1 << 64) - 1


def merged_counter(values: Iterable[int | str | bytes], sketches: Iterable[bytes]) -> tuple[bytes, int]:
    """The sketch of values (see `counted`) and other sketches, and its number of different values. The result does not
    depend on the order or the number of steps."""
    union = hll_union(_BITS)
    union.update(_counter(values))
    for each in sketches:
        union.update(hll_sketch.deserialize(each))
    merged = _without_order(bytes(union.get_result(tgt_hll_type.HLL_8).serialize_updatable()))
    return merged, round(hll_sketch.deserialize(merged).get_estimate())


def _without_order(sketch: bytes) -> bytes:
    """A counter that estimates by its registers alone, as the library does after merging registers. For values that
    came one by one, it prefers an estimate that depends on their order, which differs in each attempt at a batch."""
    if sketch[_MODE] & 3 != _REGISTERS:
        return sketch
    changed = bytearray(sketch)
    changed[_FLAGS] |= _OUT_OF_ORDER
    changed[_BY_ORDER] = bytes(8)
    return bytes(changed)


def merged_percentile(
    values: Iterable[Any], sketches: Iterable[bytes], kind: str, share: float
) -> tuple[bytes, Any]:
    """The sketch of numbers and other sketches, and the number at this share; None for an empty sketch."""
    of_items = (PyLongsSerDe(),) if kind in types.INTEGERS else ()
    sketch = kll_items_sketch if of_items else kll_doubles_sketch
    merged = sketch(_RANKS)
    for value in values:
        merged.update(value)
    for each in sketches:
        merged.merge(sketch.deserialize(each, *of_items))
    content = bytes(merged.serialize(*of_items))
    return content, None if merged.is_empty() else merged.get_quantile(share, True)


def _counter(values: Iterable[int | str | bytes]) -> Any:
    """A sketch of values (see `counted`). The library takes no bytes: they are hashed here, and added as sketches of a
    few hashes each."""
    sketch = hll_sketch(_BITS, tgt_hll_type.HLL_8)
    hashed: dict[int, None] = {}
    for value in values:
        if isinstance(value, bytes):
            hashed |= {coupon(value): None} if value else {}
        else:
            sketch.update(value)
    if not hashed:
        return sketch
    union, few = hll_union(_BITS), list(hashed)
    union.update(sketch)
    for begin in range(0, len(few), _FEW):
        union.update(hll_sketch.deserialize(_few_coupons(few[begin : begin + _FEW])))
    return union.get_result(tgt_hll_type.HLL_8)


# Values as Spark counts them: whole numbers unchanged, others by their text


def counted(value: Any, kind: str) -> int | str | bytes:
    """A value of a column of this type, in the form in which Spark counts it."""
    if kind in types.INTEGERS:
        return int(value)
    if kind in types.FLOATS:
        return float_text(value) if kind == "float" else double_text(value)
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:.{types.scale_of(kind)}f}"
    if isinstance(value, datetime):
        return _moment_text(value)
    return str(value)


def _moment_text(moment: datetime) -> str:
    seconds = moment.replace(tzinfo=None).isoformat(" ", "seconds")
    return f"{seconds}.{moment.microsecond:06}".rstrip("0").rstrip(".") if moment.microsecond else seconds


# Bytes, hashed as the library does: MurmurHash3 of 128 bits


def coupon(value: bytes) -> int:
    """The hash of bytes in the form of a counter: 26 bits of address, and above them the leading zeros plus 1."""
    first, second = _murmur(value)
    rarity = min(64 - second.bit_length(), 62) + 1
    return rarity << 26 | first & ((1 << 26) - 1)


def _few_coupons(coupons: Sequence[int]) -> bytes:
    """The binary form of a counter that is a plain list."""
    preamble = bytes((2, 1, 7, _BITS, 3, 0, len(coupons), 8))
    return preamble + np.array([*coupons, *[0] * (8 - len(coupons))], "<u4").tobytes()


def _murmur(value: bytes) -> tuple[int, int]:
    one, other = 0x87C37B91114253D5, 0x4CF5AD432745937F
    h1 = h2 = _SEED
    whole = len(value) // 16 * 16
    for begin in range(0, whole, 16):
        k1, k2 = (int.from_bytes(value[begin + at : begin + at + 8], "little") for at in (0, 8))
        h1 ^= _rotated(k1 * one, 31) * other & _WORD
        h1 = ((_rotated(h1, 27) + h2) * 5 + 0x52DCE729) & _WORD
        h2 ^= _rotated(k2 * other, 33) * one & _WORD
        h2 = ((_rotated(h2, 31) + h1) * 5 + 0x38495AB5) & _WORD
    k1, k2 = (int.from_bytes(value[whole + at : whole + at + 8], "little") for at in (0, 8))
    h2 ^= _rotated(k2 * other, 33) * one & _WORD
    h1 ^= _rotated(k1 * one, 31) * other & _WORD
    h1 ^= len(value)
    h2 ^= len(value)
    h1 = (h1 + h2) & _WORD
    h2 = (h2 + h1) & _WORD
    h1, h2 = _mixed(h1), _mixed(h2)
    h1 = (h1 + h2) & _WORD
    return h1, (h2 + h1) & _WORD


def _rotated(word: int, by: int) -> int:
    word &= _WORD
    return (word << by | word >> (64 - by)) & _WORD


def _mixed(word: int) -> int:
    for by in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        word = (word ^ word >> 33) * by & _WORD
    return word ^ word >> 33
