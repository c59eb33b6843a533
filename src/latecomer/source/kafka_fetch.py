"""Records of a topic, read in a task: all that lies between two offsets of some partitions, and nothing else.

A client is assigned its partitions once in its life, and never sent elsewhere. So what it hands over of a partition is
in order, and lacks nothing but what Kafka itself leaves out: records that were compacted away or belong to transactions
that were not committed, and the marks of transactions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from operator import is_, ne
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from latecomer.errors import SourceError, SourceOutage
from latecomer.errors.redacting import without_secrets

PATIENCE = 30.0
"""After so many seconds without a record that is waited for, it is an outage."""
MOST_HELD = 32 << 20
"""So many bytes of records are handed over together: each is an object, with what belongs to it."""
_AT_ONCE, _WAIT = 10_000, 0.05
"""So many records are asked for together, and so many seconds are waited for them."""
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
"""What is damaged is an error, and so are offsets that are gone. Nobody joins the group. Little is queued of each
partition: else one of them is read to its end before the next begins."""

Place = tuple[str, int]
"""A topic and the number of a partition."""
Ranges = Mapping[Place, tuple[int, int]]
"""The first offset to read of each partition, and the one after the last."""
Offsets = npt.NDArray[np.int64]


class Fetched(NamedTuple):
    """Records of a partition, and their offsets."""

    place: Place
    records: Sequence[Any]
    offsets: Offsets


def fetched(settings: Mapping[str, str], ranges: Ranges) -> Iterator[list[Fetched]]:
    """The records of some ranges, a few megabytes at a time, in the order of offsets within each partition.

    `SourceOutage` where they do not come, `SourceError` where they are gone.
    """
    from confluent_kafka import KafkaException

    client = _kept.pop(_key(settings), None)
    if client is None or not client.goes_on(ranges):
        if client is not None:
            client.close()
        client = _connected(settings, ranges)
    try:
        yield from client.take(ranges)
    except KafkaException as error:
        client.close()
        raise SourceOutage(f"kafka source: {without_secrets(str(error.args[0].str()))}") from None
    except BaseException:
        client.close()
        raise
    _kept[_key(settings)] = client


def _connected(settings: Mapping[str, str], ranges: Ranges) -> _Client:
    """The driver has such a client already: what is wrong with another is that it is somewhere else."""
    from confluent_kafka import KafkaException

    try:
        return _Client(settings, ranges)
    except KafkaException as error:
        raise SourceError(
            f"kafka source: a task cannot make a client ({without_secrets(error.args[0].str())}); files that "
            "source.kafka.options name must be on every executor"
        ) from None


_kept: dict[frozenset[tuple[str, str]], _Client] = {}
"""The clients of this process: a worker of Spark's may be given what follows."""


