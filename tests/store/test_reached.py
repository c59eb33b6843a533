"""What a commit says of other tables does not make it whole: its own transaction, the last line, does."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from latecomer.errors import TornCommit
from latecomer.store.commits import commit_file
from latecomer.store.table import Table

SCHEMA = pa.schema([("batch", pa.int64())])


def test_a_commit_without_its_last_line_is_torn(tmp_path: Path) -> None:
    table = Table(tmp_path, SCHEMA)
    table.append(3, pa.table({"batch": [3]}), reached={"outputs/totals/panes": 2, "late": -1})
    assert (table.reached_by("outputs/totals/panes"), table.reached_by("late")) == (2, -1)
    commit = commit_file(tmp_path, 1)
    lines = commit.read_bytes().splitlines(keepends=True)
    commit.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(TornCommit, match=commit.name):
        Table(tmp_path, SCHEMA).last_batch()
