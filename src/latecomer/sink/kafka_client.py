"""A Kafka cluster as a sink needs it: settings with their secrets, the topic, and the sink's progress in it.

Every wait has a limit: where a broker does not answer in time, Kafka's own error `KafkaException` is raised.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from latecomer.config.kafka import client_options, written_settings
from latecomer.config.secrets import reference_problems, resolved
from latecomer.config.sinks import KafkaSink
from latecomer.errors import Problem
from latecomer.sink.kafka_records import BATCH, WRITER

_CLIENT_LOG = logging.getLogger("latecomer.kafka")
"""The client's own log, dropped unless a handler is added. Its errors come through `error_cb`."""
_CLIENT_LOG.addHandler(logging.NullHandler())
_CLIENT_LOG.propagate = False
ANSWER_SECONDS = 10.0
"""How long a broker may take to answer a question."""
SETTLE_SECONDS = 30.0
"""How long it may take to end a transaction, or to make a topic."""
FIRST_SPAN = 64
"""How many offsets before the end the last record is first looked for; the ends of transactions have offsets, too."""


class Cluster:
    def __init__(self, sink: KafkaSink, base: Path, topic: str, identity: str) -> None:
        self._sink, self._base = sink, base
        self.topic, self.identity = topic, identity
        self.last_error: Any = None
        """The client's last error. It says more than the error of the call, which may only be a timeout."""

    def problem(self) -> Problem | None:
        """What is wrong with a reference to a secret, if anything is."""
        written = written_settings(self._sink.servers, self._sink.options)
        return next(reference_problems(written.items(), self._base), None)

    def settings(self) -> dict[str, Any]:
        """The settings of every client."""
        return {
            "bootstrap.servers": resolved(self._sink.servers, self._base),
            "client.id": "latecomer",
            "log_level": 0,
            "logger": _CLIENT_LOG,
            # Some calls for transactions have no other time limit.
            "socket.timeout.ms": int(ANSWER_SECONDS * 1000),
            "error_cb": self._note,
            **client_options(self._sink.options, self._base),
        }

    def _note(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        # "All brokers are down" follows an earlier error that says more.
        if self.last_error is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last_error = error

    def producer(self) -> Any:
        """A producer for transactions. It ends the transaction of the producer before it, and fences that one off."""
        from confluent_kafka import Producer

        producer = Producer(
            {
                "transaction.timeout.ms": 300_000,
                "compression.type": "lz4",
                "linger.ms": 50,  # gathers records; the end of a batch is sent at once
                **self.settings(),
                "transactional.id": self.identity,
                # As Java's producers do, so that a key has the same partition whatever client writes it.
                "partitioner": "murmur2_random",
            }
        )
        try:
            producer.init_transactions(SETTLE_SECONDS)
        except Exception:
            producer.poll(0)  # calls error_cb with the client's own error
            raise
        return producer

    @property
    def transaction_seconds(self) -> float:
        """How long a transaction may last before the broker gives it up."""
        return float(self._sink.options.get("transaction.timeout.ms", 300_000)) / 1000

    @contextmanager
    def consumer(self, stable: bool = True) -> Iterator[Any]:
        """A consumer of the sink's group, which never joins it."""
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                **self.settings(),
                "group.id": self.identity,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if stable else "read_uncommitted",
                "fetch.wait.max.ms": 20,
            }
        )
        with closing(consumer):
            try:
                yield consumer
            except Exception:
                consumer.poll(0)
                raise

    def partitions(self, client: Any) -> list[int] | None:
        """The topic's partitions; None where there is no such topic."""
        from confluent_kafka import KafkaError, KafkaException

        topic = client.list_topics(self.topic, timeout=ANSWER_SECONDS).topics[self.topic]
        if topic.error is None:
            return sorted(topic.partitions)
        if topic.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise KafkaException(topic.error)

    def create_topic(self) -> None:
        """Make the topic, and wait until it can be written to."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic

        policy = "compact" if self._sink.compacted else "delete"
        admin = self._admin()
        wanted = NewTopic(self.topic, self._sink.partitions or -1, -1, config={"cleanup.policy": policy})
        try:
            admin.create_topics([wanted], operation_timeout=SETTLE_SECONDS)[self.topic].result(SETTLE_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        deadline = time.monotonic() + SETTLE_SECONDS
        while self.partitions(admin) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the broker made the topic {self.topic} and does not show it")
            time.sleep(0.05)

    def cleanup_policy(self) -> str | None:
        """The topic's cleanup.policy; None where it may not be read."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource, ResourceType

        admin = self._admin()
        (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, self.topic)]).values()
        try:
            return str(described.result(ANSWER_SECONDS)["cleanup.policy"].value)
        except (KafkaException, KeyError):
            return None

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self.settings())

    def committed(self, consumer: Any) -> int | None:
        """The batch that the sink's group has committed; None where the broker has deleted it, or there is none."""
        from confluent_kafka import KafkaException, TopicPartition

        (place,) = consumer.committed([TopicPartition(self.topic, 0)], timeout=ANSWER_SECONDS)
        if place.error is not None:
            raise KafkaException(place.error)
        return place.offset - 1 if place.offset >= 0 else None

    def last_records(self, consumer: Any, partitions: list[int]) -> list[tuple[str | None, int]]:
        """Writer and batch of the last record of each partition that has records, searched from the end."""
        from confluent_kafka import TopicPartition

        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(self.topic, number), timeout=ANSWER_SECONDS)
            for number in partitions
        }
        last: dict[int, tuple[str | None, int]] = {}
        span, missing = FIRST_SPAN, {number for number, (low, high) in ends.items() if high > low}
        while missing:
            starts = {number: max(ends[number][0], ends[number][1] - span) for number in missing}
            last |= self._read_to_the_end(consumer, starts)
            missing = {number for number in missing - last.keys() if starts[number] > ends[number][0]}
            span *= 8
        return list(last.values())

    def _read_to_the_end(self, consumer: Any, starts: dict[int, int]) -> dict[int, tuple[str | None, int]]:
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        last: dict[int, tuple[str | None, int]] = {}
        consumer.assign([TopicPartition(self.topic, number, start) for number, start in starts.items()])
        waiting, last_heard = {*starts}, time.monotonic()
        while waiting:
            message = consumer.poll(1.0)
            if message is None:
                if time.monotonic() - last_heard > ANSWER_SECONDS:
                    raise TimeoutError(f"the end of the topic {self.topic} cannot be read")
                continue
            last_heard = time.monotonic()
            if message.error() is None:
                last[message.partition()] = _writer_and_batch(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                waiting.discard(message.partition())
            else:
                raise KafkaException(message.error())
        consumer.unassign()
        return last


def _writer_and_batch(message: Any) -> tuple[str | None, int]:
    """The writer of a record, and its batch; None and -1 for a record that latecomer did not write."""
    headers = dict(message.headers() or ())
    try:
        return headers[WRITER].decode(), int(headers[BATCH])
    except (KeyError, ValueError, AttributeError, TypeError):
        return None, -1
