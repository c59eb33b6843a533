"""What may pass is tried again; only what is wrong with a file's bytes makes it a dead letter."""

from __future__ import annotations

import errno
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from latecomer.errors import SourceError
from latecomer.source.decode import retrying
from latecomer.source.decode.base import FileSplit, SourceFile
from latecomer.source.decode.retrying import (
    WAITS,
    SourceOutage,
    reading,
    reading_unchanged,
    with_retries,
)
from latecomer.source.file_source import FileSource
from latecomer.store.store import Store, open_store
from source.source_kit import (
    dead_letters,
    in_this_process,
    parquet_bytes,
    pipeline_in,
    rows_of,
    run_once,
    write_text,
)

AT = "2026-11-08T14:00:00Z"
SCHEMA = {"txn": "string", "at": "string"}
JSON_ROW = f'{{"txn": "%s", "at": "{AT}"}}\n'


class Failing:
    """Work that fails some times before it is done."""

    def __init__(self, times: int, work: Callable[..., Any] = lambda: "done") -> None:
        self.left, self.work = times, work

    def __call__(self, *given: Any, **named: Any) -> Any:
        if self.left:
            self.left -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), "a file")
        return self.work(*given, **named)


def patient(work: Callable[[], Any]) -> Any:
    def attempt() -> Any:
        with reading(Path("a file")):
            return work()

    return with_retries(attempt)


def test_what_may_pass_is_tried_again_after_longer_and_longer_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(retrying, "sleep", waited.append)
    assert patient(Failing(3)) == "done"
    assert waited == [0.5, 1, 2]


def test_what_does_not_pass_stops_the_run_and_says_that_it_is_read_again() -> None:
    work = Failing(100)
    with pytest.raises(
        SourceError, match=r"a file was found.*Input/output error.*tried 6 times within 15\.5 s"
    ) as told:
        patient(work)
    assert "the next run reads it again" in str(told.value)
    assert 100 - work.left == len(WAITS) + 1


def test_bytes_that_are_wrong_do_not_pass() -> None:
    for error in (
        gzip.BadGzipFile("not gzip"),
        OSError("Couldn't deserialize thrift"),
        EOFError(),
        zlib.error(),
    ):
        with pytest.raises(type(error)) as told, reading(Path("a file")):
            raise error
        assert not isinstance(told.value, SourceOutage)


def test_a_file_that_was_replaced_or_written_on_has_changed(tmp_path: Path) -> None:
    file, other = tmp_path / "a", tmp_path / "b"
    for path in (file, other):
        path.write_text("as long")
        os.utime(path, (1, 1))
    found = SourceFile(f"file://{file}", 0, 7)
    with reading_unchanged(found):
        assert file.read_text() == "as long"
    with pytest.raises(SourceOutage, match="changed while it was read"), reading_unchanged(found):
        os.replace(other, file)
    with pytest.raises(SourceOutage, match="No such file"), reading_unchanged(found):
        file.unlink()


def transactions(store: Store) -> list[str]:
    return [row["txn"] for row in rows_of(store.events, "select txn from t order by txn")]


def parquet(*names: str) -> bytes:
    return parquet_bytes(txn=pa.array(names), at=pa.array([AT] * len(names)))


CSV = f"txn,at\nt1,{AT}\nt2,{AT}\n"
STUMBLING = [
    ("parquet", {}, parquet("t1", "t2"), "latecomer.source.decode.parquet_reading.parquet_columns"),
    ("csv", {}, CSV.encode(), "latecomer.source.decode.csv.open_text"),
    (
        "csv",
        {"encoding": "utf-16"},
        CSV.encode("utf-16be").join([b"\xfe\xff", b""]),
        "latecomer.source.decode.text.file_encoding",
    ),
]


@pytest.mark.parametrize(("form", "settings", "written", "reader"), STUMBLING)
def test_a_disk_that_stumbles_while_a_file_is_looked_into_makes_no_dead_letter(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    settings: dict[str, str],
    written: bytes,
    reader: str,
) -> None:
    pipeline = pipeline_in(tmp_path, files={"format": form, **settings}, schema=SCHEMA)
    write_text(tmp_path, f"a.{form}", written)
    module, name = reader.rsplit(".", 1)
    failing = Failing(100, getattr(import_module(module), name))
    in_this_process(monkeypatch)
    monkeypatch.setattr(reader, failing)
    with pytest.raises(SourceError, match=rf"a\.{form} was found, .*Input/output error"):
        run_once(pipeline, spark)
    assert not open_store(pipeline).dead_letters.exists
    failing.left = 2
    store = run_once(pipeline, spark)
    assert (transactions(store), dead_letters(store)) == (["t1", "t2"], [])


MEANWHILE = [
    ("parquet", parquet("old"), parquet(*(f"new{nth:02}" for nth in range(50)))),
    ("json", (JSON_ROW % "old").encode(), "".join(JSON_ROW % f"new{nth:02}" for nth in range(50)).encode()),
]


@pytest.mark.parametrize(("form", "old", "new"), MEANWHILE)
def test_a_file_that_is_replaced_between_finding_and_reading_it_is_read_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, old: bytes, new: bytes
) -> None:
    pipeline = pipeline_in(tmp_path, files={"format": form}, schema=SCHEMA)
    file = write_text(tmp_path, f"a.{form}", old)
    decode = FileSource._rows

    def replaced(self: FileSource, split: FileSplit) -> Iterator[pa.Table]:
        rows = decode(self, split)
        yield next(rows)
        if file.read_bytes() != new:
            (tmp_path / "new").write_bytes(new)
            os.replace(tmp_path / "new", file)
        yield from rows

    in_this_process(monkeypatch)
    monkeypatch.setattr(FileSource, "_rows", replaced)
    monkeypatch.setattr(retrying, "sleep", lambda _: None)
    store = run_once(pipeline, spark)
    assert transactions(store) == [f"new{nth:02}" for nth in range(50)]
    assert dead_letters(store) == []


def test_a_file_that_is_away_for_a_moment_is_waited_for(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_in(tmp_path, schema=SCHEMA)
    file = write_text(tmp_path, "a.json", JSON_ROW % "a1")
    away, decode = tmp_path / "away", FileSource._rows

    def moved(self: FileSource, split: FileSplit) -> Iterator[pa.Table]:
        if not away.exists():
            away.hardlink_to(file)
            file.unlink()
        yield from decode(self, split)

    in_this_process(monkeypatch)
    monkeypatch.setattr(FileSource, "_rows", moved)
    monkeypatch.setattr(retrying, "sleep", lambda _: None if file.exists() else file.hardlink_to(away))
    store = run_once(pipeline, spark)
    assert (transactions(store), dead_letters(store)) == (["a1"], [])
