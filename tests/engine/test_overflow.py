"""Sums grow without end and stop nothing; what outgrows all bounds is named, and nothing is lost."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import PipelineError
from latecomer.store.store import Store, open_store

LARGEST = (1 << 63) - 1
NINES = 10**38 - 1
LANDED = 1_794_146_400  # 2026-11-08T14:00:00Z


def pipeline_in(folder: Path, kind: str, store: str = "store", **changes: Any) -> Pipeline:
    output = {"window": {"tumbling": "1m"}, "aggregates": {"total": "sum(paise)"}}
    return Pipeline.model_validate(
        {
            "name": "sums",
            "store": store,
            "base": folder,
            "source": {"files": {"path": "in"}, "schema": {"at": "string", "paise": kind}},
            "event": {"time": "at"},
            "watermark": {"delay": "0s"},
            "outputs": {"totals": output, "counts": {**output, "aggregates": {"n": "count(*)"}}},
            **changes,
        }
    )


def write(folder: Path, name: str, *amounts: int, at: str = "14:00", landed: int = 0) -> None:
    (folder / "in").mkdir(exist_ok=True)
    rows = [{"at": f"2026-11-08T{at}:00Z", "paise": amount} for amount in amounts]
    file = folder / "in" / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(file, (LANDED + landed, LANDED + landed))


def values(store: Store, output: str, column: str) -> list[Any]:
    panes = store.output_tables(output, None).panes
    return panes.query(f"select {column} from t").column(0).to_pylist() if panes.exists else []


def as_before(pipeline: Pipeline) -> None:
    """Let the store be one of a version that summed whole numbers up in 64 bits."""
    pipeline.store_path.mkdir(parents=True, exist_ok=True)
    pins = {"format": 1, "pipeline": pipeline.name, "outputs": {}, "policies": {}, "columns": {}}
    pins["columns"] = dict(pipeline.source.columns or {})
    (pipeline.store_path / "pipeline.json").write_text(json.dumps(pins))


def test_a_sum_beyond_64_bits_is_a_decimal_and_nothing_stops(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.json", LARGEST, LARGEST)
    pipeline = pipeline_in(tmp_path, "bigint", ledger=["paise"])
    run(pipeline, drain=True, spark=spark)
    store = open_store(pipeline)
    assert values(store, "totals", "total") == [2 * LARGEST]
    assert values(store, "counts", "n") == [2]
    assert check_ledger(pipeline, spark) == []
    (row,) = store.ledger.query("select * from t where output = 'totals' and unit = 'paise'").to_pylist()
    assert row["received"] == row["on_time"] == 2 * LARGEST


LATE = {
    "window": {"tumbling": "1m"},
    "aggregates": {"total": "sum(paise)"},
    "allowed_lateness": "1d",
    "late": "update",
}


@pytest.mark.long
@pytest.mark.parametrize(("old", "outgrown"), [(False, 2 * LARGEST), (True, None)])
def test_a_sum_that_outgrows_64_bits_through_late_events_goes_on(
    spark: SparkSession, tmp_path: Path, old: bool, outgrown: int | None
) -> None:
    """In a store of an earlier version its column cannot hold the sum: it is null there until it fits again."""
    pipeline = pipeline_in(tmp_path, "bigint", outputs={"totals": LATE}, ledger=["paise"])
    if old:
        as_before(pipeline)
    write(tmp_path, "a.json", LARGEST)
    write(tmp_path, "b.json", 1, at="14:05", landed=10)
    write(tmp_path, "c.json", 1, at="14:05", landed=20)
    run(pipeline, once=True, spark=spark)
    write(tmp_path, "d.json", LARGEST, landed=30)
    run(pipeline, once=True, spark=spark)
    write(tmp_path, "e.json", -LARGEST, landed=40)
    run(pipeline, once=True, spark=spark)
    store = open_store(pipeline)
    panes = "select total from t where window_start = timestamp '2026-11-08T14:00:00Z' order by sequence"
    found = store.output_tables("totals", None).panes.query(panes).column(0)
    assert found.to_pylist() == [LARGEST, outgrown, LARGEST]
    assert found.type == (pa.int64() if old else pa.decimal128(38, 0))
    assert check_ledger(pipeline, spark) == []


def test_a_decimal_beyond_38_digits_is_null_with_a_warning_and_stops_nothing(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "a.json", NINES, NINES, 1)
    pipeline = pipeline_in(tmp_path, "decimal(38,0)")
    run(pipeline, drain=True, spark=spark)
    store = open_store(pipeline)
    assert values(store, "totals", "total") == [None]
    assert values(store, "counts", "n") == [3]
    assert "output totals: total does not fit decimal(38,0) in 1 places and is null there" in caplog.text


@pytest.mark.parametrize("kind", ["decimal(38,31)", "decimal(38,38)"])
def test_any_digits_after_the_point_stop_nothing(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    (tmp_path / "in").mkdir()
    most = "0.9" if kind == "decimal(38,38)" else "9999999.9"
    amounts = f'"2026-11-08T14:00:00Z", "paise": {most}', '"2026-11-08T14:02:00Z", "paise": 0.25'
    rows = [f'{{"at": {amount}}}\n' for amount in amounts for _ in range(2)]
    (tmp_path / "in" / "a.json").write_text("".join(rows))
    outcome = ("sum", "avg", "var_pop", "stddev")
    output = {"window": {"tumbling": "1m"}, "aggregates": {name: f"{name}(paise)" for name in outcome}}
    pipeline = pipeline_in(tmp_path, kind, outputs={"totals": output})
    run(pipeline, drain=True, spark=spark)
    panes = open_store(pipeline).output_tables("totals", None).panes
    rows = panes.query(f"select {', '.join(outcome)} from t order by window_start").to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (None, None, 0.0, 0.0),
        (Decimal("0.5"), Decimal("0.25"), 0.0, 0.0),
    ]


def test_an_overflow_within_a_predicate_stops_nothing(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.json", LARGEST, 5)
    output = {"window": {"tumbling": "1m"}, "aggregates": {"total": "sum(paise)"}, "where": "paise + 1 > 0"}
    pipeline = pipeline_in(tmp_path, "bigint", outputs={"totals": output})
    run(pipeline, drain=True, spark=spark)
    assert values(open_store(pipeline), "totals", "total") == [5]


@pytest.mark.long
def test_one_event_of_1970_does_not_become_a_pane_for_every_minute_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The first event of a store has no watermark to be late by; emit_empty would tell 29 million windows."""
    write(tmp_path, "a.json", 1)
    first = json.dumps({"at": "1970-01-01T00:00:00Z", "paise": 5})
    file = tmp_path / "in" / "a.json"
    file.write_text(f"{first}\n{file.read_text()}")
    os.utime(file, (LANDED, LANDED))
    write(tmp_path, "b.json", 2, at="14:02", landed=120)
    output = {"window": {"tumbling": "1m"}, "aggregates": {"total": "sum(paise)"}}
    for _ in range(2):
        with pytest.raises(PipelineError) as stopped:
            run(
                pipeline_in(tmp_path, "bigint", outputs={"totals": {**output, "emit_empty": True}}),
                spark=spark,
                drain=True,
            )
        (problem,) = stopped.value.problems
        assert (problem.field, problem.value) == ("outputs.totals.emit_empty", True)
        assert "29,902,439 windows closed in one batch since 1970-01-01 00:01" in problem.message
        assert "set emit_empty: false" in str(problem.fix)
    fixed = pipeline_in(tmp_path, "bigint", outputs={"totals": output})
    run(fixed, drain=True, spark=spark)
    assert sorted(values(open_store(fixed), "totals", "total")) == [1, 2, 5]
