"""Files that cannot be read to the end, that are gone, that have odd names: nothing is lost, nothing stops
that need not stop."""

from __future__ import annotations

import bz2
import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from latecomer.config import columns
from latecomer.config.columns import infer_columns
from latecomer.engine.pipeline import Engine
from latecomer.errors import SourceError
from latecomer.log import events
from latecomer.source.decode import retrying
from latecomer.source.decode.base import FileSplit
from latecomer.source.file_source import FileSource
from latecomer.spark.session import own_session
from latecomer.store.store import Store, open_store
from source.source_kit import (
    dead_letters,
    in_this_process,
    landed,
    ledger_lines,
    parquet_bytes,
    pipeline_in,
    rows_of,
    run_once,
    write_text,
)

AT = "2026-11-08T14:00:00Z"
SCHEMA = {"txn": "string", "at": "string"}
FORMS = ["parquet", *(pytest.param(form, marks=pytest.mark.long) for form in ("json", "csv"))]
"""How files are found and opened does not depend on what is in them."""


def transactions(store: Store) -> list[str]:
    return [row["txn"] for row in rows_of(store.events, "select txn from t order by txn")]


def json_lines(*names: str) -> bytes:
    return "".join(json.dumps({"txn": name, "at": AT}) + "\n" for name in names).encode()


def content(form: str, *names: str) -> bytes:
    if form == "json":
        return json_lines(*names)
    if form == "csv":
        return "".join(["txn,at\n", *(f"{name},{AT}\n" for name in names)]).encode()
    return parquet_bytes(txn=pa.array(names), at=pa.array([AT] * len(names)))


MANY = [f"t{nth * 7919 % 100_003}" for nth in range(50_000)]


def spoilt(whole: bytes) -> bytes:
    """The same file with some bytes in the middle turned over."""
    middle = len(whole) // 2
    return whole[:middle] + bytes(byte ^ 0x5A for byte in whole[middle : middle + 50]) + whole[middle + 50 :]


def test_a_parquet_file_damaged_in_the_middle_is_one_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path, files={"format": "parquet"}, ledger=[])
    write_text(tmp_path, "a.parquet", content("parquet", "a1"))
    write_text(tmp_path, "b.parquet", spoilt(content("parquet", *MANY)), 1)
    write_text(tmp_path, "c.parquet", content("parquet", "c1", "c2"), 2)
    write_text(tmp_path, "d.parquet", spoilt(content("parquet", *MANY[1:])), 3)
    store = run_once(pipeline, spark)
    assert transactions(store) == ["a1", "c1", "c2"]
    found = dead_letters(store)
    assert [(reason, file, position) for reason, _, file, position in found] == [
        ("unreadable_file", "b.parquet", 0),
        ("unreadable_file", "d.parquet", 0),
    ]
    assert {raw for _, raw, _, _ in found} == {"Corrupt snappy compressed data."}
    assert ledger_lines(store, "totals")[0, "events"] == {"received": 5, "on_time": 3, "dead_letter": 2}

    write_text(tmp_path, "e.parquet", content("parquet", "e1"), 4)
    assert transactions(run_once(pipeline, spark)) == ["a1", "c1", "c2", "e1"]


