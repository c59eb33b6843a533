"""Tasks that are attempted twice leave the tables of a run that lost nothing (tests/cluster loses executors)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from faults.faults_kit import left_behind, tables_of, write_pipeline
from latecomer.config.load import load_pipeline
from latecomer.engine.following import follow
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.pipeline import Engine
from latecomer.engine.starting import start_engine
from latecomer.engine.without_data import drain_input
from latecomer.log import events, readable
from latecomer.spark.base import Buckets
from latecomer.spark.tasks import TaskResult, by_bucket, merged
from latecomer.store.source_columns import source_columns
from latecomer.store.store import Store
from spread_kit import Spread, Twice, spread_out


def left_by(folder: Path, runner: type[Spread]) -> dict[str, list[str]]:
    file = write_pipeline(folder)
    file.write_text(file.read_text().replace("max_files_per_batch: 1", "max_files_per_batch: 2"))
    pipeline = load_pipeline(file)
    store = Store(pipeline, source_columns(pipeline))
    with closing(spread_out(Engine(runner(None), store))) as engine:  # type: ignore[arg-type]
        start_engine(engine)
        follow(engine, threading.Event(), bounded=True)
        drain_input(engine)
        engine.finish()
    assert check_ledger(pipeline) == []
    log = tables_of(pipeline)["events"]
    named = {log.location(each) for each in log.files()}
    lost = set(log.root.rglob("part-*.parquet")) - named
    assert bool(lost) == (runner is Twice), "files of attempts that do not count"
    return left_behind(file)


def test_a_task_that_is_attempted_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its attempts write beside each other, and one bucket may have met the one, another bucket the other."""
    monkeypatch.setattr(events, "TASK_BYTES", 1)
    monkeypatch.setattr(readable, "LOGGED_BYTES", 1)
    assert left_by(tmp_path / "twice", Twice) == left_by(tmp_path / "once", Spread)


def test_parts_that_come_in_another_order_are_merged_in_that_of_tasks() -> None:
    """Of an executor that was lost they come last. Floating point numbers add up to something else then."""

    def parts(nth: int) -> Iterator[tuple[int, Any]]:
        return by_bucket(lambda number: _Parted(number), nth, [10 * nth])

    every = [part for nth in (2, 0, 1) for part in parts(nth)]
    buckets = Buckets(lambda _, found: found, [None])
    found = list(merged(buckets, 0, every))
    assert [each.result for each in found] == [0, 10, 20, [1, 11, 21]]
    assert all(isinstance(each, TaskResult) for each in found)


class _Parted:
    def __init__(self, number: int) -> None:
        self.result, self.parts = number, {0: number + 1}
