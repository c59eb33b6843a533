"""JSON values as JSON Schema compares them: 1 and 1.0 are equal, true is no number."""

from __future__ import annotations

import json
from collections.abc import Hashable
from decimal import Decimal
from fractions import Fraction
from typing import Any

ALL_TYPES = frozenset(("null", "boolean", "integer", "fraction", "string", "array", "object"))
"""Every value has one of these types. An integer is a number without a fraction, such as 1.0."""
NUMBERS = frozenset(("integer", "fraction"))
TYPES = {each: frozenset((each,)) for each in sorted(ALL_TYPES - {"fraction"})} | {"number": NUMBERS}
"""Type of a schema → the types of values."""
DEEPEST_VALUE = 100


class TooDeep(ValueError):
    """A value is nested too deeply to be compared."""


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
    return Fraction(Decimal(float.__repr__(value)))


def key_of(value: Any, depth: int = 0) -> Hashable:
    """A key that is the same for equal values only.

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


def normal_text(value: Any) -> str:
    """The text of a schema that is the same for schemas that differ only in layout: without white space, sorted by key.

    >>> normal_text({"type": "string", "minLength": 1})
    '{"minLength":1,"type":"string"}'
    """
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
