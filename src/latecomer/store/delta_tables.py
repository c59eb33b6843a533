"""Delta tables as delta-rs opens and makes them: apart from other files, for tasks read and write those and need no
delta-rs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

from latecomer.model.durations import UNITS
from latecomer.store.data_files import DataFile, statistics_of
from latecomer.store.files import Location, patiently, storage_options, url

CHECKPOINT_EVERY = 25
LOG_KEPT = UNITS["h"]
"""delta-rs lists a table's log, and reads all commits after the last checkpoint, each time that it commits. So there is
a checkpoint often, and commits that are older than this go (ADR 0088)."""
KEPT = 7 * UNITS["d"]
"""So long a table keeps files that were replaced, if nobody says otherwise."""


def properties(kept: int) -> dict[str, str]:
    """What a table says of itself to whoever reads it: how long it keeps commits, and files that were replaced.

    >>> properties(KEPT)["delta.deletedFileRetentionDuration"]
    'interval 604800 seconds'
    """
    return {
        "delta.checkpointInterval": str(CHECKPOINT_EVERY),
        "delta.logRetentionDuration": f"interval {LOG_KEPT // UNITS['s']} seconds",
        "delta.deletedFileRetentionDuration": f"interval {kept // UNITS['s']} seconds",
    }


NO_ONES: Mapping[str, int] = MappingProxyType({})


def open_delta(table: Location, version: int | None = None) -> DeltaTable:
    """A Delta table, as it is now or was at a version."""
    return patiently(
        table, lambda: DeltaTable(url(table), version=version, storage_options=storage_options(table))
    )


def create_delta(
    table: Location, schema: pa.Schema, settings: Mapping[str, str], transactions: Mapping[str, int] = NO_ONES
) -> DeltaTable:
    """A new Delta table, with its properties, and transactions that it carries from the beginning."""
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
    """A new Delta table of one file, for what is only needed meanwhile: it is not synced."""
    write_deltalake(url(table), rows)
    return open_delta(table)


def files_of(delta: DeltaTable) -> list[DataFile]:
    """Every file that a table is made of."""
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
    """What a commit says of files that it adds and takes out."""
    now = int(time.time() * 1000)
    return [
        *(AddAction(file.path, file.size, {}, now, data_change, statistics_of(file)) for file in added),
        *(RemoveAction(file.path, data_change, now, file.size, {}) for file in removed),
    ]


def name_files(delta: DeltaTable, files: Sequence[DataFile], schema: pa.Schema) -> None:
    """Make a table of files that are there, with what is known of them."""
    delta.create_write_transaction(actions_for(files, (), data_change=True), "append", schema)
    delta.update_incremental()
