"""Asks the brokers how far the topics reach; `kafka_source.py` reads the records.

The brokers' metadata name all partitions, also those that never had a record, and how much of each is still unread.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import ClassVar

from latecomer.config.kafka import ClientSettings, KafkaTopics, StartAt
from latecomer.config.own import PolledSource
from latecomer.errors import SourceError
from latecomer.source.kafka_broker import Broker
from latecomer.source.kafka_ranges import (
    Answer,
    Gone,
    MadeAgain,
    lag_of,
    next_answer,
    partitions_of,
    ranges_of,
    remaining,
    waiting,
)


class KafkaReader(PolledSource):
    """Reads the topics that a pipeline file names."""

    kind: ClassVar[str] = "kafka"
    topics: KafkaTopics
    base: Path
    """The folder of the pipeline file."""
    id_header: str | None = None
    """The header with the id of a record's schema. The id is put into the record, in Confluent's framing."""

    @cached_property
    def _broker(self) -> Broker:
        return Broker(self.topics, self.base)

    def client_settings(self) -> ClientSettings:
        """The settings of a client, as librdkafka names them, with the secrets."""
        return self._broker.settings()

    def check(self) -> None:
        self._broker.require_secrets()
        start = self.topics.start
        given = (start.offsets if isinstance(start, StartAt) else None) or {}
        with self._broker.questions() as questions:
            for name, topic in questions.described(first=True).items():
                for partition in given.get(name, ()):
                    if partition >= len(topic.end):
                        raise SourceError(
                            f"kafka source: source.kafka.start names partition {partition} of topic {name}, which has "
                            f"{len(topic.end)}; correct it"
                        )
                if self.topics.arrival == "broker" and not questions.stamped_by_broker(name):
                    raise SourceError(
                        f"kafka source: source.kafka.arrival is broker, and topic {name} has CreateTime: its "
                        "timestamps are the producers' clocks; set message.timestamp.type=LogAppendTime on the topic, "
                        "or write arrival: read"
                    )

    def waiting(self, since: Answer | None) -> dict[str, list[int]]:
        """For each topic, how many unread records each of its partitions has."""
        with self._broker.questions() as questions:
            topics = questions.described(first=since is None)
        return waiting(since, topics)

    def latest(self, since: Answer | None) -> Answer | None:
        with self._broker.questions() as questions:
            topics = questions.described(first=since is None)
        rows, continues = self.topics.max_rows_per_batch, self.topics.on_data_loss == "continue"
        try:
            return next_answer(since, topics, rows, continues) or since
        except MadeAgain as gone:
            raise SourceError(
                f"kafka source: topic {gone.topic} was deleted and made again since it was read: its offsets mean "
                "other records now; start a new store for it, or read another topic"
            ) from None
        except Gone as gone:
            raise _offsets_gone(gone) from None

    def partitions(self, until: Answer) -> dict[str, bool]:
        return partitions_of(until)

    def unread(self, until: Answer) -> int:
        return lag_of(until)

    def stamps_arrivals(self) -> bool:
        if self.topics.arrival == "read":
            return False
        with self._broker.questions() as questions:
            return all(map(questions.stamped_by_broker, questions.described(first=False)))

    def skips_tombstones(self) -> bool:
        return self.topics.tombstones == "skip"

    def remaining(self, until: Answer) -> Answer:
        places = list(ranges_of(until))
        if not places:
            return until
        with self._broker.questions() as questions:
            begins = questions.begins(places)
        try:
            return remaining(until, begins, self.topics.on_data_loss == "continue")
        except Gone as gone:
            raise _offsets_gone(gone) from None


def _offsets_gone(gone: Gone) -> SourceError:
    return SourceError(
        f"kafka source: topic {gone.topic}, partition {gone.partition}: offsets {gone.since} to {gone.until - 1} are "
        "gone before they were read, by retention or because the broker lost them; let the topic keep its records "
        "longer, and write on_data_loss: continue to go on without these"
    )
