"""JSON values as JSON Schema sees them: 1 and 1.0 are one number, true is none."""

from __future__ import annotations

import math
from collections.abc import Hashable
from decimal import Decimal
from fractions import Fraction
from typing import Any

ALL_TYPES = frozenset(("null", "boolean", "integer", "fraction", "string", "array", "object"))
"""Every value is of one of these. An integer is a number without fractional part, 1.0 included."""
NUMBERS = frozenset(("integer", "fraction"))
TYPES = {each: frozenset((each,)) for each in sorted(ALL_TYPES - {"fraction"})} | {"number": NUMBERS}
"""Types as schemas name them."""
DEEPEST_VALUE = 100
_BEYOND_DOUBLES = 10**400
EXACT_WHOLE = 2**53
"""Up to here every whole number is a double."""


class Rough(float):
    """A number that is written in a way that only the nearest double is known of it."""

    @property
    def is_exact(self) -> bool:
        """Whether it is a whole number that nothing else is rounded to."""
        return self.is_integer() and abs(self) < EXACT_WHOLE


class TooDeep(ValueError):
    """A value is nested more deeply than it can be compared."""


def type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "fraction"
        case Decimal():
            return "integer" if Fraction(value).denominator == 1 else "fraction"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    raise TypeError(f"{type(value).__name__} is no type of JSON")


def number_of(value: int | float | Decimal) -> Fraction:
    """A number as it is written: 0.1 is a tenth.

    >>> number_of(0.1), number_of(3)
    (Fraction(1, 10), Fraction(3, 1))
    """
    if isinstance(value, int | Decimal):
        return Fraction(value)
    if math.isinf(value):  # as a record may have it; no schema has
        return Fraction(_BEYOND_DOUBLES if value > 0 else -_BEYOND_DOUBLES)
    return Fraction(Decimal(float.__repr__(value)))


def key_of(value: Any, depth: int = 0) -> Hashable:
    """The same for equal values, and for no others.

    >>> key_of([1, {"a": None}]) == key_of([1.0, {"a": None}]), key_of(1) == key_of(True)
    (True, False)
    """
    if depth > DEEPEST_VALUE:
        raise TooDeep
    match value:
        case None | bool() | str():
            return type(value).__name__, value
        case int() | float() | Decimal():
            return "number", number_of(value)
        case list():
            return "list", tuple([key_of(each, depth + 1) for each in value])
    return "object", frozenset([(name, key_of(each, depth + 1)) for name, each in value.items()])


def written_types(types: frozenset[str]) -> list[str]:
    """Types as schemas name them.

    >>> written_types(frozenset(("integer", "fraction", "null")))
    ['null', 'number']
    """
    names = {"number" if types >= NUMBERS or each == "fraction" else each for each in types & NUMBERS}
    return sorted(names | (types - NUMBERS))
