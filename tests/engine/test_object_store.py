"""A pipeline whose store is in a bucket: what it leaves behind is what it leaves in a folder (ADR 0087)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import obstore
import pytest
from pyspark.sql import SparkSession

import latecomer
import s3_kit
from faults.faults_kit import BOUNDARIES, Died, in_turn, left_behind, take_sink_away, write_pipeline
from latecomer.config.load import load_pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.pipeline import Engine
from latecomer.engine.running import run
from latecomer.engine.starting import start_engine
from latecomer.errors import StoreError
from latecomer.objects.locations import Storage, Url, reached_by
from latecomer.source.decode.base import SourceFile
from latecomer.source.found_files import FileSlice
from latecomer.spark.at_url import write_frame
from latecomer.spark.base import InProcess
from latecomer.spark.when_needed import when_needed
from latecomer.store import failpoints, files
from latecomer.store.delta.table import Table
from latecomer.store.files import dataset
from latecomer.store.holding.lock import exclusive
from latecomer.store.source_columns import source_columns
from latecomer.store.store import Store
from s3_faults import Faults, faulty
from s3_kit import Bucket

SOME = ("totals.panes.written",)


@pytest.fixture(autouse=True)
def logs_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.long
@pytest.mark.parametrize("names", [SOME, BOUNDARIES], ids=["some", "all"])
def test_interrupted_runs_leave_what_one_in_a_folder_does(
    spark: SparkSession,
    tmp_path: Path,
    bucket: Bucket,
    undisturbed: dict[str, list[str]],
    finished: Path,
    deadly: pytest.MonkeyPatch,
    names: Collection[str],
) -> None:
    """And its results are read from the URL without Spark."""
    file = s3_kit.moved_to(write_pipeline(tmp_path), bucket)
    for boundary in in_turn(names):
        take_sink_away(file, boundary)
        deadly.setenv(failpoints.VARIABLE, boundary)
        with pytest.raises(Died):
            run(load_pipeline(file), drain=True, spark=spark)
    deadly.delenv(failpoints.VARIABLE)
    run(load_pipeline(file), drain=True, spark=spark)
    pipeline = load_pipeline(file)
    assert left_behind(file) == undisturbed
    assert check_ledger(pipeline, spark) == []
    assert not (tmp_path / "store").exists()
    kept = {str(each["path"]) for page in obstore.list(bucket.store) for each in page}
    assert not [name for name in kept if "probe" in name]
    for name in kept:
        assert b"testing-secret" not in bytes(obstore.get(bucket.store, name).bytes())

    latecomer.compact(pipeline)
    assert left_behind(file)["totals.panes"] == undisturbed["totals.panes"]
    if names is BOUNDARIES:
        assert latecomer.replay(pipeline, spark=spark).equal
    assert printed(file) == printed(finished)


PRINT = """
import sys
from latecomer.cli import main
sys.argv = ["latecomer", "results", sys.argv[1], "totals", "--format", "json"]
try:
    main()
finally:
    assert "pyspark" not in sys.modules
