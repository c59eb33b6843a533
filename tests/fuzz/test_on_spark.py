"""Mutated files in a run: whatever they hold, what is beside them is read whole and the ledger balances."""

from __future__ import annotations

import bz2
import gzip
import os
from itertools import product
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from fuzz.mutants import AT, ROWS, claiming, mutants, one_page, parquet_files, text_files
from latecomer.engine.ledger.check import check_ledger
from memory_kit import Grown
from source.source_kit import pipeline_in, rows_of, run_once, write_text

SCHEMA = {"txn": "string", "at": "string", "paise": "bigint", "note": "string"}
GIGABYTE = 1 << 30
MANY = 150
FORMS = ["parquet", "json", "csv"]


def good_file(form: str) -> bytes:
    return (parquet_files() if form == "parquet" else text_files(form))[0]


def run_over(spark: SparkSession, folder: Path, form: str, seed: int, count: int) -> dict[str, int]:
    """Run a pipeline over mutants between two good files; how many events and dead letters there were."""
    schema = {name: kind for name, kind in SCHEMA.items() if form != "parquet" or name != "note"}
    files = {"format": form, "max_line": "4KiB", "max_unpacked": "1MiB", "max_files_per_batch": 50}
    pipeline = pipeline_in(folder, files=files, schema=schema)
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
    run_over(spark, tmp_path, form, seed=3, count=6)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_many_mutants_in_a_run(spark: SparkSession, tmp_path: Path, form: str) -> None:
    own = Grown()
    found = run_over(spark, tmp_path, form, seed=5, count=MANY)
    print(f"{form}: {MANY} mutants, {found}, {require_little_memory(spark, own)}")


@pytest.mark.long
@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_line_of_a_gigabyte_and_bombs(spark: SparkSession, tmp_path: Path, form: str) -> None:
    own = Grown()
    row = f'{{"txn": "a", "at": "{AT}"}}\n'.encode() if form == "json" else f"a,{AT}\n".encode()
    head = b"" if form == "json" else b"txn,at\n"
    pipeline = pipeline_in(
        tmp_path, files={"format": form, "max_unpacked": "2GiB"}, schema={"txn": "string", "at": "string"}
    )
    long = tmp_path / "in" / f"a_long.{form}"
    with open(long, "wb") as content:
        content.write(head + row + b'"')
        content.truncate(GIGABYTE)
        content.seek(0, os.SEEK_END)
        content.write(b"\n" + row)
    for suffix, opened in ((".gz", gzip.open), (".bz2", bz2.open)):
        with opened(tmp_path / "in" / f"b_long.{form}{suffix}", "wb") as packed:
            packed.write(head + row)
            for _ in range(GIGABYTE >> 20):
                packed.write(bytes(1 << 20))
            packed.write(b"\n" + row)
    (tmp_path / "in" / f"c_bomb.{form}.bz2").write_bytes(bz2.compress(b"\n" * (64 << 20)) * 40)
    (tmp_path / "in" / f"d_bomb.{form}.gz").write_bytes(gzip.compress(row * 100_000) * 1_000)
    store = run_once(pipeline, spark)
    assert rows_of(store.events, "select count(*) as n from t")[0]["n"] == 6
    outcome = rows_of(
        store.dead_letters, "select reason, count(*) as n from t group by reason order by reason"
    )
    assert outcome == [{"reason": "too_long", "n": 3}, {"reason": "unreadable_file", "n": 2}]
    print(f"{form}: lines of a gigabyte, {require_little_memory(spark, own)}")


@pytest.mark.long
def test_pages_that_claim_any_size(spark: SparkSession, tmp_path: Path) -> None:
    own = Grown()
    files = {"format": "parquet"}
    pipeline = pipeline_in(tmp_path, files=files, schema={"txn": "string"}, event={"time": "txn"})
    ways = [
        {"use_dictionary": False, "compression": "none"},
        {"use_dictionary": False, "compression": "zstd"},
        {"compression": "snappy"},
        {"compression": "gzip", "data_page_version": "2.0"},
    ]
    claims = product(ways, ("unpacked", "compressed", "values"), ((1 << 31) - 100, 1 << 29, -5))
    lies = [
        claiming(one_page([AT] * 100, **way), claim, number, dictionary="use_dictionary" not in way)
        for way, claim, number in claims
    ]
    write_text(tmp_path, "a.parquet", one_page([AT] * 10))
    for nth, lie in enumerate(lies):
        write_text(tmp_path, f"b{nth:02}.parquet", lie, 1 + nth)
    write_text(tmp_path, "c.parquet", one_page([AT] * 10), 100)
    store = run_once(pipeline, spark)
    good = "select count(*) as n from t where origin in ('a.parquet', 'c.parquet')"
    assert rows_of(store.events, good)[0]["n"] == 20
    assert rows_of(store.dead_letters, "select count(*) as n from t")[0]["n"] > len(lies) // 2
    assert check_ledger(pipeline, spark) == []
    print(f"{len(lies)} pages that claim any size, {require_little_memory(spark, own)}")


@pytest.mark.long
def test_rows_of_many_megabytes_are_events(spark: SparkSession, tmp_path: Path) -> None:
    own = Grown()
    pipeline = pipeline_in(tmp_path, schema={"at": "string", "note": "string"})
    with open(tmp_path / "in" / "a.json", "wb") as lines:
        for nth in range(40):
            lines.write(b'{"at": "%s", "note": "%s"}\n' % (AT.encode(), bytes([97 + nth % 26]) * 15_000_000))
            lines.write(b"x" * 15_000_000 + b"\n" if nth % 4 == 0 else b"")
    store = run_once(pipeline, spark)
    read = rows_of(store.events, "select count(*) as n, sum(length(note)) as size from t")
    assert [(row["n"], int(row["size"])) for row in read] == [(40, 40 * 15_000_000)]
    assert rows_of(store.dead_letters, "select count(*) as n from t")[0]["n"] == 10
    print(f"rows of 15 MB, {require_little_memory(spark, own)}")


def require_little_memory(spark: SparkSession, own: Grown) -> str:
    """The memory of both processes, which is bounded whatever they have read."""
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    memory = psutil.Process(jvm).memory_info().rss >> 20
    assert memory < 3_000  # its heap is 1,500 MiB
    assert own.peak() < 1_100
    return f"JVM {memory} MiB, Python {own.peak()} MiB more"
