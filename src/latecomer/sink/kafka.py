"""A Kafka topic: the change stream, or the panes that stand; a batch's records and its number in one transaction.

The number is the offset that the transaction commits for a consumer group of the sink's own, which nobody joins. So a
consumer with `isolation.level=read_committed` sees each batch whole and once, wherever a writer died: the next writer
ends its open transaction before it asks for the progress (ADR 0031). Brokers delete the offsets of groups that nobody
uses. Then the progress is read from the headers of the topic's last records.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from latecomer.config.contract import Shape
from latecomer.config.sinks import KafkaSink
from latecomer.errors import SinkError, SinkOutage, first_line
from latecomer.errors.redacting import without_secrets
from latecomer.model.words import words
from latecomer.sink.base import BuiltInLogic
from latecomer.sink.kafka_client import ANSWER_SECONDS, SETTLE_SECONDS, Cluster
from latecomer.sink.kafka_records import RecordMaker
from latecomer.source.kafka.errors import refusal_of
from latecomer.store.failpoints import failpoint

SILENT_SECONDS = 30.0
"""How long the broker may accept no record."""
KEEP_SECONDS = 24 * 3600.0
"""How often the number is committed while no rows are written: brokers delete it after seven days."""
_REACH = "see that the brokers run and can be reached"
_INSTALL = "install it: pip install 'latecomer[kafka]'"


class KafkaLogic(BuiltInLogic):
    kind = KafkaSink.kind

    def __init__(self, sink: KafkaSink, base: Path, pipeline: str, shape: Shape) -> None:
        self._sink, self._topic = sink, sink.topic or shape.name
        super().__init__(f"{sink.servers}/{self._topic}", pipeline, shape)
        self._writer = f"{pipeline}/{shape.owner}"
        self._cluster = Cluster(sink, base, self._topic, f"latecomer/{self._writer}/{self._topic}")
        self._records = RecordMaker(shape, self._writer, sink.compacted)
        self._producer: Any = None
        self._group: Any = None
        self._begun: float | None = None
        self._number_sent: float | None = None
        self._reached = -1

    def open(self) -> None:
        self._require_usable()
        self._cluster.last_error = None
        with self._errors_in_words():
            self._require_topic()
            # From here on other producers of this sink are fenced off, and their open transactions are ended.
            self._producer = self._cluster.producer()
            with self._cluster.consumer() as consumer:
                self._require_ours(consumer)
                self._group = consumer.consumer_group_metadata()
        self._number_sent = None
        self._reached = self.last_batch()

    def last_batch(self) -> int:
        with self._errors_in_words(), self._cluster.consumer() as consumer:
            return self._progress(consumer)

    def peek(self) -> int:
        self._require_usable()
        with self._errors_in_words():
            # Does not wait for the open transaction of a running pipeline.
            with self._cluster.consumer(stable=False) as consumer:
                if self._cluster.partitions(consumer) is None:
                    return -1
                batch = self._cluster.committed(consumer)
            if batch is not None:
                return batch
            with self._cluster.consumer() as consumer:
                return self._progress(consumer)

    def _apply(self, batch: int, panes: pa.Table) -> None:
        if batch <= self._reached:
            return
        with self._transaction(batch):
            self._send(batch, panes)
            failpoint("sink.kafka.sent", batch)

    def skip(self, batch: int) -> None:
        now = time.monotonic()
        if batch > self._reached >= 0 and (
            self._number_sent is None or now - self._number_sent > KEEP_SECONDS
        ):
            with self._transaction(batch):
                pass

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None and self._begun is not None:
            with suppress(Exception):  # if this fails, the next one to open the sink aborts it
                producer.purge()
                producer.abort_transaction(ANSWER_SECONDS)
        self._begun = None

    # One transaction

    @contextmanager
    def _transaction(self, batch: int) -> Iterator[None]:
        """A transaction for the records sent in it and the batch's number."""
        with self._errors_in_words(batch):
            self._begun = time.monotonic()
            self._producer.begin_transaction()
            yield
            self._send_number(batch)
            failpoint("sink.kafka.written", batch)
            self._producer.commit_transaction(SETTLE_SECONDS)
            failpoint("sink.kafka.committed", batch)
            self._begun, self._number_sent, self._reached = None, time.monotonic(), batch

    def _send(self, batch: int, rows: pa.Table) -> None:
        produce, topic = self._producer.produce, self._topic
        for nth, record in enumerate(self._records.of(batch, rows)):
            try:
                produce(topic, record.value, record.key, headers=record.headers)
            except BufferError:
                self._wait_for_room()
                produce(topic, record.value, record.key, headers=record.headers)
            if nth == 0:
                failpoint("sink.kafka.begun", batch)
        self._wait_until_sent()

    def _wait_for_room(self) -> None:
        before = len(self._producer)
        deadline = time.monotonic() + SILENT_SECONDS
        while len(self._producer) >= before:
            self._producer.poll(0.05)
            _require_before(deadline)

    def _wait_until_sent(self) -> None:
        fewest, deadline = len(self._producer), time.monotonic() + SILENT_SECONDS
        while unsent := self._producer.flush(1.0):
            if unsent < fewest:
                fewest, deadline = unsent, time.monotonic() + SILENT_SECONDS
            _require_before(deadline)

    def _send_number(self, batch: int) -> None:
        from confluent_kafka import TopicPartition

        place = TopicPartition(self._topic, 0, batch + 1)
        self._producer.send_offsets_to_transaction([place], self._group, SETTLE_SECONDS)

    # The topic and the progress

    def _progress(self, consumer: Any) -> int:
        committed = self._cluster.committed(consumer)
        if committed is not None:
            return committed
        partitions = self._cluster.partitions(consumer) or []
        return max((batch for _, batch in self._cluster.last_records(consumer, partitions)), default=-1)

    def _require_topic(self) -> None:
        """Make a missing topic, and refuse one whose clean-up would delete records that must stay."""
        with self._cluster.consumer() as consumer:
            partitions = self._cluster.partitions(consumer)
        if partitions is None:
            self._cluster.create_topic()
            return
        policy = self._cluster.cleanup_policy()
        if policy is None or ("compact" in policy) is self._sink.compacted:
            return
        if self._sink.compacted:
            reason = (
                f"the topic is not compacted (cleanup.policy={policy}): values that stand would be deleted"
            )
            raise self._refusal(reason, "set its cleanup.policy to compact, or leave compacted out")
        reason = f"the topic is compacted (cleanup.policy={policy}): changes would be deleted"
        raise self._refusal(reason, "write compacted: true, or give the sink another topic")

    def _require_ours(self, consumer: Any) -> None:
        """A topic belongs to one output: records of another would be taken for ours."""
        partitions = self._cluster.partitions(consumer) or []
        for writer, _ in self._cluster.last_records(consumer, partitions):
            if writer == self._writer:
                continue
            if writer is None:
                reason = "the topic holds records that latecomer did not write"
            else:
                pipeline, _, owner = writer.rpartition("/")
                reason = self._belongs_to("topic", pipeline, owner)
            raise self._refusal(reason, "give the sink another topic")

    def _require_usable(self) -> None:
        try:
            import confluent_kafka  # noqa: F401
        except ImportError:
            raise self._refusal("the package confluent-kafka is missing", _INSTALL) from None
        if (problem := self._cluster.problem()) is not None:
            reason = f"{problem.message} ({problem.value} in {problem.field})"
            raise self._refusal(reason, problem.fix or "correct it")

    # Errors

    @contextmanager
    def _errors_in_words(self, batch: int | None = None) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            raise self._explained(error.args[0], batch) from error
        except TimeoutError as error:
            raise self._outage(self._why(first_line(error)), _REACH, batch) from error

    def _explained(self, error: Any, batch: int | None) -> SinkError:
        """The error with reason and fix: an outage where it may pass."""
        too_slow = (
            self._begun is not None and time.monotonic() - self._begun > self._cluster.transaction_seconds
        )
        earlier = self._cluster.last_error
        for name in (each.name() for each in (error, earlier) if each is not None):
            if name in _FENCED:
                if too_slow:
                    reason = "the batch took longer than the broker lets a transaction last"
                    return self._outage(reason, "raise transaction.timeout.ms in options", batch)
                fix = "stop one of them, or give one another pipeline name and topic"
                return self._refusal("another run has begun to write to this topic as this sink", fix, batch)
            if name in _NOT_LET_IN:
                fix = "correct the sasl and ssl options, or the secrets that they name"
                return self._refusal("the broker refused who we say we are", fix, batch)
            if name in _FORBIDDEN:
                fix = (
                    f"allow Read, Write and Create on the topic {self._topic}, and Write on transactional ids and Read "
                    "on groups that begin with latecomer/"
                )
                return self._refusal(f"the broker does not allow it ({_reason_in(error)})", fix, batch)
        refusal = refusal_of(self._cluster.settings(), [error, earlier])
        if refusal is not None:
            explain = self._refusal if refusal.lasting else self._outage
            return explain(refusal.reason, refusal.fix, batch)
        if error.name() == "MSG_SIZE_TOO_LARGE":
            fix = (
                "raise max.message.bytes of the topic and message.max.bytes in options, or lower batch.size in options "
                "if records are small"
            )
            return self._refusal(f"a record is too large ({_reason_in(error)})", fix, batch)
        if error.name() in _WRONG_SETTINGS:
            return self._refusal(
                f"it cannot be set up so ({_reason_in(error)})", "correct the options of the sink", batch
            )
        return self._outage(self._why(_reason_in(error)), _REACH, batch)

    def _why(self, reason: str) -> str:
        earlier = self._cluster.last_error
        return reason if earlier is None else f"{reason}: {_reason_in(earlier)}"

    def _outage(self, reason: str, fix: str, batch: int | None = None) -> SinkOutage:
        self._begun = None  # it cannot be aborted without a broker
        return super()._outage(without_secrets(reason), fix, batch)

    def _sentence(self, reason: str, fix: str, batch: int | None) -> str:
        return without_secrets(super()._sentence(reason, fix, batch))


def _require_before(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(f"the broker has accepted nothing for {SILENT_SECONDS:g} s")


def _reason_in(error: Any) -> str:
    return first_line(Exception(error.str()))


_FENCED = words("_FENCED PRODUCER_FENCED INVALID_PRODUCER_EPOCH")
_NOT_LET_IN = words("_AUTHENTICATION SASL_AUTHENTICATION_FAILED")
_FORBIDDEN = words(
    "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED "
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
)
_WRONG_SETTINGS = words(
    "_INVALID_ARG INVALID_TRANSACTION_TIMEOUT INVALID_PARTITIONS INVALID_REPLICATION_FACTOR INVALID_CONFIG "
    "POLICY_VIOLATION TOPIC_EXCEPTION"
)
"""Errors by the names that librdkafka gives them."""
