"""A real Kafka broker for tests: one node, ports of its own on loopback, data in a folder of the test.

Its jars come through the resolver of `latecomer.spark.packages`. `shared_broker` is one for all processes of a test
run, for tests with topics of their own; a test that kills its broker starts one with `Broker(folder).start()`.

No broker outlives the tests: `server_guard.py` ends it as soon as nobody holds its lock any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from latecomer.spark.packages import jars
from latecomer.testing.servers import KAFKA, SMALL_JAVA, KafkaServer, free_ports
from server_guard import guard, hold
from tls_kit import Authority

PATIENCE = 60.0
"""How many seconds a broker may take for anything before a test fails."""
MARKED_SECONDS = 2.0
"""How long a broker may take to mark the records of an ended transaction."""
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    # After a kill it is let in again when its last session is over. A machine may be busy for a second or two.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    # Retention and compaction within seconds.
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "500",
    "log.segment.delete.delay.ms": "500",
    "log.cleaner.dedupe.buffer.size": "2097152",
}


def require_jars() -> None:
    """Have the jars of the broker at hand: `MachineError` where they cannot be had."""
    jars(KAFKA)


@dataclass(frozen=True)
class Record:
    """What a consumer sees of a record."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = 0
    offset: int = 0
    timestamp: tuple[int, int] = field(default=(0, 0), compare=False)

    @property
    def header(self) -> dict[str, str]:
        return {name: (value or b"").decode() for name, value in self.headers}


