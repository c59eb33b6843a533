"""What is swept is what latecomer has written."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa

from latecomer.after.upkeep.sweeping import Safe, swept
from latecomer.store.table import Table


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
    long_ago = time.time() - 1000
    for file in (mine / "letter.txt", dead / "part.parquet"):
        os.utime(file, (long_ago, long_ago))
    assert swept(table, Safe(before=time.time() - 100)) == [dead / "part.parquet"]
