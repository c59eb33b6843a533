"""Records of a topic read in this process, for the fast path (ADR 0056): all that lies between two offsets, or none.

A client is assigned its partitions once in its life, and never told to go elsewhere. So what it hands over of a
partition is in order, and lacks nothing but what Kafka itself leaves out: records that were compacted away or belong to
transactions that were not committed, and the marks of transactions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from operator import is_, ne
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from latecomer.errors import LatecomerError
from latecomer.fast import MOST_ROWS, Declined
from latecomer.source.kafka_broker import Place
from latecomer.source.kafka_ranges import Answer, ranges_of

MOST_FETCHED = 128 << 20
"""So many bytes of records are held in this process: each is an object, with what belongs to it."""
PATIENCE = 5.0
"""After so many seconds without a record that is waited for, Spark's connector reads them."""
PAUSE = 60.0
"""So many seconds pass before a cluster that was not quick enough is tried again."""
_AT_ONCE, _WAIT = 10_000, 0.05
"""So many records are handed over together, and so many seconds are waited for them."""
_SETTINGS = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "check.crcs": True,
    "fetch.wait.max.ms": 100,
    "fetch.queue.backoff.ms": 10,
    "fetch.message.max.bytes": 1 << 20,
    "queued.min.messages": 40_000,
    "queued.max.messages.kbytes": 32 << 10,
}
"""As Java's client reads: what is damaged is an error, and so are offsets that are gone. Nobody joins the group. Little
is queued of each partition: else one of them is read to its end before the next begins."""


Offsets = npt.NDArray[np.int64]


class Fetched(NamedTuple):
    """Records of a partition, and their offsets."""

    records: list[Any]
    offsets: Offsets


