"""What delta-rs reads with every commit stays short, and nobody misses what is no longer there."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from latecomer.errors import StoreError
from latecomer.store.commits import LOG, commit_file
from latecomer.store.short_log import CHECKPOINT_EVERY, OLD, commits_since
from latecomer.store.table import Table

SCHEMA = pa.schema([("batch", pa.int64())])
HOURS = 3600.0
DAYS = 24 * HOURS
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
    age((table.root / LOG).glob("*.checkpoint.parquet"), 2 * HOURS)


def rows(table: Table) -> int:
    return sum(file.rows for file in Table(table.root, SCHEMA).files())


def test_a_commit_reads_few_commits_again(table: Table) -> None:
    commit(table, SECOND + 3)
    assert checkpoints(table) == [FIRST, SECOND]
    assert rows(table) == SECOND + 3


def test_a_table_stays_readable_as_it_was_a_moment_ago(table: Table) -> None:
    commit(table, SECOND)
    age((table.root / LOG).glob("*.checkpoint.parquet"), 0.5 * HOURS)
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
    assert len(list((table.root / OLD).rglob("*.json"))) == SECOND
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
    # What was not asked before is found too: as it was then.
    assert (opened.last_batch(), opened.last_batch("another"), opened.reached_by("neighbour")) == (
        *(FIRST - 1, FIRST),
        7,
    )
    with pytest.raises(StoreError, match="cannot be used"):
        opened.last_batch("nobody")
    opened.refresh()
    assert (opened.last_batch(), opened.last_batch("nobody")) == (table.last_batch(), -1)
    assert len(opened.files()) == len(table.files())


def test_old_commits_are_kept_for_a_month(table: Table) -> None:
    """Upkeep reads in them which files have been taken out of the table lately."""
    commit(table, FIRST)
    age([commit_file(table.root, version) for version in range(5)], 40 * DAYS)
    age([commit_file(table.root, version) for version in range(5, 10)], 20 * DAYS)
    hours_pass(table)
    commit(table, SECOND)
    assert commits(table)[0] == FIRST
    assert batches_since(table, 0.0) == batches_since(table, -1e15) == list(range(4, SECOND))
    assert batches_since(table, time.time() - 10 * DAYS) == list(range(9, SECOND))


def batches_since(table: Table, moment: float) -> list[int]:
    """The batches whose commits are known: batch 4 is version 5."""
    lines = (json.loads(line) for commit in commits_since(table.root, moment) for line in commit.splitlines())
    return sorted(line["txn"]["version"] for line in lines if "txn" in line)
