"""Opening and making Delta tables with delta-rs.

This is apart from `files.py`, because tasks read and write files and need no delta-rs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

from latecomer.model.durations import UNITS
from latecomer.store.data_files import DataFile, statistics_of
from latecomer.store.files import Location, retry_reads, storage_options, url

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


def name_files(delta: DeltaTable, files: Sequence[DataFile], schema: pa.Schema) -> None:
    """Add existing files to a table, with their statistics."""
    delta.create_write_transaction(actions_for(files, (), data_change=True), "append", schema)
    delta.update_incremental()
