"""`private: true`: nobody else reads what a pipeline writes. And Spark's log does not grow for ever."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from latecomer.cli import options
from latecomer.config.load import load_pipeline
from latecomer.config.models import Pipeline
from latecomer.errors import StoreError
from latecomer.store import private
from latecomer.store.private import keep_private
from spark_kit import quick_start

PIPELINE = """
name: asked
store: store
private: true
source:
  files: {path: in}
  schema: {at: timestamp, paise: bigint}
event: {time: at}
watermark: {delay: 10s}
outputs:
  totals:
    window: {tumbling: 1m}
    aggregates: {paise: sum(paise)}
    sinks: [{sqlite: sinks.db}, {delta: sink_delta}, {parquet: sink_files}]
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    before = os.umask(0o022)
    (tmp_path / "in").mkdir()
    (tmp_path / "pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    yield load_pipeline(tmp_path / "pipeline.yaml")
    os.umask(before)


def open_to_others(*places: Path) -> dict[str, str]:
    """What others may do something with."""
    found = [path for place in places for path in (place, *place.rglob("*")) if not path.is_symlink()]
    return {str(path): oct(mode) for path in found if (mode := stat.S_IMODE(path.lstat().st_mode)) & 0o077}


def test_what_is_there_is_tightened_and_links_are_not_followed(pipeline: Pipeline, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("of somebody else")
    for file in (
        "store/logs/spark.log",
        "sink_delta/_delta_log/0.json",
        "sinks.db",
        "sinks.db-wal",
        "sinks.dbx",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    (tmp_path / "store" / "link").symlink_to(other)
    keep_private(pipeline)
    (tmp_path / "store" / "new").write_text("")
    assert open_to_others(tmp_path / "store", tmp_path / "sink_delta", tmp_path / "sinks.db") == {}
    assert stat.S_IMODE((tmp_path / "sinks.db-wal").stat().st_mode) == 0o600
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("other.txt", "sinks.dbx")] == [
        0o644
    ] * 2


def test_otherwise_modes_are_as_the_user_has_them(pipeline: Pipeline, tmp_path: Path) -> None:
    keep_private(pipeline.model_copy(update={"private": False}))
    (tmp_path / "new").write_text("")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o644


def test_what_cannot_be_tightened_is_told(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "store").mkdir()

    def refused(place: object, *_: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(place))

    monkeypatch.setattr(private, "keep_to_user", refused)
    with pytest.raises(
        StoreError, match=r"store cannot be made private: Operation not permitted; have its owner"
    ):
        keep_private(pipeline)


def test_whatever_a_verb_writes_is_private_too(pipeline: Pipeline, tmp_path: Path) -> None:
    options.load(tmp_path / "pipeline.yaml")
    (tmp_path / "certificate.json").write_text("")
    assert stat.S_IMODE((tmp_path / "certificate.json").stat().st_mode) == 0o600


SCRIPT = """
import sys
from latecomer.cli import main
try:
    main(["--quiet", "run", sys.argv[1], "--drain"])
except SystemExit as ended:
    assert ended.code == 0, ended.code
from pyspark.sql import SparkSession
spark = SparkSession.getActiveSession() or SparkSession.Builder().getOrCreate()
log = spark._jvm.org.apache.logging.log4j.LogManager.getLogger("much")
for _ in range(300):
    log.warn("x" * 1000)
log.warn("the last line")
print("warehouse", spark.conf.get("spark.sql.warehouse.dir"))
"""


@pytest.mark.long
def test_a_private_run_writes_nothing_for_others_and_its_log_is_rotated(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    """A process of its own: a JVM takes its umask and its log when it starts."""
    event = {"at": "2026-04-25T12:00:00Z", "paise": 5}
    (tmp_path / "in" / "a.json").write_text(json.dumps(event) + "\n" + "not json\n")
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "pipeline.yaml")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={
            **os.environ,
            **quick_start(),
            "LATECOMER_SPARK_LOG_SIZE": "20KB",
            "TMPDIR": str(tmp_path / "tmp"),
        },
    )
    assert done.returncode == 0, done.stderr
    places = [tmp_path / name for name in ("store", "sinks.db", "sink_delta", "sink_files")]
    assert all(place.exists() for place in places)
    assert open_to_others(*places) == {}
    logs = sorted((tmp_path / "store" / "logs").glob("spark.log*"))
    assert len(logs) == 5
    assert max(log.stat().st_size for log in logs) < 30_000
    assert "the last line" in logs[0].read_text()
    folder = Path(done.stdout.split("warehouse ")[1].strip().removeprefix("file:"))
    assert folder.parent == tmp_path / "tmp"
    assert [each.name for each in folder.parent.glob("latecomer-*")] == [], "gone, and none has a fixed name"