@pytest.mark.parametrize("form", ["json", pytest.param("csv", marks=pytest.mark.long)])
def test_a_compressed_file_damaged_in_the_middle_is_one_dead_letter(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    pipeline = pipeline_in(tmp_path, files={"format": form}, schema=SCHEMA)
    whole = content(form, *MANY)
    zipped = gzip.compress(whole)
    files = {
        f"a.{form}": content(form, "a1"),
        f"b_cut.{form}.gz": zipped[: len(zipped) // 2],
        f"c_cut_at_the_end.{form}.gz": zipped[:-4],
        f"d_spoilt.{form}.gz": spoilt(zipped),
        f"e_plain.{form}.gz": content(form, "e1"),
        f"f_spoilt.{form}.bz2": spoilt(bz2.compress(whole)),
        f"g_good.{form}.gz": gzip.compress(content(form, "g1")),
        f"h_good.{form}.bz2": bz2.compress(content(form, "h1")),
        f"i_empty.{form}.gz": b"",
    }
    for nth, (name, written) in enumerate(files.items()):
        write_text(tmp_path, name, written, nth)
    store = run_once(pipeline, spark)
    assert transactions(store) == ["a1", "g1", "h1"]
    assert [(reason, file[0]) for reason, _, file, _ in dead_letters(store)] == [
        ("unreadable_file", name) for name in "bcdef"
    ]
    assert dead_letters(store)[0][1] == "the compressed file is cut short"
    assert ledger_lines(store, "totals")[0, "events"] == {"received": 8, "on_time": 3, "dead_letter": 5}


def test_a_csv_file_without_end_to_its_fields_or_header_is_one_dead_letter(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = pipeline_in(tmp_path, files={"format": "csv"}, schema=SCHEMA)
    write_text(tmp_path, "a.csv", content("csv", "a1"))
    write_text(tmp_path, "b_wide.csv", content("csv", "b1") + b"," * 30_000 + b"\n", 1)
    write_text(tmp_path, "c_long_header.csv", f"txn,at,{'x' * 200_000}\nc1,{AT},1\n", 2)
    write_text(tmp_path, "d_no_header.csv", "\n" * (1 << 20) + f"txn,at\nd1,{AT}\n", 3)
    store = run_once(pipeline, spark)
    assert transactions(store) == ["a1"]
    (wide, long_header, no_header) = dead_letters(store)
    assert "the header cannot be read: it is not in the first 1048576 characters" in no_header[1]
    assert wide[0] == long_header[0] == "unreadable_file"
    assert len(wide[1]) < 400
    assert "the header cannot be read" in long_header[1]


def test_a_csv_header_is_followed_in_a_compressed_file_and_beside_foreign_letters(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = pipeline_in(tmp_path, files={"format": "csv"}, schema={**SCHEMA, "note": "string"})
    write_text(tmp_path, "a.csv.gz", gzip.compress(f"note,at,txn\nx,{AT},a1\n".encode()))
    write_text(tmp_path, "b.csv", f"note,at,txn\ncaf\u00e9,{AT},b1\n", 1)
    store = run_once(pipeline, spark)
    assert transactions(store) == ["a1", "b1"]
    assert dead_letters(store) == []


def test_columns_are_inferred_from_compressed_files(tmp_path: Path) -> None:
    whole = gzip.compress(json_lines("a1"))
    good = write_text(tmp_path, "a.json.gz", whole)
    cut = write_text(tmp_path, "b.json.gz", whole[:-9])
    rows = write_text(tmp_path, "c.csv.bz2", bz2.compress(b"paise\n5\n"))
    assert infer_columns([str(good), str(cut)], "json") == {"txn": "string", "at": "string"}
    assert infer_columns([str(rows)], "csv") == {"paise": "bigint"}


def test_columns_are_inferred_beside_lines_that_no_memory_would_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "SAMPLE_LINE", 1_000)
    long, deep = b"x" * 5_000, b"[" * 900
    lines = write_text(tmp_path, "a.json", b"\n".join([long, deep, b'{"a": 1}', long, b'{"b": 1.5}']))
    assert infer_columns([str(lines)], "json") == {"a": "bigint", "b": "double"}
    rows = write_text(tmp_path, "b.csv", b"a,b\n1,2\n" + long + b'\n3,"never closed\n5,x\n')
    assert infer_columns([str(rows)], "csv") == {"a": "bigint", "b": "string"}
    nested = write_text(tmp_path, "c.json", b"[" * 100_000 + b"\n" + b'{"a": 1, "\\ud800": 2}\n')
    monkeypatch.setattr(columns, "SAMPLE_LINE", 1 << 20)
    assert infer_columns([str(nested)], "json") == {"a": "bigint"}
    monkeypatch.setattr(columns, "SAMPLE_SIZE", 10_000)
    endless = write_text(tmp_path, "d.json.gz", gzip.compress(b"\n" * 20_000 + b'{"a": 1}\n'))
    with pytest.raises(SourceError, match=r"declare source\.schema"):
        infer_columns([str(endless)], "json")


@pytest.mark.parametrize("form", FORMS)
def test_a_file_name_is_taken_literally(spark: SparkSession, tmp_path: Path, form: str) -> None:
    pipeline = pipeline_in(tmp_path, files={"format": form}, schema=SCHEMA)
    names = ["a1", "a[1]", "a{1;2}", "a*", "a?", "a#1", "a%20b", "a b", "caf\u00e9"]
    for nth, name in enumerate(names):
        write_text(tmp_path, f"{name}.{form}", content(form, name), nth)
    store = run_once(pipeline, spark)
    assert transactions(store) == sorted(names)
    assert dead_letters(store) == []


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_is_gone_is_waited_for(
    spark: SparkSession, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_in(tmp_path, files={"format": form}, schema=SCHEMA)
    write_text(tmp_path, f"a.{form}", content(form, "a1"))
    gone = write_text(tmp_path, f"b {form}.{form}", content(form, "b1"), 1)

    class Interrupted(Exception):
        pass

    def interrupted(*_: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(Engine, "accept", interrupted)
        with pytest.raises(Interrupted):
            run_once(pipeline, spark)
    written = gone.read_bytes()
    gone.unlink()
    with pytest.raises(SourceError, match=rf"{gone} was found, .*No such file.*; bring it back"):
        run_once(pipeline, spark)
    assert not open_store(pipeline).events.exists
    assert not open_store(pipeline).dead_letters.exists

    gone.write_bytes(written)
    landed(gone, 1)
    store = run_once(pipeline, spark)
    assert transactions(store) == ["a1", "b1"]
    gone.unlink()
    write_text(tmp_path, f"c.{form}", content(form, "c1"), 2)
    assert transactions(run_once(pipeline, spark)) == ["a1", "b1", "c1"]


def test_a_file_that_goes_while_it_is_read_is_waited_for(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_in(tmp_path, schema=SCHEMA)
    write_text(tmp_path, "a.json", json_lines("a1"))
    gone = write_text(tmp_path, "b.json", json_lines("b1"), 1)
    decode = FileSource._rows

    def vanishing(self: FileSource, split: FileSplit) -> Iterator[pa.Table]:
        gone.unlink(missing_ok=True)
        yield from decode(self, split)

    with monkeypatch.context() as patched:
        in_this_process(patched)
        patched.setattr(FileSource, "_rows", vanishing)
        patched.setattr(retrying, "sleep", lambda _: None)
        with pytest.raises(SourceError, match=r"b\.json was found"):
            run_once(pipeline, spark)
    write_text(tmp_path, "b.json", json_lines("b1"), 1)
    assert transactions(run_once(pipeline, spark)) == ["a1", "b1"]


def test_every_file_of_a_long_history_is_held_to(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path, files={"max_files_per_batch": 1}, schema=SCHEMA)
    names = [f"t{nth:02}" for nth in range(12)]
    for nth, name in enumerate(names):
        write_text(tmp_path, f"{name}.json", json_lines(name), nth)
    assert transactions(run_once(pipeline, spark)) == names


def test_an_error_that_no_file_is_to_blame_for_stops_the_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_in(tmp_path, schema=SCHEMA)
    write_text(tmp_path, "a.json", json_lines("a1"))
    with monkeypatch.context() as patched:
        patched.setattr(events, "write_split", math.pow)
        with pytest.raises(SourceError, match=r"Spark stopped the batch: TypeError: must be real number"):
            run_once(pipeline, spark)
    assert transactions(run_once(pipeline, spark)) == ["a1"]


def test_a_session_that_would_pass_over_damaged_files_does_not_here(
    spark: SparkSession, tmp_path: Path
) -> None:
    conf = spark.sparkContext._jsc.sc().conf()  # type: ignore[attr-defined]
    lax = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
    for name in lax:
        conf.set(name, "true")
    try:
        session = own_session(spark)
        assert {session.conf.get(name) for name in lax} == {"false"}
    finally:
        for name in lax:
            conf.remove(name)
