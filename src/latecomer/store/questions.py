"""SQL queries over Delta tables without Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from latecomer.store.sql import double_quoted

ALL = "*"
_SQL_TYPES = {
    pa.bool_(): "boolean",
    pa.int64(): "bigint",
    pa.string(): "varchar",
    pa.float64(): "double",
    pa.decimal128(38, 6): "decimal(38, 6)",
}
"""The types of columns that the first stores did not have; any other missing column is an untyped null."""


def selected_columns(schema: pa.Schema | None, existing: Collection[str], zeros: Collection[str]) -> str:
    """The columns of a schema, and any others that exist, in SQL: missing ones are null, or 0."""
    filled = [
        f"coalesce({name}, 0) as {name}"
        for name in map(double_quoted, (each for each in zeros if each in existing))
    ]
    missing = [
        f"cast({0 if field.name in zeros else 'null'} as {_SQL_TYPES[field.type]}) as {double_quoted(field.name)}"
        if field.type in _SQL_TYPES
        else f"null as {double_quoted(field.name)}"
        for field in schema or ()
        if field.name not in existing
    ]
    return ", ".join([f"{ALL} replace ({', '.join(filled)})" if filled else ALL, *missing])


def query_tables(tables: Mapping[str, tuple[DeltaTable, str]], sql: str) -> Any:
    """The result of a query over named Delta tables, as a stream of Arrow's. Each table has its columns in SQL."""
    builder, with_tables = QueryBuilder(), []
    for name, (delta, selected) in tables.items():
        builder = builder.register(name if selected == ALL else f"{name}_stored", delta)
        if selected != ALL:
            with_tables.append(f"{name} as (select {selected} from {name}_stored)")
    return builder.execute(f"with {', '.join(with_tables)} {sql}" if with_tables else sql)
