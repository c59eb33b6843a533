"""Lines that are too long, counted over all splits of a file: each is a dead letter, or the file is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.engine.pipeline import Engine
from latecomer.engine.starting import start_engine
from latecomer.source import file_source
from latecomer.source.decode.base import SourceFile
from latecomer.source.found_files import FileSlice
from latecomer.spark.base import InProcess
from latecomer.spark.when_needed import when_needed
from latecomer.store.store import Store
from source.source_kit import LANDED, pipeline_in, rows_of, write_text
from spark_kit import Spread

SCHEMA = {"txn": "string", "at": "string"}
ROW = b'{"txn": "t", "at": "2026-11-08T14:00:00Z"}\n'
LONG = b"x" * 2000 + b"\n"


@pytest.mark.parametrize("runner", [InProcess, Spread])
@pytest.mark.parametrize("long", [100, 101])
def test_more_than_a_hundred_of_a_file_set_it_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: int, runner: type[InProcess]
) -> None:
    """However they are spread over splits and tasks."""
    monkeypatch.setattr(file_source, "SPLIT_BYTES", 50_000)
    pipeline = pipeline_in(tmp_path, files={"max_line": "1KiB"}, schema=SCHEMA)
    written = [write_text(tmp_path, "a b.json", (ROW + LONG) * long), write_text(tmp_path, "b.json", ROW)]
    store = Store(pipeline, SCHEMA)
    engine = Engine(runner(when_needed(_no_spark)), store)
    start_engine(engine)
    found = [SourceFile(f"file://{file}", LANDED * 1_000_000, file.stat().st_size) for file in written]
    engine.data(0, FileSlice.of(found))
    engine.close()
    letters: list[dict[str, Any]] = rows_of(store.dead_letters, "select * from t order by position")
    events = rows_of(store.events, "select origin from t")
    if long > 100:
        (letter,) = letters
        assert (letter["reason"], letter["origin"]) == ("unreadable_file", f"file://{written[0]}")
        assert letter["raw"].startswith("more than 100 of its lines have over 1KiB (source.files.max_line)")
        assert len(events) == 1
    else:
        assert len(letters) == long
        assert letters[1]["position"] == 2 * len(ROW) + len(LONG)
        assert {each["reason"] for each in letters} == {"too_long"}
        assert letters[1]["detail"].startswith("the line has 2001 bytes from byte 2087 on, and")
        assert len(events) == long + 1


def _no_spark() -> SparkSession:
    raise AssertionError("this needs no Spark")
