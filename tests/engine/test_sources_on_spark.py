"""Several sources in one pipeline: an app's payments in JSON and a shop's tills in CSV, with other names and times."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.after.replay.replaying import replay
from latecomer.api import replay_dead_letters
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import PipelineError, StoreMismatch
from latecomer.store.store import open_store
from source.fates_kit import by_the_ledger, by_the_oracle

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
INDIA = timedelta(hours=5, minutes=30)


@dataclass
class Shop:
    """A folder with both sources in it, and the pipeline over them."""

    folder: Path
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Source → what is changed of it."""
    files: int = 0

    @property
    def pipeline(self) -> Pipeline:
        sources: dict[str, dict[str, Any]] = {
            "app": {
                "files": {"path": "app", "order_by": "seen"},
                "schema": {"id": "bigint", "at": "string", "seen": "string", "paise": "bigint"},
                "watermark": {"delay": "30s", "idle_after": "20m", "max_future": None},
            },
            "pos": {
                "files": {"path": "pos", "format": "csv", "order_by": "seen", "partition": "till"},
                "schema": {
                    "receipt no": "bigint",
                    "sold_at": "string",
                    "seen": "string",
                    "amount": "bigint",
                    "till": "string",
                },
                "columns": {"id": "`receipt no`", "at": "sold_at", "paise": "amount"},
                "zone": "Asia/Kolkata",
                "watermark": {"delay": "10m", "idle_after": "30m", "max_future": None},
            },
        }
        hourly = {"window": {"tumbling": "10m"}, "aggregates": {"paise": "sum(paise)", "n": "count(*)"}}
        return Pipeline.model_validate(
            {
                "name": "shop",
                "store": "store",
                "base": self.folder,
                "sources": {name: {**each, **self.changes.get(name, {})} for name, each in sources.items()},
                "event": {"time": "at", "id": ["source", "id"]},
                "outputs": {"all": hourly, "each": {**hourly, "by": ["source", "till"]}},
                "ledger": ["paise"],
            }
        )

    def app(self, *rows: tuple[int, float, float]) -> None:
        """Payments: number, minutes after noon, and how many minutes later they came."""
        lines = [
            json.dumps({"id": n, "at": written(at), "seen": written(at + behind), "paise": n})
            for n, at, behind in rows
        ]
        self._file("app", ".json").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def pos(self, *rows: tuple[int, float, float], till: str = "A") -> None:
        """The same of a till, which writes the time of its shop."""
        with open(self._file("pos", ".csv"), "w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["receipt no", "sold_at", "seen", "amount", "till"])
            for n, at, behind in rows:
                sold = (NOON + timedelta(minutes=at) + INDIA).strftime("%Y-%m-%d %H:%M:%S")
                lines.writerow([n, sold, written(at + behind), 1000 * n, till])

    def _file(self, source: str, ending: str) -> Path:
        (self.folder / source).mkdir(parents=True, exist_ok=True)
        self.files += 1
        return self.folder / source / f"{self.files:04d}{ending}"


def written(minutes: float) -> str:
    return (NOON + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def standing(pipeline: Pipeline, output: str) -> dict[Any, tuple[int, int]]:
    rows = Reader(pipeline).results(output).to_pylist()
    by = pipeline.outputs[output].by
    return {
        (row["window_start"].strftime("%H:%M"), *(row[name] for name in by)): (row["paise"], row["n"])
        for row in rows
    }


def require_consistent(pipeline: Pipeline, spark: SparkSession) -> None:
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal
    anew = replay(pipeline, changes={"sources.app.watermark.delay": "30s"}, spark=spark)
    assert anew.equal, "the timeline computed anew says the same"
    for output in pipeline.outputs:
        assert by_the_ledger(pipeline, output) == by_the_oracle(pipeline, output)


def test_two_folders_are_one_stream(spark: SparkSession, tmp_path: Path) -> None:
    """Names, times and partitions of each; the slower one decides; a source that is silent holds the watermark until
    it is idle; what comes late is late by the watermark of all."""
    shop = Shop(tmp_path)
    shop.app((1, 0, 0.1), (2, 4, 0.1), (3, 25, 0.1))
    shop.pos((1, 1, 0.1), (2, 5, 0.1))
    shop.pos((3, 2, 0.1), (4, 14, 0.1), till="B")
    run(shop.pipeline, once=True, spark=spark)
    assert standing(shop.pipeline, "all") == {}, "till A is at 12:05 less ten minutes"
    shop.app((4, 40, 0.1), (4, 40, 0.1))
    shop.pos((5, 41, 0.1))
    shop.pos((6, 42, 0.1), (7, 1, 42), till="B")  # the last is half an hour too late
    run(shop.pipeline, once=True, spark=spark)
    pipeline = shop.pipeline
    assert standing(pipeline, "all") == {("12:00",): (6003, 5), ("12:10",): (4000, 1), ("12:20",): (3, 1)}
    shop.app((5, 80, 0.1), (6, 90, 0.1))  # and nothing from the tills: they are idle after half an hour
    run(pipeline, once=True, spark=spark)
    assert ("12:40",) in standing(pipeline, "all")
    run(pipeline, drain=True, spark=spark)
    assert standing(pipeline, "each")["12:00", "pos", "B"] == (3000, 1)
    rows = open_store(pipeline).events.query("select distinct source_partition, source from t order by 1")
    assert [tuple(row.values()) for row in rows.to_pylist()] == [
        ("app", "app"),
        ("pos/A", "pos"),
        ("pos/B", "pos"),
    ]
    assert by_the_ledger(pipeline, "all") == {"on_time": 12, "side_output": 1}
    require_consistent(pipeline, spark)


@pytest.mark.long
def test_nothing_is_late_because_of_the_order_in_which_sources_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """After a day without a run both have hours of backlog; the app's is read first, and moves the arrival clock far
    beyond the silence that the tills are allowed."""
    shop = Shop(tmp_path)
    shop.app((0, 0, 0))
    shop.pos((0, 0, 0))
    run(shop.pipeline, once=True, spark=spark)
    shop.app(*((n, n, 0.1) for n in range(1, 300)))
    shop.pos(*((n, n, 0.1) for n in range(1, 300)))
    run(shop.pipeline, drain=True, spark=spark)
    assert by_the_ledger(shop.pipeline, "all") == {"on_time": 600}
    require_consistent(shop.pipeline, spark)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_whatever_comes_when(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    dice, shop, now = random.Random(seed), Shop(tmp_path), 0.0
    shop.app((-1, 0, 0))
    shop.pos((-1, 0, 0))
    for number in range(0, 60, 10):
        for deliver in (shop.app, shop.pos):
            if dice.random() < 0.7:
                deliver(
                    *(
                        (number + n, now + dice.uniform(0, 20), dice.choice((0, 0, 0.2, 5, 30)))
                        for n in range(dice.randint(1, 9))
                    )
                )
        now += dice.uniform(0, 40)
        run(shop.pipeline, once=True, spark=spark)
    run(shop.pipeline, drain=True, spark=spark)
    require_consistent(shop.pipeline, spark)


@pytest.mark.long
def test_dead_letters_are_replayed_source_by_source(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.app((1, 0, 0))
    shop.pos((1, 0, 0))
    (tmp_path / "app" / "bad.json").write_text(
        '{"id": 7, "at": "16.11.2026 12:01", "seen": "2026-11-16T12:01:00Z", "paise": 70}\n'
    )
    (tmp_path / "pos" / "bad.csv").write_text(
        "receipt no,sold_at,seen,amount,till\n8,16.11.2026 17:32,2026-11-16T12:02:00Z,80,C\n"
    )
    pipeline = shop.pipeline
    run(pipeline, once=True, spark=spark)
    (received,) = (
        row
        for row in Reader(pipeline).ledger_totals().to_pylist()
        if (row["output"], row["unit"]) == ("all", "paise")
    )
    assert received["dead_letter"] == 150, "each source has its own name for the amount"
    fix = {"format": "dd.MM.yyyy HH:mm"}
    with pytest.raises(PipelineError, match="there are dead letters of app and pos"):
        replay_dead_letters(pipeline, fix=fix, spark=spark)
    with pytest.raises(PipelineError, match="did you mean pos"):
        replay_dead_letters(pipeline, fix=fix, source="pso", spark=spark)
    assert replay_dead_letters(pipeline, fix=fix, source="pos", spark=spark).events == 1
    assert replay_dead_letters(pipeline, fix=fix, spark=spark).events == 1
    run(pipeline, drain=True, spark=spark)
    assert standing(pipeline, "each") == {
        ("12:00", "app", None): (71, 2),
        ("12:00", "pos", "A"): (1000, 1),
        ("12:00", "pos", "C"): (80, 1),
    }
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal


def test_a_store_keeps_its_sources(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.app((1, 0, 0))
    shop.pos((1, 0, 0))
    run(shop.pipeline, once=True, spark=spark)
    shop.changes = {"pos": {"zone": "UTC"}}
    with pytest.raises(StoreMismatch, match="made with other sources"):
        run(shop.pipeline, once=True, spark=spark)
