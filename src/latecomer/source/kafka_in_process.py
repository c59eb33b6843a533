"""Topics as a source, also without Spark: records of plain JSON, or of Avro, as typed columns (ADR 0056)."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from latecomer.config.kafka import METADATA
from latecomer.fast import Declined
from latecomer.source.base import NO_CLOCK, Clock, Loaded, Slice, beside
from latecomer.source.columns import LANDED, ORIGIN, PARTITION, POSITION
from latecomer.source.kafka import KafkaReader
from latecomer.source.kafka_broker import Place
from latecomer.source.kafka_fetch import Fetched
from latecomer.source.polled import Polled, Range

_BY_BROKER = 2
"""What librdkafka calls LogAppendTime."""
_READ_HERE = frozenset({"topic", "partition", "offset", "timestamp_type"})
"""What is read here of what Kafka says of a record."""


@dataclass(frozen=True)
class KafkaSource(Polled):
    """Records between offsets, of topics that a pipeline file names."""

    reader: KafkaReader

    def require_fast(self) -> None:
        if other := next((what for what in self._of_kafka.values() if what not in _READ_HERE), None):
            raise Declined(f"a column with the {other} of a record")
        if any(self.read_columns[name] != METADATA[what] for name, what in self._of_kafka.items()):
            raise Declined("a column of another type than Kafka has")
        if self.reader.id_header is not None:
            raise Declined("ids in headers")
        self.decoder.require_fast(self._columns_within)

    def load(self, piece: Slice) -> Loaded:
        self.require_fast()
        if not isinstance(piece, Range):
            raise Declined("a slice of another source")
        self.decoder.prepare()
        with collecting_later():
            return self._load(piece)

    def _load(self, piece: Range) -> Loaded:
        from confluent_kafka import Message

        found = sorted(self.reader.fetcher.records(piece.until).items())
        records = [record for _, each in found for record in each.records]
        values = list(map(Message.value, records))
        if not values:
            raise Declined("a batch without a record")
        if None in values:
            raise Declined("a record without a value")
        rows = self.decoder.load(values, self._columns_within)
        by_broker, stamps = _stamps(records)
        if self.reader.topics.arrival == "read":
            landed, stamped = np.full(len(records), piece.newest, np.int64), np.zeros(len(records), bool)
        else:
            landed, stamped = np.where(by_broker, stamps * 1000, piece.newest), by_broker
        where = _where(found)
        by_name = {
            "topic": where["topic"],
            "partition": where["partition"],
            "offset": where[POSITION],
            "timestamp_type": pa.array(np.where(by_broker, "LogAppendTime", "CreateTime"), pa.string()),
        }
        named = {
            name: by_name[self._of_kafka[read]] if read in self._of_kafka else rows.column(read)
            for name in self.columns
            for read in [self.pipeline.source_name(name)]
        }
        clock = (Clock.BROKER if stamped.any() else NO_CLOCK) | (NO_CLOCK if stamped.all() else Clock.READ)
        places = {
            ORIGIN: where[ORIGIN],
            PARTITION: where[ORIGIN],
            POSITION: where[POSITION],
            LANDED: pa.array(landed, pa.int64()),
        }
        return Loaded(pa.table({**named, **places, **beside(rows)}), clock)

    def close(self) -> None:
        self.reader.fetcher.close()

    @property
    def _of_kafka(self) -> dict[str, str]:
        """The columns that Kafka says, not the value of a record, under the names that the source has for them."""
        return {name: what for name, what in self.reader.topics.metadata.items() if name in self.read_columns}

    @property
    def _columns_within(self) -> Mapping[str, str]:
        return {name: kind for name, kind in self.read_columns.items() if name not in self._of_kafka}


@contextmanager
def collecting_later() -> Iterator[None]:
    """Every record is an object that refers to none: to look for cycles among them, again and again, would take nearly
    half of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _stamps(records: Sequence[Any]) -> tuple[Any, Any]:
    """Whether the broker's clock has stamped each record, and the stamps, in milliseconds."""
    from confluent_kafka import Message

    pairs = chain.from_iterable(map(Message.timestamp, records))
    stamps = np.fromiter(pairs, np.int64, 2 * len(records)).reshape(-1, 2)
    return stamps[:, 0] == _BY_BROKER, stamps[:, 1]


def _where(found: Sequence[tuple[Place, Fetched]]) -> dict[str, pa.Array]:
    """Where each record stands."""
    nth = pa.array(np.repeat(np.arange(len(found), dtype=np.int32), [len(each.records) for _, each in found]))
    topics, numbers = zip(*(place for place, _ in found), strict=True)
    origins = [f"{topic}/{number}" for topic, number in zip(topics, numbers, strict=True)]
    return {
        "topic": pa.array(topics, pa.string()).take(nth),
        "partition": pa.array(numbers, pa.int32()).take(nth),
        ORIGIN: pa.array(origins, pa.string()).take(nth),
        POSITION: pa.array(np.concatenate([each.offsets for _, each in found])),
    }
