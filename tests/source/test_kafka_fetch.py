"""Records of topics as a task reads them: all that lies between offsets, whatever Kafka leaves out of it."""

from __future__ import annotations

import gc
import json
import pickle
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from kafka_kit import Client
from latecomer.config.models import Pipeline
from latecomer.errors import SourceError, SourceOutage
from latecomer.model.dead_letters import TOMBSTONE
from latecomer.source.base import Chunk, Clock
from latecomer.source.choose import source_of
from latecomer.source.decode.garbage import paused_collection
from latecomer.source.decode.private_columns import CORRUPT
from latecomer.source.kafka import fetch as kafka_fetch
from latecomer.source.kafka.fetch import close_clients, fetched
from latecomer.source.kafka.ranges import Ranges
from latecomer.source.kafka.source import KafkaSource, TopicSplit
from latecomer.source.private_columns import BROKEN, LANDED, ORIGIN, POSITION
from source.kafka_source_kit import SCHEMA, awaited, payments, pipeline_on

NEWEST = 1_800_000_000_000_000
SAID = {"of": "topic", "part": "partition", "nth": "offset", "stamp": "timestamp_type"}
KINDS = {"of": "string", "part": "int", "nth": "bigint", "stamp": "string"}


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_clients()


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


def offsets(kafka: Client, ranges: Ranges) -> dict[int, list[int]]:
    """What is read of each partition."""
    found: dict[int, list[int]] = {}
    for part in fetched({"bootstrap.servers": kafka.servers}, ranges):
        for (_, number), records, some in part:
            assert some.tolist() == [record.offset() for record in records]
            found.setdefault(number, []).extend(some.tolist())
    return found


def client() -> Any:
    (kept,) = kafka_fetch._kept.values()
    return kept


def test_ranges_are_read_one_after_the_other_over_one_connection(kafka: Client) -> None:
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, payments(0, 50), partition=0)
    kafka.produce(topic, payments(0, 30), partition=1)
    one, two = (topic, 0), (topic, 1)
    assert offsets(kafka, {one: (0, 20), two: (0, 10)}) == {0: [*range(20)], 1: [*range(10)]}
    first = client()
    assert offsets(kafka, {one: (20, 50), two: (10, 30)}) == {0: [*range(20, 50)], 1: [*range(10, 30)]}
    kafka.produce(topic, payments(50, 5), partition=0)
    assert offsets(kafka, {one: (50, 55), two: (30, 30)}) == {0: [*range(50, 55)]}
    assert client() is first
    # A batch that is read again, one after a gap, and one of other partitions begin anew.
    assert offsets(kafka, {one: (21, 23), two: (10, 30)}) == {0: [21, 22], 1: [*range(10, 30)]}
    assert offsets(kafka, {one: (40, 42), two: (30, 30)}) == {0: [40, 41]}
    assert offsets(kafka, {one: (42, 43)}) == {0: [42]}
    assert client() is not first


def test_records_of_transactions_are_those_that_are_committed(kafka: Client) -> None:
    """Wherever a range is cut: between transactions, within one that was aborted, behind the last mark."""
    topic = kafka.create_topic()
    transactions(kafka, topic, 0, 4)
    end = 5 * (4 + 1)  # with the marks
    awaited(lambda: kafka.watermarks(topic)[1] == end)
    there = [record.offset for record in kafka.consume(topic)]
    assert len(there) == 12
    for cut in range(1, end):
        found = [
            *offsets(kafka, {(topic, 0): (0, cut)}).get(0, []),
            *offsets(kafka, {(topic, 0): (cut, end)}).get(0, []),
        ]
        assert found == there, cut


