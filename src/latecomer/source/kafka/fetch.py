"""Reads records in a task: exactly those between two offsets of some partitions.

A client is assigned its partitions once, and never seeks. So the records of a partition come in order, and none is
missing but those that Kafka itself leaves out: records that were compacted away or that belong to transactions that
were not committed, and the markers of transactions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from operator import is_, ne
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from latecomer.errors import SourceError, SourceOutage
from latecomer.errors.redacting import without_secrets
from latecomer.model.array_types import Integers
from latecomer.source.kafka.ranges import Place, Ranges

PATIENCE = 30.0
"""Seconds without any record after which it is an outage."""
MOST_HELD = 32 << 20
"""Bytes of records that are handed over together: as objects they take a multiple of it."""
_AT_ONCE, _WAIT = 10_000, 0.05
"""Records of one call of `consume`, and seconds that it waits for them."""
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
"""Damaged records and offsets that are gone are errors. No consumer joins the group. The queue of each partition is
short: else one partition is read to its end before the next one begins."""


class FetchedRecords(NamedTuple):
    """Records of a partition, and their offsets."""

    place: Place
    records: Sequence[Any]
    offsets: Integers


def fetched(settings: Mapping[str, str], ranges: Ranges) -> Iterator[list[FetchedRecords]]:
    """The records of some ranges, a few megabytes at a time, in the order of offsets within each partition.

    `SourceOutage` if they do not come, `SourceError` if they are gone.
    """
    from confluent_kafka import KafkaException

    key = frozenset(settings.items())
    client = _kept.pop(key, None)
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
    _kept[key] = client


def _connected(settings: Mapping[str, str], ranges: Ranges) -> _Client:
    """A new client. The driver made one with the same settings: if a task cannot, its machine lacks something."""
    from confluent_kafka import KafkaException

    try:
        return _Client(settings, ranges)
    except KafkaException as error:
        raise SourceError(
            f"kafka source: a task cannot make a client ({without_secrets(error.args[0].str())}); files that "
            "source.kafka.options name must be on every executor"
        ) from None


_kept: dict[frozenset[tuple[str, str]], _Client] = {}
"""The open clients of this process: its next task may continue where one of them stopped."""


def close_clients() -> None:
    """Close all clients of this process."""
    while _kept:
        _kept.popitem()[1].close()


class _Client:
    """Reads some partitions, each from its first offset on."""

    def __init__(self, settings: Mapping[str, str], ranges: Ranges) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._taken = {place: start for place, (start, _) in ranges.items()}
        """Records before these offsets were handed out."""
        self._next = dict(self._taken)
        """Records before these offsets have come."""
        self._held: dict[Place, list[tuple[list[Any], Integers]]] = {place: [] for place in ranges}
        self._errors: list[Any] = []
        quiet = {"client.id": "latecomer", "log_level": 0, "error_cb": self._errors.append}
        group = {"group.id": f"latecomer-{uuid4()}"}
        self.consumer = Consumer({**quiet, **settings, **_SETTINGS, **group})
        self.consumer.assign([TopicPartition(*place, start) for place, start in self._next.items()])

    def close(self) -> None:
        self.consumer.close()

    def goes_on(self, ranges: Ranges) -> bool:
        """Whether the ranges begin where the last ones of this client ended, and it does not hold too much."""
        ahead = sum(len(each) for parts in self._held.values() for records, _ in parts for each in records)
        return ahead <= MOST_HELD and {place: start for place, (start, _) in ranges.items()} == self._taken

    def take(self, ranges: Ranges) -> Iterator[list[FetchedRecords]]:
        """The records of the ranges. Records behind them are kept for the next ranges."""
        size, deadline = 0, time.monotonic() + PATIENCE
        while missing := self._missing(ranges):
            if time.monotonic() > deadline:
                reason = without_secrets(self._errors[-1].str()) if self._errors else "no record has come"
                raise SourceOutage(f"kafka source: {reason} within {PATIENCE:g} s; look at the broker")
            messages = self.consumer.consume(min(missing, _AT_ONCE), timeout=_WAIT)
            self._keep(messages, ranges)
            size += sum(map(len, messages))
            if size > MOST_HELD:
                yield self._handed_out(ranges)
                size = 0
            if self._missing(ranges) < missing:
                deadline = time.monotonic() + PATIENCE
        yield self._handed_out(ranges)
        self._taken = {place: to for place, (_, to) in ranges.items()}

    def _missing(self, ranges: Ranges) -> int:
        """How many offsets of the ranges have not come yet."""
        return sum(max(0, to - self._next[place]) for place, (_, to) in ranges.items())

    def _handed_out(self, ranges: Ranges) -> list[FetchedRecords]:
        parts = []
        for place, (_, to) in sorted(ranges.items()):
            behind = []
            for records, offsets in self._held[place]:
                count = int(np.searchsorted(offsets, to))
                if count:
                    parts.append(FetchedRecords(place, records[:count], offsets[:count]))
                if count < len(records):
                    behind.append((records[count:], offsets[count:]))
            self._held[place] = behind
        return parts

    def _keep(self, messages: Sequence[Any], ranges: Ranges) -> None:
        """Keep records that have come. There are many: each costs a few calls of C, and no step of Python."""
        from confluent_kafka import Message

        errors = list(map(Message.error, messages))
        whole = all(map(is_, errors, repeat(None)))  # an error can only be compared with other errors
        records = messages
        if not whole:
            records = [each for each, error in zip(messages, errors, strict=True) if error is None]
        offsets = np.fromiter(map(Message.offset, records), np.int64, len(records))
        for place, begin, end in self._runs(records):
            some = offsets[begin:end]
            if some[0] < self._next[place] or not (some[1:] > some[:-1]).all():
                raise SourceOutage(
                    f"kafka source: records of {place[0]}/{place[1]} came twice; they are read again"
                )
            self._held[place].append((list(records[begin:end]), some))
            self._next[place] = int(some[-1]) + 1
        for message, error in () if whole else zip(messages, errors, strict=True):
            if error is not None:
                self._check_error(message, error, ranges)

    def _runs(self, records: Sequence[Any]) -> Iterator[tuple[Place, int, int]]:
        """Where runs of records of one partition begin and end."""
        from confluent_kafka import Message

        numbers = np.fromiter(map(Message.partition, records), np.int64, len(records))
        changes = numbers[1:] != numbers[:-1]
        if len({name for name, _ in self._next}) > 1:
            topics = list(map(Message.topic, records))
            changes |= np.fromiter(map(ne, topics[1:], topics), np.bool_, len(changes))
        bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(records)] if len(records) else []
        for begin, end in pairwise(bounds):
            yield (records[begin].topic(), records[begin].partition()), begin, end

    def _check_error(self, message: Any, error: Any, ranges: Ranges) -> None:
        """A message that is no record: the end of a partition, or an error."""
        from confluent_kafka import KafkaError, KafkaException

        place = (message.topic(), message.partition())
        if error.code() == KafkaError._PARTITION_EOF:
            self._next[place] = max(self._next[place], message.offset())
        elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            pass  # no consumer joins the group
        elif error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            raise SourceError(
                f"kafka source: topic {place[0]}, partition {place[1]}: offsets after {self._next[place] - 1} are gone "
                "that were there when the topic was asked; run again, which says what is gone"
            )
        elif place in ranges or place not in self._next:
            raise KafkaException(error)
