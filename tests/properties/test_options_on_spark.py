"""The habits of other engines, all at once and over a crowd of keys: Spark says what the oracle says.

Random outputs draw these options too; here each is certain to be met, with heartbeats between the batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.after.replay.replaying import replay
from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.model.oracle.arrivals import Arrival, Heartbeat
from latecomer.model.strategies import Bounded
from spark_kit import PAYLOAD, Batch, Bench, assert_same
from window_kit import AGGREGATES

CLOSING = {"closing": True}
SILENT = {"early": {"count": 2}, "on_time": "if_changed", "late": {"count": 2}}
JOINING = {"session": "4us", "touching": "joins"}
SHARED = {"by": ("key",), "aggregates": AGGREGATES, "allowed_lateness": "6us"}
OUTPUTS = {
    "closed": {"window": {"tumbling": "5us"}, "late": "retract", "trigger": {**SILENT, **CLOSING}},
    "added": {"window": {"sliding": "6us", "every": "3us"}, "late": "update", "trigger": CLOSING}
    | {"accumulation": "discarding"},
    "touching": {"window": JOINING, "late": "update", "trigger": {**SILENT, **CLOSING}},
    "patient": {
        "window": {**JOINING, "max": "12us", "final": "after_gap"},
        "late": "retract",
        "trigger": CLOSING,
    },
    "punctual": {"window": {"session": "4us", "final": "after_gap"}, "trigger": {**SILENT, **CLOSING}},
    "parts": {
        "window": {"session": "3us", "max": "12us", "final": "after_gap"},
        "late": "update",
        "accumulation": "discarding",
        "trigger": {"early": {"every": "4us", "clock": "event"}, "on_time": "if_changed", "closing": True},
    },
}


FIVE = {"tumbling": "5us"}
TRIGGERS = {
    "clocked": {"window": FIVE, "late": "update", "trigger": {"early": "2us", "late": "every 3us"}},
    "marked": {
        "window": {"sliding": "6us", "every": "3us"},
        "late": "retract",
        "trigger": {"early": {"every": "2us", "clock": "event"}},
    },
    "counted": {
        "window": FIVE,
        "late": "update",
        "accumulation": "discarding",
        "trigger": {"early": {"count": 2}, "late": {"count": 2}},
    },
    "empty": {"window": FIVE, "late": "update", "emit_empty": True, "trigger": {"early": {"count": 3}}},
    "whole": {"window": {"global": True}, "trigger": {"early": "3us"}, "allowed_lateness": 0},
    "strict": {"window": FIVE, "late": "drop", "allowed_lateness": 0},
    "uneven": {"window": {"sliding": "7us", "every": "3us"}, "late": "update", "too_late": "drop"},
}
"""Every trigger, mode and fate of fixed windows."""


def crowd(seed: int, rows: int, most: int) -> list[Batch]:
    """Rows of some keys in arrival order, null among them, cut into batches with a silence after each."""
    chance, now, batches = Random(seed), 0, list[Batch]()
    for _ in range(most):
        batch = []
        for _ in range(rows // most):
            now += chance.choice((0, 0, 0, 0, 1))
            behind = chance.choice((0, 0, 0, 1, 2, 3, 4, 5, 8, 13, -1))
            key = str(chance.randrange(12))
            payload = {"key": None if key == "11" else key, "paise": chance.randrange(9), "ok": True}
            batch.append(Arrival(now - behind, now, chance.choice("ab"), payload))
        batches.append(batch)
        now += chance.choice((2, 9))
        batches.append(Heartbeat(now))
    return batches


def run_and_compare(
    spark: SparkSession,
    folder: Path,
    batches: list[Batch],
    restart: bool,
    written: Mapping[str, Any] = OUTPUTS,
) -> None:
    outputs = {name: Output(**{**SHARED, **each}) for name, each in written.items()}
    strategy = Bounded("1us", every="1us", idle_after="4us")
    bench = Bench(spark, folder, strategy, outputs, PAYLOAD, ids=False, spread=True)
    store = bench.run(batches, drain=True, restart=restart)
    assert_same(bench, store, bench.oracle(batches, drain=True), batches)
    assert check_ledger(bench.pipeline, spark) == []


def test_every_option_says_what_the_oracle_says(spark: SparkSession, tmp_path: Path) -> None:
    run_and_compare(spark, tmp_path, crowd(7, rows=80, most=2)[:3], restart=False)


def test_every_trigger_says_what_the_oracle_says(spark: SparkSession, tmp_path: Path) -> None:
    run_and_compare(spark, tmp_path, crowd(5, rows=90, most=3)[:5], restart=True, written=TRIGGERS)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_every_trigger_over_more_batches(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    run_and_compare(spark, tmp_path, crowd(seed, rows=400, most=5), restart=seed % 2 == 0, written=TRIGGERS)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_every_option_over_more_batches(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    run_and_compare(spark, tmp_path, crowd(seed, rows=400, most=5), restart=seed % 2 == 0)


@pytest.mark.long
def test_a_replay_repeats_every_option(spark: SparkSession, tmp_path: Path) -> None:
    outputs = {name: Output(**{**SHARED, **each}) for name, each in OUTPUTS.items()}
    bench = Bench(spark, tmp_path, Bounded("1us", every="1us", idle_after="4us"), outputs, PAYLOAD, ids=False)
    bench.run(crowd(3, rows=120, most=3), drain=True)
    assert replay(bench.pipeline, spark=spark).equal
    assert replay(bench.pipeline, one_shot=True, spark=spark).equal
