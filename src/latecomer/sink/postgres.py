"""A table in a Postgres database. The rows of a batch are copied into a temporary table, and upserted from there.

docs/adr/0031 has the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from latecomer.config import postgres_server as server
from latecomer.config.contract import Shape
from latecomer.config.names import PRIVATE
from latecomer.config.sinks import LONGEST_NAME, PostgresSink
from latecomer.errors import SinkError, first_line
from latecomer.model.panes import Op, Timing
from latecomer.sink.base import Steps
from latecomer.sink.database import PROGRESS, DatabaseLogic
from latecomer.sink.postgres_rows import csv_parts, declared, place_digests, rounds
from latecomer.sink.postgres_views import one_row, run_sql, views_aside
from latecomer.store.failpoints import failpoint
from latecomer.store.private_columns import free_name
from latecomer.store.sql import double_quoted, listed

if TYPE_CHECKING:
    from latecomer.config.postgres_server import Connection

CORRECTIONS = "_corrections"
RESTING_SECONDS = 5.0
"""A connection that was unused for so long is tested before it is used."""
_PLACE = f"{PRIVATE}place"
_ROUND, _RETRACTS = f"{PRIVATE}round", f"{PRIVATE}retracts"
_STAGING = "pg_temp.latecomer_staging"
_MAKING = 0x6C617465
"""The advisory lock under which tables are made: two that are made at once would conflict in Postgres' catalogue."""