class Client:
    """What tests do with a broker, wherever it was started."""

    def __init__(self, servers: str) -> None:
        self.servers = servers

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({**self.settings, "socket.timeout.ms": 10_000})

    @property
    def settings(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.servers, "log_level": 0}

    def create_topic(self, name: str | None = None, partitions: int = 1, **config: str) -> str:
        """A new topic, by any name; settings as `message_timestamp_type="LogAppendTime"`."""
        name = name or self.new_name()
        topic = NewTopic(name, partitions, 1, config=_with_dots(config))
        self._await(lambda: self._made(topic))
        self._await(lambda: len(self.partitions(name)) == partitions)
        return name

    def _made(self, topic: NewTopic) -> bool:
        """Whether it could be made; a broker whose heartbeats came late is kept out for a moment."""
        try:
            _done(self.admin.create_topics([topic]))
        except KafkaException as error:
            if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    @staticmethod
    def new_name() -> str:
        """A name that no topic has."""
        return f"topic-{uuid.uuid4().hex[:12]}"

    def delete_topic(self, name: str) -> None:
        _done(self.admin.delete_topics([name]))
        self._await(lambda: not self.partitions(name))

    def add_partitions(self, name: str, total: int) -> None:
        _done(self.admin.create_partitions([NewPartitions(name, total)]))
        self._await(lambda: len(self.partitions(name)) == total)

    def delete_records(self, name: str, before: int, partition: int = 0) -> None:
        """Take away the head of a partition, as retention does."""
        _done(self.admin.delete_records([TopicPartition(name, partition, before)]))

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=PATIENCE).topics)

    def config(self, topic: str) -> dict[str, str]:
        (asked,) = self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        return {name: entry.value for name, entry in asked.result(PATIENCE).items()}

    def forget_group(self, group: str) -> None:
        """Lose the offsets of a group, as a broker does after some days."""
        _done(self.admin.delete_consumer_groups([group]))

    def forbid(self, user: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """From now on a user may not do this."""
        rule = AclBinding(
            kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.DENY
        )
        _done(self.admin.create_acls([rule]))

    def partitions(self, topic: str) -> list[int]:
        found = self.admin.list_topics(topic, timeout=PATIENCE).topics[topic]
        return [] if found.error else sorted(found.partitions)

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """The first offset, and the one after the last."""
        with self._consumer() as consumer:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE)  # type: ignore[no-any-return]

    def produce(
        self, topic: str, records: Iterable[bytes | str | dict[str, Any] | tuple[Any, Any]], **place: Any
    ) -> None:
        """Write values, or pairs of key and value; what is neither text nor bytes becomes JSON. `place` may say
        `partition`, `timestamp` (milliseconds) and `headers`."""
        producer = Producer({**self.settings, "linger.ms": 5, "enable.idempotence": True})
        failed: list[KafkaError] = []
        for record in records:
            key, value = record if isinstance(record, tuple) else (None, record)
            while True:
                try:
                    producer.produce(
                        topic,
                        key=_bytes(key),
                        value=_bytes(value),
                        on_delivery=lambda error, _: failed.append(error) if error else None,
                        **place,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(PATIENCE) == 0, "records were not delivered"
        assert not failed, failed[0]

    def consume(self, topic: str, *, committed: bool = True) -> list[Record]:
        """All records of a topic, partition by partition; without those of transactions that are not committed."""
        if committed:
            self._await_markers(topic)
        found: list[Record] = []
        with self._consumer("read_committed" if committed else "read_uncommitted") as consumer:
            waiting = set(self.partitions(topic))
            assert waiting, f"there is no {topic}"
            consumer.assign([TopicPartition(topic, partition, 0) for partition in waiting])
            deadline = time.monotonic() + PATIENCE
            while waiting:
                assert time.monotonic() < deadline, f"{topic} was not read to its end"
                for message in consumer.consume(10_000, timeout=0.02):
                    error = message.error()
                    if error is None:
                        found.append(_record(message))
                        deadline = time.monotonic() + PATIENCE
                    elif error.code() == KafkaError._PARTITION_EOF:
                        waiting.discard(message.partition())
                    else:
                        raise KafkaException(error)
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def _await_markers(self, topic: str) -> None:
        """Wait until ended transactions can be read: a broker answers a commit before it marks the records. One that
        stays open is not waited for."""
        deadline = time.monotonic() + MARKED_SECONDS
        with self._consumer() as committed, self._consumer("read_uncommitted") as every:
            for partition in self.partitions(topic):
                place = TopicPartition(topic, partition)
                while committed.get_watermark_offsets(place, PATIENCE) != every.get_watermark_offsets(
                    place, PATIENCE
                ):
                    if time.monotonic() > deadline:
                        return
                    time.sleep(0.02)

    @contextlib.contextmanager
    def _consumer(self, isolation: str = "read_committed") -> Iterator[Consumer]:
        consumer = Consumer(
            {
                **self.settings,
                "group.id": f"test-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                "auto.offset.reset": "earliest",
                "isolation.level": isolation,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def _await(self, true: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < deadline, "the broker does not show what was asked of it"
            time.sleep(0.02)


class Broker(Client):
    """A broker whose data is in a folder: it can be stopped or killed, and started again with what it had."""

    def __init__(
        self,
        folder: Path,
        users: Mapping[str, str] | None = None,
        authority: Authority | None = None,
        java: Sequence[str] = SMALL_JAVA,
        **settings: str,
    ) -> None:
        """With `users` and their passwords it has a second listener, for those who say who they are, and access
        lists: what no list mentions is allowed. With an `authority` it has two more that are encrypted, one for
        clients with a certificate, and one for those with a password."""
        self._server = server = KafkaServer(folder, SETTINGS | _with_dots(settings), java)
        super().__init__(server.servers)
        self.folder = folder
        if users:
            (guarded,) = free_ports(1)
            self.guarded_servers = f"127.0.0.1:{guarded}"
            server.settings |= _with_users(users, server.port, server.controller_port, guarded)
        if authority:
            ports = free_ports(2)
            self.tls_servers, self.login_servers = (f"127.0.0.1:{port}" for port in ports)
            server.settings |= _encrypted(authority, server.settings, *ports)

    def add_user(self, name: str, password: str) -> None:
        """Let a user in by SCRAM-SHA-512."""
        kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        _done(
            self.admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion(name, kind, password.encode())]
            )
        )

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        return self._server.process

    def start(self) -> Broker:
        """Have it run and answer."""
        if not (self.folder / "data").exists():
            hold(self.folder / "users.lock")
        guard(self._server.launch(), self.folder / "users.lock", self.folder / "data")
        self._server.wait_until_it_answers()
        return self

    def stop(self) -> None:
        """End it in good order."""
        self._server.stop()

    def kill(self) -> None:
        """End it at once."""
        self._server.kill()


def shared_broker(folder: Path) -> Client:
    """The broker that the processes of a test run share: the first that asks starts it."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "broker.json"
    with open(folder / "starting.lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if place.exists():
            found = json.loads(place.read_text())
            if psutil.pid_exists(found["pid"]):
                hold(Path(found["lock"]))
                return Client(found["servers"])
        # Nobody kills this one: it is never kept out, however busy the machine is.
        broker = Broker(folder / uuid.uuid4().hex, broker_session_timeout_ms="600000").start()
        assert broker.process is not None
        lock = str(broker.folder / "users.lock")
        place.write_text(json.dumps({"pid": broker.process.pid, "servers": broker.servers, "lock": lock}))
        return broker


def _with_users(users: Mapping[str, str], port: int, controller: int, guarded: int) -> dict[str, str]:
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},"
        f"GUARDED://127.0.0.1:{guarded}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},GUARDED://127.0.0.1:{guarded}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:SASL_PLAINTEXT",
        "listener.name.guarded.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.guarded.plain.sasl.jaas.config": f"{module} required {known};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
    }


def _encrypted(
    authority: Authority, settings: Mapping[str, str], certified: int, login: int
) -> dict[str, str]:
    certificate, key = authority.give("broker")
    both = certificate.with_name("broker-and-key.pem")
    both.write_text(key.read_text() + certificate.read_text())
    more = f",TLS://127.0.0.1:{certified},LOGIN://127.0.0.1:{login}"
    protocols = f"{settings['listener.security.protocol.map']},TLS:SSL,LOGIN:SASL_SSL"
    return {
        "listeners": settings["listeners"] + more,
        "advertised.listeners": settings["advertised.listeners"] + more,
        "listener.security.protocol.map": protocols,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.tls.ssl.client.auth": "required",
        "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.login.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }


def _with_dots(settings: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def _done(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(PATIENCE)


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def _record(message: Any) -> Record:
    return Record(
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        message.partition(),
        message.offset(),
        message.timestamp(),
    )
