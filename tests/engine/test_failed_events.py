"""An event that an output cannot compute: a dead letter of that output, which a rebuild takes in (ADR 0057)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import latecomer
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import PipelineError
from latecomer.store.store import open_store

LANDED = 1_794_146_400  # 2026-11-08T14:00:00Z
WINDOW = {"tumbling": "1m"}


def pipeline_in(folder: Path, size: str, each: str, **more: Any) -> Pipeline:
    """Two outputs that share a derived column, sessions with another, and one without any."""
    sizes = {"window": WINDOW, "aggregates": {"n": "count(*)", "size": "sum(size)"}, **more}
    return Pipeline.model_validate(
        {
            "name": "failing",
            "store": "store",
            "base": folder,
            "source": {
                "files": {"path": "in"},
                "schema": {"at": "string", "note": "string", "paise": "bigint", "per": "bigint"},
            },
            "event": {"time": "at"},
            "watermark": {"delay": "0s"},
            "ledger": ["paise"],
            "columns": {"size": size, "each": each},
            "outputs": {
                "sizes": sizes,
                "large": {**sizes, "where": "size > 1", "late": "drop"},
                "visits": {"window": {"session": "1m"}, "aggregates": {"most": "max(each)"}, **more},
                "totals": {"window": WINDOW, "aggregates": {"paise": "sum(paise)"}},
            },
        }
    )


def write(folder: Path, name: str, *rows: tuple[str, str | None, int, int]) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = (
        {"at": f"2026-11-08T{at}Z", "note": note, "paise": paise, "per": per} for at, note, paise, per in rows
    )
    (folder / "in" / name).write_text("\n".join(map(json.dumps, lines)))
    os.utime(folder / "in" / name, (LANDED, LANDED))


def fates(pipeline: Pipeline, unit: str = "events") -> dict[str, tuple[int, int, int, int]]:
    """By output: received, on time, filtered, failed."""
    rows = latecomer.Reader(pipeline).ledger_totals().to_pylist()
    names = ("received", "on_time", "filtered", "failed")
    return {row["output"]: tuple(int(row[name]) for name in names) for row in rows if row["unit"] == unit}  # type: ignore[misc]


def letters(pipeline: Pipeline) -> list[tuple[str, int, str]]:
    rows = latecomer.Reader(pipeline).dead_letters().to_pylist()
    return [(row["output"], row["position"], row["detail"]) for row in rows]


def results(pipeline: Pipeline, output: str) -> list[tuple[Any, ...]]:
    rows = latecomer.Reader(pipeline).results(output).to_pylist()
    return [tuple(row[name] for name in pipeline.outputs[output].aggregates) for row in rows]


ROWS = (
    ("14:00:01", "5", 100, 1),
    ("14:00:02", "abc", 50, 1),
    ("14:00:03", None, 30, 0),
    ("14:02:00", "1", 7, 1),
)


@pytest.fixture
def ran(spark: SparkSession, tmp_path: Path) -> Pipeline:
    write(tmp_path, "a.json", *ROWS)
    pipeline = pipeline_in(tmp_path, "cast(note as int)", "paise / per")
    run(pipeline, drain=True, spark=spark)
    return pipeline


def test_such_events_are_dead_letters_of_their_output_and_the_others_go_on(
    spark: SparkSession, ran: Pipeline
) -> None:
    assert fates(ran) == {
        "sizes": (4, 3, 0, 1),
        "large": (4, 1, 2, 1),
        "visits": (4, 3, 0, 1),
        "totals": (4, 4, 0, 0),
    }
    assert fates(ran, "paise")["sizes"] == (187, 137, 0, 50)
    assert results(ran, "sizes") == [(2, 5), (1, 1)]
    assert results(ran, "visits") == [(100.0,), (7.0,)]
    assert letters(ran) == [
        ("sizes", 1, 'column size: cast(note as int) cannot be computed where note is "abc"'),
        ("large", 1, 'column size: cast(note as int) cannot be computed where note is "abc"'),
        ("visits", 2, "column each: paise / per cannot be computed where paise is 30, per is 0"),
    ]
    assert check_ledger(ran, spark) == []
    assert latecomer.replay(ran, spark=spark).equal
    assert latecomer.reconcile(ran, "sizes", against="log", spark=spark).equal
    outcome = latecomer.explain(ran, "sizes", "2026-11-08T14:00Z")
    assert outcome.reconciled
    assert [each.event.position for each in outcome.left_out["failed"]] == [1]  # type: ignore[index]


@pytest.mark.long
def test_a_rebuild_takes_in_what_can_be_computed_then(spark: SparkSession, ran: Pipeline) -> None:
    fixed = pipeline_in(ran.base, "try_cast(note as int)", "paise / per")
    since = "2026-11-08T14:00Z"
    latecomer.apply_rebuild(fixed, "sizes", since=since, spark=spark)
    # The other output names the same column: it means what it meant until it is rebuilt, too.
    assert [output for output, *_ in letters(fixed)] == ["large", "visits"]
    latecomer.apply_rebuild(fixed, "large", since=since, spark=spark)
    assert [output for output, *_ in letters(fixed)] == ["visits"]
    assert results(fixed, "sizes") == [(3, 5), (1, 1)]
    assert check_ledger(fixed, spark) == []
    write(fixed.base, "b.json", ("14:03:00", "xyz", 1, 1))
    run(fixed, once=True, spark=spark)
    assert fates(fixed)["sizes"][3] == 1, "what came before failed, and what comes now does not"


def test_what_still_fails_is_filed_again(spark: SparkSession, ran: Pipeline) -> None:
    worse = pipeline_in(ran.base, "cast(concat(note, 'x') as int)", "paise / per")
    latecomer.apply_rebuild(worse, "sizes", since="2026-11-08T14:00Z", spark=spark)
    found = [(position, detail) for output, position, detail in letters(worse) if output == "sizes"]
    assert [position for position, _ in found] == [0, 1, 3]
    assert all("concat(note, 'x')" in detail for _, detail in found)


def test_null_is_null_and_the_ledger_says_so(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.json", *ROWS)
    pipeline = pipeline_in(tmp_path, "cast(note as int)", "paise / per", on_error=None)
    run(pipeline, drain=True, spark=spark)
    assert fates(pipeline)["sizes"] == (4, 4, 0, 0)
    assert results(pipeline, "sizes") == [(3, 5), (1, 1)]
    assert letters(pipeline) == []
    assert check_ledger(pipeline, spark) == []
    # What comes after the setting has changed is judged by the new one.
    write(tmp_path, "b.json", ("14:05:00", "xyz", 1, 1))
    strict = pipeline_in(tmp_path, "cast(note as int)", "paise / per")
    run(strict, once=True, spark=spark)
    assert fates(strict)["sizes"] == (5, 4, 0, 1)
    assert check_ledger(strict, spark) == []


def test_fail_stops_and_names_the_event_and_the_way_on(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.json", *ROWS)
    strict = pipeline_in(tmp_path, "cast(note as int)", "paise / per", on_error="fail")
    for _ in range(2):
        with pytest.raises(PipelineError) as refused:
            run(strict, once=True, spark=spark)
        (problem,) = refused.value.problems
        assert problem.field == "outputs.sizes.columns.size"
        assert (
            'a.json, position 1: column size: cast(note as int) cannot be computed where note is "abc"'
            in (problem.message)
        )
        assert "on_error: dead_letter" in str(problem.fix)
    lenient = pipeline_in(tmp_path, "cast(note as int)", "paise / per")
    run(lenient, drain=True, spark=spark)
    assert fates(lenient)["sizes"] == (4, 3, 0, 1)
    assert check_ledger(lenient, spark) == []


def test_an_output_that_joins_later_files_its_letters_by_batch(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.json", *ROWS)
    whole = pipeline_in(tmp_path, "cast(note as int)", "paise / per")
    first = whole.model_copy(update={"outputs": {"totals": whole.outputs["totals"]}})
    run(first, once=True, spark=spark)
    write(tmp_path, "b.json", ("14:02:01", "xyz", 1, 0))
    run(first, once=True, spark=spark)
    run(whole, once=True, spark=spark)
    assert fates(whole)["sizes"] == (5, 3, 0, 2)
    rows = latecomer.Reader(whole).dead_letters().to_pylist()
    assert [row["batch"] for row in rows if row["output"] == "visits"] == [0, 1]
    assert check_ledger(whole, spark) == []


def test_a_store_of_an_earlier_version_had_null(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.json", *ROWS)
    then = pipeline_in(tmp_path, "cast(note as int)", "paise / per", on_error=None)
    run(then, once=True, spark=spark)
    pins = tmp_path / "store" / "pipeline.json"
    written = json.loads(pins.read_text())
    for entries in written["policies"].values():
        for entry in entries:
            del entry["policy"]["on_error"]
    pins.write_text(json.dumps(written))
    now = pipeline_in(tmp_path, "cast(note as int)", "paise / per")
    assert [under.on_error for _, under in open_store(now).policies("sizes")] == ["null"]
    write(tmp_path, "b.json", ("14:03:00", "xyz", 1, 1))
    run(now, once=True, spark=spark)
    assert fates(now)["sizes"] == (5, 4, 0, 1)
    assert check_ledger(now, spark) == []