"""


def printed(file: Path) -> str:
    """What `latecomer results` prints in a process that has no Spark."""
    told = subprocess.run(
        [sys.executable, "-c", PRINT, str(file)], capture_output=True, text=True, timeout=300, check=True
    ).stdout
    assert len(told) > 1000
    return told


@pytest.mark.long
def test_sinks_that_are_folders_are_in_the_bucket_too(
    spark: SparkSession, tmp_path: Path, bucket: Bucket, finished: Path
) -> None:
    file = s3_kit.moved_to(write_pipeline(tmp_path), bucket)
    text = file.read_text()
    for name, folder in (("delta", "results"), ("jsonl", "alerts"), ("parquet", "changes")):
        assert f"{name}: {folder}}}" in text
        text = text.replace(f"{name}: {folder}}}", f'{name}: "s3://{bucket.name}/sinks/{folder}"}}')
    file.write_text(text)
    run(load_pipeline(file), drain=True, spark=spark)
    sinks, local = bucket.url / "sinks", finished.parent
    here = Table(sinks / "results", None).query("select * from t").to_pylist()
    there = Table(local / "results", None).query("select * from t").to_pylist()
    assert sorted(map(_without_clock, here)) == sorted(map(_without_clock, there))
    for folder in ("alerts", "changes"):
        assert files.names(sinks / folder) == files.names(local / folder)
    assert files.size(sinks / "alerts" / "batch-0000000001.jsonl") > 100


def _without_clock(row: dict[str, object]) -> str:
    return repr({name: value for name, value in row.items() if name != "published_at"})


def test_a_bucket_without_conditional_puts_is_refused_before_anything_is_written(
    tmp_path: Path, s3: str, bucket: Bucket
) -> None:
    plain = s3_kit.new_bucket(s3, s3_kit.WITHOUT_CONDITIONS)
    file = s3_kit.moved_to(write_pipeline(tmp_path), plain)
    with pytest.raises(
        StoreError, match=r"s3://plain-.*/lake cannot hold a store: .* does not write a file only if"
    ):
        run(load_pipeline(file), once=True)
    assert obstore.list(plain.store).collect() == []


def test_a_source_in_a_bucket_is_read_like_one_in_a_folder(
    spark: SparkSession, tmp_path: Path, bucket: Bucket
) -> None:
    """Its columns are inferred there, folders are columns, and what only Spark can compute needs no connector."""
    found = {}
    for where in ("folder", "url"):
        file = write_pipeline(tmp_path / where)
        text = file.read_text().replace("ledger:", 'columns: {shout: "initcap(merchant)"}\nledger:')
        text = text.replace("by: [merchant]", "by: [shout, day]")
        day = file.parent / "in" / "day=7"
        day.mkdir()
        for each in sorted(file.parent.glob("in/*.json")):
            moved = each.rename(day / each.name)
            if where == "url":
                obstore.put(bucket.store, f"in/day=7/{each.name}", moved.read_bytes())
        if where == "url":
            text = text.replace("{path: in,", f'{{path: "s3://{bucket.name}/in",')
        file.write_text(text)
        if where == "url":
            s3_kit.moved_to(file, bucket)
        run(load_pipeline(file), drain=True, spark=spark)
        found[where] = left_behind(file)
        assert check_ledger(load_pipeline(file), spark) == []
    results = [each["totals.panes"] for each in found.values()]
    assert len(results[0]) > 10
    assert "'shout': 'Amul', 'day': 7" in results[0][0]
    assert results[0] == results[1]
    assert found["url"]["delta"] == found["folder"]["delta"]


def test_what_spark_computes_keeps_its_order_at_a_url(
    spark: SparkSession, tmp_path: Path, bucket: Bucket
) -> None:
    """Sums of floating point numbers depend on the order of what they were given."""
    storage = Storage.model_validate({**bucket.options, "credentials": str(s3_kit.write_keys(tmp_path))})
    written = write_frame(spark.range(0, 64, 1, 8), reached_by(Url(str(bucket.url)), storage) / "staging")
    assert len(written) == 8
    assert [row["id"] for row in dataset(written).to_table().to_pylist()] == list(range(64))


OF_A_BATCH = 200
"""Requests: ten commits of nine each, what tasks read and write, and what four sinks look up and read."""


@pytest.mark.long
def test_a_batch_costs_few_requests_however_many_came_before(tmp_path: Path, bucket: Bucket) -> None:
    """The first batches make tables; from there on all cost the same."""
    with faulty(bucket.endpoint, passing := Faults()) as endpoint:
        file = s3_kit.moved_to(write_pipeline(tmp_path), bucket, endpoint)
        slices = [_minute_of_payments(tmp_path / "in", nth) for nth in range(9)]
        pipeline = load_pipeline(file)
        with exclusive(pipeline.store_path):
            engine = Engine(InProcess(when_needed(_no_spark)), Store(pipeline, source_columns(pipeline)))
            start_engine(engine)
            counts = []
            for nth, slice_ in enumerate(slices):
                engine.data(nth, slice_)
                counts.append(len(passing.asked))
            engine.finish()
            counts.append(len(passing.asked))
            engine.close()
    assert (counts[-1] - counts[3]) / (len(slices) - 4) <= OF_A_BATCH


def _minute_of_payments(folder: Path, nth: int) -> FileSlice:
    """The payments of the first file, so many minutes later."""
    file = folder / f"{nth}.json"
    lines = [line for line in (folder / "0.json").read_text().splitlines() if line.startswith('{"')]
    later = [line.replace("T14:00", f"T14:{nth:02}").replace('"txn": "', f'"txn": "{nth}.') for line in lines]
    file.write_text("\n".join(later))
    return FileSlice.of([SourceFile(file.as_uri(), nth, file.stat().st_size)])


def _no_spark() -> SparkSession:
    raise AssertionError("this needs no Spark")
