"""Translates the expressions of a migration into the SQL of a database, if they mean the same there.

Spark's SQL differs from that of Postgres and SQLite: `1 / 2` is 0.5 or 0, `concat` with null is null or not, texts sort
differently, and SQLite's lower-case letters are those of English only. An expression that is not known to mean the
same is not translated, and then no view is offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from latecomer.model.predicates import Token, tokens

_SIGNS = frozenset(["+", "-", "*", "=", "<>", "!=", "||"])
_WORDS = frozenset(["and", "or", "not", "is", "null", "case", "when", "then", "else", "end"])
_SAME = frozenset(["coalesce", "nullif", "length", "abs"])
_MOMENTS = ("date", "timestamp")


class Dialect(StrEnum):
    """The SQL to write."""

    POSTGRES = "postgres"
    SQLITE = "sqlite"
    DELTA = "delta"
    """Spark, and DataFusion where there is no Spark."""


class NotPortable(ValueError):
    """A part of an expression may mean something else in another database."""


@dataclass(frozen=True)
class Column:
    """A column of a table: how SQL names it, and its type in Spark."""

    sql: str
    kind: str


def portable(written: str, columns: Mapping[str, Column], dialect: Dialect) -> str:
    """An expression in the SQL of a database. Raises NotPortable, which names the part that cannot be translated.

    >>> portable("concat(a, 'T')", {"a": Column('"a"', "string")}, Dialect.SQLITE)
    '("a" || \\'T\\')'
    >>> portable("a / 2", {"a": Column('"a"', "bigint")}, Dialect.POSTGRES)
    Traceback (most recent call last):
    latecomer.schemas.migrations.portable.NotPortable: /
    """
    writer = _Writer(written, columns, dialect)
    sql = writer.until()
    if writer.at < len(writer.tokens):
        raise NotPortable(writer.tokens[writer.at].text)
    return sql


class _Writer:
    """Goes through the tokens of an expression, and writes each in the SQL of the database."""

    def __init__(self, written: str, columns: Mapping[str, Column], dialect: Dialect) -> None:
        self.tokens = tokens(written)
        self.columns, self.dialect = columns, dialect
        self.at = 0

    def until(self) -> str:
        """The SQL up to a comma, `as` or closing bracket of the surrounding expression, which is not read."""
        parts: list[str] = []
        while (token := self._next()) is not None and token.text not in (",", ")") and token.word != "as":
            parts.append(self._one(token))
        if not parts:
            raise NotPortable("nothing" if token is None else token.text)
        return " ".join(parts)

    def _next(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _expect(self, text: str) -> None:
        token = self._next()
        if token is None or token.text.lower() != text:
            raise NotPortable(text if token is None else token.text)
        self.at += 1

    def _one(self, token: Token) -> str:
        self.at += 1
        following = self._next()
        if token.text == "(":
            inside = self.until()
            self._expect(")")
            return f"({inside})"
        if token.kind == "number" and token.text.isdigit():
            return token.text
        if token.kind == "text" and token.text[0] == "'" and "\\" not in token.text:
            return token.text
        name = token.name
        if token.word and following is not None and following.text == "(":
            return self._call(token.word)
        if name in self.columns:
            return self.columns[name].sql
        if token.word in _WORDS or token.text in _SIGNS:
            return token.text
        raise NotPortable(token.text)

    def _call(self, name: str) -> str:
        self._expect("(")
        if name == "cast":
            return self._cast()
        arguments = [self.until()]
        while (token := self._next()) is not None and token.text == ",":
            self.at += 1
            arguments.append(self.until())
        self._expect(")")
        if name in _SAME:
            return f"{name}({', '.join(arguments)})"
        if name == "concat" and len(arguments) > 1:
            return f"({' || '.join(arguments)})"
        if name in ("left", "substring", "substr"):
            return self._part(name, arguments)
        raise NotPortable(name)

    def _part(self, name: str, arguments: list[str]) -> str:
        """A part of a text. Its position must be numbers from 1: databases differ below."""
        numbers = arguments[1:]
        if len(arguments) != {"left": 2}.get(name, 3) or not all(n.isdigit() and int(n) for n in numbers):
            raise NotPortable(name)
        first, count = ("1", numbers[0]) if name == "left" else (numbers[0], numbers[1])
        return f"substr({arguments[0]}, {first}, {count})"

    def _cast(self) -> str:
        """Casts between date and timestamp in UTC. No other casts mean the same everywhere."""
        token = self._next()
        column = None if token is None else self.columns.get(token.name)
        if token is None or column is None:
            raise NotPortable("cast")
        self.at += 1
        self._expect("as")
        kind = self._next()
        self.at += 1
        self._expect(")")
        into = "" if kind is None else kind.word
        if into == column.kind:
            return column.sql
        if into not in _MOMENTS or column.kind not in _MOMENTS:
            raise NotPortable(f"cast({token.text} as {into})")
        if self.dialect is Dialect.DELTA:
            return f"cast({column.sql} as {into})"
        if self.dialect is Dialect.SQLITE:  # both are text there
            return f"substr({column.sql}, 1, 10)" if into == "date" else f"({column.sql} || 'T00:00:00Z')"
        if into == "date":
            return f"CAST({column.sql} AT TIME ZONE 'UTC' AS date)"
        return f"(CAST({column.sql} AS timestamp) AT TIME ZONE 'UTC')"
