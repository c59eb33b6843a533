"""A pipeline that runs: estimates, held against what was published in the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import latecomer
from latecomer import Output, Reader
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from spark_kit import PAYLOAD, Bench

SECOND = 1_000_000
BEGIN = 1_794_139_200 * SECOND
KEYS = ("amul", "bata", "cred", "dmart", "eka", None)


def arrivals(seconds: int = 600, each: int = 9) -> list[Arrival]:
    """So many events a second of six keys, with delays of five seconds on average."""
    rng = np.random.default_rng(3)
    happened = rng.integers(0, seconds * SECOND, seconds * each)
    came = happened + (rng.exponential(5, len(happened)) * SECOND).astype(np.int64)
    return [
        Arrival(
            BEGIN + int(happened[nth]),
            BEGIN + int(came[nth]),
            "part",
            {"key": KEYS[nth % len(KEYS)], "paise": int(nth) % 11, "ok": True},
            event_id=int(nth),
        )
        for nth in np.argsort(came, kind="stable")
    ]


def place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["window_start"], row["key"]


@pytest.mark.long
def test_estimates_are_held_against_what_was_published(spark: SparkSession, tmp_path: Path) -> None:
    """Windows are updated for twelve seconds; what comes later is set aside, and is in no estimate."""
    sums = {"paise": "sum(paise)", "n": "count(*)"}
    window = {"window": {"tumbling": "10s"}, "by": ["key"], "aggregates": sums}
    output = Output(**window, late="update", allowed_lateness="12s")
    bench = Bench(spark, tmp_path, Bounded("3s"), {"sums": output}, PAYLOAD)
    events, moment = arrivals(), BEGIN + 593 * SECOND
    engine = bench.engine()
    engine.data(0, bench.write(0, [each for each in events if each.arrival_time <= moment]))
    engine.finish()
    found = latecomer.nowcast(bench.pipeline, "sums")
    shown = {place(row): row["n"] for row in Reader(bench.pipeline).results("sums", True).to_pylist()}
    engine.data(1, bench.write(1, [each for each in events if each.arrival_time > moment]))
    engine.finish()
    engine.sinks.close()
    final = {place(row): row for row in Reader(bench.pipeline).results("sums", True).to_pylist()}

    assert found.refused is None
    assert found.stationary is True
    rows = found.rows.to_pylist()
    assert {place(row): row["n"] for row in rows}.items() <= shown.items(), "the numbers are those of results"
    settled = [row for row in rows if row["n_low"] == row["n"] == row["n_high"]]
    assert [final[place(row)]["n"] for row in settled] == [row["n"] for row in settled]
    assert min(row["complete"] for row in settled) < 1, "what was set aside is missing"
    assert any("came too late for this output" in note for note in found.notes)
    held = [
        row[f"{column}_low"] <= final[place(row)][column] <= row[f"{column}_high"]
        for row in rows
        if row not in settled
        for column in sums
    ]
    assert len(held) >= 20
    assert np.mean(held) > 0.7
