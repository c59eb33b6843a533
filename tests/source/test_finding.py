"""Following files: what is found is written down before it is read, and is handed out again as it was."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.config.paths import SourcePath
from latecomer.engine.ledger.report import BatchReport
from latecomer.engine.running import run
from latecomer.errors import SourceOutage
from latecomer.source.finding import Finder
from latecomer.store import source_files as found
from latecomer.store.store import open_store
from source.source_kit import landed, pipeline_in, rows_of, run_once, write_json, write_text

AT = "2026-11-08T14:00:00Z"


def put(folder: Path, *names: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("{}\n")
        os.utime(folder / name, (1_000, 1_000))


def resumed(tmp_path: Path, accepted: int = -1, most: int = 2, logged: bool = False) -> Finder:
    (tmp_path / "store").mkdir(exist_ok=True)
    finder = Finder(tmp_path / "store", SourcePath(str(tmp_path / "in")), most)
    finder.resume(accepted, logged, 1)
    return finder


def handed_out(finder: Finder, number: int) -> list[str] | None:
    files = finder.files(number)
    return None if files is None else [file.named.name for file in files]


def test_a_batch_has_the_same_files_whatever_comes_and_goes(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    put(folder, "b", "c", "d")
    finder = resumed(tmp_path)
    finder.look(-1)
    (folder / "c").unlink()
    put(folder, "a")
    for each in (finder, resumed(tmp_path, most=9), resumed(tmp_path, logged=True)):
        assert [handed_out(each, number) for number in range(3)] == [["b", "c"], ["d"], None]
    again = resumed(tmp_path, accepted=0, most=9)
    again.look(0)
    assert [handed_out(again, number) for number in range(1, 4)] == [["d"], ["a"], None]
    (first, gone) = again.files(0) or ()
    assert (first.path, first.size, gone.size) == (f"file://{folder}/b", 3, 0)


def test_a_folder_that_is_not_there_is_an_outage(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    put(folder, "a")
    finder = resumed(tmp_path)
    folder.rename(tmp_path / "away")
    with pytest.raises(SourceOutage, match="cannot be listed: No such file or directory"):
        finder.look(-1)
    (tmp_path / "away").rename(folder)
    finder.look(-1)
    assert handed_out(finder, 0) == ["a"]


def test_a_folder_that_may_not_be_read_is_an_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "in", "a")
    finder = resumed(tmp_path)

    def refused(folder: str) -> None:
        raise PermissionError(13, "Permission denied", folder)

    monkeypatch.setattr("latecomer.source.finding.os.scandir", refused)
    with pytest.raises(SourceOutage, match="Permission denied"):
        finder.look(-1)


def test_links_that_lead_back_are_named_once_and_not_by_the_next_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path / "in", "a")
    (tmp_path / "in" / "loop").symlink_to(".")
    for _ in range(2):
        resumed(tmp_path).look(-1)
    assert len(caplog.messages) == 1
    assert "loop is a link to a folder that it lies in" in caplog.text


def test_a_run_goes_on_beside_files_that_are_not_its_own(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path, files={"order_by": "at"})
    for nth, folder in enumerate((tmp_path / "in", tmp_path / "in" / "deep", tmp_path / "in")):
        folder.mkdir(exist_ok=True)
        (folder / f"{nth}.json").write_text(json.dumps({"at": f"2013-01-0{nth + 1}T00:00:00Z"}) + "\n")
        run(pipeline, once=True, spark=spark)
    read = "select batch, source_batch from t where kind = 'tick' order by batch"
    assert rows_of(open_store(pipeline).watermarks, read) == [
        {"batch": 0, "source_batch": 0},
        {"batch": 1, "source_batch": 1},
    ]


def test_a_long_run_and_those_after_it_read_every_file_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read is summed up more than once on the way; files that are sent again are not read again."""
    monkeypatch.setattr(found, "MOST_RECORDS", 2)
    pipeline, stop = pipeline_in(tmp_path, schema={"at": "string", "txn": "string"}), threading.Event()
    names = [f"{nth}.json" for nth in range(7)]

    def land_next(report: BatchReport) -> None:
        if report.batch + 1 < len(names):
            write_json(tmp_path, names[report.batch + 1], [{"at": AT, "txn": names[report.batch + 1]}])
            write_json(tmp_path, names[0], [{"at": AT, "txn": "again"}], report.batch)
        else:
            stop.set()

    write_json(tmp_path, names[0], [{"at": AT, "txn": names[0]}])
    run(pipeline, spark=spark, watch=land_next, stop=stop)
    write_json(tmp_path, names[3], [{"at": AT, "txn": "again"}], 9)
    write_json(tmp_path, "z.json", [{"at": AT, "txn": "z.json"}], 9)
    store = run_once(pipeline, spark)
    read = rows_of(store.events, "select batch, txn from t order by batch")
    assert [(row["batch"], row["txn"]) for row in read] == list(enumerate([*names, "z.json"]))
    assert any(file.name.startswith("known-") for file in (store.root / "found").iterdir())
    assert not (store.root / "checkpoint").exists()


@pytest.mark.parametrize(
    "name", ["a\nb", "日本", "e\u0301", "a;b", "a:b", "a\\b", "-", "~", "a'b\"c", "a\tb"]
)
def test_files_under_odd_names_are_found(tmp_path: Path, name: str) -> None:
    landed(write_text(tmp_path, name, "{}\n"))
    finder = resumed(tmp_path)
    finder.look(-1)
    (file,) = resumed(tmp_path).files(0) or ()
    assert file.named == tmp_path / "in" / name
    with file.open() as content:
        assert (file.size, content.read()) == (3, b"{}\n")
