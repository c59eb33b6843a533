"""A line of JSON with more in it than an object: what follows the object is not lost unseen."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer import Reader, run
from latecomer.config.load import load_pipeline
from latecomer.source.decode.json_rows import JsonRecords
from latecomer.source.decode.private_columns import CORRUPT

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


def test_records() -> None:
    rows = JsonRecords().decode(
        [each.encode() for each in WHOLE + RUNNING_ON], {"n": "bigint", "s": "string"}
    )
    assert rows.column(CORRUPT).to_pylist() == [None] * len(WHOLE) + [each.encode() for each in RUNNING_ON]
    assert rows.column("n").to_pylist()[: len(WHOLE)] == [1] * len(WHOLE)


def test_files(spark: SparkSession, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("between", [" ", ",", "] ", "}, "])
def test_no_line_takes_long_to_look_at(between: str) -> None:
    line = '{"n":1} {"s":"' + between * 300_000 + 'x"} , '
    whole = '{"n":1,"s":"' + between * 300_000 + 'x"} , '
    begun = time.process_time()
    rows = JsonRecords().decode([line.encode(), whole.encode()], {"n": "bigint"})
    assert time.process_time() - begun < 5  # it was hours
    assert rows.column(CORRUPT).to_pylist() == [line.encode(), None]


def test_blanks_without_end_are_passed_over_as_fast_as_anything_else() -> None:
    begun = time.process_time()
    rows = JsonRecords().decode([b'{"n":1}' + b" " * (24 << 20)], {"n": "bigint"})
    assert time.process_time() - begun < 8
    assert rows.column("n").to_pylist() == [1]