def _key(settings: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(settings.items())


def close_clients() -> None:
    """Let go of every connection of this process."""
    while _kept:
        _kept.popitem()[1].close()


class _Client:
    """Reads some partitions, each from where it begins."""

    def __init__(self, settings: Mapping[str, str], ranges: Ranges) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._taken = {place: start for place, (start, _) in ranges.items()}
        """What lies before was handed out."""
        self._next = dict(self._taken)
        """What lies before has come, if there is anything."""
        self._held: dict[Place, list[tuple[list[Any], Offsets]]] = {place: [] for place in ranges}
        self._errors: list[Any] = []
        quiet = {"client.id": "latecomer", "log_level": 0, "error_cb": self._errors.append}
        group = {"group.id": f"latecomer-{uuid4()}"}
        self.consumer = Consumer({**quiet, **settings, **_SETTINGS, **group})
        self.consumer.assign([TopicPartition(*place, start) for place, start in self._next.items()])

    def close(self) -> None:
        self.consumer.close()

    def goes_on(self, ranges: Ranges) -> bool:
        """Whether these are its partitions, and begin where those before have ended; and not too much is in hand."""
        ahead = sum(len(each) for parts in self._held.values() for records, _ in parts for each in records)
        return ahead <= MOST_HELD and {place: start for place, (start, _) in ranges.items()} == self._taken

    def take(self, ranges: Ranges) -> Iterator[list[Fetched]]:
        """The records of the ranges. What has come and lies behind them is kept for the next ones."""
        size, deadline = 0, time.monotonic() + PATIENCE
        while waiting := self._waiting(ranges):
            if time.monotonic() > deadline:
                reason = without_secrets(self._errors[-1].str()) if self._errors else "no record has come"
                raise SourceOutage(f"kafka source: {reason} within {PATIENCE:g} s; look at the broker")
            come = self.consumer.consume(min(waiting, _AT_ONCE), timeout=_WAIT)
            self._note(come, ranges)
            size += sum(map(len, come))
            if size > MOST_HELD:
                yield self._handed_out(ranges)
                size = 0
            if self._waiting(ranges) < waiting:
                deadline = time.monotonic() + PATIENCE
        yield self._handed_out(ranges)
        self._taken = {place: to for place, (_, to) in ranges.items()}

    def _waiting(self, ranges: Ranges) -> int:
        return sum(max(0, to - self._next[place]) for place, (_, to) in ranges.items())

    def _handed_out(self, ranges: Ranges) -> list[Fetched]:
        found = []
        for place, (_, to) in sorted(ranges.items()):
            left = []
            for records, offsets in self._held[place]:
                count = int(np.searchsorted(offsets, to))
                if count:
                    found.append(Fetched(place, records[:count], offsets[:count]))
                if count < len(records):
                    left.append((records[count:], offsets[count:]))
            self._held[place] = left
        return found

    def _note(self, come: Sequence[Any], ranges: Ranges) -> None:
        """Keep what has come. There are many records: each costs a few calls of C, and no step of Python."""
        from confluent_kafka import Message

        errors = list(map(Message.error, come))
        whole = all(map(is_, errors, repeat(None)))  # an error cannot be compared with anything but its like
        records = come if whole else [each for each, error in zip(come, errors, strict=True) if error is None]
        offsets = np.fromiter(map(Message.offset, records), np.int64, len(records))
        for place, begin, end in self._runs(records):
            some = offsets[begin:end]
            if some[0] < self._next[place] or not (some[1:] > some[:-1]).all():
                raise SourceOutage(
                    f"kafka source: records of {place[0]}/{place[1]} came twice; they are read again"
                )
            self._held[place].append((list(records[begin:end]), some))
            self._next[place] = int(some[-1]) + 1
        for message, error in () if whole else zip(come, errors, strict=True):
            if error is not None:
                self._note_error(message, error, ranges)

    def _runs(self, records: Sequence[Any]) -> Iterator[tuple[Place, int, int]]:
        """Where records of one partition begin and end, one behind the other."""
        from confluent_kafka import Message

        numbers = np.fromiter(map(Message.partition, records), np.int64, len(records))
        changes = numbers[1:] != numbers[:-1]
        if len({name for name, _ in self._next}) > 1:
            topics = list(map(Message.topic, records))
            changes |= np.fromiter(map(ne, topics[1:], topics), np.bool_, len(changes))
        bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(records)] if len(records) else []
        for begin, end in pairwise(bounds):
            yield (records[begin].topic(), records[begin].partition()), begin, end

    def _note_error(self, message: Any, error: Any, ranges: Ranges) -> None:
        """What is no record: the end of a partition, or an error."""
        from confluent_kafka import KafkaError, KafkaException

        place = (message.topic(), message.partition())
        if error.code() == KafkaError._PARTITION_EOF:
            self._next[place] = max(self._next[place], message.offset())
        elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            pass  # nobody joins the group
        elif error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            raise SourceError(
                f"kafka source: topic {place[0]}, partition {place[1]}: offsets after {self._next[place] - 1} are gone "
                "that were there when the topic was asked; run again, which says what is gone"
            )
        elif place in ranges or place not in self._next:
            raise KafkaException(error)
