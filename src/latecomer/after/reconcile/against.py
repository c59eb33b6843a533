"""The other side of a reconciliation: a file, a folder, a Delta table, or a query on a database.

Databases are only read, and passwords are never shown.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from io import TextIOWrapper
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from latecomer.after.reading.comparable_values import exact, refused
from latecomer.config.arguments import path_of
from latecomer.errors import did_you_mean
from latecomer.errors.redacting import HIDDEN, is_torn, redacted
from latecomer.store.layout import TIMESTAMP

LOG = "log"
SQLITE = "sqlite:"
CONNECT_SECONDS = 10
MOST_HEADER = 1_000
"""The most characters of a header that are looked at."""
_URL = re.compile(r"postgres(ql)?://", re.IGNORECASE)
_KINDS = "log, a Parquet file or folder, a CSV file, a Delta table, sqlite:PATH or postgresql://…"
_READING = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_CSV_FIX = "write a comma between columns and a point in decimals (1.5), and quote a value that has a comma"
_LOADING = ("load_extension", "fts3_tokenizer")
"""Functions that load code into the process."""


@dataclass(frozen=True)
class Against:
    """Where the other numbers come from, and the names of its columns."""

    source: str
    query: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    """Column of the source → column of the output."""

    @property
    def shown(self) -> str:
        """The source, without the password."""
        return redacted(self.source)

    @property
    def is_log(self) -> bool:
        return self.source == LOG

    def require_sense(self) -> None:
        """Refuse arguments that contradict one another, before anything is read."""
        database = self.source.startswith(SQLITE) or is_postgres(self.source)
        if database and not (self.query or "").strip():
            fix = "say which rows: --query 'select window_start, …'"
            raise refused("query", "is missing: a database has many tables", self.shown, fix)
        if self.query is not None and not database:
            raise refused("query", "is for databases alone", self.query, "leave it out")
        if self.names and self.is_log:
            pairs = ", ".join(f"{theirs}={ours}" for theirs, ours in self.names.items())
            raise refused("map", "is for other sources; the log has the output's columns", pairs)

    def rows(self) -> pa.Table:
        """Every row of the source, under the names that the output's columns have."""
        return _renamed(self._read(), self.names)

    def _read(self) -> pa.Table:
        if is_postgres(self.source):
            return ask_postgres(self.source, self.query or "")
        is_sqlite = self.source.startswith(SQLITE)
        written = self.source[len(SQLITE) :].removeprefix("//") if is_sqlite else self.source
        path = path_of("reconcile", "against", written)
        try:
            if is_sqlite:
                return ask_sqlite(path, self.query or "")
            if not path.exists():
                raise refused("against", "there is no such file or folder", self.shown, f"name {_KINDS}")
            rows = _read_path(path)
            rows.validate(full=True)  # a column of text may hold what is not UTF-8
            return rows
        except (pa.ArrowException, DeltaError, OSError) as error:
            raise refused(
                "against", f"cannot be read: {first_line(error)}", self.shown, f"name {_KINDS}"
            ) from None


def _read_path(path: Path) -> pa.Table:
    if (path / "_delta_log").is_dir():
        answer = QueryBuilder().register("t", DeltaTable(str(path))).execute("select * from t")
        return pa.table(answer)
    if path.is_dir() or path.name.endswith(".parquet") or _starts_as_parquet(path):
        return pq.read_table(path)
    if path.suffixes and ".csv" in path.suffixes[-2:]:
        return _read_csv(path)
    message = "is neither Parquet nor CSV nor a Delta table"
    raise refused("against", message, str(path), "name it FILE.csv or FILE.parquet")


def _read_csv(path: Path) -> pa.Table:
    """Every value as text; the type of the output's column says how to read it."""
    header = _first_text_line(path)
    other = next((word for sign, word in _DELIMITERS.items() if sign in header and "," not in header), None)
    if other is not None:
        raise refused("against", f"has {other}, not commas, between its columns", header, _CSV_FIX)
    try:
        with pc_csv.open_csv(path) as reader:
            names = reader.schema.names
        options = pc_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        )
        return pc_csv.read_csv(path, convert_options=options)
    except pa.ArrowInvalid as error:
        message = f"cannot be read: {first_line(error)}; its header is {header or 'empty'}"
        raise refused("against", message, str(path), _CSV_FIX) from None


def _first_text_line(path: Path) -> str:
    """The first line of a file, which may be compressed."""
    with pa.input_stream(path) as file, TextIOWrapper(file, "utf-8-sig", "replace") as text:
        return text.readline(MOST_HEADER).strip()


