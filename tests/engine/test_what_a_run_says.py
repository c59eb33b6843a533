"""What a run reports and warns of, and what it says when the ground goes under its feet."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer import LatecomerError, replay, run
from latecomer.after.rebuild import rebuilding
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.ledger.report import BatchReport
from latecomer.errors import StoreError
from latecomer.model.verdicts import END_OF_TIME
from shop_kit import arrive, shop

MORE = "  by_hour: {window: {tumbling: 1h}, aggregates: {n: count(*)}}\n"


def test_a_store_from_its_first_run_to_after_its_drain(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "latecomer")
    arrive(tmp_path, "0.json", range(10))
    first = run(shop(tmp_path), once=True, spark=spark)
    assert (first.batches, first.computed, first.drained) == (1, {}, False)

    # Nothing new, but an output that is: it is named, and takes its time under its name.
    caplog.clear()
    grown = shop(tmp_path, MORE)
    second = run(grown, once=True, spark=spark)
    assert (second.batches, list(second.computed)) == (1, ["by_hour"])
    assert (second.watermark, second.newest_arrival) == (first.watermark, first.newest_arrival)
    assert "computing the new output by_hour from the log: 10 events" in caplog.messages
    assert not warnings(caplog)

    third = run(grown, drain=True, spark=spark)
    assert (third.watermark, third.drained) == (END_OF_TIME, True)
    assert [each.split(":")[0] for each in warnings(caplog)] == ["a drain ends the input"]

    caplog.clear()
    arrive(tmp_path, "1.json", range(10, 12))
    reports: list[BatchReport] = []
    fourth = run(grown, once=True, spark=spark, watch=reports.append)
    assert fourth.drained
    (said,) = warnings(caplog)
    assert said.startswith(f"the input of store {grown.store_path} was drained")
    fates = {
        entry.output: {fate.value: int(n) for fate, n in entry.fates.items() if n}
        for entry in reports[0].entries
    }
    assert fates["totals"] == {"side_output": 2}  # as the warning says

    # A file of the log is gone: whoever computes from it says so in one sentence.
    for file in grown.store_path.glob("events/data/**/*.parquet"):
        file.unlink()
    calls = {
        "check": lambda: check_ledger(grown, spark),
        "replay": lambda: replay(grown, spark=spark),
        "plan": lambda: rebuilding.plan(grown, "totals", spark=spark),
        "new": lambda: run(shop(tmp_path, MORE + MORE.replace("by_hour", "again")), once=True, spark=spark),
    }
    for name, call in calls.items():
        with pytest.raises(LatecomerError) as error:
            call()
        assert str(error.value).count("\n") == 0, (name, str(error.value))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_store_that_is_removed_during_a_run(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path, "0.json", range(3))
    pipeline, began = shop(tmp_path), threading.Event()
    stop = threading.Event()

    def remove() -> None:
        if began.wait(120):
            # In one step: a store that is half removed has other errors to tell of.
            shutil.rmtree(pipeline.store_path.rename(tmp_path / "removed"), ignore_errors=True)
            arrive(tmp_path, "1.json", range(3, 6))
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not stop.wait(0.2):
                pass
            stop.set()

    removing = threading.Thread(target=remove)
    removing.start()
    try:
        with pytest.raises(StoreError, match="was moved or removed while it was in use"):
            run(pipeline, spark=spark, watch=lambda _: began.set(), stop=stop)
    finally:
        began.set()
        stop.set()
        removing.join()
