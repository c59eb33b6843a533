"""What outgrows all bounds stops the batch with the output's name and the mend; nothing is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.config.models import Pipeline
from latecomer.errors import PipelineError, SourceError
from latecomer.running import run
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


def test_a_sum_beyond_64_bits_names_output_column_and_mend(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.json", LARGEST, LARGEST)
    pipeline = pipeline_in(tmp_path, "bigint")
    for _ in range(2):
        with pytest.raises(PipelineError) as stopped:
            run(pipeline, drain=True, spark=spark)
        (problem,) = stopped.value.problems
        assert (problem.field, problem.value) == ("outputs.totals.aggregates", "sum(paise)")
        assert problem.message == "a sum outgrew its type; the batch is logged, and waits"
        assert problem.mend is not None
        assert "declare paise as decimal(38,0) in source.schema and start a new store" in problem.mend
    store = open_store(pipeline)
    assert store.events.query("select paise from t").num_rows == 2
    assert not store.ledger.exists
    assert values(store, "totals", "total") == values(store, "counts", "n") == []

    wider = pipeline_in(tmp_path, "decimal(38,0)", store="wider")
    run(wider, drain=True, spark=spark)
    assert values(open_store(wider), "totals", "total") == [2 * LARGEST]


def test_the_batch_goes_on_in_its_store_without_the_sum(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.json", LARGEST, LARGEST)
    with pytest.raises(PipelineError, match="outgrew"):
        run(pipeline_in(tmp_path, "bigint"), drain=True, spark=spark)
    averages = {"window": {"tumbling": "1m"}, "aggregates": {"mean": "avg(paise)"}}
    mended = pipeline_in(tmp_path, "bigint", outputs={"averages": averages})
    run(mended, drain=True, spark=spark)
    assert values(open_store(mended), "averages", "mean") == [float(LARGEST)]


def test_a_sum_that_outgrows_its_type_through_late_events_is_told_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    late = {
        "window": {"tumbling": "1m"},
        "aggregates": {"total": "sum(paise)"},
        "allowed_lateness": "1d",
        "late": "update",
    }
    pipeline = pipeline_in(tmp_path, "bigint", outputs={"totals": late})
    write(tmp_path, "a.json", LARGEST)
    write(tmp_path, "b.json", 1, at="14:05", landed=10)
    write(tmp_path, "c.json", 1, at="14:05", landed=20)
    run(pipeline, once=True, spark=spark)
    write(tmp_path, "d.json", LARGEST, landed=30)
    with pytest.raises(PipelineError, match=r"outputs\.totals\.aggregates: a sum outgrew"):
        run(pipeline, once=True, spark=spark)
    assert values(open_store(pipeline), "totals", "total") == [LARGEST]


def test_a_decimal_beyond_38_digits_names_output_column_and_mend(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.json", NINES, NINES)
    with pytest.raises(PipelineError, match="declare paise with fewer digits after the point, or as double"):
        run(pipeline_in(tmp_path, "decimal(38,0)"), drain=True, spark=spark)


def test_a_ledger_column_is_advised_what_the_ledger_can_hold(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.json", LARGEST, LARGEST)
    with pytest.raises(PipelineError, match=r"declare paise as decimal\(32,0\)"):
        run(pipeline_in(tmp_path, "bigint", ledger=["paise"]), drain=True, spark=spark)


def test_an_overflow_within_a_predicate_is_not_blamed_on_a_sum(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.json", LARGEST)
    output = {"window": {"tumbling": "1m"}, "aggregates": {"n": "sum(paise)"}, "where": "paise + 1 > 0"}
    with pytest.raises(SourceError, match=r"Spark stopped the batch: .*overflow"):
        run(pipeline_in(tmp_path, "bigint", outputs={"totals": output}), drain=True, spark=spark)


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
        assert "set emit_empty: false" in str(problem.mend)
    mended = pipeline_in(tmp_path, "bigint", outputs={"totals": output})
    run(mended, drain=True, spark=spark)
    assert sorted(values(open_store(mended), "totals", "total")) == [1, 2, 5]
