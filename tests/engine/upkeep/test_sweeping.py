"""What is swept is what latecomer has written."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa

from latecomer.engine.upkeep.sweeping import Safe, swept
from latecomer.store.delta.commits import LOG, commit_file
from latecomer.store.delta.table import Table
from latecomer.store.delta.tables import CHECKPOINT_EVERY
from latecomer.store.files import write_table


def test_a_link_in_a_store_does_not_lead_to_other_files(tmp_path: Path) -> None:
    """A store may come from elsewhere, and a folder in it may be a link to one of the user's."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter.txt").write_text("keep me")
    table = Table(tmp_path / "table", pa.schema([("batch", pa.int64())]))
    table.append(0, pa.table({"batch": [0]}))
    dead = table.root / "data" / "0000000000-dead"
    dead.mkdir()
    (dead / "part.parquet").write_text("")
    (table.root / "data" / "0000000000-link").symlink_to(mine)
    (dead / "link").symlink_to(mine)
    long_ago = time.time() - 2 * 3600
    for file in (mine / "letter.txt", dead / "part.parquet"):
        os.utime(file, (long_ago, long_ago))
    assert swept(table, Safe(before=time.time() - 3600)) == [dead / "part.parquet"]


def test_what_was_replaced_lately_stays_though_its_commit_has_left_the_log(tmp_path: Path) -> None:
    """The table itself says when it was taken out, for as long as it keeps files."""
    table = Table(tmp_path / "table", pa.schema([("batch", pa.int64())]))
    table.append(0, pa.table({"batch": [0]}))
    replaced = table.files()
    merged = write_table(pa.table({"batch": [0]}), table.merged_folder(0, 0, "token") / "part.parquet")
    table.rearrange([merged], replaced)
    taken_out = commit_file(table.root, 2)
    for batch in range(1, 2 * CHECKPOINT_EVERY):
        table.append(batch, pa.table({"batch": [batch]}))
        for file in (table.root / LOG).iterdir():
            os.utime(file, (time.time() - 7200,) * 2)
    assert not taken_out.exists()
    now, file = time.time(), table.location(replaced[0])
    os.utime(file, (now - 10 * 3600,) * 2)
    assert swept(table, Safe(before=now - 3600)) == []
    assert swept(table, Safe(before=now + 1)) == [file]


def test_an_abandoned_file_goes_by_the_hour_in_which_it_was_written(tmp_path: Path) -> None:
    table = Table(tmp_path / "table", pa.schema([("batch", pa.int64())]))
    table.append(0, pa.table({"batch": [0]}))
    file = write_table(pa.table({"batch": [0]}), table.new_folder(0) / "part.parquet")
    for age, goes in ((1.5, False), (2.5, True)):
        os.utime(file, (time.time() - age * 3600,) * 2)
        assert swept(table, Safe(before=time.time() - 2 * 3600)) == ([file] if goes else [])
