"""How far a table is: what a commit says of it, and what threads that ask side by side see of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from latecomer.errors import TornCommit
from latecomer.store.delta.commits import commit_file
from latecomer.store.delta.table import Table
from latecomer.store.delta.tables import open_delta

SCHEMA = pa.schema([("batch", pa.int64())])


def test_a_table_is_opened_while_another_thread_commits(tmp_path: Path) -> None:
    """A batch is completed beside the next one: both may be the first to ask for a table. A commit on what was read
    before another one is refused."""
    Table(tmp_path, SCHEMA).append(0, pa.table({"batch": [0]}))
    table, opened, committed = Table(tmp_path, SCHEMA), Event(), Event()

    def slow(root: Path) -> DeltaTable:
        found = open_delta(root)
        opened.set()
        assert committed.wait(60)
        return found

    with ThreadPoolExecutor(1) as pool:
        with patch("latecomer.store.delta.readable.open_delta", slow):
            asked = pool.submit(table.last_batch)
            assert opened.wait(60)
        table.append(1, pa.table({"batch": [1]}))
        committed.set()
        assert asked.result() == 1
    table.append(2, pa.table({"batch": [2]}))
    assert table.last_batch() == 2


def test_a_commit_without_its_last_line_is_torn(tmp_path: Path) -> None:
    table = Table(tmp_path, SCHEMA)
    table.append(3, pa.table({"batch": [3]}), reached={"outputs/totals/panes": 2, "late": -1})
    assert (table.reached_by("outputs/totals/panes"), table.reached_by("late")) == (2, -1)
    commit = commit_file(tmp_path, 1)
    lines = commit.read_bytes().splitlines(keepends=True)
    commit.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(TornCommit, match=commit.name):
        Table(tmp_path, SCHEMA).last_batch()
