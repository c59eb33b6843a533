"""A line of JSON with more in it than an object: what follows the object is not lost unseen."""

from __future__ import annotations

import bz2
import gzip
import re
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from latecomer import Reader, run
from latecomer.config.load import load_pipeline
from latecomer.decode import limits, lines
from latecomer.decode.columns import CORRUPT, RECORD
from latecomer.decode.json import JsonRecords
from latecomer.decode.limits import may_run_on
from latecomer.spark.session import own_session

WHOLE = [
    '{"n": 1, "s": "a"}',
    '{"n": 1, "s": "a"},',
    '  {"n": 1, "s": "a"} ,\t',
    '{"n": 1, "s": "}{"}',
    '{"n": 1, "s": "} x"}',
    '{"n": 1, "s": "}", "o": [{"a": 1}, {"a": 2}]}',
    '{"n": 1, "s": "{\\"a\\": 1}\\"}{", "o": {"p": {}}}',
    "{'n': 1, 's': '}x', 'o': NaN}",
]
RUNNING_ON = [
    '{"n": 1, "s": "a"}{"n": 2, "s": "b"}',
    '{"n": 1, "s": "a"} {"n": 2, "s": "b"}',
    '{"n": 1, "s": "a"}, {"n": 2, "s": "b"}',
    '{"n": 1, "s": "a"} xyz',
    '{"n": 1, "s": "a"}7',
    '{"n": 1, "s": "a"}} {"n": 2}',
    '{"n": 1, "s": "a"}] {"n": 2}',
    '{"n": 1, "s": "a"}"b"',
]


def test_records(spark: SparkSession) -> None:
    records = own_session(spark).createDataFrame(
        pa.table({RECORD: pa.array([each.encode() for each in WHOLE + RUNNING_ON], pa.binary())})
    )
    rows = JsonRecords().decoded(records, {"n": "bigint", "s": "string"}).toArrow().to_pylist()
    assert [row[CORRUPT] for row in rows] == [None] * len(WHOLE) + RUNNING_ON
    assert all(row["n"] == 1 for row in rows[: len(WHOLE)])


def test_files(spark: SparkSession, tmp_path: Path) -> None:
    """Each as Spark's own reader has it, but for those that run on."""
    (tmp_path / "in").mkdir()
    events = [
        '{"at": "2026-01-05T14:00:00Z", "n": 1}{"at": "2026-01-05T14:00:00Z", "n": 2}',
        '{"at": "2026-01-05T14:00:00Z", "n": 4},',
        '{"at": "2026-01-05T14:00:00Z", "n": 8}',
    ]
    (tmp_path / "in" / "a.json").write_text("\n".join(events))
    (tmp_path / "p.yaml").write_text(
        "name: x\nstore: store\nsource: {files: {path: in}, schema: {at: string, n: bigint}}\n"
        "event: {time: at}\nwatermark: {delay: 1m}\n"
        "outputs: {o: {window: {tumbling: 1m}, aggregates: {n: sum(n)}}}\n"
    )
    pipeline = load_pipeline(tmp_path / "p.yaml")
    run(pipeline, drain=True, spark=spark)
    assert [row["n"] for row in Reader(pipeline).results("o").to_pylist()] == [12]
    (letter,) = Reader(pipeline).dead_letters().to_pylist()
    assert letter["raw"] == events[0]
    assert letter["reason"] == "unreadable"


def plain(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def packed(path: Path, content: bytes) -> None:
    path.write_bytes((gzip if path.suffix == ".gz" else bz2).compress(content))


@pytest.mark.parametrize(
    ("name", "write"), [("a.json", plain), ("a.json.gz", packed), ("a.json.bz2", packed)]
)
def test_they_are_looked_for_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, write: Callable[[Path, bytes], None]
) -> None:
    monkeypatch.setattr(limits, "_CHUNK", 7)
    for place in range(20):
        line = b'{"a":1}'.ljust(9 + place) + b'{"a":2}\n'
        write(tmp_path / name, b'{"a":1}\n' * place + line)
        assert may_run_on(tmp_path / name)
        write(tmp_path / name, (b'{"a":{"b":1} },' + b" " * place + b"\r\n") * 9)
        assert not may_run_on(tmp_path / name)


def test_blanks_without_end_are_passed_over_as_fast_as_anything_else(tmp_path: Path) -> None:
    packed(tmp_path / "a.json.gz", b'{"a":1}' + b" " * (24 << 20) + b"\n")
    begun = time.process_time()
    assert not may_run_on(tmp_path / "a.json.gz")
    assert time.process_time() - begun < 8  # it was 40 s, and four times that for twice as many


@pytest.mark.parametrize("between", [" ", ",", "] ", "}, "])
def test_no_line_takes_long_to_look_at(between: str) -> None:
    line = '{"a":1} {"a":"' + between * 300_000 + 'x"} , '
    begun = time.process_time()
    assert re.search(lines._MAY_RUN_ON, line)
    assert re.sub(lines._TRAILING, "", line) == line[:-3]
    assert time.process_time() - begun < 5  # it was hours


@pytest.mark.parametrize("name", ["a.json.gz", "a.json.bz2"])
def test_of_a_damaged_file_all_that_spark_can_read_is_read_line_by_line(tmp_path: Path, name: str) -> None:
    packed(tmp_path / name, b'{"a":1}\n' * 1_000)
    whole = (tmp_path / name).read_bytes()
    for content in (whole[:-5], whole[: len(whole) // 2], b"no packed file at all", whole[:20] + b"?" * 50):
        (tmp_path / name).write_bytes(content)
        assert may_run_on(tmp_path / name)
