"""Topics as a source: each task reads ranges of offsets with a client of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Self

import numpy as np
import pyarrow as pa

from latecomer.config.kafka import ClientSettings
from latecomer.schemas.registry.names import id_in
from latecomer.source.base import Chunk, Clock, Slice, Split
from latecomer.source.decode.garbage import paused_collection
from latecomer.source.decode.own import OwnRecords
from latecomer.source.decode.private_columns import RECORD
from latecomer.source.kafka.fetch import FetchedRecords, close_clients, fetched
from latecomer.source.kafka.ranges import Place, Ranges, ranges_of
from latecomer.source.kafka.reader import KafkaReader
from latecomer.source.polled import Polled, PolledRange
from latecomer.source.private_columns import LANDED, ORIGIN, PARTITION, POSITION
from latecomer.source.records import RecordSource
from latecomer.source.staging import Staging

_BY_BROKER = 2
"""LogAppendTime, as librdkafka numbers it."""
_BYTES_A_RECORD = 200
"""An estimate, to compare the sizes of splits."""
MOST_OFFSETS = 250_000
"""Offsets of a split: a partition with more of them is read by several tasks."""


@dataclass(frozen=True)
class TopicSplit(Split):
    """A range of offsets of one partition."""

    place: Place
    start: int
    to: int
    newest: int
    """The arrival of records that have none of their own."""
    settings: ClientSettings
    """Secrets included."""

    @property
    def size(self) -> int:
        return (self.to - self.start) * _BYTES_A_RECORD


@dataclass(frozen=True)
class KafkaSource(Polled):
    """The records between two offsets of topics that a pipeline file names."""

    reader: KafkaReader

    @property
    def landed_clock(self) -> Clock:
        return Clock.BROKER

    def portable(self) -> Self:
        reader = KafkaReader(
            topics=self.reader.topics, base=self.reader.base, id_header=self.reader.id_header
        )
        return replace(RecordSource.portable(self), reader=reader)

    def splits(self, slice_: Slice, staging: Staging) -> Sequence[Split]:
        if not isinstance(slice_, PolledRange):
            raise TypeError(f"a {type(slice_).__name__} is no slice of {self.named}")
        settings = self.reader.client_settings()
        ranges = [
            TopicSplit(place, begin, min(begin + MOST_OFFSETS, to), slice_.newest, settings)
            for place, (start, to) in ranges_of(slice_.until).items()
            for begin in range(start, to, MOST_OFFSETS)
        ]
        if not isinstance(self.decoder, OwnRecords):
            return ranges
        records = staging.records(self, ranges)
        return [] if records is None else staging.staged(self.decoded_by_spark(records), slice_.newest)

    def read(self, splits: Sequence[Split]) -> Iterator[Chunk]:
        yield from super().read(splits)
        newest = next((each.newest for each in splits if isinstance(each, TopicSplit)), 0)
        for rows in self.recorded(splits):
            yield self.chunk(rows, newest)

    def recorded(self, splits: Sequence[Split]) -> Iterator[pa.Table]:
        """RECORD and Kafka's metadata of each, a chunk at a time."""
        topic_splits = [each for each in splits if isinstance(each, TopicSplit)]
        with paused_collection():
            for ranges in _ranges_of_clients(topic_splits):
                for parts in fetched(topic_splits[0].settings, ranges):
                    if any(len(each.records) for each in parts):
                        yield self._table(parts)

    def close(self) -> None:
        close_clients()

    def _table(self, parts: Sequence[FetchedRecords]) -> pa.Table:
        from confluent_kafka import Message

        records = [record for each in parts for record in each.records]
        values: list[bytes | None] = list(map(Message.value, records))
        if self.reader.id_header is not None:
            values = [
                framed(value, each.headers(), self.reader.id_header)
                for value, each in zip(values, records, strict=True)
            ]
        by_broker, stamps = _stamps(records)
        where = _where(parts)
        columns = {
            RECORD: pa.array(values, pa.binary()),
            ORIGIN: where[ORIGIN],
            PARTITION: where[ORIGIN],
            POSITION: where[POSITION],
        }
        if self.reader.topics.arrival != "read":
            columns[LANDED] = pa.array(stamps * 1000, mask=~by_broker).cast(pa.timestamp("us"))
        for name, what in self.reader.topics.metadata.items():
            if name in self.read_columns:
                columns[name] = _metadata(what, records, where, by_broker, stamps)
        return pa.table(columns)


