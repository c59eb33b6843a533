"""Topics read without Spark: the same rows as through Spark's connector, or none."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from latecomer.fast import VARIABLE, Declined
from latecomer.source.kafka_in_process import KafkaSource, collecting_later
from pyspark.sql import SparkSession

from kafka_kit import Client
from latecomer.after.reading.reader import Reader
from latecomer.config.models import Pipeline
from latecomer.decode.columns import CORRUPT, KEPT
from latecomer.errors import LatecomerError
from latecomer.log.events import EventLog
from latecomer.running import RunReport, run
from latecomer.source import kafka_fetch
from latecomer.source.base import Clock
from latecomer.source.choose import source_of
from latecomer.source.columns import BROKEN, FULL_ORIGIN, LANDED, ORIGIN, POSITION
from latecomer.source.kafka_fetch import Fetched, Fetcher
from latecomer.source.polled import Range
from source.kafka_source_kit import SCHEMA, logged, payments, pipeline_on

NEWEST = 1_800_000_000_000_000
SAID = {"of": "topic", "part": "partition", "nth": "offset", "stamp": "timestamp_type"}
KINDS = {"of": "string", "part": "int", "nth": "bigint", "stamp": "string"}


def transactions(kafka: Client, topic: str, first: int, count: int) -> None:
    """Five transactions of so many payments each; the second and the last are aborted."""
    producer = Producer({**kafka.settings, "transactional.id": f"{topic}-writer"})
    producer.init_transactions(10)
    for nth in range(5):
        producer.begin_transaction()
        for row in payments(first + nth * count, count):
            producer.produce(topic, json.dumps(row), partition=0)
        if nth in (1, 4):
            producer.flush()
            producer.abort_transaction(10)
        else:
            producer.commit_transaction(10)


def answer(**ranges: list[tuple[int, int]]) -> dict[str, Any]:
    """What to read of each topic, partition by partition."""
    return {
        "topics": {
            name.replace("_", "-"): {
                "id": "x",
                "from": [each[0] for each in given],
                "to": [each[1] for each in given],
                "end": [each[1] for each in given],
            }
            for name, given in ranges.items()
        }
    }


def named(topic: str, *ranges: tuple[int, int]) -> dict[str, Any]:
    return answer(**{topic: list(ranges)})


@pytest.fixture
def fetcher(kafka: Client) -> Iterator[Fetcher]:
    made = Fetcher(lambda: {"bootstrap.servers": kafka.servers})
    yield made
    made.close()


def offsets(found: dict[Any, Fetched]) -> dict[int, list[int]]:
    for each in found.values():
        assert each.offsets.tolist() == [record.offset() for record in each.records]
    return {number: each.offsets.tolist() for (_, number), each in found.items()}


def loaded_from(pipeline: Pipeline, *ranges: tuple[int, int], columns: dict[str, str] | None = None) -> Any:
    source = source_of(pipeline, columns or SCHEMA)
    assert isinstance(source, KafkaSource)
    assert pipeline.source.kafka is not None
    try:
        return source.load(Range(NEWEST, None, named(pipeline.source.kafka.topics[0], *ranges)))
    finally:
        source.close()


def test_ranges_are_read_one_after_the_other_over_one_connection(kafka: Client, fetcher: Fetcher) -> None:
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, payments(0, 50), partition=0)
    kafka.produce(topic, payments(0, 30), partition=1)
    assert offsets(fetcher.records(named(topic, (0, 20), (0, 10)))) == {0: [*range(20)], 1: [*range(10)]}
    first = fetcher._stream
    assert offsets(fetcher.records(named(topic, (20, 21), (10, 10)))) == {0: [20]}
    assert offsets(fetcher.records(named(topic, (21, 50), (10, 30)))) == {
        0: [*range(21, 50)],
        1: [*range(10, 30)],
    }
    kafka.produce(topic, payments(50, 5), partition=0)
    assert offsets(fetcher.records(named(topic, (50, 55), (30, 30)))) == {0: [*range(50, 55)]}
    assert fetcher._stream is first
    # A batch that is read again, and one after a gap, begin anew.
    assert offsets(fetcher.records(named(topic, (21, 23), (10, 30)))) == {0: [21, 22], 1: [*range(10, 30)]}
    assert offsets(fetcher.records(named(topic, (40, 42), (30, 30)))) == {0: [40, 41]}
    assert fetcher._stream is not first


def test_records_of_transactions_are_those_that_are_committed(kafka: Client, fetcher: Fetcher) -> None:
    """Wherever a range is cut: between transactions, within one that was aborted, behind the last mark."""
    topic = kafka.create_topic()
    transactions(kafka, topic, 0, 4)
    end = kafka.watermarks(topic)[1]
    there = [record.offset for record in kafka.consume(topic)]
    assert (len(there), end) == (12, 25)
    for cut in range(1, end):
        found = [
            *offsets(fetcher.records(named(topic, (0, cut))))[0],
            *offsets(fetcher.records(named(topic, (cut, end))))[0],
        ]
        assert found == there, cut


def test_what_cannot_be_read_whole_is_left_to_spark(
    kafka: Client, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, payments(0, 10))
    kafka.delete_records(topic, before=4)
    with pytest.raises(Declined, match="cannot be read whole"):
        fetcher.records(named(topic, (2, 10)))
    assert offsets(fetcher.records(named(topic, (4, 10)))) == {0: [*range(4, 10)]}
    monkeypatch.setattr(kafka_fetch, "PATIENCE", 0.3)
    with pytest.raises(Declined, match="slow to answer"):
        fetcher.records(named(topic, (10, 11)))
    with pytest.raises(Declined, match="slow to answer"):
        fetcher.records(named(topic, (4, 10)))


def test_a_large_batch_is_left_to_spark(
    kafka: Client, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, payments(0, 100))
    with pytest.raises(Declined, match="a large batch"):
        fetcher.records(named(topic, (0, 1_000_001)))
    assert fetcher._stream is None
    monkeypatch.setattr(kafka_fetch, "MOST_FETCHED", 2000)
    with pytest.raises(Declined, match="a large batch"):
        fetcher.records(named(topic, (0, 100)))
    assert len(fetcher.records(named(topic, (0, 10)))[topic, 0].records) == 10
    with pytest.raises(Declined, match="a large batch"):
        fetcher.records(named(topic, (10, 100)))
    assert fetcher._stream is None, "and it is known beforehand"


def test_what_comes_ahead_of_a_batch_does_not_make_it_large(
    kafka: Client, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions come one after the other; what is held of them is let go of where it becomes too much."""
    topic = kafka.create_topic(partitions=4)
    size = 0
    for partition in range(4):
        rows = [json.dumps(row) for row in payments(0, 3_000)]
        size += sum(map(len, rows))
        kafka.produce(topic, [(None, row) for row in rows], partition=partition)
    monkeypatch.setattr(kafka_fetch, "MOST_FETCHED", size * 6 // 10)
    found = fetcher.records(named(topic, *[(0, 10)] * 3, (2_990, 3_000)))
    assert [len(each.records) for each in found.values()] == [10] * 4
    stream = fetcher._stream
    assert stream is not None
    assert stream.ahead > 0
    monkeypatch.setattr(kafka_fetch, "MOST_FETCHED", int(stream.ahead) - 1)
    found = fetcher.records(named(topic, *[(10, 20)] * 3))
    assert offsets(found) == {part: [*range(10, 20)] for part in range(3)}
    assert fetcher._stream is not stream


def test_garbage_is_collected_again_afterwards() -> None:
    with suppress(Declined), collecting_later(), collecting_later():
        assert not gc.isenabled()
        raise Declined("a record of another kind")
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "without a value"),
        (b"", "not one object each"),
        (b'{"txn":\n"a"}', "of several lines"),
        (b'{"txn":"a"}\n{"txn":"b"}', "of several lines"),
        (b'{"txn":"a"}{"txn":"b"}', "not one object each"),
        (b'{"txn":"\xff"}', "not UTF-8"),
        (b'{"paise":"7"}', "not plain"),
    ],
)
def test_a_record_that_is_no_plain_line_is_left_to_spark(
    kafka: Client, tmp_path: Path, value: bytes | None, told: str
) -> None:
    topic = kafka.create_topic()
    good = json.dumps(payments(0, 1)[0])
    kafka.produce(topic, [(None, good), (None, value), (None, good)])
    with pytest.raises(Declined, match=told):
        loaded_from(pipeline_on(tmp_path, kafka, topic), (0, 3))


