"""What files.py offers is the same in a folder and at a URL (ADR 0087)."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import azure_kit
from azure_kit import Container
from hdfs_kit import Folder
from latecomer.errors import StoreError
from latecomer.store import files
from latecomer.store.delta.tables import create_delta, open_delta
from latecomer.store.files import Location
from s3_kit import Bucket

ROWS = pa.table({"a": range(1000), "b": [str(each) for each in range(1000)]})


@pytest.fixture(
    params=[
        "folder",
        "bucket",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("hdfs_folder", "container")),
    ]
)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "folder":
        return tmp_path / "lake"
    place: Bucket | Folder | Container = request.getfixturevalue(request.param)
    return place.url / "lake"


def test_nothing_is_there_at_first(root: Location) -> None:
    assert not files.exists(root / "x")
    assert not files.is_folder(root)
    assert files.names(root) == []
    assert files.sizes(root, "") == {}
    assert files.files_below(root) == []
    assert files.read_tagged(root / "x") is None
    files.remove(root / "x")
    files.remove_all(root)
    with pytest.raises(FileNotFoundError):
        files.read_bytes(root / "x")


def test_what_was_written_is_found_by_name_size_and_content(root: Location) -> None:
    files.make_folder(root / "in")
    files.replace_text(root / "in" / "a b=1,é%20.json", "späte")
    files.replace_bytes(root / "in" / "empty", b"")
    files.write_table(ROWS, root / "in" / "deep" / "x.parquet")
    assert files.names(root) == ["in"]
    assert files.names(root / "in") == ["a b=1,é%20.json", "deep", "empty"]
    assert files.sizes(root / "in", ".json") == {"a b=1,é%20.json": 6}
    assert files.files_below(root) == [
        root / "in" / "a b=1,é%20.json",
        root / "in" / "deep" / "x.parquet",
        root / "in" / "empty",
    ]
    assert files.parquet_files(root) == [root / "in" / "deep" / "x.parquet"]
    assert files.read_text(root / "in" / "a b=1,é%20.json") == "späte"
    assert files.read_bytes(root / "in" / "empty") == b""
    assert files.size(root / "in" / "empty") == 0
    assert files.read_end(root / "in" / "deep" / "x.parquet", 4) == b"PAR1"
    assert files.is_folder(root / "in")
    assert not files.is_file(root / "in")
    assert files.is_file(root / "in" / "empty")
    assert files.exists(root / "in")


def test_what_is_moved_copied_and_removed(root: Location) -> None:
    files.make_folder(root)
    files.replace_bytes(root / "a", b"1")
    files.copy(root / "a", root / "c" / "b")
    assert files.move(root / "a", root / "d" / "e" / "a") == root / "d" / "e" / "a"
    assert files.names(root) == ["c", "d"]
    files.remove(root / "c" / "b")
    files.remove_empty(root / "c", root)
    assert files.names(root) == ["d"]
    files.remove_all(root / "d")
    assert files.names(root) == []


def test_rows_are_read_as_they_were_written(root: Location) -> None:
    first = files.write_table(ROWS, root / "first.parquet", unique=("b",))
    with files.new_parquet(root / "second.parquet", ROWS.schema) as writer:
        writer.write_table(ROWS.slice(0, 10))
        writer.write_table(ROWS.slice(10, 10))
    with files.new_arrow(root / "third.arrow", ROWS.schema) as arrow:
        arrow.write_table(ROWS)
    assert files.footer(first).num_rows == 1000
    assert files.read_table(first, ["b"]) == ROWS.select(["b"])
    assert files.dataset([first, root / "second.parquet"]).count_rows() == 1020
    with files.open_parquet(root / "second.parquet") as opened:
        assert opened.num_row_groups == 2
    assert files.open_arrow(root / "third.arrow").read_all() == ROWS
    files.remove(root / "third.arrow")
    assert files.read_table(root).num_rows == 1020


def test_rows_of_many_parts(root: Location) -> None:
    rows = pa.table({"a": [f"{each * 7919:032d}" for each in range(900_000)]})
    file = files.write_table(rows, root / "large.parquet", unique=("a",))
    assert files.size(file) > 3 << 20
    assert files.read_table(file) == rows


def test_a_delta_table(root: Location) -> None:
    files.make_folder(root / "table")
    made = create_delta(root / "table", ROWS.schema, {"delta.checkpointInterval": "25"})
    assert made.version() == 0
    opened = open_delta(root / "table")
    assert isinstance(opened, DeltaTable)
    assert files.names(root / "table" / "_delta_log") == [f"{0:020d}.json"]


def test_a_new_file_has_one_writer(root: Location) -> None:
    with ThreadPoolExecutor(8) as pool:
        tags = list(pool.map(lambda nth: files.put_if(root / "lease", b"%d" % nth, None), range(8)))
    (winner,) = [nth for nth, tag in enumerate(tags) if tag is not None]
    assert files.read_tagged(root / "lease") == (b"%d" % winner, tags[winner])


def test_a_file_is_replaced_by_whoever_has_its_tag(root: Location) -> None:
    before = files.put_if(root / "lease", b"before", None)
    assert before is not None
    with ThreadPoolExecutor(8) as pool:
        tags = list(pool.map(lambda nth: files.put_if(root / "lease", b"%d" % nth, before), range(8)))
    (winner,) = [nth for nth, tag in enumerate(tags) if tag is not None]
    assert files.read_tagged(root / "lease") == (b"%d" % winner, tags[winner])
    assert files.put_if(root / "lease", b"late", before) is None


def test_a_file_that_is_gone_is_not_replaced(root: Location) -> None:
    tag = files.put_if(root / "lease", b"1", None)
    assert tag is not None
    files.remove(root / "lease")
    assert files.put_if(root / "lease", b"2", tag) is None
    assert files.read_tagged(root / "lease") is None
    assert files.put_if(root / "lease", b"3", None) is not None


def test_a_location_is_joined_cut_compared_and_printed(bucket: Bucket) -> None:
    root = bucket.url / "lake"
    assert str(root) == f"s3://{bucket.name}/lake"
    assert str((root / "a" / "b").relative_to(root)) == "a/b"
    assert (root / "a").parent == root
    assert pickle.loads(pickle.dumps(root)) == root
    assert {root: 1}[root.with_name("lake")] == 1
    assert root in (root / "a" / "b").parents


def test_a_bucket_that_is_not_there_is_named(bucket: Bucket) -> None:
    other = Bucket(bucket.endpoint, "nowhere").url
    with pytest.raises(StoreError, match=r"s3://nowhere/x cannot be used: there is no such bucket; make it"):
        files.replace_bytes(other / "x", b"")


@pytest.mark.long
def test_an_endpoint_of_azure_is_that_of_the_pipeline_file(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*azure_kit.EMULATED, "AZURITE_BLOB_STORAGE_URL"):
        monkeypatch.delenv(name)
    create_delta(container.url / "table", ROWS.schema, {})
    assert files.put_if(container.url / "file", b"1", None) is not None
    assert files.put_if(container.url / "file", b"2", None) is None
    assert open_delta(container.url / "table").version() == 0