def _ranges_of_clients(splits: Sequence[TopicSplit]) -> Iterator[Ranges]:
    """The ranges of each client that is needed: a client reads one range of a partition."""
    left = list(splits)
    while left:
        ranges: dict[Place, tuple[int, int]] = {}
        rest = []
        for each in left:
            known = ranges.get(each.place)
            if known is None:
                ranges[each.place] = each.start, each.to
            elif known[1] == each.start:
                ranges[each.place] = known[0], each.to
            else:
                rest.append(each)
        yield ranges
        left = rest


def framed(
    value: bytes | None, headers: Sequence[tuple[str, bytes | None]] | None, header: str
) -> bytes | None:
    r"""The value of a record in Confluent's framing, with the id from a header; as it is, if the header has none.

    >>> framed(b"{}", [("id", b"7")], "id"), framed(b"{}", None, "id")
    (b'\x00\x00\x00\x00\x07{}', b'{}')
    """
    written = next((each for name, each in reversed(headers or []) if name == header), None)
    number = None if value is None or written is None else id_in(written)
    return value if value is None or number is None else b"\0" + number.to_bytes(4, "big") + value


def _metadata(
    what: str, records: Sequence[Any], where: Mapping[str, pa.Array], by_broker: Any, stamps: Any
) -> pa.Array:
    """One kind of Kafka's metadata as a column."""
    match what:
        case "topic" | "partition":
            return where[what]
        case "offset":
            return where[POSITION]
        case "timestamp_type":
            return pa.array(np.where(by_broker, "LogAppendTime", "CreateTime"), pa.string())
        case "timestamp":
            return pa.array(stamps * 1000).cast(pa.timestamp("us", "UTC"))
        case "key":
            return pa.array([_text(each.key()) for each in records], pa.string())
    return pa.array([_headers(each.headers()) for each in records], pa.string())


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _headers(headers: Sequence[tuple[str, bytes | None]] | None) -> str | None:
    """The headers of a record as JSON; a header without a value has only its key."""
    if not headers:
        return None
    named = [{"key": name, **({} if value is None else {"value": _text(value)})} for name, value in headers]
    return json.dumps(named, ensure_ascii=False, separators=(",", ":"))


def _stamps(records: Sequence[Any]) -> tuple[Any, Any]:
    """Whether each record has the broker's timestamp, and the timestamps, in milliseconds."""
    from confluent_kafka import Message

    pairs = chain.from_iterable(map(Message.timestamp, records))
    stamps = np.fromiter(pairs, np.int64, 2 * len(records)).reshape(-1, 2)
    return stamps[:, 0] == _BY_BROKER, stamps[:, 1]


def _where(parts: Sequence[FetchedRecords]) -> dict[str, pa.Array]:
    """The topic, partition and offset of each record."""
    nth = pa.array(np.repeat(np.arange(len(parts), dtype=np.int32), [len(each.records) for each in parts]))
    topics, numbers = zip(*(each.place for each in parts), strict=True)
    origins = [f"{topic}/{number}" for topic, number in zip(topics, numbers, strict=True)]
    return {
        "topic": pa.array(topics, pa.string()).take(nth),
        "partition": pa.array(numbers, pa.int32()).take(nth),
        ORIGIN: pa.array(origins, pa.string()).take(nth),
        POSITION: pa.array(np.concatenate([each.offsets for each in parts])),
    }
