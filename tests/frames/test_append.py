"""One DataFrame, handed in as a batch by `latecomer.append`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import latecomer
from frames.frames_kit import PIPELINE, write_pipeline
from latecomer.store.store import open_store

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


def test_a_frame_as_kafka_gives_it(tmp_path: Path, spark: SparkSession) -> None:
    """The broker's time and the partition of the topic are columns."""
    named = "{dataframe: {order_by: timestamp, partition: partition}}"
    file = write_pipeline(tmp_path, PIPELINE.replace("{dataframe: {order_by: came}}", named))
    value = "from_json(cast(value as string), 'id bigint, at timestamp, shop string, paise bigint')"
    records = [
        f"""('{{"id": {nth}, "at": "2026-11-08T14:00:{nth:02}Z", "shop": "a", "paise": 1}}', {nth % 2}, {nth}L)"""
        for nth in range(4)
    ]
    topic = spark.sql(f"select * from values {', '.join(records)} as (value, partition, offset)")
    frame = topic.selectExpr(
        "timestamp'2026-11-08 14:01:00Z' + make_dt_interval(0, 0, 0, offset) as timestamp",
        "cast(partition as int) as partition",
        f"{value} as value",
    )
    latecomer.append(file, frame.select("timestamp", "partition", "value.*"))
    events = open_store(latecomer.load_pipeline(file)).events
    rows = events.query(
        "select source_partition, arrival_time, event_id from t order by event_id"
    ).to_pylist()
    assert [(row["event_id"], row["source_partition"]) for row in rows] == [
        ("0", "0"),
        ("1", "1"),
        ("2", "0"),
        ("3", "1"),
    ]
    assert [row["arrival_time"].second for row in rows] == [0, 1, 2, 3]


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


def test_the_first_frame_may_be_empty(tmp_path: Path, spark: SparkSession) -> None:
    """Some sources begin so, `rate` for one. The columns are known from then on."""
    file = write_pipeline(tmp_path)
    assert latecomer.append(file, spark.sql(ROWS).where("false")).batches == 0
    assert latecomer.append(file, spark.sql(ROWS)).batches == 1


def test_dead_letters_of_a_frame_can_be_taken_in_again(tmp_path: Path, spark: SparkSession) -> None:
    file = write_pipeline(tmp_path)
    frame = spark.sql(ROWS).selectExpr("id", "if(id = 2, null, at) as at", "came", "shop", "paise")
    latecomer.append(file, frame)
    pipeline = latecomer.load_pipeline(file)
    (letter,) = latecomer.Reader(pipeline).dead_letters().to_pylist()
    assert letter["raw"].startswith('{"id":2')
    assert letter["origin"] == "append-0-1.parquet"
    fix = {"column:at": "came"}
    assert latecomer.replay_dead_letters(pipeline, fix=fix, spark=spark).events == 1
    assert latecomer.append(file, spark.sql(ROWS).where("false"), drain=True).drained
    rows = latecomer.Reader(pipeline).results("minutes").to_pylist()
    assert [(row["shop"], row["taps"]) for row in rows] == [("a", 1), ("b", 1)]


def test_what_a_killed_process_left_is_swept(tmp_path: Path, spark: SparkSession) -> None:
    file = write_pipeline(tmp_path)
    latecomer.append(file, spark.sql(ROWS))
    draft = tmp_path / "store" / "inbox" / ".drafts" / "0123" / "part.parquet"
    draft.parent.mkdir(parents=True)
    draft.write_bytes(b"PAR1")
    for each in (draft, draft.parent):
        os.utime(each, (1, 1))
    placed, fresh = (tmp_path / "store" / "inbox" / f"given-up-{nth}-0.parquet" for nth in (0, 1))
    for each in (placed, fresh):
        each.write_bytes(b"PAR1")
    os.utime(placed, (1, 1))
    latecomer.compact(latecomer.load_pipeline(file))
    assert not draft.parent.exists()
    assert not placed.exists()
    assert fresh.exists()  # its receipt may come
