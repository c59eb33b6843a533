"""Stores that earlier versions wrote: opened, read, run on and upgraded."""

from __future__ import annotations

import json
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer import Reader, load_pipeline, run
from latecomer.after.replay.replaying import replay
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.errors import StoreMismatch
from latecomer.store.migrations import FORMAT, STEPS
from latecomer.store.pins import read_pins
from latecomer.store.store import open_store

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.tar.gz"))
IDS = [path.name.removesuffix(".tar.gz") for path in GOLDEN]
each_store = pytest.mark.parametrize("archive", GOLDEN, ids=IDS)
run_on = pytest.mark.parametrize(
    "archive",
    [
        pytest.param(archive, marks=[pytest.mark.long] * ("all-windows" in name), id=name)
        for archive, name in zip(GOLDEN, IDS, strict=True)
    ],
)
MINUTES = {("chai", "14:00"): 60, ("dosa", "14:00"): 20, ("chai", "14:01"): 30}
LATE = {"id": "t8", "at": "2026-04-25T14:01:20Z", "paise": 5, "shop": "chai", "came": "2026-04-25T14:06:00Z"}
NEW = {"id": "t9", "at": "2026-04-25T14:09:00Z", "paise": 8, "shop": "dosa", "came": "2026-04-25T14:09:01Z"}
AGAIN = {
    "id": "t7",
    "at": "2026-04-25T14:05:00Z",
    "paise": 60,
    "shop": "chai",
    "came": "2026-04-25T14:09:02Z",
}


def opened(archive: Path, folder: Path) -> Pipeline:
    with tarfile.open(archive) as stored:
        stored.extractall(folder, filter="data")
    (folder / "arrivals").mkdir()
    return load_pipeline(folder / "pipeline.yaml")


def minutes(reader: Reader, name: str = "minutes", **asked: Any) -> dict[tuple[str, str], int]:
    return {
        (row["shop"], f"{row['window_start']:%H:%M}"): int(row["paise"])
        for row in reader.results(name, **asked).to_pylist()
    }


def committed(pipeline: Pipeline, batch: int) -> datetime:
    """When a batch was committed to the ledger: as the store says or, where it says nothing, as Delta does."""
    known = open_store(pipeline).publications
    if known.exists and known.holds(batch):
        found = known.query(f"select published_at from t where batch = {batch}")["published_at"]
        moment: datetime = found.to_pylist()[0]
        return moment
    commit = pipeline.store_path / "ledger" / "_delta_log" / f"{batch + 1:020d}.json"
    first, *_, last = map(json.loads, commit.read_text(encoding="utf-8").splitlines())
    assert last == {"txn": {"appId": "latecomer", "version": batch}}
    return datetime.fromtimestamp(first["commitInfo"]["timestamp"] / 1000, UTC)


