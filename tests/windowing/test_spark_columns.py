"""What users wrote in SQL, evaluated by Spark before kernels see the rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.log.logged_events import Logged, LogSplit
from latecomer.spark.base import InProcess
from latecomer.spark.value_or_null import VALUE
from latecomer.store.layout import EventLayout
from latecomer.windowing.spark_columns import computed
from latecomer.windowing.visible_events import spark_column

PIPELINE = Pipeline.model_validate(
    {
        "name": "pay",
        "store": "store",
        "source": {"files": {"path": "in/*.json", "format": "json"}},
        "event": {"time": "at"},
        "watermark": {"delay": "1s"},
        "outputs": {
            "by_letter": {
                "window": {"tumbling": "1m"},
                "columns": {"letter": "substring(note, 1, 1)"},
                "where": "note like 'b%' or note like 'c%'",
                "by": ["letter"],
                "aggregates": {"n": "count(*)"},
            }
        },
    }
)


def test_one_query_serves_all_splits(spark: SparkSession, tmp_path: Path) -> None:
    """Splits of whole batches, and one of a file that holds other batches, too."""
    layout = EventLayout(PIPELINE, {"at": "timestamp", "note": "string"})
    splits = [_split(tmp_path, layout, nth, f"{letter}-{nth}") for nth, letter in enumerate("abcdcba")]
    splits[-1] = replace(splits[-1], after=0, last=9)
    output: Output = PIPELINE.outputs["by_letter"]
    context = spark.sparkContext
    context.setJobGroup("columns", "columns of users")
    with computed(Logged(splits), [output], layout, InProcess(spark), tmp_path) as seen:
        context.setJobGroup("after", "")
        rows = seen.table.to_pylist()
    letters = {row["note"]: row[spark_column(output, "letter")][VALUE] for row in rows}
    assert letters == {note: note[0] for note in ("a-0", "b-1", "c-2", "d-3", "c-4", "b-5", "a-6")}
    jobs = context.statusTracker().getJobIdsForGroup("columns")
    assert len(jobs) <= 2 * 2, "a query for each kind of split, with a job or two"
    assert not any(tmp_path.joinpath("staging").iterdir())


def _split(folder: Path, layout: EventLayout, nth: int, note: str) -> LogSplit:
    row = {"note": note, "batch": nth, "tick": nth, "position": nth, "event_time": nth, "arrival_time": nth}
    columns = {field.name: pa.array([row.get(field.name)]).cast(field.type) for field in layout.schema}
    file = folder / f"{nth}.parquet"
    pq.write_table(pa.table(columns, layout.schema), file)
    return LogSplit([file], 1, layout.schema)
