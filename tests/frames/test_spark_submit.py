"""Jobs under `spark-submit`: they end by themselves, with everything done, or say what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pyarrow as pa
import pyspark
import pytest
from deltalake import write_deltalake

from examples.test_structured_streaming import EXAMPLE, write_taps
from latecomer import Reader, load_pipeline
from latecomer.spark.packages import MavenPackage, Package, jars
from latecomer.store.holding.lock import holder_of
from shared_fixtures import require
from spark_kit import quick_start

DELTA = Package(
    "Delta for Spark",
    (MavenPackage(f"io.delta:delta-spark_{'.'.join(pyspark.__version__.split('.')[:2])}_2.13:4.1.0"),),
)
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
"""The one that comes with pyspark."""
SLOWLY = """
import runpy, sys, time
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

class Slow(StreamingQueryListener):
    def onQueryStarted(self, event): pass
    def onQueryProgress(self, event): time.sleep(1)
    def onQueryTerminated(self, event): pass

SparkSession.builder.getOrCreate().streams.addListener(Slow())
runpy.run_path(sys.argv[2], run_name="__main__")
"""
"""A job with a listener of its own, so that Spark tells of the query when the job has ended."""
OPTIONS = [
    *("--master", "local[2]", "--driver-memory", "1g"),
    *("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=1"),
]


def submitted(job: Path, *arguments: str, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """A job that has ended, and has left no process behind."""
    quick = {name: value for name, value in quick_start().items() if name == "JDK_JAVA_OPTIONS"}
    mark = f"{os.getpid()}-{job}-{arguments}"
    environment = {**os.environ, **quick, "PYSPARK_PYTHON": sys.executable, "TEST_MARK": mark}
    ended = subprocess.run(
        [str(SUBMIT), *OPTIONS, *options, str(job), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # it prints what Python says of errors among the output
        text=True,
        timeout=600,
        check=False,
    )
    assert [each.cmdline() for each in psutil.process_iter() if _mark(each) == mark] == []
    return ended


def _mark(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("TEST_MARK")
    except psutil.Error:
        return None


@pytest.mark.long
def test_a_job_ends_with_everything_done(tmp_path: Path) -> None:
    write_taps(tmp_path / "taps")
    shutil.copy(EXAMPLE / "shops.yaml", tmp_path)
    (tmp_path / "job.py").write_text(SLOWLY)
    ended = submitted(tmp_path / "job.py", str(tmp_path), str(EXAMPLE / "after.py"))
    assert ended.returncode == 0, ended.stdout
    assert "threw an exception" not in ended.stdout
    assert holder_of(tmp_path / "store") is None
    rows = Reader(load_pipeline(tmp_path / "shops.yaml")).results("totals").to_pylist()
    assert [row["paise"] for row in rows] == [157]
    changes = sorted((tmp_path / "totals").rglob("*.jsonl"))
    assert sum(len(file.read_text().splitlines()) for file in changes) == 3, "the sink has everything, too"


@pytest.mark.long
def test_a_pipeline_that_is_wrong_ends_the_job_with_the_sentence(tmp_path: Path) -> None:
    """Both before the query starts and when its columns are known."""
    write_taps(tmp_path / "taps")
    text = (EXAMPLE / "shops.yaml").read_text()
    for wrong, sentence in (
        (text.replace("event:", "evnt:"), "evnt: unknown key"),
        (text.replace("by: [shop]", "by: [town]"), "by[0]: the source has no such column (value: 'town')"),
    ):
        (tmp_path / "shops.yaml").write_text(wrong)
        ended = submitted(EXAMPLE / "after.py", str(tmp_path))
        assert ended.returncode != 0
        assert sentence in ended.stdout
        assert holder_of(tmp_path / "store") is None


@pytest.mark.long
def test_a_delta_table_as_a_stream(tmp_path: Path) -> None:
    """Spark's own connector reads the table; what is appended later is handed in by the next run, once."""
    require("Delta for Spark", lambda: jars(DELTA))
    example = EXAMPLE.parent / "delta-source"
    shutil.copy(example / "shops.yaml", tmp_path)
    write_taps(tmp_path / "json")
    pipeline = load_pipeline(tmp_path / "shops.yaml")
    found = []
    for files in (["1", "2", "3"], ["4"]):
        texts = [(tmp_path / "json" / f"{each}.json").read_text() for each in files]
        lines = [json.loads(line) for text in texts for line in text.splitlines()]
        taps = pa.Table.from_pylist(lines)
        for name in ("at", "seen"):
            moments = taps[name].cast(pa.timestamp("us", "UTC"))
            taps = taps.set_column(taps.column_names.index(name), name, moments)
        write_deltalake(str(tmp_path / "taps"), taps, mode="append")
        names = ",".join(map(str, jars(DELTA)))
        ended = submitted(example / "job.py", str(tmp_path), "--once", options=["--jars", names])
        assert ended.returncode == 0, ended.stdout
        rows = Reader(pipeline).results("totals").to_pylist()
        found.append([int(row["paise"]) for row in rows])
    assert found == [[150], [157]]
