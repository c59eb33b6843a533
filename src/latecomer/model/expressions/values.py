"""The values of expressions, where Spark is not needed to compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isnan
from operator import add, eq, ge, gt, le, lt, mul, ne, sub
from typing import Any

from latecomer.model import types
from latecomer.model.types import MOST_DIGITS

Row = Mapping[str, Any]
Value = Callable[[Row], Any]

NULL = "null"

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""Integer type → digits of the decimal that Spark converts it to, to compare it with a decimal."""


class Failed(Exception):
    """The expression cannot be computed for this row."""


@dataclass(frozen=True)
class Expression:
    """An expression: its type, and how to compute it where that needs no Spark."""

    kind: str
    value: Value | None = None
    form: tuple[Any, ...] = ()
    """Its operation and operands, for code that computes many rows at once. Empty where rows are computed one
    by one."""

    def of(self, row: Row) -> Any:
        """The value for a row; null where it cannot be computed."""
        try:
            return self.computed(row)
        except Failed:
            return None

    def computed(self, row: Row) -> Any:
        """The value for a row; `Failed` is raised where it cannot be computed."""
        if self.value is None:
            raise ValueError("only Spark can compute this expression")
        return self.value(row)


COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq,
    "==": eq,
    "!=": ne,
    "<>": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
COMPUTED: dict[str, Callable[[Any, Any], Any]] = {"+": add, "-": sub, "*": mul}
_SUFFIXES = {"l": "bigint", "s": "smallint", "y": "tinyint", "d": "double", "f": "float"}


def number(written: str) -> Expression:
    """A number as it is written in SQL."""
    text = written.lower()
    if text.endswith("bd"):
        return _decimal(text[:-2])
    if text[-1] in _SUFFIXES:
        return _constant(text[:-1], _SUFFIXES[text[-1]])
    if "e" in text:
        return _constant(text, "double")
    fitting_types = (kind for kind in ("int", "bigint") if "." not in text and types.holds(kind, int(text)))
    kind = next(fitting_types, None)
    return _decimal(text) if kind is None else _constant(text, kind)


def _constant(digits: str, kind: str) -> Expression:
    if kind == "float":
        return Expression(kind)  # Python has no such numbers
    value = int(digits) if kind in types.INTEGERS else float(digits)
    return Expression(kind, lambda _: value, ("constant", value))


def _decimal(digits: str) -> Expression:
    whole, _, after = digits.partition(".")
    kind = f"decimal({max(len(whole.lstrip('0')) + len(after), 1)},{len(after)})"
    if "e" in digits:
        return Expression(kind)
    value = Decimal(digits)
    return Expression(kind, lambda _: value)


def same(each: Expression, kind: str) -> bool:
    """Whether values of an expression can be used as this type: all integer types are alike, a double is not one."""
    return each.kind in (kind, NULL) or (each.kind in types.INTEGERS and kind in types.INTEGERS)


def computed(given: Sequence[Expression], kind: str, compute: Callable[..., Any], *form: Any) -> Expression:
    """An expression that is computed from others. Only Spark can compute it if only Spark can compute one of them.
    `form` is the operation, if it has a name."""
    values = [each.value for each in given if each.value is not None]
    if len(values) < len(given):
        return Expression(kind)
    made = (*form, *given) if form and all(each.form for each in given) else ()
    return Expression(kind, lambda row: compute(*(value(row) for value in values)), made)


def of_known(given: Sequence[Expression], kind: str, compute: Callable[..., Any], *form: Any) -> Expression:
    """The same for an operation that is null where one of its operands is."""
    return computed(given, kind, lambda *values: None if None in values else compute(*values), *form)


def either(left: Expression, right: Expression) -> Expression:
    """`or`: the right side is not computed where the left one decides."""
    return _decided(left, right, by=True)


def both(left: Expression, right: Expression) -> Expression:
    """`and`, likewise."""
    return _decided(left, right, by=False)


def _decided(left: Expression, right: Expression, *, by: bool) -> Expression:
    first, second = left.value, right.value
    conditions = {left.kind, right.kind} <= {"boolean", NULL}
    if first is None or second is None or not conditions:
        return Expression("boolean")

    def answer(row: Row) -> Any:
        if (one := first(row)) is by:
            return by
        if (other := second(row)) is by:
            return by
        return None if one is None or other is None else not by

    form = ("or" if by else "and", left, right) if left.form and right.form else ()
    return Expression("boolean", answer, form)


def comparison(sign: str, left: Expression, right: Expression) -> Expression:
    """`=`, `<` and so on, and `<=>`, which treats null as a value."""
    convert = _compared_as([left, right])
    if convert is None:
        return Expression("boolean")
    compare = COMPARED["=" if sign == "<=>" else sign]

    def compared(a: Any, b: Any) -> bool:
        return compare(convert(a), convert(b))

    if sign != "<=>":
        return of_known([left, right], "boolean", compared, "compare", sign)
    return computed(
        [left, right], "boolean", lambda a, b: a is b if None in (a, b) else compared(a, b), "compare", sign
    )


def membership(left: Expression, given: Sequence[Expression]) -> Expression:
    """`in`: null where no value is equal and one of them is null."""
    convert = _compared_as([left, *given])
    if convert is None:
        return Expression("boolean")

    def found(value: Any, *among: Any) -> bool | None:
        if value is None:
            return None
        wanted = convert(value)
        if any(each is not None and convert(each) == wanted for each in among):
            return True
        return None if None in among else False

    return computed([left, *given], "boolean", found, "in")


def negated(condition: Expression) -> Expression:
    if condition.kind not in ("boolean", NULL):
        return Expression("boolean")
    return of_known([condition], "boolean", lambda a: not a, "not")


def _compared_as(given: Sequence[Expression]) -> Callable[[Any], Any] | None:
    """The conversion of values before they are compared; None where only Spark can compare them."""
    kinds = {each.kind for each in given} - {NULL}
    if all(map(types.is_exact, kinds)):
        after = max(map(types.scale_of, kinds), default=0)
        before = max((_DIGITS.get(kind) or types.whole_digits(kind) for kind in kinds), default=0)
        return _unchanged if before + after <= MOST_DIGITS else None  # beyond that, Spark rounds
    if all(types.is_exact(kind) or kind == "double" for kind in kinds):
        return _in_order
    return _unchanged if len(kinds) == 1 and kinds <= {"string", "boolean"} else None


def _unchanged(value: Any) -> Any:
    return value


def _in_order(value: Any) -> tuple[bool, float]:
    """The sort key of a number by Spark's order of doubles: NaN equals itself and is the largest."""
    double = float(value)
    return (True, 0.0) if isnan(double) else (False, double)


def divided(a: Any, b: Any) -> float:
    if b == 0:
        raise Failed
    return float(a) / float(b)


def negative(value: Any, least: int | None) -> Any:
    if least is not None and value == least:
        raise Failed
    return -value


def fitting(value: int, kind: str) -> int:
    """A whole number within the range of its type; else `Failed` is raised."""
    if not types.holds(kind, value):
        raise Failed
    return value


def joined_text(given: Sequence[Expression]) -> Expression:
    if any(each.kind not in ("string", NULL) for each in given):
        return Expression("string")
    return of_known(given, "string", lambda *texts: "".join(texts), "join")
