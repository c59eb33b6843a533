"""Derived columns: computed from the log, by Spark's own rules, and never a reason to stop."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import latecomer
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import PipelineError, StoreMismatch

LANDED = 1_794_146_400  # 2026-11-08T14:00:00Z


def pipeline_in(folder: Path, **changes: Any) -> Pipeline:
    (folder / "in").mkdir(exist_ok=True)
    output = {
        "window": {"tumbling": "1m"},
        "by": ["hour", "kind"],
        "where": "rupees > 0.5 or rupees is null",
        "aggregates": {"n": "count(*)", "total": "sum(rounded)", "most": "max(rupees)"},
        "late": "side_output",
        "on_error": "null",
    }
    return Pipeline.model_validate(
        {
            "name": "derived",
            "store": "store",
            "base": folder,
            "source": {
                "files": {"path": "in", "order_by": "came"},
                "schema": {
                    "at": "string",
                    "came": "string",
                    "paise": "bigint",
                    "per": "bigint",
                    "item": {"kind": "string"},
                },
            },
            "event": {"time": "at"},
            "watermark": {"delay": "0s"},
            "columns": {
                "rupees": "paise / per",
                "rounded": "cast(paise / 100 as bigint)",
                "hour": "hour(at)",
                "kind": "item.kind",
            },
            "outputs": {"totals": output},
            "ledger": ["paise"],
            **changes,
        }
    )


def write(folder: Path, name: str, *rows: tuple[str, str, int | None, int, str]) -> None:
    lines = [
        json.dumps(
            {
                "at": f"2026-11-08T{at}Z",
                "came": f"2026-11-08T{came}Z",
                "paise": paise,
                "per": per,
                "item": {"kind": kind},
            }
        )
        for at, came, paise, per, kind in rows
    ]
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text("\n".join(lines))
    os.utime(folder / "in" / name, (LANDED, LANDED))


def results(pipeline: Pipeline, rows: pa.Table | None = None) -> set[tuple[Any, ...]]:
    rows = (latecomer.Reader(pipeline).results("totals") if rows is None else rows).to_pylist()
    return {(row["hour"], row["kind"], row["n"], row["total"], row["most"]) for row in rows}


def test_keys_conditions_and_aggregates_are_computed_from_the_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(
        tmp_path,
        "a.json",
        ("14:00:01", "14:00:02", 250, 100, "tea"),
        ("14:00:02", "14:00:03", 1000, 0, "tea"),  # no rupees: a division by zero
        ("14:00:03", "14:00:04", 10, 100, "tea"),  # filtered
        ("15:00:00", "15:00:01", 700, 100, "cake"),
        ("14:00:05", "15:00:02", 900, 100, "tea"),  # too late
    )
    pipeline = pipeline_in(tmp_path)
    run(pipeline, drain=True, spark=spark)
    assert results(pipeline) == {(14, "tea", 2, 12, 2.5), (15, "cake", 1, 7, 7.0)}
    assert check_ledger(pipeline, spark) == []
    (late,) = latecomer.Reader(pipeline).late("totals").to_pylist()
    assert (late["hour"], late["rounded"], late["rupees"]) == (14, 9, 9.0)

    outcome = latecomer.explain(pipeline, "totals", "2026-11-08T14:00Z", {"hour": "14", "kind": "tea"})
    (pane,) = outcome.panes
    assert [each.event.payload["rounded"] for each in pane.took] == [2, 10]
    assert outcome.reconciled

    latecomer.correct(pipeline, "totals")
    served = latecomer.serve(pipeline, "totals")
    assert results(pipeline, served) == {
        (14, "tea", 3, 21, 9.0),
        (15, "cake", 1, 7, 7.0),
    }

    assert latecomer.replay(pipeline, spark=spark).equal


def changed_to(pipeline: Pipeline, folder: Path, **columns: str) -> Pipeline:
    """The pipeline with other expressions."""
    written = pipeline.model_dump(mode="json", by_alias=True, exclude={"profile", "outputs", "columns"})
    outputs = {"totals": pipeline.outputs["totals"].model_dump(mode="json", exclude={"columns"})}
    every = {**{name: str(each) for name, each in pipeline.columns.items()}, **columns}
    return Pipeline.model_validate({**written, "base": folder, "outputs": outputs, "columns": every})


def test_a_changed_expression_is_a_rebuild(spark: SparkSession, tmp_path: Path) -> None:
    write(
        tmp_path,
        "a.json",
        ("14:00:01", "14:00:02", 250, 100, "tea"),
        ("15:00:00", "15:00:01", 700, 100, "cake"),
    )
    pipeline = pipeline_in(tmp_path)
    run(pipeline, drain=True, spark=spark)
    changed = changed_to(pipeline, tmp_path, rounded="cast(paise / 10 as bigint)")
    with pytest.raises(StoreMismatch, match=r"computed with other columns .*latecomer rebuild apply"):
        run(changed, once=True, spark=spark)
    latecomer.apply_rebuild(changed, "totals", since="2026-11-08T00:00Z", spark=spark)
    assert {row[3] for row in results(changed)} == {25, 70}
    run(changed, once=True, spark=spark)
    assert check_ledger(changed, spark) == []
    # That goes for a key, too: panes of keys that are no more are withdrawn.
    keyed = changed_to(changed, tmp_path, hour="hour(at) + 1")
    with pytest.raises(StoreMismatch, match=r"computed with other columns .*latecomer rebuild apply"):
        run(keyed, once=True, spark=spark)
    latecomer.apply_rebuild(keyed, "totals", since="2026-11-08T00:00Z", spark=spark)
    assert {row[0] for row in results(keyed)} == {15, 16}
    assert check_ledger(keyed, spark) == []
    # But not where it has another type.
    retyped = changed_to(keyed, tmp_path, hour="cast(hour(at) as string)")
    with pytest.raises(StoreMismatch) as raised:
        run(retyped, once=True, spark=spark)
    assert "rebuild" not in str(raised.value)
    with pytest.raises(PipelineError, match="cannot be rebuilt under another definition: it changed its by"):
        latecomer.apply_rebuild(retyped, "totals", since="2026-11-08T00:00Z", spark=spark)


@pytest.mark.parametrize(
    ("columns", "field", "said"),
    [
        ({"per": "paise / 2"}, "columns.per", "the source has a column of this name"),
        ({"rupees": "paisa / 2"}, "columns.rupees", "the source has no column paisa"),
        (
            {"rupees": "paise / 2", "twice": "rupees * 2"},
            "columns.twice",
            "names rupees, which is a derived column",
        ),
        ({"rupees": "paise * 1.5"}, "columns.rupees", "its type is not known here"),
        ({"rupees": "hour(timestamp 'now')"}, "columns.rupees", "may say otherwise of the same event"),
    ],
)
def test_mistakes_are_told_where_they_are(
    spark: SparkSession, tmp_path: Path, columns: dict[str, str], field: str, said: str
) -> None:
    output = {"window": {"tumbling": "1m"}, "by": [*columns][:1], "aggregates": {"n": "count(*)"}}
    with pytest.raises(PipelineError) as refused:
        run(pipeline_in(tmp_path, columns=columns, outputs={"o": output}), once=True, spark=spark)
    assert refused.value.problems[0].field == field
    assert said in refused.value.problems[0].message


@pytest.mark.parametrize("place", ["time", "id", "ledger"])
def test_events_are_not_made_of_derived_columns(tmp_path: Path, spark: SparkSession, place: str) -> None:
    pipeline = pipeline_in(
        tmp_path,
        ledger=["rounded"] if place == "ledger" else [],
        event={"time": "at", place: "rounded"} if place != "ledger" else {"time": "at"},
    )
    with pytest.raises(PipelineError, match="is a derived column, which is computed from events"):
        run(pipeline, once=True, spark=spark)
