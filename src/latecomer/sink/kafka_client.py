"""A Kafka cluster as a sink needs it: settings with their secrets, the topic, how far a sink has come in it.

All of it has an end: whatever a broker does not answer in time is an error of Kafka's own, `KafkaException`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from latecomer.config.kafka import client_options, written_settings
from latecomer.config.secrets import reference_problem, resolved
from latecomer.config.sinks import KafkaSink
from latecomer.errors import Problem
from latecomer.sink.kafka_records import BATCH, WRITER

_CLIENT_LOG = logging.getLogger("latecomer.kafka")
"""What the client says besides its errors, which have their own way: nowhere, unless a handler is added."""
_CLIENT_LOG.addHandler(logging.NullHandler())
_CLIENT_LOG.propagate = False
ANSWER_SECONDS = 10.0
"""How long a broker may take to answer a question."""
SETTLE_SECONDS = 30.0
"""How long it may take to end a transaction, or to make a topic."""
FIRST_SPAN = 64
"""How far back the last record is looked for at first; the ends of transactions have offsets, too."""


class Cluster:
    """The cluster that a sink writes to."""

    def __init__(self, sink: KafkaSink, base: Path, topic: str, identity: str) -> None:
        self._sink, self._base = sink, base
        self.topic, self.identity = topic, identity
        self.last_error: Any = None
        """What the client has met last, which says more than that there was no answer."""

    def problem(self) -> Problem | None:
        """What is wrong with a reference to a secret, if anything is."""
        written = written_settings(self._sink.servers, self._sink.options)
        found = (reference_problem(name, text, self._base) for name, text in written.items())
        return next((problem for problem in found if problem is not None), None)

    def settings(self) -> dict[str, Any]:
        """What every client is made with."""
        return {
            "bootstrap.servers": resolved(self._sink.servers, self._base),
            "client.id": "latecomer",
            "log_level": 0,
            "logger": _CLIENT_LOG,
            # Some calls for a transaction know no other limit.
            "socket.timeout.ms": int(ANSWER_SECONDS * 1000),
            "error_cb": self._note,
            **client_options(self._sink.options, self._base),
        }

    def _note(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        # That all brokers are down follows from what was met before, and says less.
        if self.last_error is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last_error = error

    def producer(self) -> Any:
        """A producer for transactions, which ends those of the one before it and shuts it out."""
        from confluent_kafka import Producer

        producer = Producer(
            {
                "transaction.timeout.ms": 300_000,
                "compression.type": "lz4",
                "linger.ms": 50,  # a batch is sent as one: its end does not wait so long
                **self.settings(),
                "transactional.id": self.identity,
                # As Java's producers do: the same key is in the same partition, whoever writes it.
                "partitioner": "murmur2_random",
            }
        )
        try:
            producer.init_transactions(SETTLE_SECONDS)
        except Exception:
            producer.poll(0)  # has the client's own error noted
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

        found = client.list_topics(self.topic, timeout=ANSWER_SECONDS).topics[self.topic]
        if found.error is None:
            return sorted(found.partitions)
        if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise KafkaException(found.error)

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
        """What the topic says of old records; None where it may not be asked."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource, ResourceType

        admin = self._admin()
        (asked,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, self.topic)]).values()
        try:
            return str(asked.result(ANSWER_SECONDS)["cleanup.policy"].value)
        except (KafkaException, KeyError):
            return None

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self.settings())

    def committed(self, consumer: Any) -> int | None:
        """The batch that the sink's group says, if it still says one."""
        from confluent_kafka import KafkaException, TopicPartition

        (found,) = consumer.committed([TopicPartition(self.topic, 0)], timeout=ANSWER_SECONDS)
        if found.error is not None:
            raise KafkaException(found.error)
        return found.offset - 1 if found.offset >= 0 else None

    def last_records(self, consumer: Any, partitions: list[int]) -> list[tuple[str | None, int]]:
        """Writer and batch of the last record of each partition that has one, looked for from the end."""
        from confluent_kafka import TopicPartition

        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(self.topic, number), timeout=ANSWER_SECONDS)
            for number in partitions
        }
        found: dict[int, tuple[str | None, int]] = {}
        span, missing = FIRST_SPAN, {number for number, (low, high) in ends.items() if high > low}
        while missing:
            starts = {number: max(ends[number][0], ends[number][1] - span) for number in missing}
            found |= self._read_to_the_end(consumer, starts)
            missing = {number for number in missing - found.keys() if starts[number] > ends[number][0]}
            span *= 8
        return list(found.values())

    def _read_to_the_end(self, consumer: Any, starts: dict[int, int]) -> dict[int, tuple[str | None, int]]:
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        found: dict[int, tuple[str | None, int]] = {}
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
                found[message.partition()] = _marks(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                waiting.discard(message.partition())
            else:
                raise KafkaException(message.error())
        consumer.unassign()
        return found


def _marks(message: Any) -> tuple[str | None, int]:
    """Who wrote a record, and with which batch; nobody, where latecomer did not."""
    headers = dict(message.headers() or ())
    try:
        return headers[WRITER].decode(), int(headers[BATCH])
    except (KeyError, ValueError, AttributeError, TypeError):
        return None, -1
