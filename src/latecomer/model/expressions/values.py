"""The values of expressions, where Spark is not needed to compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from latecomer.model import types

Row = Mapping[str, Any]
Value = Callable[[Row], Any]

NULL = "null"
WIDTHS = ("tinyint", "smallint", "int", "bigint")
BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}


class _Failed(Exception):
    """The expression has no value for this row."""


@dataclass(frozen=True)
class Expression:
    """An expression: its type, and how to compute it where that needs no Spark."""

    kind: str
    value: Value | None = None

    def of(self, row: Row) -> Any:
        """The value for a row; null where it cannot be computed, as on Spark."""
        if self.value is None:
            raise ValueError("only Spark can compute this expression")
        try:
            return self.value(row)
        except _Failed:
            return None


COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
COMPUTED: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


_SUFFIXES = {"l": "bigint", "s": "smallint", "y": "tinyint", "d": "double", "f": "float"}


def number(written: str) -> Expression:
    """A number as it is written in SQL."""
    text = written.lower()
    if text.endswith("bd"):
        return Expression(_decimal_type(text[:-2]))
    if text[-1] in _SUFFIXES:
        return _constant(text[:-1], _SUFFIXES[text[-1]])
    if "e" in text:
        return _constant(text, "double")
    fitting_types = (kind for kind in ("int", "bigint") if "." not in text and int(text) < 1 << BITS[kind])
    kind = next(fitting_types, None)
    return Expression(_decimal_type(text)) if kind is None else _constant(text, kind)


def _constant(digits: str, kind: str) -> Expression:
    if kind == "float":
        return Expression(kind)  # Python has no such numbers
    value = int(digits) if kind in types.INTEGERS else float(digits)
    return Expression(kind, lambda _: value)


def _decimal_type(digits: str) -> str:
    whole, _, after = digits.partition(".")
    return f"decimal({max(len(whole.lstrip('0')) + len(after), 1)},{len(after)})"


def same(each: Expression, kind: str) -> bool:
    """Whether a value of this type is one of that: whole numbers of all widths are alike, a double is not."""
    return each.kind in (kind, NULL) or (each.kind in types.INTEGERS and kind in types.INTEGERS)


def computed(given: Sequence[Expression], kind: str, compute: Callable[..., Any]) -> Expression:
    """What is computed from values; only Spark can tell where it alone can tell one of them."""
    values = [each.value for each in given if each.value is not None]
    if len(values) < len(given):
        return Expression(kind)
    return Expression(kind, lambda row: compute(*(value(row) for value in values)))


def either(left: Expression, right: Expression) -> Expression:
    """`or`: the right side is not asked where the left one decides."""
    return _decided(left, right, by=True)


def both(left: Expression, right: Expression) -> Expression:
    """`and`, likewise."""
    return _decided(left, right, by=False)


def _decided(left: Expression, right: Expression, *, by: bool) -> Expression:
    first, second = left.value, right.value
    if first is None or second is None:
        return Expression("boolean")

    def answer(row: Row) -> Any:
        if (one := first(row)) is by:
            return by
        if (other := second(row)) is by:
            return by
        return None if one is None or other is None else not by

    return Expression("boolean", answer)


def comparison(sign: str, left: Expression, right: Expression) -> Expression:
    alike = same(left, right.kind) or same(right, left.kind)
    if not alike or left.kind not in {*types.INTEGERS, "string", "boolean"}:
        return Expression("boolean")  # Spark converts one of them first
    return computed([left, right], "boolean", lambda a, b: of_both(COMPARED[sign], a, b))


def of_both(
    compute: Callable[[Any, Any], Any], a: Any, b: Any, convert: Callable[[Any], Any] = lambda a: a
) -> Any:
    return None if a is None or b is None else compute(convert(a), convert(b))


def divided(a: Any, b: Any) -> float | None:
    if a is None or b is None:
        return None
    if b == 0:
        raise _Failed
    return float(a) / float(b)


def negative(value: Any, least: int | None) -> Any:
    if least is not None and value == least:
        raise _Failed
    return -value


def fitting(value: int | None, kind: str) -> int | None:
    """A whole number that its type can hold."""
    if value is not None and not -(1 << BITS[kind]) <= value < 1 << BITS[kind]:
        raise _Failed
    return value


def joined_text(given: Sequence[Expression]) -> Expression:
    if any(each.kind not in ("string", NULL) for each in given):
        return Expression("string")
    return computed(given, "string", lambda *texts: None if None in texts else "".join(texts))