def test_an_arrival_is_the_brokers_where_the_record_says_so(kafka: Client, tmp_path: Path) -> None:
    stamped = kafka.create_topic(message_timestamp_type="LogAppendTime", retention_ms="-1")
    plain = kafka.create_topic(retention_ms="-1")
    for topic, by_broker in ((stamped, True), (plain, False)):
        kafka.produce(topic, payments(0, 3), timestamp=86_400_000)
        loaded = loaded_from(pipeline_on(tmp_path, kafka, topic), (0, 3))
        records = kafka.consume(topic)
        expected = [record.timestamp[1] * 1000 if by_broker else NEWEST for record in records]
        assert loaded.rows.column("_lc_landed").to_pylist() == expected
        assert loaded.clocks() == (Clock.BROKER if by_broker else Clock.READ)
        read = loaded_from(pipeline_on(tmp_path, kafka, topic, arrival="read"), (0, 3))
        assert read.rows.column("_lc_landed").to_pylist() == [NEWEST] * 3
        assert read.clocks() == Clock.READ


def test_columns_that_only_spark_reads(kafka: Client, tmp_path: Path) -> None:
    topic = kafka.new_name()
    for what, kind in (("key", "string"), ("headers", "string"), ("timestamp", "timestamp")):
        schema = {**SCHEMA, "said": kind}
        pipeline = pipeline_on(tmp_path, kafka, topic, metadata={"said": what}, schema=schema)
        with pytest.raises(Declined, match=f"a column with the {what} of a record"):
            source_of(pipeline, schema).require_fast()


