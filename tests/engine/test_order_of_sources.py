"""Several sources over history: read in the order of arrival, and judged as they were when they came."""

from __future__ import annotations

import json
import logging
import os
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from faults.faults_kit import Died
from latecomer.after.reading.reader import Reader
from latecomer.after.replay.replaying import replay
from latecomer.config.load import load_pipeline
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import StoreError
from latecomer.store import failpoints
from latecomer.store.store import open_store
from sources_kit import Folders, Reading, steady

DELAYS = {"near": {"delay": "5s"}, "far": {"delay": "1m"}}
LATE = Reading("near", 300, 900)


def history() -> list[Reading]:
    """Twenty minutes of two stations, and a reading that came ten minutes late."""
    return [*steady("near", 0, 1200, 6), *steady("far", 3, 1200, 6), LATE]


def require_consistent(folders: Folders, spark: SparkSession) -> None:
    """Ledger, replay and a timeline that is computed anew."""
    pipeline = folders.pipeline
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal
    first = next(iter(folders.watermarks))
    delay = folders.watermarks[first].get("delay", "30s")
    assert replay(pipeline, changes={f"sources.{first}.watermark.delay": delay}, spark=spark).equal


def as_one_source(folders: Folders) -> Pipeline:
    """The same readings as one source, whose partitions have the delays of the stations."""
    (folders.root / "all").mkdir()
    for name in folders.watermarks:
        for file in sorted((folders.root / name).iterdir()):
            lines = [{**json.loads(line), "station": name} for line in file.read_text().splitlines()]
            (folders.root / "all" / f"{name}{file.name}").write_text("\n".join(map(json.dumps, lines)))
    return Pipeline.model_validate(
        {
            "name": "stations",
            "store": "one",
            "base": folders.root,
            "source": {
                "files": {"path": "all", "order_by": "came", "partition": "station"},
                "schema": {"n": "bigint", "at": "timestamp", "came": "timestamp", "station": "string"},
            },
            "event": {"time": "at"},
            "watermark": {
                "delay": "5s",
                "delays": {name: each["delay"] for name, each in folders.watermarks.items()},
            },
            "outputs": {"minutes": {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}},
        }
    )


@pytest.mark.parametrize("slices", [pytest.param(1000, marks=pytest.mark.long), 2])
def test_two_folders_are_judged_as_one_source_is(slices: int, spark: SparkSession, tmp_path: Path) -> None:
    """In one batch, and in several that end within files."""
    folders = Folders(tmp_path, DELAYS, slices)
    folders.deliver(history(), each=29)
    report = run(folders.pipeline, once=True, spark=spark)
    assert (report.batches == 1) == (slices == 1000)
    assert folders.too_late() == {LATE}
    assert len(folders.standing()) == 18
    assert (folders.too_late(), folders.standing()) == folders.as_they_came()
    one = as_one_source(folders)
    alone = run(one, once=True, spark=spark)
    assert Reader(one).late("minutes").num_rows == 1
    assert len(Reader(one).results("minutes")) == 18
    assert alone.watermark == report.watermark
    require_consistent(folders, spark)


def test_batches_follow_one_another(spark: SparkSession, tmp_path: Path) -> None:
    """Each event is in the log once, and none came before one of an earlier batch; nothing is told to be out of
    step."""
    folders = Folders(tmp_path, DELAYS, 1)
    folders.deliver([*steady("near", 0, 600, 5), *steady("far", 2, 600, 7)], each=17)
    steps = []
    run(folders.pipeline, once=True, spark=spark, watch=lambda report: steps.append(report.out_of_step))
    assert len(steps) > 4
    assert set(steps) == {None}
    spans = open_store(folders.pipeline).events.query(
        "select batch, min(arrival_time) as first, max(arrival_time) as last, count(*) as n from t group by batch "
        "order by batch"
    )
    rows = spans.to_pylist()
    assert sum(row["n"] for row in rows) == len(folders.delivered)
    assert all(one["last"] <= other["first"] for one, other in pairwise(rows))


