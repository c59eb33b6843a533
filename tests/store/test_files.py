"""What store/files.py promises whoever keeps something in a store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path, PurePath

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from latecomer.store import files
from latecomer.store.delta.tables import create_delta, open_delta
from latecomer.store.rebuilds import RebuildRecord, Rebuilds

ROWS = pa.table({"n": [1, 2, 3]})
RECORD = RebuildRecord("totals", 0, 60, 3, 60, 0, 60, None, {"events": 1}, {"changed": 1})


def test_a_location_can_be_named_and_not_touched() -> None:
    assert files.Location is PurePath
    assert not hasattr(files.Location("lake"), "exists")


def test_rows_are_written_where_there_is_no_folder_yet(tmp_path: Path) -> None:
    location = PurePath(tmp_path, "data", "_lc_lane=open", "part.parquet")
    assert files.write_table(ROWS, location) == location
    assert files.read_table(location) == ROWS, "what the folders are called is no column"
    assert files.read_table(location, ["n"]).num_rows == files.footer(location).num_rows == 3
    assert files.dataset([location, location]).count_rows() == 6


def test_only_finished_files_of_a_folder_are_its_parquet_files(tmp_path: Path) -> None:
    for name in ("b/2.parquet", "a/1.parquet", "_lc_lane=x/3.parquet", ".4.parquet", "_5.parquet", "6.crc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [file.relative_to(tmp_path).as_posix() for file in files.parquet_files(tmp_path)]
    assert found == ["_lc_lane=x/3.parquet", "a/1.parquet", "b/2.parquet"]
    assert files.parquet_files(tmp_path / "none") == []


def test_names_and_sizes_of_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    for folder in (tmp_path / "none", tmp_path / "file", tmp_path / "file" / "below"):
        assert files.names(folder) == []
        assert files.sizes(folder, "") == {}
    assert files.sizes(tmp_path, "le") == {"file": 4}


def test_a_text_is_there_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pipeline.json"
    files.replace_text(file, "before")

    def refused(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refused)
        with pytest.raises(OSError, match=r"No space left on device: .*/\.pipeline\.json"):
            files.replace_text(file, "after")
    assert files.read_text(file) == "before"


def test_an_arrow_file_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "ids" / "0.arrow"

    def interrupted() -> None:
        with files.new_arrow(file, ROWS.schema) as writer:
            writer.write_table(ROWS)
            assert not files.exists(file)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not files.exists(file)
    with files.new_arrow(file, ROWS.schema) as writer:
        writer.write_table(ROWS)
    assert files.open_arrow(file).read_all() == ROWS


def test_a_table_is_opened_as_it_was(tmp_path: Path) -> None:
    made = create_delta(tmp_path / "t", ROWS.schema, {})
    made.alter.set_table_properties({"delta.appendOnly": "true"})
    assert open_delta(tmp_path / "t").version() == 1
    assert open_delta(tmp_path / "t", 0).version() == 0
    assert DeltaTable(files.url(PurePath(tmp_path, "t"))).version() == 1


def test_empty_folders_go_up_to_one_that_is_not(tmp_path: Path) -> None:
    (tmp_path / "data" / "a" / "b").mkdir(parents=True)
    (tmp_path / "data" / "kept").touch()
    files.remove_empty(tmp_path / "data" / "a" / "b", tmp_path)
    assert files.names(tmp_path / "data") == ["kept"]
    files.remove(tmp_path / "data" / "kept")
    files.remove_empty(tmp_path / "data", tmp_path / "data")
    assert files.names(tmp_path) == ["data"]


def test_a_lock_is_held_by_one_process_and_let_go_when_it_dies(tmp_path: Path) -> None:
    """The file that says who holds it may be deleted: the folder is held too."""
    held = (
        "import sys, pathlib, latecomer.store.files as files\n"
        "lock = files.LockFile(pathlib.PurePath(sys.argv[1]), '.lock', whole=True)\n"
        "assert lock.take(); lock.sign('another'); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", held, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        mine = files.LockFile(tmp_path, ".lock", whole=True)
        assert not mine.take()
        assert mine.holder == "another"
        found = files.lock_holder(tmp_path / ".lock")
        assert found is not None
        assert found[0] == "another"
        mine.close()
        files.remove(tmp_path / ".lock")
        again = files.LockFile(tmp_path, ".lock", whole=True)
        assert not again.take()
        other.kill()
        other.wait()
        assert again.take()
        again.close()


def test_a_plan_is_there_once_its_record_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder has its name before: whoever is killed meanwhile leaves no plan behind."""
    rebuilds = Rebuilds(tmp_path, "totals")
    draft = rebuilds.draft()
    files.write_table(ROWS, draft / "panes" / "panes.parquet")
    files.write_table(ROWS, draft / "partials" / "part-0.parquet")
    (tmp_path / "outputs" / "totals" / "rebuilds" / draft.name / "partials" / "_SUCCESS").touch()
    with monkeypatch.context() as patched:
        patched.setattr("latecomer.store.rebuilds.replace_text", _killed)
        with pytest.raises(KeyboardInterrupt):
            rebuilds.keep(draft, RECORD)
    assert list(rebuilds) == []
    files.write_table(ROWS, draft / "panes" / "panes.parquet")
    kept = rebuilds.keep(draft, RECORD)
    assert [each.record for each in rebuilds] == [RECORD]
    assert (kept.id, kept.whole, kept.kept) == (RECORD.id, True, True)
    assert [file.name for file in kept.panes] == ["panes.parquet"]
    assert files.names(rebuilds.root) == [RECORD.id]
    again = rebuilds.draft()
    files.write_table(ROWS, again / "panes" / "panes.parquet")
    assert rebuilds.keep(again, RECORD) == kept
    assert files.names(rebuilds.root) == [RECORD.id]


def _killed(*_: object) -> None:
    raise KeyboardInterrupt
