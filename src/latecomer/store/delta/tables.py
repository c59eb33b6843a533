"""Opening, making and querying Delta tables with delta-rs, and its errors in one sentence.

This is apart from `files.py`, because tasks read and write files and need no delta-rs.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from latecomer.errors import StoreError, first_line
from latecomer.errors.system import refusal_of, refused_in_words
from latecomer.model.durations import UNITS
from latecomer.store import files as fs
from latecomer.store.delta.data_files import DataFile, statistics_of
from latecomer.store.files import Location, retry_reads, storage_options, url
from latecomer.store.sql import double_quoted

CHECKPOINT_EVERY = 25
LOG_KEPT = UNITS["h"]
"""How long commits are kept. With each commit, delta-rs lists the log of the table and reads all commits after the last
checkpoint. So checkpoints are frequent, and older commits are removed (ADR 0088)."""
KEPT = 7 * UNITS["d"]
"""How long a table keeps replaced files by default."""


def properties(kept: int) -> dict[str, str]:
    """The properties of a table for its readers: how long it keeps commits and replaced files.

    >>> properties(KEPT)["delta.deletedFileRetentionDuration"]
    'interval 604800 seconds'
    """
    return {
        "delta.checkpointInterval": str(CHECKPOINT_EVERY),
        "delta.logRetentionDuration": f"interval {LOG_KEPT // UNITS['s']} seconds",
        "delta.deletedFileRetentionDuration": f"interval {kept // UNITS['s']} seconds",
    }


NO_TRANSACTIONS: Mapping[str, int] = MappingProxyType({})


def open_delta(table: Location, version: int | None = None) -> DeltaTable:
    """A Delta table, now or at a version."""
    return retry_reads(
        table, lambda: DeltaTable(url(table), version=version, storage_options=storage_options(table))
    )


def create_delta(
    table: Location,
    schema: pa.Schema,
    settings: Mapping[str, str],
    transactions: Mapping[str, int] = NO_TRANSACTIONS,
) -> DeltaTable:
    """A new Delta table with these properties and its first application transactions."""
    return DeltaTable.create(
        url(table),
        schema,
        configuration={**settings},
        storage_options=storage_options(table),
        commit_properties=CommitProperties(
            app_transactions=[Transaction(*each) for each in transactions.items()]
        ),
    )


def write_delta(table: Location, rows: pa.Table) -> DeltaTable:
    """A new Delta table of one file, for temporary use: it is not synced."""
    write_deltalake(url(table), rows)
    return open_delta(table)


def files_of(delta: DeltaTable) -> list[DataFile]:
    """All files of a table."""
    return [
        DataFile(
            action["path"],
            action["size_bytes"],
            action["num_records"],
            {name[4:]: value for name, value in action.items() if name.startswith("min.")},
            {name[4:]: value for name, value in action.items() if name.startswith("max.")},
        )
        for action in pa.table(delta.get_add_actions(flatten=True)).to_pylist()
    ]


def actions_for(
    added: Iterable[DataFile], removed: Iterable[DataFile], data_change: bool
) -> list[AddAction | RemoveAction]:
    """The entries of a commit for files that it adds and removes."""
    now = int(time.time() * 1000)
    return [
        *(AddAction(file.path, file.size, {}, now, data_change, statistics_of(file)) for file in added),
        *(RemoveAction(file.path, data_change, now, file.size, {}) for file in removed),
    ]


# Queries without Spark

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


# Errors


@contextmanager
def explained(root: Location) -> Iterator[None]:
    """Errors of Delta, Arrow and the file system about a table become a `StoreError` of one sentence."""
    try:
        yield
    except (DeltaError, pa.ArrowException, OSError) as error:
        if (outage := fs.outage(root, error)) is not None:
            raise outage from error
        raise StoreError(_in_one_sentence(root, error)) from error


def is_overtaken(error: StoreError) -> bool:
    """Whether a commit was refused because another one with a transaction of the same application came first."""
    return isinstance(error.__cause__, CommitFailedError) and "Concurrent transaction" in str(error.__cause__)


def _in_one_sentence(root: Location, error: Exception) -> str:
    if (refusal := refusal_of(error)) is not None:
        return f"table {root} cannot be used: {refused_in_words(refusal, None)}"
    if isinstance(error, CommitFailedError):
        reason = f"was changed by somebody else meanwhile ({first_line(error)})"
        fix = "let only one run write to it, and run again"
    elif not fs.is_folder(root):
        reason, fix = "is not there any more", "put the store back, or start a new one"
    else:
        reason = f"cannot be used ({first_line(error)})"
        fix = "restore it from a copy, or start a new store and read the source again"
    return f"table {root} {reason}; {fix}"
