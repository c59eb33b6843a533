"""Approximations merged without Spark: their sketches are those of Apache DataSketches, as Spark writes them.

The library's binary form is the same in Java and in C++, so a sketch made here and one made by Spark can be
merged on either side (`windowing/states.py` is Spark's). tests/store/test_sketches.py compares them byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from latecomer.model.aggregates import Aggregate

_BITS = 12
"""Of the registers' number: about 2 % of error."""
_RANKS = 200
"""Values kept on each level of a percentile's sketch: about 1.5 % of error in rank."""


def sketch_of(aggregate: Aggregate, values: Iterable[Any], kind: str) -> bytes:
    """The sketch of some values of a column of this type, none of them empty."""
    if aggregate.function == "approx_percentile":
        sketch = _empty_percentile(kind)
        number = int if kind in types.INTEGERS else float
        for value in values:
            sketch.update(number(value))
        return _percentile_bytes(sketch)
    counter = hll_sketch(_BITS, tgt_hll_type.HLL_8)
    for value in values:
        counter.update(_counted(value, kind))
    return bytes(counter.serialize_updatable())


def estimate(aggregate: Aggregate, sketches: Iterable[bytes], kind: str) -> Any:
    """What several sketches come to; None for a percentile of nothing."""
    if aggregate.function == "approx_percentile":
        whole = _empty_percentile(kind)
        for each in sketches:
            whole.merge(_read_percentile(each, kind))
        share = float(aggregate.argument or 0)
        return None if whole.is_empty() else whole.get_quantile(share, True)
    union = hll_union(_BITS)
    for each in sketches:
        union.update(hll_sketch.deserialize(each))
    return round(union.get_result(tgt_hll_type.HLL_8).get_estimate())


def _empty_percentile(kind: str) -> Any:
    return kll_items_sketch(_RANKS) if kind in types.INTEGERS else kll_doubles_sketch(_RANKS)


def _percentile_bytes(sketch: Any) -> bytes:
    whole = isinstance(sketch, kll_items_sketch)
    return bytes(sketch.serialize(PyLongsSerDe()) if whole else sketch.serialize())


def _read_percentile(sketch: bytes, kind: str) -> Any:
    if kind in types.INTEGERS:
        return kll_items_sketch.deserialize(sketch, PyLongsSerDe())
    return kll_doubles_sketch.deserialize(sketch)


# Values as Spark counts them: whole numbers as they are, the others by their text


def _counted(value: Any, kind: str) -> int | str:
    if kind in types.INTEGERS:
        return int(value)
    if kind in types.FLOATS:
        return float_text(np.float32(value) if kind == "float" else np.float64(value))
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


def float_text(value: np.floating[Any]) -> str:
    """A floating point number as Java writes it, in as few digits as tell it from its neighbours.

    Java before 19 writes a digit too many for a few numbers; of these, one that Spark counted too counts twice.

    >>> [float_text(np.float64(value)) for value in (0.1, 100, 1e7, -1.5e-4, -0.0)]
    ['0.1', '100.0', '1.0E7', '-1.5E-4', '-0.0']
    """
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, unique=True, trim="0")
    mantissa, _, exponent = np.format_float_scientific(value, unique=True, trim="0").partition("e")
    return f"{mantissa}E{int(exponent)}"