def test_a_compacted_topic_has_gaps(kafka: Client) -> None:
    topic = kafka.create_topic(cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001")
    for begin in (0, 40, 80):
        kafka.produce(topic, ((f"k{row['paise'] % 7}", row) for row in payments(begin, 40)))
        time.sleep(0.2)  # a record that comes later begins another segment
    deadline = time.monotonic() + 90
    while len(kafka.consume(topic)) > 7 + 40:  # a record a key, and the segment that is written to
        assert time.monotonic() < deadline, "the broker does not compact"
        time.sleep(0.5)
    found = offsets(kafka, {(topic, 0): (0, 45)}).get(0, []) + offsets(kafka, {(topic, 0): (45, 120)})[0]
    assert found == [record.offset for record in kafka.consume(topic)]


def test_what_cannot_be_read_whole_is_told(kafka: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, payments(0, 10))
    kafka.delete_records(topic, before=4)
    with pytest.raises(SourceError, match=f"topic {topic}, partition 0: offsets .* are gone") as told:
        offsets(kafka, {(topic, 0): (2, 10)})
    assert not isinstance(told.value, SourceOutage), "they do not come back"
    assert offsets(kafka, {(topic, 0): (4, 10)}) == {0: [*range(4, 10)]}
    monkeypatch.setattr(kafka_fetch, "PATIENCE", 0.3)
    with pytest.raises(SourceOutage, match=r"no record has come within 0\.3 s; look at the broker"):
        offsets(kafka, {(topic, 0): (10, 11)})


def test_little_is_held_of_a_long_range(kafka: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = kafka.create_topic(partitions=2)
    for partition in range(2):
        kafka.produce(topic, payments(0, 3_000), partition=partition)
    monkeypatch.setattr(kafka_fetch, "MOST_HELD", 100_000)
    monkeypatch.setattr(kafka_fetch, "_AT_ONCE", 500)
    settings = {"bootstrap.servers": kafka.servers}
    parts = list(fetched(settings, {(topic, 0): (0, 3_000), (topic, 1): (0, 3_000)}))
    assert sum(len(each.records) for part in parts for each in part) == 6_000
    assert max(sum(len(each.records) for each in part) for part in parts) < 3_000


def test_garbage_is_collected_again_afterwards() -> None:
    with suppress(SourceOutage), paused_collection(), paused_collection():
        assert not gc.isenabled()
        raise SourceOutage("a broker that is down")
    assert gc.isenabled()


# As rows


def chunk_of(pipeline: Pipeline, columns: dict[str, str], *splits: tuple[str, int, int, int]) -> Chunk:
    """Some ranges, as a task reads them."""
    source = source_of(pipeline, columns)
    assert isinstance(source, KafkaSource)
    settings = source.reader.client_settings()
    made = [TopicSplit((topic, number), start, to, NEWEST, settings) for topic, number, start, to in splits]
    task, given = pickle.loads(pickle.dumps((source.portable(), made)))
    return Chunk.joined(list(task.read(given)))


@pytest.mark.parametrize(
    ("value", "paise"),
    [
        (b"", None),
        (b'{"txn":\n"a","paise":7}', 7),
        (b'{"txn":"a"}\n{"txn":"b"}', None),
        (b'{"txn":"a"}{"txn":"b"}', None),
        (b'{"txn":"\xff"}', None),
        (b'{"paise":"7x"}', None),
    ],
)
def test_a_record_is_one_object_and_its_neighbours_are_read(
    kafka: Client, tmp_path: Path, value: bytes, paise: int | None
) -> None:
    topic = kafka.create_topic()
    good = json.dumps(payments(5, 1)[0])
    kafka.produce(topic, [(None, good), (None, value), (None, good)])
    rows = chunk_of(pipeline_on(tmp_path, kafka, topic), SCHEMA, (topic, 0, 0, 3)).rows
    assert rows.column("paise").to_pylist() == [5, paise, 5]
    assert rows.column(CORRUPT).to_pylist() == [None, value if paise is None else None, None]


def test_records_without_a_value_are_tombstones(kafka: Client, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [(None, payments(5, 1)[0]), ("k", None)])
    told = chunk_of(pipeline_on(tmp_path, kafka, topic), SCHEMA, (topic, 0, 0, 2))
    assert told.rows.column(BROKEN).to_pylist() == [None, TOMBSTONE]
    left_out = chunk_of(pipeline_on(tmp_path, kafka, topic, tombstones="skip"), SCHEMA, (topic, 0, 0, 2))
    assert (left_out.rows.num_rows, left_out.skipped) == (1, 1)


def test_an_arrival_is_the_brokers_where_the_record_says_so(kafka: Client, tmp_path: Path) -> None:
    stamped = kafka.create_topic(message_timestamp_type="LogAppendTime", retention_ms="-1")
    plain = kafka.create_topic(retention_ms="-1")
    for topic, by_broker in ((stamped, True), (plain, False)):
        kafka.produce(topic, payments(0, 3), timestamp=86_400_000)
        found = chunk_of(pipeline_on(tmp_path, kafka, topic), SCHEMA, (topic, 0, 0, 3))
        records = kafka.consume(topic)
        expected = [record.timestamp[1] * 1000 if by_broker else NEWEST for record in records]
        assert found.rows.column(LANDED).to_pylist() == expected
        assert found.clock == (Clock.BROKER if by_broker else Clock.READ)
        read = chunk_of(pipeline_on(tmp_path, kafka, topic, arrival="read"), SCHEMA, (topic, 0, 0, 3))
        assert read.rows.column(LANDED).to_pylist() == [NEWEST] * 3
        assert read.clock == Clock.READ


def test_ranges_of_several_topics_have_all_rows_once(kafka: Client, tmp_path: Path) -> None:
    """Of several partitions, of both clocks, and of transactions; two ranges of a partition in one task, too."""
    stamped = kafka.create_topic(partitions=3, message_timestamp_type="LogAppendTime")
    plain = kafka.create_topic()
    kafka.produce(stamped, ((row["txn"], row) for row in payments(0, 60)))
    transactions(kafka, plain, 1000, 6)
    awaited(lambda: kafka.watermarks(plain)[1] == 5 * (6 + 1))
    columns = {**SCHEMA, **KINDS}
    pipeline = pipeline_on(tmp_path, kafka, stamped, plain, metadata=SAID, schema=columns)
    ends = {
        (topic, number): kafka.watermarks(topic, number)[1]
        for topic in (stamped, plain)
        for number in kafka.partitions(topic)
    }
    halves = [(*place, 0, end // 2) for place, end in ends.items()]
    others = [(*place, end // 2, end) for place, end in ends.items()]
    whole = chunk_of(pipeline, columns, *((*place, 0, end) for place, end in ends.items()))
    both = chunk_of(pipeline, columns, *halves, *others)
    apart = Chunk.joined([chunk_of(pipeline, columns, *part) for part in (halves, others)])
    assert whole.clock == both.clock == apart.clock == Clock.BROKER | Clock.READ
    assert in_order(whole.rows) == in_order(both.rows) == in_order(apart.rows)
    assert whole.rows.num_rows == 60 + 3 * 6
    row = in_order(whole.rows.filter(pa.array([each == plain for each in whole.rows["of"].to_pylist()])))[0]
    assert (row["of"], row["part"], row["nth"], row["stamp"]) == (plain, 0, 0, "CreateTime")


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return rows.sort_by([(ORIGIN, "ascending"), (POSITION, "ascending")]).to_pylist()  # type: ignore[no-any-return]
