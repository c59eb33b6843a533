"""Sessions on Spark: merged, told, taken back and told again, as the oracle says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.config.models import Output
from latecomer.ledger.check import check_ledger
from latecomer.model.arrivals import Arrival
from latecomer.model.strategies import Bounded
from latecomer.store.store import Store
from spark_kit import PAYLOAD, Bench, assert_same, stored_panes

POLICIES = ("drop", "side_output", "update", "retract")


def visits(late: str = "update", lateness: str = "10us", **fields: Any) -> Output:
    """Visits of each key: ten microseconds without an event end them."""
    window = {"session": "10us", "max": fields.pop("max", None)}
    aggregates = {"paise": "sum(paise)", "rows": "count(*)", "largest": "max(paise)"}
    return Output(
        **{
            "window": window,
            "by": ["key"],
            "aggregates": aggregates,
            "allowed_lateness": lateness,
            "late": late,
            **fields,
        }
    )


def steps(*times: int | str | tuple[int, str | None]) -> list[Arrival]:
    """A number is an event of ann's, a pair one of another key's, `w30` takes the watermark to 30."""
    read = []
    for place, time in enumerate(times):
        if isinstance(time, str):
            at, key = int(time[1:]), "other"
        else:
            at, key = (time, "ann") if isinstance(time, int) else time
        payload = {"key": key, "paise": place + 1, "ok": place % 5 != 3}
        read.append(Arrival(at, place, payload=payload, event_id=place))
    return read


def cut_at(read: list[Arrival], *sizes: int) -> list[list[Arrival]]:
    batches, start = [], 0
    for size in sizes:
        batches.append(read[start : start + size])
        start += size
    return [*batches, read[start:]] if start < len(read) else batches


def compared(
    spark: SparkSession,
    folder: Path,
    batches: list[list[Arrival]],
    drain: bool = True,
    restart: bool = False,
    delay: str = "0s",
    **outputs: Output,
) -> Store:
    """Run, and hold everything against the oracle and the ledger's own check."""
    bench = Bench(spark, folder, Bounded(delay, every="event"), outputs, PAYLOAD)
    store = bench.run(batches, drain=drain, restart=restart)
    oks = {name: (lambda payload: payload["ok"]) for name, output in outputs.items() if output.where}
    assert_same(bench, store, bench.oracle(batches, drain=drain, **oks), batches)
    assert check_ledger(bench.pipeline, spark) == []
    return store


BRIDGED = steps(0, 12, 24, (3, None), 6, 18, "w60", (70, None), "w99")


@pytest.mark.parametrize("sizes", [(9,), (1,) * 9, (3, 1, 1), (4, 1, 2)])
def test_events_that_bridge_three_sessions(
    spark: SparkSession, tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    batches = cut_at(BRIDGED, *sizes)
    outputs = {"keyed": visits("drop"), "whole": visits("update", by=[])}
    store = compared(spark, tmp_path, batches, delay="20us", **outputs)
    told = {pane.place: pane.values["rows"] for _, pane in stored_panes(store, "keyed")}
    assert told[0, 34, ("ann",)] == 5


LATE = steps(0, 5, "w20", 8, "w24", 13, "w26", 30, 21, "w45", 32, 1, "w100", 33, (2, None), 41)


@pytest.mark.parametrize("sizes", [(15,), (1,) * 15, (3, 2, 5)])
def test_late_events_under_every_policy(spark: SparkSession, tmp_path: Path, sizes: tuple[int, ...]) -> None:
    outputs = {policy: visits(policy) for policy in POLICIES}
    compared(spark, tmp_path, cut_at(LATE, *sizes), restart=len(sizes) == 3, **outputs)
