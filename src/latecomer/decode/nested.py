"""Fields of objects, lists and maps.

A column with a dot in its name is the field of that name, or the field at the end of that way through objects.

`pricing.base` is the field `pricing.base` of a row or, where it has none, the field `base` of its object `pricing`.
Both are read, and from then on it is a column like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.decode.columns import CORRUPT
from latecomer.model import types
from latecomer.model.paths import ways_of
from latecomer.store.sql import ddl, quoted

_Tree = dict[str, Any]
_ELEMENT = f"{PRIVATE}e"
"""What a value of a list is called in SQL, and behind it how deep it is."""


def read_ddl(columns: Mapping[str, str]) -> str:
    """The schema with which Spark reads columns, and the objects that hold them.

    >>> read_ddl({"id": "string", "pricing.base": "bigint"})
    '`id` string, `pricing.base` bigint, `pricing` struct<`base`: bigint>'
    """
    tree: _Tree = {}
    for name, way in ways_of(columns).items():
        inner = tree
        for part in way[:-1]:
            inner = inner.setdefault(part, {})
        inner[way[-1]] = columns[name]
    objects = [f"{quoted(name)} {_struct(inner)}" for name, inner in tree.items()]
    return ", ".join([ddl(columns), *objects])


def _struct(tree: _Tree) -> str:
    fields = (
        f"{quoted(name)}: {_struct(inner) if isinstance(inner, dict) else inner}"
        for name, inner in tree.items()
    )
    return f"struct<{', '.join(fields)}>"


def values(columns: Mapping[str, str], within: str = "") -> dict[str, str]:
    """The SQL of each column over what was read; `within` is the struct that has it.

    >>> values({"id": "string", "pricing.base": "bigint"})
    {'id': '`id`', 'pricing.base': 'coalesce(`pricing.base`, `pricing`.`base`)'}
    """
    ways = ways_of(columns)
    return {
        name: f"coalesce({within}{quoted(name)}, {within}{'.'.join(map(quoted, ways[name]))})"
        if name in ways
        else f"{within}{quoted(name)}"
        for name in columns
    }


def list_of(text: str, kind: str) -> str:
    """The list or map that a JSON text means, in SQL; null where a column of this type does not take it."""
    record = f"""concat('{{"v":', {text}, '}}')"""
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}')"
    schema = ddl({"v": kind, CORRUPT: "string"}).replace("\\", "\\\\").replace("'", "\\'")
    parsed = f"from_json({record}, '{schema}', {options})"
    return f"if({parsed}.{CORRUPT} is null, {parsed}.v, null)"


def text_of(sql: str) -> str:
    """A value as text, in SQL: a list or a map as JSON, a text as it is."""
    return f"from_json(to_json(struct({sql} as v)), 'v string').v"


Leaf = Callable[[str, str, str], str]
"""SQL of a plain value: from its own SQL, its type, and the type that is wanted."""


def holds_in(sql: str, read: str, wanted: str, test: Leaf, depth: int = 0) -> str:
    """Whether a test holds for each value that is in one, in SQL; empty where it holds in any case.

    >>> holds_in("t", "array<int>", "array<int>", lambda sql, read, wanted: f"{sql} > 0")
    'coalesce(forall(t, _lc_e0 -> _lc_e0 > 0), true)'
    """
    each = f"{_ELEMENT}{depth}"
    match types.nested_type(read), types.nested_type(wanted):
        case ("array", {"element": inner}), ("array", {"element": other}):
            inside = holds_in(each, inner, other, test, depth + 1)
            return f"coalesce(forall({sql}, {each} -> {inside}), true)" if inside else ""
        case ("map", {"value": inner}), ("map", {"value": other}):
            keys = holds_in(f"map_keys({sql})", "array<string>", "array<string>", test, depth)
            parts = [keys, holds_in(f"map_values({sql})", f"array<{inner}>", f"array<{other}>", test, depth)]
        case ("struct", fields), ("struct", others):
            parts = [
                holds_in(f"{sql}.{quoted(name)}", inner, other, test, depth)
                for (name, inner), other in zip(fields.items(), others.values(), strict=True)
            ]
        case _:
            return test(sql, read, wanted)
    return " and ".join(filter(None, parts))


def changed_in(sql: str, read: str, wanted: str, change: Leaf, depth: int = 0) -> str:
    """A value with each plain one in it changed, in SQL. Objects have the fields that are wanted, in their order.

    >>> changed_in("t", "array<int>", "array<bigint>", lambda sql, read, wanted: f"cast({sql} as {wanted})")
    'transform(t, _lc_e0 -> cast(_lc_e0 as bigint))'
    """
    each = f"{_ELEMENT}{depth}"
    match types.nested_type(read), types.nested_type(wanted):
        case ("array", {"element": inner}), ("array", {"element": other}):
            return f"transform({sql}, {each} -> {changed_in(each, inner, other, change, depth + 1)})"
        case ("map", {"value": inner}), ("map", {"value": other}):
            keys = changed_in(f"map_keys({sql})", "array<string>", "array<string>", change, depth)
            values = changed_in(f"map_values({sql})", f"array<{inner}>", f"array<{other}>", change, depth)
            return f"map_from_arrays({keys}, {values})"
        case ("struct", fields), ("struct", others):
            made = (
                f"{changed_in(f'{sql}.{quoted(name)}', inner, kind, change, depth)} as {quoted(other)}"
                for (name, inner), (other, kind) in zip(fields.items(), others.items(), strict=True)
            )
            return f"if({sql} is null, null, struct({', '.join(made)}))"
    return change(sql, read, wanted)


def flattened(read: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """What Spark has read with `read_ddl`, with the columns in the place of the objects."""
    ways = ways_of(columns)
    if not ways:
        return read
    found = {name: F.expr(sql) for name, sql in values(columns).items() if name in ways}
    return read.withColumns(found).drop(*{way[0] for way in ways.values()})
