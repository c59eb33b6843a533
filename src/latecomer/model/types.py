"""Column types, written as Spark writes them: `bigint`, `string`, `decimal(18,2)`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

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
_STRUCT = re.compile(r"\s*struct\s*<(.*)>\s*", re.IGNORECASE | re.DOTALL)
_LISTED = re.compile(r"\s*(array|map)\s*<", re.IGNORECASE)
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


def flat_types(name: str, written: object) -> dict[str, str]:
    """A declared column; of one with fields, these, under names with dots.

    >>> flat_types("paise", "long"), flat_types("pricing", {"base": "long", "tax": {"rate": "double"}})
    ({'paise': 'bigint'}, {'pricing.base': 'bigint', 'pricing.tax.rate': 'double'})
    >>> flat_types("pricing", "struct<base: long, tax: struct<rate: double>>")
    {'pricing.base': 'bigint', 'pricing.tax.rate': 'double'}
    """
    if isinstance(written, str) and (inside := _STRUCT.fullmatch(written)):
        written = dict(_fields(inside[1]))
    if isinstance(written, Mapping):
        if not written:
            raise ValueError(f"{name} has no fields; declare at least one, such as {name}: {{base: bigint}}")
        fields = (flat_types(f"{name}.{field}", kind) for field, kind in written.items())
        return {leaf: kind for each in fields for leaf, kind in each.items()}
    if not isinstance(written, str):
        raise ValueError(
            f"{name}: a type is a word such as bigint, or the fields that it has and their types"
        )
    if _LISTED.match(written):
        raise ValueError(
            f"{name} is {written}, and lists and maps are kept as JSON text; declare {name}: string"
        )
    return {name: normal_type(written)}


def _fields(inside: str) -> Iterator[tuple[str, str]]:
    """The fields of a struct, and their types as they are written."""
    depth, begin = 0, 0
    for at, letter in enumerate(f"{inside},"):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            name, between, kind = inside[begin:at].partition(":")
            if not between or not name.strip() or not kind.strip():
                raise ValueError(
                    f"{inside[begin:at].strip()!r} is no field; write struct<name: type, name: type>"
                )
            yield name.strip().strip("`"), kind.strip()
            begin = at + 1


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


_BY_WIDTH = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))


def is_wider(kind: str, than: str) -> bool:
    """Whether a type holds every value of another exactly, and more of the same kind.

    >>> is_wider("bigint", "int"), is_wider("double", "bigint"), is_wider("decimal(18,2)", "decimal(9,2)")
    (True, False, True)
    """
    for family in _BY_WIDTH:
        if kind in family and than in family:
            return family.index(kind) > family.index(than)
    both = is_decimal(kind) and is_decimal(than)
    return both and scale_of(kind) == scale_of(than) and whole_digits(kind) > whole_digits(than)


def why_not_wider(column: str, kind: str, than: str) -> str:
    """Why a column of one type cannot become one of another, and what to do."""
    new = (
        f"restore {than}, and have a column that is computed from it, such as "
        f'columns: {{new_name: "cast(`{column}` as {kind})"}}'
    )
    if is_wider(than, kind):
        return f"{kind} does not hold every {than}; {new}"
    if is_decimal(kind) and is_decimal(than):
        return f"sums are kept in units of the last digit, so the digits after the point must stay; {new}"
    return (
        "a type can only be widened: an integer to a longer one, float to double, a decimal to one of more digits "
        f"before the point; {new}"
    )