def test_both_paths_read_the_same_rows(spark: SparkSession, kafka: Client, tmp_path: Path) -> None:
    """Of several partitions, of both clocks, and of transactions; each range ends at the middle of a partition."""
    topics = stamped, plain = (
        kafka.create_topic(partitions=3, message_timestamp_type="LogAppendTime"),
        kafka.create_topic(),
    )
    kafka.produce(stamped, ((row["txn"], row) for row in payments(0, 60)))
    transactions(kafka, plain, 1000, 6)
    columns = {**SCHEMA, **KINDS}
    pipeline = pipeline_on(tmp_path, kafka, *topics, metadata=SAID, schema=columns)
    source = source_of(pipeline, columns)
    whole = {
        topic: [kafka.watermarks(topic, number)[1] for number in kafka.partitions(topic)] for topic in topics
    }
    parts = [
        answer(**{topic: [(0, end // 2) for end in ends] for topic, ends in whole.items()}),
        answer(**{topic: [(end // 2, end) for end in ends] for topic, ends in whole.items()}),
    ]
    try:
        for part in parts:
            piece = Range(NEWEST, None, part)
            here = source.load(piece)
            there, rows = source.read(spark, piece, lambda rows: (pa.table(rows.frame.toArrow()), rows))
            micros = there.column(LANDED).cast(pa.int64())
            there = there.set_column(there.column_names.index(LANDED), LANDED, micros)
            assert {*there.column_names} - {*here.rows.column_names} == {BROKEN, CORRUPT, FULL_ORIGIN, KEPT}
            assert there.column(KEPT).null_count == there.num_rows
            assert in_order(here.rows) == in_order(there.select(here.rows.column_names))
            assert (here.counted(), here.clocks()) == (rows.counted(), rows.clocks())
            assert here.clocks() == Clock.BROKER | Clock.READ
    finally:
        source.close()


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return rows.sort_by([(ORIGIN, "ascending"), (POSITION, "ascending")]).to_pylist()  # type: ignore[no-any-return]


def ran(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, pipeline: Pipeline, way: str
) -> tuple[RunReport, list[Any], list[Any]]:
    """A run to the end, its log, and what the timeline says of clocks."""
    monkeypatch.setenv(VARIABLE, way)
    report = run(pipeline, drain=True, spark=spark)
    names = ["paise", "event_time", "event_id", "source_partition", "origin", "position", "batch", *SAID]
    rows = logged(pipeline, "arrival_time", *names)
    clocks = [(row["batch"], row["arrival_by"]) for row in Reader(pipeline).watermarks().to_pylist()]
    stamped = [row if row[-1] == "LogAppendTime" else row[1:] for row in rows]
    return report, stamped, clocks


@pytest.mark.long
def test_both_paths_leave_the_same_log(
    spark: SparkSession, kafka: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several partitions, of both clocks, and of transactions."""
    stamped = kafka.create_topic(partitions=3, message_timestamp_type="LogAppendTime")
    plain = kafka.create_topic()
    kafka.produce(stamped, ((row["txn"], row) for row in payments(0, 60)))
    kafka.produce(stamped, [{**row, "more": "é"} for row in payments(60, 10)])
    transactions(kafka, plain, 1000, 6)
    pipelines = {
        way: pipeline_on(
            *(tmp_path / way, kafka, stamped, plain),
            max_rows_per_batch=80,
            metadata=SAID,
            schema={**SCHEMA, **KINDS},
        )
        for way in ("on", "off")
    }
    here, rows_here, clocks_here = ran(spark, monkeypatch, pipelines["on"], "on")
    there, rows_there, clocks_there = ran(spark, monkeypatch, pipelines["off"], "off")
    assert len(rows_here) == 60 + 10 + 3 * 6
    assert rows_here == rows_there
    assert clocks_here == clocks_there
    left = here.paths["log"].partition("; Spark for ")[2]
    assert left in ("", "a batch without a record"), "the tail of a topic may be an aborted transaction"
    assert there.paths["log"].endswith("is off")


@pytest.mark.long
def test_what_is_lost_before_it_is_read_ends_alike(
    spark: SparkSession, kafka: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, told = EventLog._lanes_written, {}
    for way in ("on", "off"):
        topic = kafka.create_topic()
        kafka.produce(topic, payments(0, 10))

        def losing(*batch: Any, of: str = topic) -> Any:
            kafka.delete_records(of, before=4)
            return written(*batch)

        monkeypatch.setenv(VARIABLE, way)
        monkeypatch.setattr(EventLog, "_lanes_written", losing)
        with pytest.raises(LatecomerError) as error:
            run(pipeline_on(tmp_path / way, kafka, topic), once=True, spark=spark)
        told[way] = str(error.value).replace(topic, "TOPIC").replace(str(tmp_path / way), "FOLDER")
    assert told["on"] == told["off"]


@pytest.mark.long
def test_a_compacted_topic_is_read_alike(
    spark: SparkSession, kafka: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create_topic(cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001")
    for begin in (0, 40, 80):
        kafka.produce(topic, ((f"k{row['paise'] % 7}", row) for row in payments(begin, 40)))
        time.sleep(0.2)  # a record that comes later begins another segment
    deadline = time.monotonic() + 90
    while (
        len(kafka.consume(topic)) > 7 + 40
    ):  # a record a key, and the segment that is written to: it stays so
        assert time.monotonic() < deadline, "the broker does not compact"
        time.sleep(0.5)
    made = {
        way: pipeline_on(
            tmp_path / way, kafka, topic, max_rows_per_batch=45, metadata=SAID, schema={**SCHEMA, **KINDS}
        )
        for way in ("on", "off")
    }
    here, rows_here, _ = ran(spark, monkeypatch, made["on"], "on")
    _, rows_there, _ = ran(spark, monkeypatch, made["off"], "off")
    assert 40 <= len(rows_here) <= 7 + 40
    assert rows_here == rows_there
    assert here.paths["log"].partition("; Spark for ")[2] in ("", "a batch without a record")
