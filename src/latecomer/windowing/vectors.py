"""The values of expressions for many rows at once: exactly what `model/expressions` says of each row.

What could differ from that is left to rows one by one: a number that does not fit its type, a division by zero, NaN
among numbers that are compared, decimals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model import types
from latecomer.model.expressions import Expression
from latecomer.model.expressions.values import BITS

Values: TypeAlias = pa.Array | pa.Scalar

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


class _ByRow(Exception):
    """Rows are computed one by one."""


def over(made: Expression, columns: Mapping[str, pa.Array], count: int, kind: pa.DataType) -> pa.Array:
    """The value of an expression for each of so many rows, as a column of a type. `columns` has those that it names."""
    if made.form:
        try:
            found = _values(made, columns)
            if isinstance(found, pa.Scalar):
                found = pa.repeat(found, count)
            return found.cast(kind)
        except (_ByRow, pa.ArrowInvalid):
            pass
    if not columns:
        return pa.array([made.of({})] * count, kind)
    rows = zip(*(column.to_pylist() for column in columns.values()), strict=True)
    return pa.array([made.of(dict(zip(columns, row, strict=True))) for row in rows], kind)


def _values(made: Expression, columns: Mapping[str, pa.Array]) -> Values:
    match made.form:
        case ("constant", value):
            return pa.scalar(value)
        case ("column", name):
            return columns[name]
        case ("compare", sign, left, right):
            return _compared(str(sign), left, right, columns)
        case ("and", left, right):
            return pc.and_kleene(_values(left, columns), _values(right, columns))
        case ("or", left, right):
            return pc.or_kleene(_values(left, columns), _values(right, columns))
        case ("not", condition):
            return pc.invert(_values(condition, columns))
        case ("is", None, value):
            return pc.is_null(_values(value, columns))
        case ("is", wanted, value):
            held = _values(value, columns)
            return pc.fill_null(held if wanted else pc.invert(held), False)
        case ("in", left, *among):
            # Null where nothing is equal and something might be: as several comparisons with `or` between them.
            return reduce(pc.or_kleene, (_compared("=", left, each, columns) for each in among))
        case ("compute", sign, left, right):
            return _computed(str(sign), made.kind, _values(left, columns), _values(right, columns))
        case ("divide", left, right):
            return _divided(_doubles(_values(left, columns)), _doubles(_values(right, columns)))
        case ("join", *texts):
            return pc.binary_join_element_wise(*(_values(each, columns) for each in texts), "")
        case ("first", *given):
            return pc.coalesce(*(_as(made.kind, _values(each, columns)) for each in given))
        case ("chosen", *parts):
            return _chosen(made.kind, parts, columns)
    raise _ByRow


def _compared(sign: str, left: Expression, right: Expression, columns: Mapping[str, pa.Array]) -> Values:
    kinds, sides = {left.kind, right.kind}, (_values(left, columns), _values(right, columns))
    if kinds <= types.INTEGERS:
        one, other = (each.cast(pa.int64()) for each in sides)
    elif kinds <= types.INTEGERS | {"double"}:
        one, other = map(_ordered, map(_doubles, sides))
    elif len(kinds) == 1 and kinds <= {"string", "boolean"}:
        one, other = sides
    else:
        raise _ByRow
    if sign != "<=>":
        return _COMPARED[sign](one, other)
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_(pc.fill_null(pc.equal(one, other), False), both_null)


def _ordered(numbers: Values) -> Values:
    """Numbers of which each is less than, equal to or greater than any other."""
    if pc.any(pc.is_nan(numbers) if isinstance(numbers, pa.Array) else pa.array([_is_nan(numbers)])).as_py():
        raise _ByRow
    return numbers


def _is_nan(number: pa.Scalar) -> bool:
    return number.is_valid and bool(np.isnan(number.as_py()))


def _doubles(numbers: Values) -> Values:
    if pa.types.is_decimal(numbers.type):
        raise _ByRow
    # Not checked: a whole number beyond 53 bits is rounded, as in Spark.
    return pc.cast(numbers, pa.float64(), safe=False)


def _computed(sign: str, kind: str, left: Values, right: Values) -> Values:
    if kind == "double":
        return _DOUBLE[sign](_doubles(left), _doubles(right))
    found = _WHOLE[sign](left.cast(pa.int64()), right.cast(pa.int64()))
    least = -(1 << BITS[kind])
    beyond = pc.or_(pc.less(found, least), pc.greater(found, -least - 1))
    if beyond.as_py() if isinstance(beyond, pa.Scalar) else pc.any(beyond).as_py():
        raise _ByRow
    return found


def _divided(left: Values, right: Values) -> Values:
    zero = pc.equal(right, 0.0)
    if zero.as_py() if isinstance(zero, pa.Scalar) else pc.any(zero).as_py():
        raise _ByRow
    return pc.divide(left, right)


def _as(kind: str, found: Values) -> Values:
    return found.cast(pa.int64()) if kind in types.INTEGERS else found


def _chosen(kind: str, parts: list[Any], columns: Mapping[str, pa.Array]) -> Values:
    """What the first condition that holds says, else the last part."""
    *asked, otherwise = parts
    found = _as(kind, _values(otherwise, columns))
    for condition, value in reversed(list(zip(asked[::2], asked[1::2], strict=True))):
        holds = pc.fill_null(_values(condition, columns), False)
        found = pc.if_else(holds, _as(kind, _values(value, columns)), found)
    return found