def _starts_as_parquet(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _renamed(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    twice = [name for name in rows.schema.names if rows.schema.names.count(name) > 1]
    if twice:
        raise refused("against", "has a column twice", twice[0], "give each column a name of its own")
    for theirs in names:
        if theirs not in rows.schema.names:
            fix = did_you_mean(theirs, rows.schema.names)
            raise refused("map", "the source has no such column", theirs, fix)
    # A column that was mapped takes the place of one that has the name already.
    kept = [name for name in rows.schema.names if name in names or name not in names.values()]
    chosen = rows.select(kept)
    return chosen.rename_columns([names.get(name, name) for name in kept])


def is_postgres(written: str) -> bool:
    return _URL.match(written) is not None


def ask_sqlite(path: Path, query: str) -> pa.Table:
    """The answer of a SQLite file, opened read-only."""
    if not path.is_file():
        raise refused("against", "there is no such file", str(path), "name a SQLite file: sqlite:PATH")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.set_authorizer(_only_reading)
            cursor = database.execute(query)
            return _table([column[0] for column in cursor.description or ()], cursor.fetchall(), query)
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _query_failed("SQLite", str(error), query) from None


def _only_reading(action: int, _: str | None, function: str | None, *__: str | None) -> int:
    """SQLite's authorizer. Needed because a read-only connection can still ATTACH other files, and VACUUM INTO them."""
    allowed = action in _READING and function not in _LOADING
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def ask_postgres(url: str, query: str) -> pa.Table:
    """The answer of a Postgres database to one query, in a transaction that can only read.

    A cursor takes a single query only. So no second statement can end the transaction, and COPY cannot write a file on
    the server.
    """
    try:
        import psycopg
    except ImportError:
        fix = "install it: pip install 'latecomer[postgres]'"
        raise refused("against", "Postgres needs the package psycopg", redacted(url), fix) from None
    if is_torn(url):
        raise _unreadable(url)
    try:
        connection = psycopg.connect(url, connect_timeout=CONNECT_SECONDS, application_name="latecomer")
    except psycopg.OperationalError as error:
        reason = _without_secrets(first_line(error), url)
        fix = "see that the server is up; a password is taken from PGPASSWORD, PGPASSFILE or the URL"
        raise refused("against", f"Postgres cannot be reached: {reason}", redacted(url), fix) from None
    except psycopg.Error:
        raise _unreadable(url) from None
    try:
        with closing(connection):
            connection.read_only = True
            with connection.cursor(name="latecomer") as cursor:
                cursor.execute(query.encode())
                names = [column.name for column in cursor.description or ()]
                return _table(names, cursor.fetchall() if names else [], query)
    except psycopg.Error as error:
        raise _query_failed("Postgres", _without_secrets(first_line(error), url), query) from None


def _unreadable(url: str) -> Exception:
    """libpq's own message is not shown: it may quote the password."""
    fix = "write it as postgresql://user@host:port/database, special characters as %XX"
    return refused("against", "is not a URL that Postgres can read", redacted(url), fix)


def _query_failed(database: str, reason: str, query: str) -> Exception:
    fix = "write one SELECT that gives window_start, the keys and the aggregates"
    return refused("query", f"{database} cannot answer it: {reason}", query, fix)


def first_line(error: BaseException) -> str:
    """The first line of an error's message; its class, where there is no message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _without_secrets(text: str, url: str) -> str:
    """A message in which no password appears, whoever wrote it."""
    try:
        parts = urlsplit(url)
        secrets = {parts.password, os.environ.get("PGPASSWORD")}
        secrets |= {value for name, value in parse_qsl(parts.query) if name.lower().endswith("password")}
    except ValueError:
        return "the URL cannot be read"
    secrets |= {unquote(secret) for secret in secrets if secret}
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]], query: str) -> pa.Table:
    if not names:
        raise refused("query", "returns no rows at all", query, "write one SELECT")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise refused("query", f"returns the column {twice[0]} twice", query, "name it once")
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table({name: _column(name, values) for name, values in zip(names, columns, strict=True)})


def _column(name: str, values: Sequence[Any]) -> pa.Array:
    """The values that a driver returned, as a column of the type that they share."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values))
    if kinds <= {int, Decimal}:
        return exact(values, name)
    if kinds <= {int, float, Decimal}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if kinds == {datetime}:
        if not any(value.tzinfo for value in values if value is not None):
            return pa.array(values, pa.timestamp("us"))  # the output has their zone
        aware = [value if value is None or value.tzinfo else value.replace(tzinfo=UTC) for value in values]
        return pa.array(aware, TIMESTAMP)
    for kind, arrow in ((date, pa.date32()), (bool, pa.bool_()), (bytes, pa.binary())):
        if kinds == {kind}:
            return pa.array(values, arrow)
    return pa.array([None if value is None else str(value) for value in values], pa.string())
