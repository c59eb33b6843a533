"""Mutated files in a run: whatever they hold, what is beside them is read whole and the ledger balances."""

from __future__ import annotations

import resource
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from fuzz.mutants import ROWS, mutants, parquet_files, text_files
from latecomer.ledger.check import check_ledger
from source.source_kit import pipeline_in, rows_of, run_once, write_text

SCHEMA = {"txn": "string", "at": "string", "paise": "bigint", "note": "string"}
FORMS = ["parquet", "json", "csv"]


def good_file(form: str) -> bytes:
    return (parquet_files() if form == "parquet" else text_files(form))[0]


def run_over(spark: SparkSession, folder: Path, form: str, seed: int, count: int) -> dict[str, int]:
    """Run a pipeline over mutants between two good files; how many events and dead letters there were."""
    schema = {name: kind for name, kind in SCHEMA.items() if form != "parquet" or name != "note"}
    files = {"format": form, "max_line": "4KiB", "max_unpacked": "1MiB", "max_files_per_batch": 50}
    pipeline = pipeline_in(folder, files=files, schema=schema, watermark={"delay": "10s"}, ledger=["paise"])
    write_text(folder, f"good_a.{form}", good_file(form))
    for nth, mutant in enumerate(mutants(form, seed, count), 1):
        write_text(folder, mutant.name, mutant.content, nth)
    write_text(folder, f"good_b.{form}", good_file(form), count + 1)
    store = run_once(pipeline, spark)
    read = rows_of(
        store.events,
        "select origin, count(*) as n, sum(paise) as total from t where origin like '%good%' group by origin",
    )
    assert [(row["n"], int(row["total"])) for row in read] == [(ROWS, sum(range(ROWS)))] * 2
    assert check_ledger(pipeline, spark) == []
    found = {
        "events": rows_of(store.events, "select count(*) as n from t")[0]["n"],
        "dead letters": sum(row["n"] for row in rows_of(store.dead_letters, "select count(*) as n from t")),
        "files set aside": sum(
            row["n"]
            for row in rows_of(
                store.dead_letters, "select count(*) as n from t where reason = 'unreadable_file'"
            )
        ),
    }
    assert found["dead letters"] > 0
    return found


@pytest.mark.parametrize("form", FORMS)
def test_some_mutants_in_a_run(spark: SparkSession, tmp_path: Path, form: str) -> None:
    run_over(spark, tmp_path, form, seed=3, count=12)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_many_mutants_in_a_run(spark: SparkSession, tmp_path: Path, form: str) -> None:
    found = run_over(spark, tmp_path, form, seed=5, count=300)
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    memory = psutil.Process(jvm).memory_info().rss >> 20
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{form}: 300 mutants, {found}, JVM {memory} MiB, Python {own} MiB")
    assert memory < 3_000  # its heap is 1,500 MiB
    assert own < 1_500