class PostgresLogic(DatabaseLogic):
    kind = PostgresSink.kind
    mark = "%s"
    lock = " FOR UPDATE"

    def __init__(self, sink: PostgresSink, base: Path, pipeline: str, shape: Shape) -> None:
        super().__init__(sink.place, pipeline, shape)
        self._target, self._base = sink.target, base
        self._schema, self._name = sink.schema_name, sink.table or shape.name
        self._shown = f"{self._schema}.{self._name}"
        self._table, self._progress_table = (self._quoted(name) for name in (self._name, PROGRESS))
        self._progress_named = self._progress_table.replace("%", "%%")  # for statements with values
        self._serves = sink.serving and not shape.appends
        self._connection: Connection | None = None
        self._was_open = False
        self._used_at = 0.0

    @property
    def _columns(self) -> dict[str, str]:
        columns = {field.name: declared(field.type) for field in self.shape.standing}
        return columns if self.shape.appends else {**columns, _PLACE: "uuid"}

    def open(self) -> None:
        self._require_names()
        with self._transaction() as database:
            self._require_database(database)
            self._prepare(database)
        self._was_open = True

    def peek(self) -> int:
        with self._errors_in_words(), closing(server.connect(self._target, self._base)) as database:
            database.read_only = True
            with server.transaction(database):
                return self._progress(database) if self._has_progress(database) else -1

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it may be broken
                connection.close()

    def _apply(self, batch: int, panes: pa.Table) -> None:
        super()._apply(batch, panes if self.shape.appends else self._staged(panes))

    def _append(self, database: Connection, rows: pa.Table, batch: int) -> None:
        copy_rows(database, self._table, rows.select(self.shape.schema.names))

    def _staged(self, panes: pa.Table) -> pa.Table:
        """The changes to make, each with its place and round."""
        places = place_digests(panes, self.shape.place)
        retracts = [op == Op.RETRACT for op in panes["op"].to_pylist()]
        numbers = pa.array(rounds(places, panes["sequence"].to_pylist(), retracts), pa.int32())
        staged = panes.select(self.shape.standing.names).append_column(_PLACE, pa.array(places, pa.string()))
        staged = staged.append_column(_ROUND, numbers).append_column(
            _RETRACTS, pa.array(retracts, pa.bool_())
        )
        return staged.filter(numbers.is_valid())

    def _upsert(self, database: Connection, staged: pa.Table, batch: int) -> None:
        columns = {**self._columns, _ROUND: "integer", _RETRACTS: "boolean"}
        run_sql(database, f"CREATE TEMPORARY TABLE latecomer_staging ({_definition(columns)}) ON COMMIT DROP")
        copy_rows(database, _STAGING, staged)
        failpoint("sink.postgres.copied", batch)
        kinds = set(zip(staged[_ROUND].to_pylist(), staged[_RETRACTS].to_pylist(), strict=True))
        if any(retracts for _, retracts in kinds):
            run_sql(database, f"ANALYZE {_STAGING}")  # else Postgres may scan the whole table
        for number, retracts in sorted(kinds, key=lambda kind: (kind[0], not kind[1])):
            run_sql(database, self._retract(number) if retracts else self._insert(number))
        if self._serves and Timing.CORRECTION in staged["timing"].unique().to_pylist():
            self._remove_taken_in(database, batch)

    def _remove_taken_in(self, database: Connection, batch: int) -> None:
        """Remove the corrections that are part of the rebuilt numbers of a batch."""
        name = f"{self._name}{CORRECTIONS}"
        if self._table_oid(database, name) is None:
            return
        last_batch = double_quoted(free_name("last_batch", [*self.shape.place, *self.shape.standing.names]))
        same = " AND ".join(
            f"stored.{column} IS NOT DISTINCT FROM staged.{column}"
            for column in map(double_quoted, self.shape.place)
        )
        run_sql(
            database,
            f"DELETE FROM {self._quoted(name)} AS stored USING {_STAGING} AS staged "
            f"WHERE staged.timing = '{Timing.CORRECTION}' AND stored.{last_batch} <= {batch} "
            f"AND stored.window_start = staged.window_start AND {same}",
        )

    def _retract(self, number: int) -> str:
        same = " AND ".join(f"stored.{name} = staged.{name}" for name in ("window_start", _PLACE, "sequence"))
        return (
            f"DELETE FROM {self._table} AS stored USING {_STAGING} AS staged "
            f"WHERE staged.{_ROUND} = {number} AND staged.{_RETRACTS} AND {same}"
        )

    def _insert(self, number: int) -> str:
        names = listed(self._columns)
        changed = ", ".join(
            f"{double_quoted(name)} = excluded.{double_quoted(name)}" for name in self._columns
        )
        return (
            f"INSERT INTO {self._table} AS stored ({names}) "
            f"SELECT {names} FROM {_STAGING} WHERE {_ROUND} = {number} AND NOT {_RETRACTS} "
            f"ON CONFLICT (window_start, {_PLACE}) DO UPDATE SET {changed} "
            "WHERE excluded.sequence > stored.sequence"
        )

    # Opening

    def _require_names(self) -> None:
        for what, name in (("table", self._name), *(("column", name) for name in self._columns)):
            fix = "give it a shorter name" if what == "table" else "rename it: columns: {SHORT: …}"
            self._require_short(name, f"{what} {name}", fix)
        if self._name == PROGRESS:
            raise self._refusal(f"the table {PROGRESS} holds the progress", "give the sink another table")

    def _require_short(self, name: str, shown: str, fix: str) -> None:
        if len(name.encode()) > LONGEST_NAME or "\0" in name:
            raise self._refusal(f"Postgres cuts names after {LONGEST_NAME} bytes ({shown})", fix)

    def _require_database(self, database: Connection) -> None:
        version, encoding = database.info.server_version, database.info.parameter_status("server_encoding")
        if version < server.OLDEST:
            raise self._refusal(f"the server is Postgres {version // 10000}", "use Postgres 12 or later")
        if encoding != "UTF8":
            raise self._refusal(
                f"the database is in {encoding}, which not every text can be written in",
                "use one with the encoding UTF8",
            )

    def _run(self, database: Connection, sql: str, *values: Any) -> Any:
        return run_sql(database, sql, *values)

    def _has_progress(self, database: Connection) -> bool:
        return self._table_oid(database, PROGRESS) is not None

    def _make_progress(self, database: Connection) -> None:
        """Nothing is made where all exists: so a user who may not make tables can write to them."""
        run_sql(database, "SELECT pg_advisory_xact_lock(%s)", _MAKING)
        if one_row(database, "SELECT 1 FROM pg_namespace WHERE nspname = %s", self._schema) is None:
            run_sql(database, f"CREATE SCHEMA {double_quoted(self._schema)}")
        if not self._has_progress(database):
            columns = "pipeline text NOT NULL, output text NOT NULL, batch bigint NOT NULL"
            run_sql(database, f"CREATE TABLE {self._progress_table} (sink_table text PRIMARY KEY, {columns})")

    def _existing_columns(self, database: Connection) -> dict[str, str]:
        table = self._table_oid(database, self._name)
        return {} if table is None else dict(run_sql(database, _COLUMNS, table).fetchall())

    def _wanted_columns(self, database: Connection) -> dict[str, str]:
        return self._columns

    def _create(self, database: Connection) -> None:
        run_sql(database, f"CREATE TABLE {self._table} ({_definition(self._columns)})")

    def _index(self, database: Connection) -> None:
        unique = (self._table_oid(database, self._name), ["window_start", _PLACE])
        if not self.shape.appends and one_row(database, _UNIQUE, *unique) is None:
            run_sql(database, f"CREATE UNIQUE INDEX ON {self._table} (window_start, {_PLACE})")

    def _table_oid(self, database: Connection, name: str) -> int | None:
        """Postgres' own number of a table; None where there is none."""
        row = one_row(database, _TABLE, self._schema, name)
        if row is not None and row[1] not in ("r", "p"):
            raise self._refusal(f"{self._schema}.{name} is no table", "give the sink another table")
        return None if row is None else int(row[0])

    def _follow(self, database: Connection, found: Mapping[str, str]) -> None:
        """The order of columns does not matter."""
        in_order = sorted(found, key=[*self._columns, *found].index)
        super()._follow(database, {name: found[name] for name in in_order})

    def _take_steps(self, database: Connection, existing: Mapping[str, str], steps: Steps) -> None:
        """Change the table in the transaction that has read its columns."""
        not_null = run_sql(database, _NOT_NULL, self._table_oid(database, self._name)).fetchall()
        if required := [name for (name,) in not_null if name not in self._columns]:
            raise self._refusal(
                f"the table {self._shown} has a column {required[0]} of somebody else's that may not be null",
                "drop NOT NULL of it",
            )
        changes = [f"ADD COLUMN {double_quoted(name)} {kind}" for name, kind in steps.added.items()]
        changes += [f"ALTER COLUMN {double_quoted(name)} TYPE {kind}" for name, kind in steps.widened.items()]
        if not changes:
            return
        statement = f"ALTER TABLE {self._table} {', '.join(changes)}"
        columns = ", ".join((*steps.added, *steps.widened))
        try:
            with views_aside(database, self._schema, self._name) if steps.widened else nullcontext():
                run_sql(database, statement)
        except server.driver().errors.InsufficientPrivilege:
            raise self._refusal(
                f"the table {self._shown} has to follow its columns ({steps}), and the user of the target may not "
                "change it",
                f"have its owner run: {statement}",
            ) from None
        except server.driver().errors.FeatureNotSupported as error:
            raise self._refusal(
                f"the type of {columns} cannot be widened in the table {self._shown} ({first_line(error)})",
                f"drop the view that uses it, run {statement}, and make the view again",
            ) from None

    def _quoted(self, name: str) -> str:
        return f"{double_quoted(self._schema)}.{double_quoted(name)}"

    # The connection

    @contextmanager
    def _transaction(self, batch: int | None = None) -> Iterator[Connection]:
        with self._errors_in_words(batch):
            if self._connection is not None and not self._is_usable(self._connection):
                self.close()
            if self._connection is None:
                self._connection = server.connect(self._target, self._base)
            with server.transaction(self._connection):
                yield self._connection
            self._used_at = monotonic()

    def _is_usable(self, connection: Connection) -> bool:
        """Whether a connection works. A server or firewall may have ended one that was idle: that is no outage."""
        return monotonic() - self._used_at < RESTING_SECONDS or server.answers(connection)

    @contextmanager
    def _errors_in_words(self, batch: int | None = None) -> Iterator[None]:
        try:
            yield
        except SinkError:
            self.close()
            raise
        except server.Unreachable as error:
            text, _, fix = str(error).partition("; ")
            raise self._refusal(text, fix, batch) from None
        except Exception as error:
            if not isinstance(error, server.driver().Error):
                raise
            self.close()
            reason = server.reason_of(error, self._was_open)
            refuse = self._outage if reason.passes else self._refusal
            raise refuse(reason.text, reason.fix, batch) from error


_TABLE = """
SELECT c.oid, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s
"""
_COLUMNS = """
SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_NOT_NULL = """
SELECT attname::text FROM pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attnotnull AND NOT atthasdef
"""
_UNIQUE = """
SELECT 1 FROM pg_index i WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
AND %s::text[] = ARRAY(
  SELECT a.attname::text FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (number, nth)
  LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number ORDER BY nth)
"""


def copy_rows(database: Connection, table: str, rows: pa.Table) -> None:
    statement = f"COPY {table} ({listed(rows.column_names)}) FROM STDIN (FORMAT csv)"
    with database.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        for part in csv_parts(rows):
            copy.write(part)


def _definition(columns: dict[str, str]) -> str:
    return ", ".join(
        f"{double_quoted(name)} {kind}{' NOT NULL' if name == _PLACE else ''}"
        for name, kind in columns.items()
    )