def of(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


@each_store
def test_an_old_store_is_read_as_it_is(archive: Path, tmp_path: Path) -> None:
    pipeline = opened(archive, tmp_path)
    before = (tmp_path / "store" / "pipeline.json").read_bytes()
    reader = Reader(pipeline)
    assert minutes(reader) == MINUTES
    ledger = [
        row for row in reader.ledger().to_pylist() if of(row, "output", "unit") == ("minutes", "events")
    ]
    assert [of(row, "received", "duplicate", "dead_letter", "late_accepted") for row in ledger] == [
        (5, 1, 1, 0),
        (3, 0, 0, 1),
    ]
    assert [row["reason"] for row in reader.dead_letters().to_pylist()] == ["unreadable_event_time"]
    assert [row["event_id"] for row in reader.late("side").to_pylist()] == ["t6"]
    corrected = [row for row in reader.panes("minutes").to_pylist() if row["op"] == "retract"]
    assert [of(row, "shop", "paise", "sequence") for row in corrected] == [("chai", 10, 0)]
    assert (tmp_path / "store" / "pipeline.json").read_bytes() == before


@each_store
def test_an_old_store_was_published_when_its_ledger_was_committed(archive: Path, tmp_path: Path) -> None:
    pipeline = opened(archive, tmp_path)
    reader, times = Reader(pipeline), [committed(pipeline, batch) for batch in (0, 1)]
    panes = reader.panes("minutes").to_pylist()
    assert {of(row, "batch", "published_at") for row in panes} <= set(enumerate(times))
    instant = timedelta(microseconds=1)
    assert minutes(reader, as_of=times[0] - instant) == {}
    assert minutes(reader, as_of=times[1]) == MINUTES
    first = [row for row in panes if row["batch"] == 0]
    assert len(minutes(reader, as_of=times[1] - instant)) == len(first)
    if "format-1" in archive.name:
        assert not (tmp_path / "store" / "publications").exists(), "reading makes no table"


@run_on
def test_an_old_store_is_run_on_and_upgraded(spark: SparkSession, archive: Path, tmp_path: Path) -> None:
    pipeline = opened(archive, tmp_path)
    times = [committed(pipeline, batch) for batch in (0, 1)]
    lines = "".join(json.dumps(row) + "\n" for row in (LATE, NEW, AGAIN))
    (tmp_path / "arrivals" / "0003.json").write_text(lines, encoding="utf-8")
    run(pipeline, drain=True, spark=spark)
    assert json.loads((tmp_path / "store" / "pipeline.json").read_text())["format"] == FORMAT
    expected = {
        **MINUTES,
        ("chai", "14:01"): 35,
        ("dosa", "14:03"): 40,
        ("chai", "14:05"): 60,
        ("dosa", "14:09"): 8,
    }
    reader = Reader(pipeline)
    assert minutes(reader) == expected
    assert minutes(reader, as_of=times[1]) == MINUTES
    known = open_store(pipeline).publications.query("select published_at from t order by batch")
    assert known["published_at"].to_pylist()[:2] == times < known["published_at"].to_pylist()[2:]
    assert check_ledger(pipeline, spark) == []
    assert [row["event_id"] for row in reader.duplicates().to_pylist()] == ["t3", "t7"], "old ids are known"
    assert replay(pipeline, spark=spark).equal
    if "halves" in pipeline.outputs:
        panes = [row for row in reader.panes("halves").to_pylist() if row["shop"] == "chai"]
        early = [row["paise"] for row in panes if row["timing"] == "EARLY"]
        assert early == [40, 150, 155], "per batch, then one for the late event that came by itself"
    if "visits" in pipeline.outputs:
        assert minutes(reader, "visits")["chai", "14:00"] == 95
        assert sum(row["sales"] for row in reader.results("hours").to_pylist()) == 12


def test_every_format_has_a_step_and_a_store() -> None:
    assert list(STEPS) == list(range(1, FORMAT))
    assert {int(path.name.split("-")[1]) for path in GOLDEN} >= set(range(1, FORMAT))


@pytest.mark.parametrize("later", [FORMAT + 1, "1", None])
def test_a_store_of_a_later_version_is_refused(later: object, tmp_path: Path) -> None:
    (tmp_path / "pipeline.json").write_text(json.dumps({"format": later}), encoding="utf-8")
    with pytest.raises(
        StoreMismatch, match=rf"has format {later}, and this latecomer knows none beyond {FORMAT}"
    ):
        read_pins(tmp_path)


@pytest.mark.parametrize(
    "planted",
    [
        {"outputs": [1]},
        {"outputs": {"a": 7}},
        {"policies": 3},
        {"policies": {"a": "x"}},
        {"policies": {"a": [None]}},
        {"policies": {"a": [{"since": True, "policy": {}}]}},
        {"policies": {"a": [{"since": 0, "policy": {"trigger": 7}}]}},
        {"columns": {"a": "LONG"}},
        {"sources": {"a": {"b": "integer"}}},
        {"schemas": {"a": {"schema": 1}}},
        {"format": 2},
    ],
)
def test_what_no_version_wrote_is_refused_and_not_stumbled_over(
    tmp_path: Path, planted: dict[str, Any]
) -> None:
    written = {"format": 1, "pipeline": "p", "outputs": {}, "policies": {}, "columns": {}, **planted}
    (tmp_path / "pipeline.json").write_text(json.dumps(written), encoding="utf-8")
    with pytest.raises(StoreMismatch, match="restore it"):
        read_pins(tmp_path)
