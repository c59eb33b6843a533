"""The other side of a reconciliation: a file, a folder, a Delta table, or a query on a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from latecomer.after.reading.comparable_values import refused
from latecomer.after.reconcile.databases import ask_postgres, ask_sqlite, first_line, is_postgres
from latecomer.config.arguments import path_of
from latecomer.errors import did_you_mean
from latecomer.errors.redacting import redacted

LOG = "log"
SQLITE = "sqlite:"
_KINDS = "log, a Parquet file or folder, a CSV file, a Delta table, sqlite:PATH or postgresql://…"


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
    with pc_csv.open_csv(path) as reader:
        names = reader.schema.names
    return pc_csv.read_csv(
        path,
        convert_options=pc_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )


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
