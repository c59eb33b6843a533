"""`where` is checked by Spark before anything is stored: what it means, and that it means it always."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.config.models import Pipeline
from latecomer.errors import PipelineError
from latecomer.model.windows import Calendar
from latecomer.running import run

WAVERING = {
    "chance": "rand() < 0.5",
    "seeded chance": "rand(7) < 0.5",
    "uuid": "note <> uuid()",
    "row number": "monotonically_increasing_id() % 2 = 0",
    "task": "spark_partition_id() = 0",
    "file": "input_file_name() like '%x'",
    "java": "reflect('java.util.UUID', 'randomUUID') <> note",
    "timestamp": "at < current_timestamp()",
    "now": "at < now() - interval 1 day",
    "date": "date(at) = current_date()",
    "local": "at < localtimestamp()",
    "unix": "paise < unix_timestamp()",
    "literal": "at < timestamp'now'",
    "literal date": 'date(at) >= DATE "Yesterday"',
    "cast": "at < cast('now' as timestamp)",
    "call": "at < to_timestamp('today')",
    "user": "note = current_user()",
    "other table": "paise in (select 1)",
}
STEADY = [
    "note = 'now'",
    "note = 'today' and paise > 3",
    "at >= timestamp'2026-11-08T14:00:00Z' and date_trunc('hour', at) <> at",
    "paise % 10 < 5 or hash(note) > 0 or note rlike '^a'",
]


def pipeline_with(folder: Path, **wheres: str) -> Pipeline:
    (folder / "in").mkdir()
    output: dict[str, Any] = {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}
    return Pipeline.model_validate(
        {
            "name": "asked",
            "store": "store",
            "base": folder,
            "source": {
                "files": {"path": "in"},
                "schema": {"at": "timestamp", "paise": "bigint", "note": "string"},
            },
            "event": {"time": "at"},
            "watermark": {"delay": "10s"},
            "outputs": {name: {**output, "where": where} for name, where in wheres.items()},
        }
    )


@pytest.mark.parametrize("where", WAVERING.values(), ids=WAVERING.keys())
def test_a_predicate_that_may_say_otherwise_when_asked_again_is_refused(
    spark: SparkSession, tmp_path: Path, where: str
) -> None:
    with pytest.raises(PipelineError) as refused:
        run(pipeline_with(tmp_path, asked=where), once=True, spark=spark)
    (problem,) = refused.value.problems
    assert (problem.field, problem.value) == ("outputs.asked.where", where)
    assert problem.message == "may say otherwise of the same event when it is asked again"
    assert problem.mend == "write an SQL condition over at, paise, note alone"
    assert not (tmp_path / "store" / "pipeline.json").exists()


def test_a_predicate_over_the_columns_alone_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    wheres = {f"o{nth}": where for nth, where in enumerate(STEADY)}
    run(pipeline_with(tmp_path, **wheres), once=True, spark=spark)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("paise + 1", "is not a predicate: it yields bigint"),
        ("amount > 1", "Spark cannot use this predicate"),
    ],
)
def test_what_is_no_predicate_is_refused(spark: SparkSession, tmp_path: Path, where: str, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        run(pipeline_with(tmp_path, asked=where), once=True, spark=spark)


def test_a_zone_that_this_java_does_not_know_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Java's list of zones may be older than Python's."""
    pipeline = pipeline_with(tmp_path, one="paise > 1")
    days = Calendar("day").model_copy(update={"zone": "America/Unheard_Of"})
    output = pipeline.outputs["one"].model_copy(update={"window": days})
    with pytest.raises(PipelineError) as refused:
        run(pipeline.model_copy(update={"outputs": {"one": output}}), once=True, spark=spark)
    (problem,) = refused.value.problems
    assert (problem.field, problem.value) == ("outputs.one.window.zone", "America/Unheard_Of")
    assert "does not know this time zone" in problem.message
    assert not (tmp_path / "store" / "pipeline.json").exists()
