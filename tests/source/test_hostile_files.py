"""Input that means harm, on Spark: it becomes dead letters, what is beside it is read whole, and nothing waits."""

from __future__ import annotations

import bz2
import gzip
import logging
import os
import socket
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from fuzz.mutants import claiming, one_page
from latecomer.engine.ledger.check import check_ledger
from latecomer.store.store import Store
from source.source_kit import ledger_lines, parquet_bytes, pipeline_in, rows_of, run_once, write_text

AT = "2026-11-08T14:00:00Z"
SCHEMA = {"txn": "string", "at": "string"}


def line(txn: str, more: str = "") -> bytes:
    return f'{{"txn": "{txn}", "at": "{AT}"{more}}}\n'.encode()


def transactions(store: Store) -> list[str]:
    return [row["txn"] for row in rows_of(store.events, "select txn from t order by txn")]


def letters(store: Store) -> list[dict[str, Any]]:
    return rows_of(store.dead_letters, "select * from t order by origin, position")


def test_what_is_no_file_is_not_opened_and_named_once(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_in(tmp_path, files={"path": "in/**/*.json"}, schema=SCHEMA)
    folder = tmp_path / "in"
    write_text(tmp_path, "good.json", line("good"))
    write_text(tmp_path, "folder.json/inner.json", line("inner"))
    os.mkfifo(folder / "pipe.json")
    os.symlink("/dev/zero", folder / "zero.json")
    os.symlink("nowhere", folder / "dangling.json")
    os.symlink("itself.json", folder / "itself.json")
    os.symlink("..", folder / "folder.json" / "loop")
    monkeypatch.chdir(folder)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening, caplog.at_level(logging.WARNING):
        listening.bind("socket.json")
        store = run_once(pipeline, spark)
        store = run_once(pipeline, spark)
    assert transactions(store) == ["good", "inner"]
    assert [(row["reason"], row["origin"].rsplit("/", 1)[1], row["raw"]) for row in letters(store)] == [
        ("unreadable_file", "pipe.json", "it is a pipe, not a file"),
        ("unreadable_file", "socket.json", "it is a socket, not a file"),
        ("unreadable_file", "zero.json", "it is a device, not a file"),
    ]
    for name in ("pipe.json", "socket.json", "zero.json", "folder.json/loop"):
        assert len([said for said in caplog.messages if said.startswith(f"{folder / name} is ")]) == 1


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_line_that_is_too_long_is_a_dead_letter_and_those_after_it_are_read(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    files = {"format": form, "max_line": "1KiB", "max_unpacked": "64KiB"}
    pipeline = pipeline_in(tmp_path, files=files, schema=SCHEMA)

    def content(name: str, middle: bytes = b"") -> bytes:
        if form == "json":
            return line(name) + middle + line(f"{name}{name}")
        return b"txn,at\n" + f"{name},{AT}\n".encode() + middle + f"{name}{name},{AT}\n".encode()

    long = b'"' + b"\xe9" * 9_999 + b"\n"
    bomb = content("f") + b"\n" * 65_536
    written = {
        f"a.{form}": content("a"),
        f"b.{form}": content("b", long),
        f"c.{form}.gz": gzip.compress(content("c", long)),
        f"d.{form}.bz2": bz2.compress(content("d", long)),
        f"e.{form}": content("e", b"x" * 1023 + b"\n"),  # as long as a line may be
        f"f.{form}.gz": gzip.compress(bomb),
        f"g.{form}.zst": content("g"),
    }
    for nth, (name, text) in enumerate(written.items()):
        write_text(tmp_path, name, text, nth)
    store = run_once(pipeline, spark)
    assert transactions(store) == ["a", "aa", "b", "bb", "c", "cc", "d", "dd", "e", "ee"]
    found = letters(store)
    assert [(row["origin"].rsplit("/", 1)[1][0], row["reason"]) for row in found] == [
        ("b", "too_long"),
        ("c", "too_long"),
        ("d", "too_long"),
        ("e", "unreadable"),
        ("f", "unreadable_file"),
        ("g", "unreadable_file"),
    ]
    start = content("b", long).index(long)
    for row in found[:3]:
        assert (row["position"], row["raw_bytes"]) == (start, long[:4096])
        assert row["detail"].startswith(
            f"the line has 10001 bytes from byte {start} on, and source.files.max_line"
        )
    assert "unpacks to more than 64KiB" in found[4]["raw"]
    assert ledger_lines(store, "totals")[0, "events"] == {"received": 16, "on_time": 10, "dead_letter": 6}
    assert check_ledger(pipeline, spark) == []


def test_json_nested_without_end_is_a_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    rows = [
        deep,
        b"[" * 100_000,
        b'{"txn": %s, "at": 1}' % deep,
        b'{"txn":' * 100_000,
        b'{"at": 1%s}' % (b"0" * 9_999),
    ]
    write_text(tmp_path, "a.json", line("a") + b"\n".join(rows) + b"\n" + line("b"))
    store = run_once(pipeline_in(tmp_path), spark)  # the columns are inferred from it
    assert transactions(store) == ["a", "b"]
    assert [row["reason"] for row in letters(store)] == ["unreadable"] * len(rows)


def test_parquet_pages_that_claim_any_size_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_in(
        tmp_path, files={"format": "parquet"}, schema={"txn": "string"}, event={"time": "txn"}
    )
    most = (1 << 31) - 1
    plain = one_page([AT] * 100, use_dictionary=False, compression="none")
    zstd = one_page([AT] * 100, use_dictionary=False, compression="zstd")
    written = {
        "a.parquet": parquet_bytes(txn=pa.array([AT])),
        "b.parquet": claiming(plain, "compressed", most),
        "c.parquet": claiming(zstd, "unpacked", -5),
        "d.parquet": claiming(plain, "values", most),
        "z.parquet": parquet_bytes(txn=pa.array([AT, AT])),
    }
    for nth, (name, content) in enumerate(written.items()):
        write_text(tmp_path, name, content, nth)
    store = run_once(pipeline, spark)
    assert ledger_lines(store, "totals")[0, "events"] == {"received": 6, "on_time": 3, "dead_letter": 3}
    assert [row["origin"].rsplit("/", 1)[1][0] for row in letters(store)] == [*"bcd"]
    assert "Page was smaller (2404) than expected (2147483647)" in letters(store)[0]["raw"]