@pytest.mark.long
def test_one_is_sparse_one_ends_early_and_one_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    """Whoever is silent is idle after its own time, by the arrival clock of that day."""
    patient = {"delay": "10s", "idle_after": "2m"}
    folders = Folders(
        tmp_path,
        {
            "dense": {"delay": "10s", "idle_after": "1m"},
            "rare": {"delay": "1s", "idle_after": "5m"},
            "ended": patient,
            "empty": patient,
        },
        slices=3,
    )
    late = [Reading("dense", 60, 400), Reading("rare", 300, 1100), Reading("dense", 1000, 1190)]
    folders.deliver(
        [*steady("dense", 0, 1200, 4), *steady("rare", 5, 1200, 200), *steady("ended", 2, 120, 4), *late],
        each=20,
    )
    report = run(folders.pipeline, once=True, spark=spark)
    assert report.batches > 2
    too_late, standing = folders.as_they_came()
    assert too_late
    assert (folders.too_late(), folders.standing()) == (too_late, standing)
    require_consistent(folders, spark)


def test_what_ended_holds_the_watermark_where_nothing_says_that_it_is_idle(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folders = Folders(tmp_path, DELAYS, 2)
    folders.deliver([*steady("near", 0, 1200, 6), *steady("far", 0, 120, 6)], each=29)
    with caplog.at_level(logging.WARNING):
        run(folders.pipeline, once=True, spark=spark)
    assert len(folders.standing()) == 0
    assert (folders.too_late(), folders.standing()) == folders.as_they_came()
    assert "far" in caplog.text
    assert "idle_after" in caplog.text


@pytest.mark.parametrize("slices", [1000, pytest.param(1, marks=pytest.mark.long)])
def test_history_in_instalments(slices: int, spark: SparkSession, tmp_path: Path) -> None:
    """What the first run leaves, the next goes on with: sources that come up to one another."""
    folders = Folders(tmp_path, DELAYS, slices)
    readings = sorted(history(), key=lambda one: one.came)
    for begin in range(0, len(readings), 150):
        folders.deliver(readings[begin : begin + 150], each=40)
        run(folders.pipeline, once=True, spark=spark)
    assert (folders.too_late(), folders.standing()) == folders.as_they_came()
    require_consistent(folders, spark)


@pytest.mark.long
def test_each_event_may_be_a_tick(spark: SparkSession, tmp_path: Path) -> None:
    ticks = {name: {**each, "every": "event"} for name, each in DELAYS.items()}
    folders = Folders(tmp_path, ticks, 2)
    folders.deliver([one for one in history() if one.came < 600] + [Reading("near", 100, 599.5)], each=17)
    run(folders.pipeline, once=True, spark=spark)
    too_late, standing = folders.as_they_came()
    assert too_late
    assert (folders.too_late(), folders.standing()) == (too_late, standing)
    require_consistent(folders, spark)


BOUNDARIES = (
    "events.written",
    "dead_letters.committed",
    "events.committed",
    "watermarks.committed",
    "ledger.committed",
)


@pytest.mark.parametrize(
    "boundary",
    [
        each if each == "events.committed" else pytest.param(each, marks=pytest.mark.long)
        for each in BOUNDARIES
    ],
)
def test_a_batch_that_was_interrupted_is_made_of_the_same_parts(
    boundary: str, spark: SparkSession, tmp_path: Path, deadly: pytest.MonkeyPatch
) -> None:
    """Then there is more of both, so that it would be made of others. Dead letters, and what came twice, are told
    once."""
    event = {"event": {"time": "at", "id": ["source", "n"]}}
    folders = Folders(tmp_path, DELAYS, 2, more=event)
    folders.deliver([one for one in history() if one.came < 700], each=29)
    for name in DELAYS:
        bad = tmp_path / name / "00003x.json"
        bad.write_text('{"n": -1, "at": "never", "came": "2026-11-16T12:00:00Z"}\nnothing\n')
    second = tmp_path / "near" / "00002.json"
    landed = second.stat()
    second.write_text(2 * second.read_text())
    os.utime(second, ns=(landed.st_atime_ns, landed.st_mtime_ns))
    deadly.setenv(failpoints.VARIABLE, f"{boundary}@1")
    with pytest.raises(Died):
        run(folders.pipeline, once=True, spark=spark)
    deadly.delenv(failpoints.VARIABLE)
    folders.deliver([one for one in history() if one.came >= 700], each=29)
    run(folders.pipeline, once=True, spark=spark)
    assert folders.too_late() == {LATE}
    (totals,) = (
        row for row in Reader(folders.pipeline).ledger_totals().to_pylist() if row["unit"] == "events"
    )
    assert (totals["dead_letter"], totals["duplicate"]) == (4, 29)
    assert totals["received"] == len(folders.delivered) + 33
    require_consistent(folders, spark)


def test_a_turn_that_cannot_be_read_is_told(
    spark: SparkSession, tmp_path: Path, deadly: pytest.MonkeyPatch
) -> None:
    folders = Folders(tmp_path, DELAYS)
    folders.deliver(history()[:30])
    deadly.setenv(failpoints.VARIABLE, "events.committed@0")
    with pytest.raises(Died):
        run(folders.pipeline, once=True, spark=spark)
    deadly.delenv(failpoints.VARIABLE)
    (tmp_path / "store" / "sources" / "turn.json").write_text('{"parts": [["near"]]}')
    with pytest.raises(StoreError, match=r"turn.json cannot be read .* restore it"):
        run(folders.pipeline, once=True, spark=spark)


def test_a_batch_that_an_earlier_version_has_logged_is_of_one_source(
    spark: SparkSession, tmp_path: Path, deadly: pytest.MonkeyPatch
) -> None:
    folders = Folders(tmp_path, DELAYS)
    folders.deliver(steady("far", 0, 60, 6))
    deadly.setenv(failpoints.VARIABLE, "events.committed@0")
    with pytest.raises(Died):
        run(folders.pipeline, once=True, spark=spark)
    deadly.delenv(failpoints.VARIABLE)
    (tmp_path / "store" / "sources" / "turn.json").write_text('{"source": "far"}')
    folders.deliver(steady("near", 60, 600, 6) + steady("far", 60, 600, 6), each=20)
    run(folders.pipeline, once=True, spark=spark)
    assert (folders.too_late(), folders.standing()) == folders.as_they_came()
    require_consistent(folders, spark)


OWN = """
import json
from pathlib import Path

import pyarrow as pa

from latecomer import PolledSource


class Notes(PolledSource):
    path: str
    stamped: bool

    def columns(self):
        return {"n": "bigint", "at": "timestamp"}

    def _lines(self):
        return Path(self.path).read_text().splitlines()

    def latest(self, since):
        return min(len(self._lines()), (since or 0) + 60)

    def stamps_arrivals(self):
        return self.stamped

    def read(self, spark, since, until):
        rows = [json.loads(line) for line in self._lines()[since or 0 : until]]
        texts = {name: pa.array([row[name] for row in rows]) for name in ("at", "came")}
        moments = {
            name: column.cast(pa.timestamp("us", "UTC")) for name, column in texts.items()
        }
        places = pa.array(range(since or 0, until), pa.int64())
        given = {self.ARRIVAL: moments["came"]} if self.stamped else {}
        return pa.table(
            {
                "n": pa.array([row["n"] for row in rows], pa.int64()),
                "at": moments["at"],
                **given,
                self.ORIGIN: pa.array(["notes"] * len(rows)),
                self.POSITION: places,
            }
        )
"""


@pytest.mark.parametrize("stamped", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_source_of_ones_own_beside_files(stamped: bool, spark: SparkSession, tmp_path: Path) -> None:
    """One that says when its rows came is read in their order. The rows of one that does not have come when they are
    read, after all files. It is waited for until then: nothing is late."""
    (tmp_path / "my_notes.py").write_text(OWN)
    folders = Folders(tmp_path, DELAYS, 2)
    folders.deliver(history(), each=29)
    notes = [
        json.loads(line)
        for file in sorted((tmp_path / "far").iterdir())
        for line in file.read_text().splitlines()
    ]
    (tmp_path / "notes.json").write_text("\n".join(map(json.dumps, notes)))
    own = {"my_notes:Notes": {"path": str(tmp_path / "notes.json"), "stamped": stamped}}
    text = json.dumps(
        {
            "name": "stations",
            "store": "store",
            "sources": {
                "near": {
                    "files": {"path": "near", "order_by": "came", "max_files_per_batch": 2},
                    "schema": {"n": "bigint", "at": "timestamp", "came": "timestamp"},
                    "watermark": {"delay": "5s"},
                },
                "far": {**own, "watermark": {"delay": "1m", "max_future": None}},
            },
            "event": {"time": "at"},
            "outputs": {"minutes": {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}},
        }
    )
    (tmp_path / "pipeline.yaml").write_text(text)
    pipeline = load_pipeline(tmp_path / "pipeline.yaml")
    try:
        run(pipeline, once=True, spark=spark)
    finally:
        sys.modules.pop("my_notes", None)
    late = {folders.delivered[row["n"]] for row in Reader(pipeline).late("minutes").to_pylist()}
    assert late == ({LATE} if stamped else set())
    if stamped:
        assert len(Reader(pipeline).results("minutes")) == 18
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal
