"""Column types, written as Spark writes them: `bigint`, `string`, `decimal(18,2)`."""

from __future__ import annotations

import re

_ALIASES = {
    "long": "bigint",
    "int64": "bigint",
    "integer": "int",
    "int32": "int",
    "short": "smallint",
    "byte": "tinyint",
    "bool": "boolean",
    "str": "string",
    "text": "string",
    "float64": "double",
    "datetime": "timestamp",
}
INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
FLOATS = frozenset({"float", "double"})
_PLAIN = INTEGERS | FLOATS | {"string", "boolean", "date", "timestamp", "timestamp_ntz", "binary"}
_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")


def normal_type(written: str) -> str:
    """The one spelling of a column type.

    >>> normal_type("LONG"), normal_type("decimal(18, 2)")
    ('bigint', 'decimal(18,2)')
    """
    text = written.strip().lower()
    text = _ALIASES.get(text, text)
    if text in _PLAIN:
        return text
    if text == "decimal":
        return "decimal(10,0)"
    match = _DECIMAL.fullmatch(text)
    if match and int(match[2]) <= int(match[1]) <= 38:
        return f"decimal({int(match[1])},{int(match[2])})"
    raise ValueError(
        f"unknown type {written!r}; there are {', '.join(sorted(_PLAIN))} and decimal(precision,scale)"
    )


def is_decimal(kind: str) -> bool:
    return kind.startswith("decimal")


def scale_of(kind: str) -> int:
    """Digits after the point of an exact type: 0 for integers."""
    match = _DECIMAL.fullmatch(kind)
    return int(match[2]) if match else 0


def whole_digits(kind: str) -> int:
    """Digits before the point of an exact type."""
    match = _DECIMAL.fullmatch(kind)
    return int(match[1]) - int(match[2]) if match else 19


def is_exact(kind: str) -> bool:
    """Whether sums of the type are exact, in any order."""
    return kind in INTEGERS or is_decimal(kind)


def is_numeric(kind: str) -> bool:
    return is_exact(kind) or kind in FLOATS
