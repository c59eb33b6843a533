"""What a change stream holds, line by line: what is taken back stands before what takes its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.model.durations import to_micros
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from spark_kit import PAYLOAD, Bench


def output(window: dict[str, str], sink: Path, **rules: Any) -> Output:
    fields = {"by": ["key"], "aggregates": {"rows": "count(*)"}, "allowed_lateness": "1s", "late": "retract"}
    return Output.model_validate({"window": window, **fields, **rules, "sinks": [{"jsonl": str(sink)}]})


def lines(folder: Path) -> list[list[tuple[Any, ...]]]:
    """Batch by batch the lines of a jsonl sink: window, timing, op, sequence, rows."""
    return [
        [
            (
                _micros(row, "start"),
                _micros(row, "end"),
                row["timing"],
                row["op"],
                row["sequence"],
                row["rows"],
            )
            for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())
        ]
        for file in sorted(folder.glob("batch-*.jsonl"))
    ]


def read(pipeline: Pipeline, output: str) -> list[tuple[Any, ...]]:
    """The same, by a reader of the store."""
    return [
        (
            to_micros(row["window_start"]) % 1_000_000,
            to_micros(row["window_end"]) % 1_000_000,
            row["timing"],
            row["op"],
            row["sequence"],
            row["rows"],
        )
        for row in Reader(pipeline).panes(output).to_pylist()
    ]


def _micros(row: dict[str, Any], bound: str) -> int:
    return int(row[f"window_{bound}"].rstrip("Z").partition(".")[2] or 0)


def came(*times: int, at: int) -> list[Arrival]:
    """Events of one key at these times, that arrive one after the other from `at` on."""
    return [Arrival(time, at + nth, "", {"key": "x"}) for nth, time in enumerate(times)]


@pytest.mark.long
def test_a_retract_stands_right_before_what_replaces_it(spark: SparkSession, tmp_path: Path) -> None:
    outputs = {
        "totals": output(
            {"tumbling": "10us"}, tmp_path / "totals", trigger={"early": {"count": 1, "per": "batch"}}
        ),
        "visits": output({"session": "10us"}, tmp_path / "visits"),
        "bits": output({"session": "10us"}, tmp_path / "bits", late="update", accumulation="discarding"),
    }
    bench = Bench(spark, tmp_path, Bounded("0s", every="event"), outputs, PAYLOAD, ids=False)
    bench.run(
        [
            came(1, 16, 40, at=100),  # two sessions and two windows close
            came(17, at=110),  # a late event for the second
            came(8, 2, at=120),  # late events that join both sessions, and two for the first window
        ]
    )
    first, second, third = lines(tmp_path / "totals")
    assert sorted(first) == [
        (0, 10, "ON_TIME", "insert", 0, 1),
        (10, 20, "ON_TIME", "insert", 0, 1),
        (40, 50, "EARLY", "insert", 0, 1),
    ]
    assert second == [(10, 20, "LATE", "retract", 0, 1), (10, 20, "LATE", "insert", 1, 2)]
    assert third == [(0, 10, "LATE", "retract", 0, 1), (0, 10, "LATE", "insert", 1, 3)]

    first, second, third = lines(tmp_path / "visits")
    assert first == [(1, 11, "ON_TIME", "insert", 0, 1), (16, 26, "ON_TIME", "insert", 0, 1)]
    assert second == [(16, 26, "LATE", "retract", 0, 1), (16, 27, "LATE", "insert", 0, 2)]
    assert sorted(third[:2]) == [(1, 11, "LATE", "retract", 0, 1), (16, 27, "LATE", "retract", 0, 2)]
    assert third[2:] == [(1, 27, "LATE", "insert", 0, 5)]

    assert lines(tmp_path / "bits") == lines(tmp_path / "visits")  # what was told of a part is taken back
    for name in outputs:  # whoever reads the store sees what the sink was handed
        assert read(bench.pipeline, name) == [line for batch in lines(tmp_path / name) for line in batch]


def test_all_in_one_batch_a_pane_may_be_told_and_taken_back(spark: SparkSession, tmp_path: Path) -> None:
    outputs = {"totals": output({"tumbling": "10us"}, tmp_path / "totals")}
    bench = Bench(spark, tmp_path, Bounded("0s", every="event"), outputs, PAYLOAD, ids=False)
    bench.run([came(1, 40, 2, 3, at=100)])
    assert lines(tmp_path / "totals") == [
        [
            (0, 10, "ON_TIME", "insert", 0, 1),
            (0, 10, "LATE", "retract", 0, 1),
            (0, 10, "LATE", "insert", 1, 3),
        ]
    ]
