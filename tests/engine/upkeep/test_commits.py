"""What Delta does when two writers meet: the facts that the rules of upkeep rest on (ADR 0017)."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import RemoveAction

from latecomer.engine.upkeep.file_merging import merge, plan_merge
from latecomer.engine.upkeep.plan import Group, joined
from latecomer.errors import StoreError
from latecomer.store.delta.data_files import DataFile, batches_of, is_merged
from latecomer.store.delta.table import Table

SCHEMA = pa.schema([("batch", pa.int64()), ("paise", pa.int64())])


def table_of(folder: Path, batches: int = 4) -> Table:
    table = Table(folder / "t", SCHEMA)
    for batch in range(batches):
        table.append(batch, rows(batch))
    return table


def rows(batch: int) -> pa.Table:
    return pa.table({"batch": [batch] * 3, "paise": [1, 2, batch]}, SCHEMA)


def counted(table: Table) -> dict[int, int]:
    """Batch → rows, as whoever opens the table now sees them."""
    found = Table(table.root, SCHEMA).query("select batch, count(*) as n from t group by batch")
    return {row["batch"]: row["n"] for row in found.to_pylist()}


def merged(table: Table, group: Group) -> list[DataFile]:
    planned = plan_merge(table, group)
    assert planned is not None
    return merge(table, planned)


def test_a_writer_that_has_not_seen_a_merge_goes_on(tmp_path: Path) -> None:
    engine = table_of(tmp_path)
    before = engine.files()
    merged(Table(engine.root, SCHEMA), Group(before[:3]))
    engine.append(4, rows(4))
    assert counted(engine) == dict.fromkeys(range(5), 3)
    assert engine.last_batch() == 4
    engine.append(4, rows(4))  # twice is once, also after a merge
    assert counted(engine) == dict.fromkeys(range(5), 3)


def test_a_merge_that_has_not_seen_a_batch_goes_on(tmp_path: Path) -> None:
    engine = table_of(tmp_path)
    upkeep = Table(engine.root, SCHEMA)
    seen = upkeep.files()
    engine.append(4, rows(4))
    merged(upkeep, Group(seen))
    assert counted(engine) == dict.fromkeys(range(5), 3)
    assert Table(engine.root, SCHEMA).last_batch() == 4


def test_a_writer_may_replace_files_beside_a_merge_of_others(tmp_path: Path) -> None:
    engine = table_of(tmp_path)
    mine = [file for file in engine.files() if batches_of(file)[0] == 3]
    merged(Table(engine.root, SCHEMA), Group([file for file in engine.files() if file not in mine]))
    folder = engine.new_folder(4)
    folder.mkdir(parents=True)
    pq.write_table(rows(4), folder / "part.parquet")
    engine.commit(4, [folder / "part.parquet"], mine)
    assert counted(engine) == {0: 3, 1: 3, 2: 3, 4: 3}


def test_delta_would_refuse_a_writer_if_a_removal_said_that_data_changed(tmp_path: Path) -> None:
    engine = table_of(tmp_path)
    engine.files()
    delta = DeltaTable(str(engine.root))
    gone = engine.files()[0]
    delta.create_write_transaction(
        [RemoveAction(gone.path, True, 0, gone.size, {})], "append", delta.schema()
    )
    with pytest.raises(StoreError, match=r"changed by somebody else .* deleted data this operation read"):
        engine.append(4, rows(4))


def test_nobody_takes_a_file_out_twice(tmp_path: Path) -> None:
    """Delta would let it happen, and what came in its place would count twice."""
    engine = table_of(tmp_path)
    seen = engine.files()
    merged(Table(engine.root, SCHEMA), Group(seen))
    with pytest.raises(StoreError, match="is no longer part of it"):
        merged(engine, Group(seen))
    assert counted(engine) == dict.fromkeys(range(4), 3)
    engine = Table(engine.root, SCHEMA)
    with pytest.raises(StoreError, match="is no longer part of it"):
        engine.commit(5, [], seen)


def test_a_merge_never_changes_how_many_rows_there_are(tmp_path: Path) -> None:
    engine = table_of(tmp_path)
    lying = [DataFile(file.path, file.size, file.rows + 1) for file in engine.files()]
    with pytest.raises(StoreError, match="16 rows were to be merged and 12 were written"):
        merged(engine, Group(lying))
    assert counted(engine) == dict.fromkeys(range(4), 3)


def test_real_commits_and_real_merges_side_by_side(tmp_path: Path) -> None:
    """One thread commits batches as fast as it can, the other merges what is complete."""
    engine = table_of(tmp_path)
    last = 60
    over = threading.Event()

    def write() -> None:
        for batch in range(4, last):
            engine.append(batch, rows(batch))
        over.set()

    writing = threading.Thread(target=write)
    writing.start()
    upkeep, merges = Table(engine.root, SCHEMA), 0
    while not over.is_set() or merges < 2:
        upkeep.refresh()
        for group in joined(upkeep.files()):
            merged(upkeep, group)
            merges += 1
    writing.join()
    assert counted(engine) == dict.fromkeys(range(last), 3)
    assert Table(engine.root, SCHEMA).last_batch() == last - 1
    assert len(Table(engine.root, SCHEMA).files()) < last / 2


def test_a_table_tells_the_rows_of_a_batch_whatever_file_they_are_in(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    merged(table, Group(table.files()[:2]))
    assert [table.rows_of(batch) for batch in range(6)] == [3, 3, 3, 3, 0, 0]
    assert sorted(map(is_merged, table.files())) == [False, False, True]


def test_who_opened_a_table_before_a_merge_reads_on(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    reader = DeltaTable(str(table.root))
    merged(table, Group(table.files()))
    assert pa.table(reader.to_pyarrow_table()).num_rows == 12
