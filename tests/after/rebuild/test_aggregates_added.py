"""An aggregate more in the file of a store that is there: refused with the command that adds it, which then does."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from statistics import mean, median, variance
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import latecomer
from cli.cli_kit import rows_of
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import PipelineError, StoreMismatch
from latecomer.model.durations import to_micros
from latecomer.model.strategies import Bounded
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import END_OF_TIME
from latecomer.store.definitions import definition_of
from latecomer.store.layout import LEDGER, WATERMARKS
from latecomer.store.rebuilds import RebuildRecord, Rebuilds
from latecomer.store.source_columns import source_columns
from latecomer.store.store import Store
from latecomer.windowing.firing.republish import require_brought_over
from spark_kit import require_explained

FIRST = {"paise": "sum(paise)", "n": "count(*)"}
MORE = {
    **FIRST,
    "least": "min(paise)",
    "known": "count(fee)",
    "fees": "sum(fee)",
    "half": "sum(half)",
    "mean": "avg(paise)",
    "spread": "variance(paise)",
    "middle": "median(paise)",
    "kinds": "count_distinct(paise)",
    "about": "approx_count_distinct(paise)",
    "upper": "approx_percentile(paise, 0.5)",
    "newest": "last(paise)",
}
SINKS = [{"sqlite": "out.db"}, {"delta": "out"}, {"jsonl": "lines"}, {"parquet": "files"}]
NOON = datetime(2026, 11, 8, 12, tzinfo=UTC)


def pipeline_in(folder: Path, aggregates: dict[str, str], **output: Any) -> Pipeline:
    (folder / "in").mkdir(exist_ok=True)
    schema: dict[str, Any] = {
        "at": "string",
        "seen": "string",
        "place": {"shop": "string"},
        "paise": "bigint",
        "fee": "decimal(9,2)",
    }
    totals = {
        "window": {"tumbling": "1m"},
        "by": ["place.shop"],
        "columns": {"half": "paise / 2"},
        "aggregates": aggregates,
        "allowed_lateness": "1m",
        "late": "retract",
        "too_late": "side_output",
        "sinks": SINKS,
        **output,
    }
    return Pipeline.model_validate(
        {
            "name": "added",
            "store": "store",
            "base": folder,
            "source": {"files": {"path": "in", "order_by": "seen"}, "schema": schema},
            "event": {"time": "at"},
            "watermark": {"delay": "0s", "every": "event"},
            "ledger": ["paise"],
            "outputs": {"totals": totals},
        }
    )


class Sales:
    """Sales of one shop, each with the second after noon at which it happened and that at which it came."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sold: list[tuple[int, int, str]] = []

    def write(self, *seconds: tuple[int, int]) -> None:
        """A file of sales; each is worth 1000 paise and the number of sales before it."""
        rows = []
        for at, came in seconds:
            paise = 1000 + len(self.sold)
            fee = None if len(self.sold) % 2 else "0.25"
            self.sold.append((at, paise, fee or ""))
            moments = {
                name: NOON.replace(minute=second // 60, second=second % 60).isoformat()
                for name, second in (("at", at), ("seen", came))
            }
            rows.append({**moments, "place": {"shop": "amul"}, "paise": paise, "fee": fee})
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (self.folder / "in" / f"{len(self.sold):03}.json").write_text(lines)

    def true(self, minute: int, without: tuple[int, ...] = ()) -> dict[str, Any]:
        """What each aggregate of a minute is, without the sales of some numbers."""
        sold = [each for nth, each in enumerate(self.sold) if each[0] // 60 == minute and nth not in without]
        paise, fees = [each[1] for each in sold], [Decimal(each[2]) for each in sold if each[2]]
        return {
            "paise": sum(paise),
            "n": len(paise),
            "least": min(paise),
            "known": len(fees),
            "fees": sum(fees) if fees else None,
            "half": sum(paise) / 2,
            "mean": mean(paise),
            "spread": variance(paise) if len(paise) > 1 else None,
            "middle": median(paise),
            "kinds": len(set(paise)),
            "about": len(set(paise)),
            "newest": max(sold)[1],
        }


def standing(pipeline: Pipeline) -> dict[int, dict[str, Any]]:
    rows = latecomer.Reader(pipeline).results("totals").to_pylist()
    return {row["window_start"].minute: row for row in rows}


def is_true(row: dict[str, Any], expected: dict[str, Any]) -> bool:
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert row["upper"] is not None
    return True


@pytest.mark.long
def test_a_rebuild_adds_aggregates_and_nothing_else_changes(spark: SparkSession, tmp_path: Path) -> None:
    sales = Sales(tmp_path)
    first, more = (pipeline_in(tmp_path, aggregates) for aggregates in (FIRST, MORE))
    # Minutes 0 to 2 are over, 3 may get late sales, 4 is open.
    sales.write((5, 5), (65, 65), (70, 70), (125, 125), (190, 190), (130, 200), (195, 230), (245, 245))
    run(first, once=True, spark=spark)
    stood = standing(first)
    with pytest.raises(StoreMismatch) as caught:
        run(more, once=True, spark=spark)
    assert (
        "to add least, known, fees, half, mean, spread, middle, kinds, about, upper, newest, run latecomer rebuild "
        "apply FILE totals --from T: windows that start at T or later get it from the log, and earlier ones stay as "
        "they are; or give the changed output a new name"
    ) in str(caught.value)

    begun = "2026-11-08T12:01Z"
    planned = latecomer.plan_rebuild(more, "totals", since=begun, spark=spark)
    assert planned.record.counts["changed"] == planned.record.counts["windows"] == 3
    applied = latecomer.apply_rebuild(more, "totals", since=begun, spark=spark)
    after = standing(more)
    assert {minute: {name: row[name] for name in FIRST} for minute, row in after.items()} == {
        minute: {name: row[name] for name in FIRST} for minute, row in stood.items()
    }
    assert all(after[0][name] is None for name in MORE if name not in FIRST)
    for minute in (1, 2, 3):
        assert (is_true(after[minute], sales.true(minute)), after[minute]["timing"]) == (True, "CORRECTION")

    # Sales of a minute that was open, one that is late for 3, and one that is too late for 1.
    sales.write((250, 250), (200, 251), (75, 252), (400, 400))
    run(more, once=True, spark=spark)
    found = standing(more)
    for minute in (1, 2, 3, 4):
        assert is_true(found[minute], sales.true(minute, without=(10,)))
    assert check_ledger(more, spark) == []
    require_explained(more, "totals")
    assert latecomer.replay(more, spark=spark).equal
    shown = latecomer.explain(more, "totals", "2026-11-08T12:03Z", {"place.shop": "amul"})
    assert shown.panes[0].pane.values.get("least") is None

    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        rows = database.execute("select paise, n, least, kinds from totals order by window_start").fetchall()
    names = ("paise", "n", "least", "kinds")
    assert [tuple(int(each) if each else None for each in row) for row in rows] == [
        tuple(found[minute][name] for name in names) for minute in sorted(found)
    ]
    table = DeltaTable(tmp_path / "out").to_pyarrow_table().sort_by("window_start").to_pylist()
    assert [{name: row[name] for name in MORE} for row in table] == [
        {name: found[minute][name] for name in MORE} for minute in sorted(found)
    ]
    files = sorted((tmp_path / "lines").glob("*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert {line["least"] for line in lines if line["batch"] == applied.batch} == {None, 1001, 1003, 1004}
    # Once more, from the beginning: the first minute has it, too.
    latecomer.apply_rebuild(more, "totals", since="2026-11-08T12:00Z", spark=spark)
    for minute in range(5):
        assert is_true(standing(more)[minute], sales.true(minute))
    assert latecomer.replay(more, spark=spark).equal


@pytest.mark.long
def test_what_a_rebuild_does_not_take_needs_a_new_name(spark: SparkSession, tmp_path: Path) -> None:
    Sales(pipeline_in(tmp_path, FIRST).base).write((5, 5), (65, 65))
    run(pipeline_in(tmp_path, FIRST), once=True, spark=spark)
    for changed in (
        pipeline_in(tmp_path, {"paise": "sum(paise)"}),
        pipeline_in(tmp_path, {**FIRST, "paise": "avg(paise)"}),
        pipeline_in(tmp_path, {**FIRST, "least": "min(paise)"}, by=[]),
        pipeline_in(tmp_path, {**FIRST, "least": "min(paise)"}, window={"tumbling": "5m"}),
    ):
        with pytest.raises(StoreMismatch) as caught:
            run(changed, once=True, spark=spark)
        assert str(caught.value).endswith(
            "; give the changed output a new name, and it is computed from the log"
        )
        with pytest.raises(PipelineError, match="cannot be rebuilt under another definition"):
            latecomer.apply_rebuild(changed, "totals", since="2026-11-08T12:00Z", spark=spark)


# A longer lateness, after that


def test_a_longer_lateness_opens_no_window_that_lacks_an_aggregate(tmp_path: Path) -> None:
    """Late events would be added to what was never counted."""

    def at(minute: int) -> int:
        return to_micros(NOON.replace(minute=minute))

    def store_of(aggregates: dict[str, str], lateness: str) -> Store:
        pipeline = pipeline_in(tmp_path, aggregates, allowed_lateness=lateness)
        return Store(pipeline, source_columns(pipeline))

    def reach(batch: int, minute: int) -> None:
        store = store_of(MORE, "1m")
        carry = Timeline(Bounded("0s")).carry()
        row = {
            "batch": batch,
            "tick": batch,
            "at": at(minute),
            "watermark": at(minute),
            "kind": "tick",
            "carry": carry,
        }
        store.watermarks.append(batch, rows_of(WATERMARKS, [row]))
        store.ledger.append(batch, rows_of(LEDGER, []))

    store_of(FIRST, "1m").pin()
    reach(0, 20)
    rebuilds = Rebuilds(tmp_path / "store", "totals")
    definition = json.loads(json.dumps(definition_of(pipeline_in(tmp_path, MORE).outputs["totals"])))

    def rebuilt(batch: int, since: int, minute: int, definition: Any = None) -> None:
        record = RebuildRecord("totals", at(since), END_OF_TIME, batch - 1, at(minute), 0, 0, definition, {})
        rebuilds.keep(rebuilds.draft(), record).accept(batch)
        reach(batch, minute)

    rebuilt(1, 15, 20, definition)  # minutes from 15 on have them, and those that were within a minute
    for lateness in ("1m", "4m"):
        require_brought_over(store_of(MORE, lateness))
    store_of(MORE, "1m").pin()
    with pytest.raises(StoreMismatch) as caught:
        require_brought_over(store_of(MORE, "10m"))
    assert str(caught.value) == (
        "output totals would add late events to windows that were published under another definition, before batch 1: "
        "its lateness reaches back to 2026-11-08T12:10:00Z now; with the lateness as it was, run latecomer rebuild "
        "apply FILE totals --from 2026-11-08T12:09:00Z, then make it longer"
    )
    reach(2, 30)
    require_brought_over(store_of(MORE, "10m"))
    with pytest.raises(StoreMismatch):
        require_brought_over(store_of(MORE, "18m"))
    rebuilt(3, 2, 30)
    require_brought_over(store_of(MORE, "18m"))
