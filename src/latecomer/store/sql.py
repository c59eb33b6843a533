"""Identifiers and schemas, as each SQL wants them written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def quoted(name: str) -> str:
    """An identifier by Spark's rule.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def double_quoted(name: str) -> str:
    """An identifier by the standard's rule: for DataFusion and SQLite.

    >>> double_quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    """Identifiers by the standard's rule, one after the other.

    >>> listed(["window_start", "a b"])
    '"window_start", "a b"'
    """
    return ", ".join(map(double_quoted, names))


def text_literal(value: str) -> str:
    """A text in SQL.

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


def holds(condition: str, row: str) -> str:
    """Whether a condition holds, in Spark SQL: not where it is null, and not where it cannot be computed.

    A division by zero, a text that is no number or an overflow would stop the query. `try_to_binary` gives null for
    whatever goes wrong within it. `row` is a column that is never null: behind it Spark cannot tell that the
    condition is always asked, and so does not compute parts of it outside, where they would stop the query again.
    """
    asked = f"cast(if({row} is not null, ({condition}), null) as string)"
    return f"coalesce(try_to_binary({asked}, 'utf-8') = x'{b'true'.hex()}', false)"
