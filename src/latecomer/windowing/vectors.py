"""The values of expressions for many rows at once: exactly those that `model/expressions` gives row by row.

A mask marks the rows for which an expression cannot be computed (a division by zero, a number that does not fit its
type). Where Arrow could differ from the model, rows are computed one by one: decimals, and comparisons with NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model import types
from latecomer.model.array_types import Flags
from latecomer.model.expressions import Expression, Failed
from latecomer.model.types import INTEGER_BITS

Values: TypeAlias = pa.Array | pa.Scalar
Mask: TypeAlias = "Flags | None"
"""Which rows an expression fails for; None where it fails for none."""
_Result: TypeAlias = tuple[Values, Mask]

_COMPARED: dict[str, Callable[[Values, Values], Values]] = {
    "=": pc.equal,
    "==": pc.equal,
    "!=": pc.not_equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_WHOLE = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_DOUBLE = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_WIDE = pa.decimal256(19, 0)
"""Holds every number of 64 bits, and computes with them exactly."""


class _ByRow(Exception):
    """The rows have to be computed one by one."""


def over(
    expression: Expression, columns: Mapping[str, pa.Array], count: int, kind: pa.DataType
) -> tuple[pa.Array, Mask]:
    """The value of an expression for each of so many rows, as a column of a type, and the rows for which it cannot be
    computed: there it is null. `columns` has the columns that it names."""
    if expression.form:
        try:
            values, failed = _values(expression, columns)
            if isinstance(values, pa.Scalar):
                values = pa.repeat(values, count)
            failed = failed if failed is not None and failed.any() else None
            if failed is not None:
                values = pc.if_else(pa.array(failed), pa.scalar(None, values.type), values)
            return values.cast(kind), failed
        except (_ByRow, pa.ArrowInvalid):
            pass
    return _one_by_one(expression, columns, count, kind)


def _one_by_one(
    expression: Expression, columns: Mapping[str, pa.Array], count: int, kind: pa.DataType
) -> tuple[pa.Array, Mask]:
    listed = zip(*(column.to_pylist() for column in columns.values()), strict=True)
    rows = (dict(zip(columns, row, strict=True)) for row in listed) if columns else ({} for _ in range(count))
    values, failed = [], np.zeros(count, bool)
    for nth, row in enumerate(rows):
        try:
            values.append(expression.computed(row))
        except Failed:
            values.append(None)
            failed[nth] = True
    return pa.array(values, kind), failed if failed.any() else None


def _values(expression: Expression, columns: Mapping[str, pa.Array]) -> _Result:
    match expression.form:
        case ("constant", value):
            return pa.scalar(value), None
        case ("column", name):
            return columns[name], None
        case ("compare", sign, left, right):
            return _compared(str(sign), left, right, columns)
        case ("and", left, right):
            return _decided(pc.and_kleene, False, _values(left, columns), _values(right, columns))
        case ("or", left, right):
            return _decided(pc.or_kleene, True, _values(left, columns), _values(right, columns))
        case ("not", condition):
            values, failed = _values(condition, columns)
            return pc.invert(values), failed
        case ("is", None, value):
            values, failed = _values(value, columns)
            return pc.is_null(values), failed
        case ("is", wanted, value):
            values, failed = _values(value, columns)
            return pc.fill_null(values if wanted else pc.invert(values), False), failed
        case ("in", left, *among):
            # As comparisons joined by `or`: null where none is true and one is null.
            operands = [_compared("=", left, each, columns) for each in among]
            return reduce(pc.or_kleene, (each for each, _ in operands)), any_of(
                *(failed for _, failed in operands)
            )
        case ("compute", sign, left, right):
            return _computed(str(sign), expression.kind, _values(left, columns), _values(right, columns))
        case ("divide", left, right):
            return _divided(_values(left, columns), _values(right, columns))
        case ("join", *texts):
            operands = [_values(each, columns) for each in texts]
            joined = pc.binary_join_element_wise(*(each for each, _ in operands), "")
            return joined, any_of(*(failed for _, failed in operands))
        case ("first", *given):
            operands = [_values(each, columns) for each in given]
            return _first(expression.kind, operands)
        case ("chosen", *parts):
            return _chosen(expression.kind, parts, columns)
    raise _ByRow


def any_of(*masks: Mask) -> Mask:
    """The rows that are in at least one of these masks."""
    some = [mask for mask in masks if mask is not None]
    return reduce(np.logical_or, some) if some else None


def _where(condition: Values, failed: Mask) -> Mask:
    """The rows that failed and for which a condition is true; null is not true."""
    if failed is None:
        return None
    if isinstance(condition, pa.Scalar):
        return failed if condition.as_py() else None
    is_true: Flags = np.asarray(pc.fill_null(condition, False))
    return failed & is_true


def _decided(join: Callable[[Values, Values], Values], by: bool, left: _Result, right: _Result) -> _Result:
    """`and`, `or`: the right side does not count where the left one decides."""
    joined = join(left[0], right[0])
    if right[1] is None:
        return joined, left[1]
    is_undecided = pc.fill_null(pc.not_equal(left[0], by), True)
    return joined, any_of(left[1], _where(is_undecided, right[1]))


def _compared(sign: str, left: Expression, right: Expression, columns: Mapping[str, pa.Array]) -> _Result:
    kinds = {left.kind, right.kind}
    (first, failed), (second, other_failed) = _values(left, columns), _values(right, columns)
    sides, failed = (first, second), any_of(failed, other_failed)
    if kinds <= types.INTEGERS:
        one, other = (each.cast(pa.int64()) for each in sides)
    elif kinds <= types.INTEGERS | {"double"}:
        one, other = map(_ordered, map(_doubles, sides))
    elif len(kinds) == 1 and kinds <= {"string", "boolean"}:
        one, other = sides
    else:
        raise _ByRow
    if sign != "<=>":
        return _COMPARED[sign](one, other), failed
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_(pc.fill_null(pc.equal(one, other), False), both_null), failed


def _ordered(numbers: Values) -> Values:
    """These numbers, if none of them is NaN."""
    if _any(pc.is_nan(numbers)):
        raise _ByRow
    return numbers


def _any(flags: Values) -> bool:
    return bool(flags.as_py() if isinstance(flags, pa.Scalar) else pc.any(flags).as_py())


def _doubles(numbers: Values) -> Values:
    if pa.types.is_decimal(numbers.type):
        raise _ByRow
    # A whole number of more than 53 bits is rounded, as in Spark.
    return pc.cast(numbers, pa.float64(), safe=False)


def _computed(sign: str, kind: str, left: _Result, right: _Result) -> _Result:
    failed = any_of(left[1], right[1])
    if kind == "double":
        return _DOUBLE[sign](_doubles(left[0]), _doubles(right[0])), failed
    one, other = (each.cast(pa.int64()) for each, _ in (left, right))
    try:
        result = _WHOLE[sign](one, other)
    except pa.ArrowInvalid:  # a result has more than 64 bits
        result = _WHOLE[sign](one.cast(_WIDE), other.cast(_WIDE))
    least = -(1 << INTEGER_BITS[kind])
    narrow = pc.or_(pc.less(result, least), pc.greater(result, -least - 1))
    result, misfits = _without(result, narrow)
    return result.cast(pa.int64()), any_of(failed, misfits)


def _without(values: Values, which: Values) -> _Result:
    """Values, null where they fail; and where that is."""
    if not _any(which):
        return values, None
    if isinstance(values, pa.Scalar):
        raise _ByRow
    failed = np.asarray(pc.fill_null(which, False))
    return pc.if_else(pa.array(failed), pa.scalar(None, values.type), values), failed


def _divided(left: _Result, right: _Result) -> _Result:
    one, other = _doubles(left[0]), _doubles(right[0])
    zero = pc.equal(other, 0.0)
    if not _any(zero):
        return pc.divide(one, other), any_of(left[1], right[1])
    if isinstance(zero, pa.Scalar):
        raise _ByRow
    quotients, failed = _without(pc.divide(one, other), pc.and_(zero, pc.is_valid(one)))
    return quotients, any_of(left[1], right[1], failed)


def _as(kind: str, values: Values) -> Values:
    return values.cast(pa.int64()) if kind in types.INTEGERS else values


def _first(kind: str, given: list[_Result]) -> _Result:
    """The first value that is not null. A later one that fails does not count."""
    failed: Mask = None
    for value, each_failed in reversed(given):
        failed = any_of(each_failed, _where(pc.is_null(value), failed))
    return pc.coalesce(*(_as(kind, value) for value, _ in given)), failed


def _chosen(kind: str, parts: list[Any], columns: Mapping[str, pa.Array]) -> _Result:
    """The value of the first condition that is true, else the last part."""
    *branches, otherwise = parts
    values, failed = _values(otherwise, columns)
    values = _as(kind, values)
    for condition, value in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
        truth, condition_failed = _values(condition, columns)
        is_true = pc.fill_null(truth, False)
        chosen, chosen_failed = _values(value, columns)
        values = pc.if_else(is_true, _as(kind, chosen), values)
        rest = _where(pc.invert(is_true), failed)
        failed = any_of(condition_failed, _where(is_true, chosen_failed), rest)
    return values, failed
