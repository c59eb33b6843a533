"""One DataFrame, handed in as a batch by `latecomer.append`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import latecomer
from frames.frames_kit import PIPELINE, write_pipeline

ROWS = """
select * from values
  (1L, timestamp'2026-11-08 14:00:00Z', timestamp'2026-11-08 14:00:01Z', 'a', 5L),
  (2L, timestamp'2026-11-08 14:00:30Z', timestamp'2026-11-08 14:00:31Z', 'b', 7L)
as (id, at, came, shop, paise)
"""


def test_a_version_is_taken_once(tmp_path: Path, spark: SparkSession) -> None:
    file = write_pipeline(tmp_path, PIPELINE.replace(", id: id", ""))  # nothing else finds what came before
    frame = spark.sql(ROWS)
    assert latecomer.append(file, frame, app="nightly", version=20).batches == 1
    assert latecomer.append(file, frame, app="nightly", version=20).batches == 1
    assert latecomer.append(file, frame, app="nightly", version=19).batches == 1
    assert latecomer.append(file, frame, app="nightly", version=21).batches == 2
    assert latecomer.append(file, frame, app="other", version=1).batches == 3
    assert latecomer.append(file, frame).batches == 4
    assert latecomer.append(file, frame).batches == 5


def test_nothing_is_a_frame_too(tmp_path: Path, spark: SparkSession) -> None:
    file = write_pipeline(tmp_path)
    latecomer.append(file, spark.sql(ROWS))
    assert latecomer.append(file, spark.sql(ROWS).where("false")).batches == 1
    assert latecomer.append(file, spark.sql(ROWS).where("false"), drain=True).drained


def test_columns_that_the_store_does_not_have_are_kept(tmp_path: Path, spark: SparkSession) -> None:
    file = write_pipeline(tmp_path)
    latecomer.append(file, spark.sql(ROWS))
    more = spark.sql(ROWS).selectExpr("*", "'x' as `odd name`", "null as nothing").where("id = 1")
    report = latecomer.append(file, more.selectExpr("id + 10 as id", "* except (id)"))
    assert report.unknown.names == ("odd name",)


def test_objects_lists_and_exact_numbers(tmp_path: Path, spark: SparkSession) -> None:
    text = PIPELINE.replace("by: [shop]", "by: [shop.city]").replace("sum(paise)}", "sum(price)}")
    file = write_pipeline(tmp_path, text.replace("ledger: [paise]", "ledger: [price]"))
    frame = spark.sql(ROWS).selectExpr(
        "id",
        "at",
        "came",
        "struct(shop as city, array(1, 2) as floors) as shop",
        "cast(paise as decimal(12, 2)) / 100 as price",
    )
    latecomer.append(file, frame, drain=True)
    rows = latecomer.Reader(latecomer.load_pipeline(file)).results("minutes").to_pylist()
    assert [(row["shop.city"], str(row["paise"])) for row in rows] == [("a", "0.050000"), ("b", "0.070000")]


def test_a_pipeline_of_files_can_go_on_as_one_of_frames(tmp_path: Path, spark: SparkSession) -> None:
    """The columns are pinned: what is said of the source beside them may change."""
    file = write_pipeline(tmp_path)
    latecomer.append(file, spark.sql(ROWS))
    assert latecomer.run(latecomer.load_pipeline(file), once=True, spark=spark).batches == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"app": "nightly"}, "version: is missing: they go together"),
        ({"version": 3}, "app: is missing: they go together"),
        ({"app": 3, "version": 3}, "give the name of the program"),
        ({"drain": "yes"}, "give True or False"),
    ],
)
def test_wrong_arguments(
    tmp_path: Path, spark: SparkSession, options: dict[str, object], message: str
) -> None:
    with pytest.raises(latecomer.PipelineError, match=message):
        latecomer.append(write_pipeline(tmp_path), spark.sql(ROWS), **options)  # type: ignore[arg-type]
