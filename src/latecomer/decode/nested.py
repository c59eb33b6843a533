"""Columns with a dot in their names: the field of that name, or the field at the end of that way through objects.

`pricing.base` is the field `pricing.base` of a row or, where it has none, the field `base` of its object `pricing`.
Both are read, and from then on it is a column like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.model.paths import ways_of
from latecomer.store.sql import ddl, quoted

_Tree = dict[str, Any]


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


def flattened(read: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """What Spark has read with `read_ddl`, with the columns in the place of the objects."""
    ways = ways_of(columns)
    if not ways:
        return read
    found = {name: F.expr(sql) for name, sql in values(columns).items() if name in ways}
    return read.withColumns(found).drop(*{way[0] for way in ways.values()})
