"""What delta-rs reads with every commit stays short, and nobody misses what is no longer there."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from latecomer.errors import StoreError
from latecomer.model.durations import UNITS
from latecomer.store.delta.commits import LOG, commit_file
from latecomer.store.delta.table import Table
from latecomer.store.delta.tables import CHECKPOINT_EVERY, KEPT, properties
from latecomer.store.files import write_table

SCHEMA = pa.schema([("batch", pa.int64())])
HOURS = 3600.0
FIRST, SECOND, THIRD = (nth * CHECKPOINT_EVERY - 1 for nth in (1, 2, 3))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "events", SCHEMA)


def commit(table: Table, until: int) -> None:
    """Commit batches until the table has a version. The first version, 0, has none."""
    for batch in range(table.last_batch() + 1, until):
        table.append(batch, pa.table({"batch": [batch]}))


def checkpoints(table: Table) -> list[int]:
    return sorted(int(file.name[:20]) for file in (table.root / LOG).glob("*.checkpoint.parquet"))


def commits(table: Table) -> list[int]:
    return sorted(int(file.stem) for file in (table.root / LOG).glob("*.json"))


def age(files: Iterable[Path], seconds: float) -> None:
    for file in files:
        os.utime(file, (time.time() - seconds,) * 2)


def hours_pass(table: Table) -> None:
    age((table.root / LOG).iterdir(), 2 * HOURS)


def rows(table: Table) -> int:
    return sum(file.rows for file in Table(table.root, SCHEMA).files())


def test_a_commit_reads_few_commits_again(table: Table) -> None:
    commit(table, SECOND + 3)
    assert checkpoints(table) == [FIRST, SECOND]
    assert rows(table) == SECOND + 3


def test_a_table_stays_readable_as_it_was_a_moment_ago(table: Table) -> None:
    commit(table, SECOND)
    age((table.root / LOG).iterdir(), 0.5 * HOURS)
    commit(table, THIRD)
    assert checkpoints(table) == [FIRST, SECOND, THIRD]
    assert commits(table) == list(range(THIRD + 1))


def test_what_came_before_the_checkpoint_of_an_hour_ago_leaves_the_log(table: Table) -> None:
    """Each checkpoint names every file of the table: kept for a month, they would take more room than the table."""
    commit(table, SECOND)
    hours_pass(table)
    commit(table, THIRD)
    assert checkpoints(table) == [SECOND, THIRD]
    assert commits(table) == list(range(SECOND, THIRD + 1))
    assert rows(table) == THIRD
    assert (
        DeltaTable(table.root, version=THIRD - 1).version() == THIRD - 1
    )  # an interrupted batch begins there


@pytest.mark.parametrize("seed", range(6))
def test_a_log_that_was_shortened_in_part_is_as_good(table: Table, seed: int) -> None:
    """A power cut leaves any of the files where they were."""
    commit(table, SECOND)
    before = {file: file.read_bytes() for file in (table.root / LOG).iterdir()}
    hours_pass(table)
    commit(table, THIRD)
    gone = sorted(file for file in before if not file.exists())
    assert len(gone) == SECOND + 1  # the commits before the second checkpoint, and the first one
    for file in random.Random(seed).sample(gone, len(gone) // 2):
        file.write_bytes(before[file])
    again = Table(table.root, SCHEMA)
    assert (again.last_batch(), rows(again)) == (THIRD - 1, THIRD)
    commit(again, 4 * CHECKPOINT_EVERY - 1)
    assert rows(again) == 4 * CHECKPOINT_EVERY - 1


def test_whoever_has_a_table_open_reads_on(table: Table) -> None:
    commit(table, FIRST)
    table.append(FIRST, pa.table({"batch": [FIRST]}), "another", {"neighbour": 7})
    opened = Table(table.root, SCHEMA)
    assert len(opened.files()) == FIRST + 1
    for until in (SECOND, THIRD):
        hours_pass(table)
        commit(table, until)
    assert not commit_file(table.root, FIRST + 1).exists()
    assert opened.last_batch() == FIRST - 1
    assert len(opened.files()) == FIRST + 1
    with pytest.raises(StoreError, match=r"opened more than 1h ago.*ask again"):
        opened.last_batch("nobody")
    opened.refresh()
    assert (opened.last_batch(), opened.last_batch("nobody")) == (table.last_batch(), -1)
    assert (opened.last_batch("another"), opened.reached_by("neighbour")) == (FIRST, 7)
    assert len(opened.files()) == len(table.files())


def test_a_table_says_how_long_it_keeps_what(table: Table) -> None:
    """Whoever reads it with another program goes by that."""
    table.append(0, pa.table({"batch": [0]}))
    assert DeltaTable(table.root).metadata().configuration == properties(KEPT)
    assert properties(KEPT) == {
        "delta.checkpointInterval": "25",
        "delta.logRetentionDuration": "interval 3600 seconds",
        "delta.deletedFileRetentionDuration": "interval 604800 seconds",
    }


def test_a_table_of_an_earlier_version_says_so_from_its_next_batch_on(tmp_path: Path) -> None:
    root = tmp_path / "events"
    DeltaTable.create(root, SCHEMA, configuration={"delta.checkpointInterval": "100"})
    moved = root / "_old_commits" / "2026-01-01" / "00000000000000000000.json"
    moved.parent.mkdir(parents=True)
    moved.write_text("{}")
    table = Table(root, SCHEMA, kept=2 * KEPT)
    assert table.last_batch() == -1
    assert moved.exists()  # reading changes nothing
    for batch in range(2):
        table.append(batch, pa.table({"batch": [batch]}))
    assert DeltaTable(root).metadata().configuration == properties(2 * KEPT)
    assert not moved.exists()
    assert commits(table) == [0, 1, 2, 3]  # it is said once


def test_files_that_were_replaced_are_forgotten_after_as_long_as_they_are_kept(tmp_path: Path) -> None:
    """Else every checkpoint would name all files that there ever were."""
    table = Table(tmp_path / "states", SCHEMA, kept=KEPT)
    for batch in range(3 * CHECKPOINT_EVERY):
        file = write_table(pa.table({"batch": [batch]}), table.new_folder(batch) / "part.parquet")
        table.commit(batch, [file], table.files())
    assert tombstones(table) > CHECKPOINT_EVERY
    table.kept, table._has_properties = UNITS["s"], False
    time.sleep(1.1)  # what Delta keeps goes by the clock of the machine
    for batch in range(3 * CHECKPOINT_EVERY, 4 * CHECKPOINT_EVERY):
        table.append(batch, pa.table({"batch": [batch]}))
    assert tombstones(table) == 0


def tombstones(table: Table) -> int:
    """How many files the newest checkpoint says were taken out."""
    newest = max((table.root / LOG).glob("*.checkpoint.parquet"))
    return pq.read_table(newest).column("remove").drop_null().length()
