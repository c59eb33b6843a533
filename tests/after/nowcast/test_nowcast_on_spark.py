"""A pipeline that runs: estimates, held against what was published in the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

import latecomer
from latecomer import Output, Reader
from latecomer.model.arrivals import Arrival
from latecomer.model.strategies import Bounded
from spark_kit import PAYLOAD, Bench

SECOND = 1_000_000
BEGIN = 1_794_139_200 * SECOND
MOMENTS = (593,)
"""Seconds at which the numbers are estimated."""
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


def test_estimates_are_held_against_what_was_published(spark: SparkSession, tmp_path: Path) -> None:
    minutes = {
        "window": {"tumbling": "10s"},
        "by": ["key"],
        "aggregates": {"paise": "sum(paise)", "n": "count(*)"},
    }
    outputs = {"updated": Output(**minutes, late="update", allowed_lateness="1h"), "aside": Output(**minutes)}
    bench = Bench(spark, tmp_path, Bounded("3s"), outputs, PAYLOAD)
    events = arrivals()
    ends = [*(BEGIN + second * SECOND for second in MOMENTS), BEGIN + 10**12]
    engine, found = bench.engine(), []
    for nth, end in enumerate(ends):
        start = ends[nth - 1] if nth else 0
        batch = [each for each in events if start < each.arrival_time <= end]
        engine.data(nth, bench.write(nth, batch))
        engine.finish()
        if nth < len(MOMENTS):
            found.append({name: latecomer.nowcast(bench.pipeline, name) for name in outputs})
            shown = {place(row): row for row in Reader(bench.pipeline).results("updated", True).to_pylist()}
            for row in found[-1]["updated"].rows.to_pylist():
                assert shown[place(row)]["n"] == row["n"], "the numbers are those of results"
    engine.sinks.close()

    for name in outputs:
        final = {place(row): row for row in Reader(bench.pipeline).results(name, True).to_pylist()}
        held = []
        for each in found:
            assert each[name].refused is None
            assert each[name].stationary is True
            for row in each[name].rows.to_pylist():
                last = final[place(row)]
                assert row["n_low"] <= row["n_estimate"] <= row["n_high"]
                if row["n_low"] == row["n_high"] == row["n"]:
                    assert name == "updated" or last["n"] == row["n"], "nothing more is taken in"
                    continue
                held += [
                    row[f"{column}_low"] <= last[column] <= row[f"{column}_high"] for column in ("n", "paise")
                ]
        assert len(held) >= 12
        assert np.mean(held) > 0.7, name
    closed = [row for row in found[-1]["aside"].rows.to_pylist() if row["timing"] == "ON_TIME"]
    assert closed
    assert min(row["complete"] for row in closed) < 1, "what was set aside is missing"
    assert any("came too late for this output" in note for note in found[-1]["aside"].notes)
