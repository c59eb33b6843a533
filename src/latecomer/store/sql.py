"""Identifiers, literals and schemas for SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from latecomer.model.words import in_backticks

quoted = in_backticks
"""An identifier by Spark's rule."""


def double_quoted(name: str) -> str:
    """An identifier by the SQL standard: for DataFusion, DuckDB, Postgres and SQLite.

    >>> double_quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    """Identifiers by the SQL standard, separated by commas.

    >>> listed(["window_start", "a b"])
    '"window_start", "a b"'
    """
    return ", ".join(map(double_quoted, names))


def text_literal(value: str) -> str:
    """A text literal.

    >>> text_literal("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def moment_literal(micros: int) -> str:
    """A moment, in microseconds, for DataFusion."""
    return f"arrow_cast({micros}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


def ddl(columns: Mapping[str, str]) -> str:
    """A schema for Spark's readers.

    >>> ddl({"paise": "bigint", "payer": "string"})
    '`paise` bigint, `payer` string'
    """
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())


def is_true_sql(condition: str, row: str) -> str:
    """Whether a condition is true, in Spark SQL: false where it is null or cannot be computed.

    A division by zero, a text that is no number or an overflow would stop the query. `try_to_binary` gives null for any
    error within it. `row` is a column that is never null. With it, Spark cannot know that the condition is always
    computed: so it does not compute parts of it elsewhere, where an error would stop the query.
    """
    text = f"cast(if({row} is not null, ({condition}), null) as string)"
    return f"coalesce(try_to_binary({text}, 'utf-8') = x'{b'true'.hex()}', false)"