class Fetcher:
    """Reads the ranges of answers, one after the other, from the cluster with these `settings`."""

    def __init__(self, settings: Callable[[], Mapping[str, str]]) -> None:
        self._settings = settings
        self._stream: _Stream | None = None
        self._bytes_a_record = 0.0
        self._not_before = 0.0

    def records(self, answer: Answer) -> dict[Place, Fetched]:
        """The records of an answer, partition by partition, in the order of offsets; `Declined` if they are too many,
        or if any may be missing."""
        from confluent_kafka import KafkaException

        try:
            return self._records(answer)
        except (Declined, LatecomerError, KafkaException, ValueError, RuntimeError) as error:
            self.close()
            if isinstance(error, Declined):
                raise
            raise Declined("a Kafka client that fails") from None  # Spark's has its turn, and says why

    def close(self) -> None:
        """Let go of the connection; whatever is read next opens another."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.consumer.close()

    def _records(self, answer: Answer) -> dict[Place, Fetched]:
        ranges = {
            (name, number): range_ for name, of in ranges_of(answer).items() for number, range_ in of.items()
        }
        offsets = sum(to - start for start, to in ranges.values())
        if not 0 < offsets <= MOST_ROWS or offsets * self._bytes_a_record > MOST_FETCHED:
            raise Declined("a large batch, or none")
        if time.monotonic() < self._not_before:
            raise Declined("a Kafka cluster that was slow to answer")
        settings = dict(self._settings())
        if any(name.startswith("java.") for name in settings):
            raise Declined("options of Java's client alone")
        if (
            self._stream is None
            or self._stream.ahead > MOST_FETCHED
            or not self._stream.goes_on(settings, ranges)
        ):
            self.close()
            self._stream = _Stream(settings, answer)
        try:
            taken = self._stream.take(ranges)
        except TimeoutError:
            self._not_before = time.monotonic() + PAUSE
            raise Declined("a Kafka cluster that was slow to answer") from None
        finally:
            self._bytes_a_record = self._stream.bytes_a_record
        return taken


class _Stream:
    """All partitions of an answer, from where it begins."""

    def __init__(self, settings: Mapping[str, str], answer: Answer) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self.settings = settings
        self.bytes_a_record = 0.0
        self._taken = {
            (name, number): int(start)
            for name, topic in answer["topics"].items()
            for number, start in enumerate(topic["from"])
        }
        """What lies before is handed out, or was not asked for."""
        self._read = dict(self._taken)
        """What lies before has come, if there is anything."""
        self._ahead = {place: _Ahead() for place in self._taken}
        quiet = {"client.id": "latecomer", "log_level": 0, "error_cb": lambda _: None}
        group = {"group.id": f"latecomer-{uuid4()}"}
        self.consumer = Consumer({**quiet, **settings, **_SETTINGS, **group})
        self.consumer.assign([TopicPartition(*place, start) for place, start in self._taken.items()])

    @property
    def ahead(self) -> float:
        """About how many bytes have come and are not handed out."""
        return sum(len(each.records) for each in self._ahead.values()) * self.bytes_a_record

    def goes_on(self, settings: Mapping[str, str], ranges: Mapping[Place, tuple[int, int]]) -> bool:
        """Whether the ranges begin where those before have ended."""
        return settings == self.settings and all(
            self._taken.get(place) == start for place, (start, _) in ranges.items()
        )

    def take(self, ranges: Mapping[Place, tuple[int, int]]) -> dict[Place, Fetched]:
        """The records of the ranges; `TimeoutError` where they do not come."""
        size = count = 0
        offsets = sum(to - start for start, to in ranges.values())
        deadline = time.monotonic() + PATIENCE
        while waiting := sum(max(0, to - self._read[place]) for place, (_, to) in ranges.items()):
            if time.monotonic() > deadline:
                raise TimeoutError
            come = self.consumer.consume(min(waiting, _AT_ONCE), timeout=_WAIT)
            self._note(come, ranges)
            if come:
                size, count = size + sum(map(len, come)), count + len(come)
                self.bytes_a_record = size / count
            # Some of it may lie behind the ranges.
            if offsets * self.bytes_a_record > MOST_FETCHED or size > 2 * MOST_FETCHED:
                raise Declined("a large batch, or none")
            if sum(max(0, to - self._read[place]) for place, (_, to) in ranges.items()) < waiting:
                deadline = time.monotonic() + PATIENCE
        found = {place: self._ahead[place].taken(to) for place, (_, to) in ranges.items()}
        self._taken |= {place: to for place, (_, to) in ranges.items()}
        return found

    def _note(self, come: Sequence[Any], ranges: Mapping[Place, tuple[int, int]]) -> None:
        """Keep what has come. There are many records: each costs a few calls of C, and no step of Python."""
        from confluent_kafka import Message

        errors = list(map(Message.error, come))
        whole = all(map(is_, errors, repeat(None)))  # an error cannot be compared with anything but its like
        records = come if whole else [each for each, error in zip(come, errors, strict=True) if error is None]
        offsets = np.fromiter(map(Message.offset, records), np.int64, len(records))
        for place, begin, end in self._runs(records):
            self._ahead[place].add(records[begin:end], offsets[begin:end], self._read[place])
            self._read[place] = int(offsets[end - 1]) + 1
        for message, error in () if whole else zip(come, errors, strict=True):
            if error is not None:
                self._note_error(message, error, ranges)

    def _runs(self, records: Sequence[Any]) -> Iterator[tuple[Place, int, int]]:
        """Where records of one partition begin and end, one behind the other."""
        from confluent_kafka import Message

        numbers = np.fromiter(map(Message.partition, records), np.int64, len(records))
        changes = numbers[1:] != numbers[:-1]
        if len({name for name, _ in self._taken}) > 1:
            topics = list(map(Message.topic, records))
            changes |= np.fromiter(map(ne, topics[1:], topics), np.bool_, len(changes))
        bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(records)] if len(records) else []
        for begin, end in pairwise(bounds):
            yield (records[begin].topic(), records[begin].partition()), begin, end

    def _note_error(self, message: Any, error: Any, ranges: Mapping[Place, tuple[int, int]]) -> None:
        """What is no record: the end of a partition, or an error."""
        from confluent_kafka import KafkaError

        place = (message.topic(), message.partition())
        if error.code() == KafkaError._PARTITION_EOF:
            self._read[place] = max(self._read[place], message.offset())
        elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            pass  # nobody joins the group
        elif place in ranges or place not in self._read:
            raise Declined("a partition that cannot be read whole")


class _Ahead:
    """Records of a partition that have come and are not handed out, and their offsets."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.offsets: Offsets = np.empty(0, np.int64)

    def add(self, records: Sequence[Any], offsets: Offsets, beyond: int) -> None:
        """Records that lie `beyond` all before, one behind the other."""
        if offsets[0] < beyond or not (offsets[1:] > offsets[:-1]).all():
            raise Declined("records that come twice")
        self.records += records
        self.offsets = np.concatenate([self.offsets, offsets])

    def taken(self, to: int) -> Fetched:
        """Those before an offset, which are handed out now."""
        count = int(np.searchsorted(self.offsets, to))
        found = Fetched(self.records[:count], self.offsets[:count])
        del self.records[:count]
        self.offsets = self.offsets[count:]
        return found
