"""Column types, written as Spark writes them: `bigint`, `decimal(18,2)`, `array<string>`, `map<string,bigint>`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from latecomer.model.words import QUOTED, in_backticks, without_backticks

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
INTEGER_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
"""Integer type → bits of a number without its sign, the shortest type first."""
INTEGERS = frozenset(INTEGER_BITS)
FLOATS = frozenset({"float", "double"})
_PLAIN = INTEGERS | FLOATS | {"string", "boolean", "date", "timestamp", "timestamp_ntz", "binary"}
MOST_DIGITS = 38
"""The most digits of a decimal in Spark, Arrow and Delta."""
DEEPEST_NESTED = 10
"""How deeply lists, maps and objects may be nested in one column."""
_NESTED = re.compile(r"\s*(array|map|struct)\s*<(.*)>\s*", re.IGNORECASE | re.DOTALL)
_QUOTED_FIELD = re.compile(rf"\s*({QUOTED})\s*(:)(.*)", re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SQL_DECIMAL = re.compile(r"(?:numeric|number|dec)\s*(\(.*\))?")
"""Names of a decimal in other databases."""
_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")


def normal_type(written: str) -> str:
    """The canonical spelling of a column type. The elements of a list or a map may have fields.

    >>> normal_type("LONG"), normal_type("decimal(18, 2)"), normal_type("map<string, array<LONG>>")
    ('bigint', 'decimal(18,2)', 'map<string,array<bigint>>')
    >>> normal_type("array<struct<sku: text, `unit price`: double>>")
    'array<struct<sku:string,`unit price`:double>>'
    """
    nested = nested_type(written)
    return _normal_plain(written) if nested is None or nested[0] == "struct" else _normal_nested(written, 1)


def _normal_plain(written: str) -> str:
    text = written.strip().lower()
    text = _ALIASES.get(text, text)
    if text in _PLAIN:
        return text
    if text == "decimal":
        return "decimal(10,0)"
    match = _DECIMAL.fullmatch(text)
    if match and int(match[2]) <= int(match[1]) <= MOST_DIGITS:
        return f"decimal({int(match[1])},{int(match[2])})"
    if other := _SQL_DECIMAL.fullmatch(text):
        near = [f"decimal{other[1] or ''}"]
    else:
        near = difflib.get_close_matches(text, [*sorted(_PLAIN), *_ALIASES, "decimal"], n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise ValueError(
        f"unknown type {written!r}; {meant}there are {', '.join(sorted(_PLAIN))}, decimal(precision,scale), "
        "array<type> and map<string,type>"
    )


def _normal_nested(written: str, depth: int) -> str:
    """A type that may be a list, a map or, within these, an object."""
    if depth > DEEPEST_NESTED:
        raise ValueError(
            f"{written!r} is nested more than {DEEPEST_NESTED} deep; declare it as string, which is JSON text"
        )
    nested = nested_type(written)
    if nested is None:
        kind = _normal_plain(written)
        if kind == "timestamp_ntz":
            raise ValueError("a list or a map holds no timestamp_ntz; declare timestamp, or string")
        return kind
    outer, parts = nested
    kinds = {name: _normal_nested(kind, depth + 1) for name, kind in parts.items()}
    if outer == "map" and kinds["key"] != "string":
        raise ValueError(
            f"the keys of {written!r} are {kinds['key']}, and keys are string; declare map<string,type>"
        )
    return _written_nested(outer, kinds)


def field_name(name: str) -> str:
    """The name of a field as it is written in a type."""
    return name if _PLAIN_NAME.fullmatch(name) else in_backticks(name)


def nested_type(kind: str) -> tuple[str, dict[str, str]] | None:
    """Whether a type is an array, a map or a struct, with the types within it; None for any other type.

    >>> nested_type("array<bigint>"), nested_type("map<string,int>")
    (('array', {'element': 'bigint'}), ('map', {'key': 'string', 'value': 'int'}))
    >>> nested_type("struct<a:int,b:array<int>>")
    ('struct', {'a': 'int', 'b': 'array<int>'})
    """
    match = _NESTED.fullmatch(kind)
    if match is None:
        return None
    outer, inside = match[1].lower(), match[2]
    if outer == "struct":
        fields = list(_fields(inside))
        names = {name.lower() for name, _ in fields}
        if len(names) < len(fields):
            raise ValueError(f"{kind!r} has fields that differ only in case, or not at all; rename one")
        return outer, dict(fields)
    parts = [each.strip() for each in _split(inside)]
    names_of = ("element",) if outer == "array" else ("key", "value")
    if len(parts) != len(names_of) or not all(parts):
        fix = "array<type>" if outer == "array" else "map<string,type>"
        raise ValueError(f"{kind!r} is no type; write {fix}")
    return outer, dict(zip(names_of, parts, strict=True))


def is_nested(kind: str) -> bool:
    """Whether a column is a list or a map."""
    return kind.startswith(("array<", "map<"))


def leaf_types(kind: str) -> Iterator[str]:
    """The plain types in a type.

    >>> list(leaf_types("map<string,array<decimal(9,2)>>"))
    ['string', 'decimal(9,2)']
    """
    nested = nested_type(kind)
    if nested is None:
        yield kind
    else:
        for each in nested[1].values():
            yield from leaf_types(each)


def flat_types(name: str, written: object) -> dict[str, str]:
    """A declared column and its type; a column with fields becomes one column for each, under names with dots.

    >>> flat_types("paise", "long"), flat_types("pricing", {"base": "long", "tax": {"rate": "double"}})
    ({'paise': 'bigint'}, {'pricing.base': 'bigint', 'pricing.tax.rate': 'double'})
    >>> flat_types("pricing", "struct<base: long, tax: struct<rate: double>>")
    {'pricing.base': 'bigint', 'pricing.tax.rate': 'double'}
    """
    nested = nested_type(written) if isinstance(written, str) else None
    if nested is not None and nested[0] == "struct":
        written = nested[1]
    if isinstance(written, Mapping):
        if not written:
            raise ValueError(f"{name} has no fields; declare at least one, such as {name}: {{base: bigint}}")
        fields = (flat_types(f"{name}.{field}", kind) for field, kind in written.items())
        return {leaf: kind for each in fields for leaf, kind in each.items()}
    if not isinstance(written, str):
        raise ValueError(
            f"{name}: a type is a word such as bigint, or the fields that it has and their types"
        )
    return {name: normal_type(written)}


def _fields(inside: str) -> Iterator[tuple[str, str]]:
    """The fields of a struct, and their types as they are written."""
    for each in _split(inside):
        quoted = _QUOTED_FIELD.fullmatch(each)
        name, between, kind = quoted.groups() if quoted else each.partition(":")
        name = without_backticks(name) if quoted else name.strip()
        if not between or not name or not kind.strip():
            raise ValueError(f"{each.strip()!r} is no field; write struct<name: type, name: type>")
        yield name, kind.strip()


def _split(inside: str) -> Iterator[str]:
    """The parts between brackets, cut at the commas that are not in inner brackets or in backticks."""
    depth, begin, quoted = 0, 0, False
    for at, letter in enumerate(f"{inside},"):
        quoted ^= letter == "`"
        if not quoted:
            depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0 and not quoted:
            yield inside[begin:at]
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


_BY_WIDTH = (tuple(INTEGER_BITS), ("float", "double"))


def holds(kind: str, value: int) -> bool:
    """Whether a whole number is within the range of an integer type.

    >>> holds("tinyint", 127), holds("tinyint", 128)
    (True, False)
    """
    return -(1 << INTEGER_BITS[kind]) <= value < 1 << INTEGER_BITS[kind]


def is_wider(kind: str, than: str) -> bool:
    """Whether a type holds every value of another type exactly, and more values of the same kind.

    >>> is_wider("bigint", "int"), is_wider("double", "bigint"), is_wider("decimal(18,2)", "decimal(9,2)")
    (True, False, True)
    >>> is_wider("array<struct<sku:string,color:string>>", "array<struct<sku:string>>")
    True
    """
    return widened_type(than, kind) not in (None, than)


def _is_wider_plain(kind: str, than: str) -> bool:
    for family in _BY_WIDTH:
        if kind in family and than in family:
            return family.index(kind) > family.index(than)
    both = is_decimal(kind) and is_decimal(than)
    return both and scale_of(kind) == scale_of(than) and whole_digits(kind) > whole_digits(than)


def widened_type(
    before: str, after: str, is_wider: Callable[[str, str], bool] = _is_wider_plain
) -> str | None:
    """The type of a column that takes values of both types; None where `after` does not hold every value of `before`.

    In lists, maps and objects each part is widened. An object keeps the order of its fields, and new fields come last.

    >>> widened_type("array<int>", "array<bigint>"), widened_type("array<bigint>", "array<int>")
    ('array<bigint>', None)
    >>> widened_type("array<struct<sku:string,qty:int>>", "array<struct<color:string,qty:bigint,sku:string>>")
    'array<struct<sku:string,qty:bigint,color:string>>'
    """
    match nested_type(before), nested_type(after):
        case None, None:
            return after if after == before or is_wider(after, before) else None
        case (outer, old), (other, new) if outer == other and old.keys() <= new.keys():
            parts = {name: widened_type(kind, new[name], is_wider) for name, kind in old.items()}
            widened = {name: kind for name, kind in parts.items() if kind is not None}
            if len(widened) < len(parts):
                return None
            return _written_nested(outer, {**widened, **{name: new[name] for name in new if name not in old}})
    return None


def with_fields_of(kind: str, other: str) -> str:
    """The type, with additional fields from the objects of another type. Names that differ only in case are one field.

    >>> with_fields_of("array<struct<sku:string>>", "array<struct<SKU:string,color:string>>")
    'array<struct<sku:string,color:string>>'
    """
    match nested_type(kind), nested_type(other):
        case (outer, own), (same_outer, others) if outer == same_outer:
            parts = {
                name: with_fields_of(each, others[name]) if name in others else each
                for name, each in own.items()
            }
            names = {name.lower() for name in own}
            more = {name: each for name, each in others.items() if name.lower() not in names}
            return _written_nested(outer, {**parts, **more})
    return kind


def _written_nested(outer: str, parts: Mapping[str, str]) -> str:
    if outer == "struct":
        return f"struct<{','.join(f'{field_name(name)}:{kind}' for name, kind in parts.items())}>"
    return f"{outer}<{','.join(parts.values())}>"


def new_fields(column: str, before: str, after: str) -> list[str]:
    """The fields that objects in a column have in the type `after` and not in `before`.

    >>> new_fields("items", "array<struct<a:int>>", "array<struct<a:bigint>>")
    []
    >>> new_fields("items", "map<string,struct<a:int>>", "map<string,struct<a:int,b:int>>")
    ['items[].b']
    """
    match nested_type(before), nested_type(after):
        case (outer, old), (_, new):
            places = {name: f"{column}.{name}" if outer == "struct" else f"{column}[]" for name in new}
            within = [new_fields(places[name], kind, new[name]) for name, kind in old.items() if name in new]
            return [*chain(*within), *(places[name] for name in new if name not in old)]
    return []


def why_not_wider(column: str, kind: str, than: str) -> str:
    """Why a column of type `than` cannot become one of type `kind`, and the fix."""
    if is_nested(kind) and is_nested(than):
        return f"{_what_differs(column, kind, than)}; restore {than}, or start a new store"
    if is_nested(kind) or is_nested(than):
        return f"a list or a map stays what it is; restore {than}, or start a new store"
    new = (
        f"restore {than}, and have a column that is computed from it, such as "
        f'columns: {{new_name: "cast(`{column}` as {kind})"}}'
    )
    return f"{_why_not_plain(kind, than)}; {new}"


def _why_not_plain(kind: str, than: str) -> str:
    if is_wider(than, kind):
        return f"{kind} does not hold every {than}"
    if is_decimal(kind) and is_decimal(than):
        return "sums are kept in units of the last digit, so the digits after the point must stay"
    return (
        "a type can only be widened: an integer to a longer one, float to double, a decimal to one of more digits "
        "before the point"
    )


def _what_differs(place: str, kind: str, than: str) -> str:
    """The first part of a list, a map or an object whose type cannot change so."""
    match nested_type(kind), nested_type(than):
        case (outer, new), (other, old) if outer == other:
            for name, before in old.items():
                inside = f"{place}.{name}" if outer == "struct" else f"{place}[]"
                if name not in new:
                    return f"{place} has no field {name} any more, and a field stays: it is null where nobody writes it"
                if widened_type(before, new[name]) is None:
                    return _what_differs(inside, new[name], before)
        case None, None:
            return f"{place} is {than} there and {kind} here, and {_why_not_plain(kind, than)}"
    return f"{place} is {than} there and {kind} here, and a list, a map or an object stays what it is"
