"""Asks the brokers how far the topics reach; `source.py` reads the records.

The brokers' metadata name all partitions, also those that never had a record, and how much of each is still unread. The
cluster is asked before Spark starts, and once a second. No question waits for ever: a broker that does not answer in
time is an outage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import PrivateAttr

from latecomer.config.kafka import ClientSettings, KafkaTopics, StartAt, client_options, written_settings
from latecomer.config.secrets import reference_problems, resolved
from latecomer.config.user_classes import PolledSource
from latecomer.errors import MachineError, PipelineError, SourceError, SourceOutage, first_line
from latecomer.errors.redacting import without_secrets
from latecomer.model.durations import to_micros
from latecomer.source.kafka.errors import refusal_of
from latecomer.source.kafka.ranges import (
    Answer,
    Gone,
    MadeAgain,
    Place,
    Topic,
    lag_of,
    next_answer,
    partitions_of,
    ranges_of,
    remaining,
    waiting,
)

ANSWER_SECONDS = 10.0
"""How long a broker may take to answer a question."""
PATIENCE = (0.25, 1.0, ANSWER_SECONDS)
"""Seconds after which offsets are asked for again; the last answer is waited for."""


class KafkaReader(PolledSource):
    """Reads the topics that a pipeline file names.

    One client asks all questions until one fails; then the next question makes a new client.
    """

    kind: ClassVar[str] = "kafka"
    topics: KafkaTopics
    base: Path
    """The folder of the pipeline file."""
    id_header: str | None = None
    """The header with the id of a record's schema. The id is put into the record, in Confluent's framing."""
    _client: Any = PrivateAttr(None)
    _noted: list[Any] = PrivateAttr(default_factory=list)

    def client_settings(self) -> ClientSettings:
        """The settings of a client, as librdkafka names them, with the secrets."""
        options = client_options(self.topics.options, self.base)
        return ClientSettings({"bootstrap.servers": resolved(self.topics.servers, self.base), **options})

    def require_secrets(self) -> None:
        """Refuse references to secrets that do not exist."""
        written = written_settings(self.topics.servers, self.topics.options)
        texts = ((f"source.kafka.{name}", text) for name, text in written.items())
        for problem in reference_problems(texts, self.base):
            raise PipelineError([problem])

    def check(self) -> None:
        self.require_secrets()
        start = self.topics.start
        given = (start.offsets if isinstance(start, StartAt) else None) or {}
        with self.questions() as questions:
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
        with self.questions() as questions:
            topics = questions.described(first=since is None)
        return waiting(since, topics)

    def latest(self, since: Answer | None) -> Answer | None:
        with self.questions() as questions:
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
        with self.questions() as questions:
            return all(map(questions.stamped_by_broker, questions.described(first=False)))

    def skips_tombstones(self) -> bool:
        return self.topics.tombstones == "skip"

    def remaining(self, until: Answer) -> Answer:
        places = list(ranges_of(until))
        if not places:
            return until
        with self.questions() as questions:
            begins = questions.begins(places)
        try:
            return remaining(until, begins, self.topics.on_data_loss == "continue")
        except Gone as gone:
            raise _offsets_gone(gone) from None

    @contextmanager
    def questions(self) -> Iterator[ClientQuestions]:
        """Questions to the cluster. An error of the client becomes one sentence."""
        try:
            from confluent_kafka import KafkaException
        except ImportError:
            raise MachineError(
                "a Kafka source needs the package confluent-kafka; pip install 'latecomer[kafka]'"
            ) from None
        self._noted.clear()
        try:
            self._client = self._client or self._connected()
            yield ClientQuestions(self.topics, self._client)
        except KafkaException as error:
            if self._client is not None:
                self._client.poll(0)  # this calls `error_cb` with the client's own errors
            self._client = None
            raise self._in_words(error.args[0]) from None

    def _in_words(self, error: Any) -> Exception:
        """An error of Kafka: an outage, unless somebody has to correct something."""
        lasting = next((each for each in [error, *self._noted] if each.name() in _LASTING), None)
        if lasting is not None:
            return SourceError(f"kafka source: {_shown(lasting)}; {_LASTING[lasting.name()]}")
        refusal = refusal_of(self.client_settings(), [error, *self._noted])
        if refusal is not None and not refusal.lasting:
            return SourceOutage(f"{refusal.reason}; {refusal.fix}")
        if refusal is not None:
            return SourceError(f"kafka source: {refusal.reason}; {refusal.fix}")
        # "Connection refused" says more than "all brokers are down".
        met = [each for each in self._noted if each.name() != "_ALL_BROKERS_DOWN"]
        reason = _shown(met[-1] if met else error)
        return SourceOutage(f"{reason}; start the broker, or correct source.kafka.servers")

    def _connected(self) -> Any:
        from confluent_kafka import admin

        settings = {
            "client.id": "latecomer",
            "log_level": 0,
            "socket.timeout.ms": int(ANSWER_SECONDS * 1000),
            "error_cb": self._noted.append,
            **self.client_settings(),
        }
        try:
            return admin.AdminClient(settings)
        except ValueError as error:
            raise SourceError(
                f"kafka source: the client refuses an option ({without_secrets(first_line(error))}); correct "
                "source.kafka.options"
            ) from None


@dataclass(frozen=True)
class ClientQuestions:
    """The questions that one client can ask."""

    topics: KafkaTopics
    client: Any

    @property
    def _api(self) -> Any:
        import confluent_kafka.admin

        return confluent_kafka.admin

    def described(self, first: bool) -> dict[str, Topic]:
        """The topics as they are now; `first`, where nothing has been read yet."""
        from confluent_kafka import TopicCollection

        names = self._names()
        if not names:
            return {}
        futures = self.client.describe_topics(TopicCollection(names), request_timeout=ANSWER_SECONDS)
        topics = {name: self._description(name, future) for name, future in futures.items()}
        places = [(name, number) for name, each in topics.items() for number in range(len(each.partitions))]
        begin = self.begins(places)
        end = self._offsets(places, self._api.OffsetSpec.latest())
        start = self._starts(begin, end, first)
        return {
            name: Topic(
                str(each.topic_id),
                *([at[name, number] for number in range(len(each.partitions))] for at in (begin, end, start)),
            )
            for name, each in topics.items()
        }

    def begins(self, places: list[Place]) -> dict[Place, int]:
        """The first offset that each partition still has."""
        return self._offsets(places, self._api.OffsetSpec.earliest())

    def stamped_by_broker(self, topic: str) -> bool:
        """Whether the timestamps of a topic are those of its broker."""
        resource = self._api.ConfigResource(self._api.ResourceType.TOPIC, topic)
        (future,) = self.client.describe_configs([resource]).values()
        return bool(future.result(ANSWER_SECONDS)["message.timestamp.type"].value == "LogAppendTime")

    def _names(self) -> list[str]:
        if self.topics.pattern is None:
            return list(self.topics.topics)
        listed = self.client.list_topics(timeout=ANSWER_SECONDS).topics
        return sorted(
            name for name in listed if re.fullmatch(self.topics.pattern, name) and not name.startswith("__")
        )

    def _description(self, name: str, future: Any) -> Any:
        from confluent_kafka import KafkaError, KafkaException

        try:
            return future.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise SourceError(
                    f"kafka source: there is no topic {name} at {without_secrets(self.topics.servers)}; make it, or "
                    "correct source.kafka.topics"
                ) from None
            raise

    def _starts(
        self, begin: Mapping[Place, int], end: Mapping[Place, int], first: bool
    ) -> Mapping[Place, int]:
        """Where a store starts to read each partition. One that is added later is read from its beginning."""
        start = self.topics.start
        if not first or start == "earliest":
            return begin
        if not isinstance(start, StartAt):
            return end
        if start.offsets is not None:
            given = start.offsets
            return {place: given.get(place[0], {}).get(place[1], least) for place, least in begin.items()}
        assert start.timestamp is not None  # noqa: S101
        spec = self._api.OffsetSpec.for_timestamp(to_micros(start.timestamp) // 1000)
        offsets = self._offsets(list(begin), spec)
        return {place: end[place] if offset < 0 else offset for place, offset in offsets.items()}

    def _offsets(self, places: list[Place], spec: Any) -> dict[Place, int]:
        """One offset of each partition. The client may not notice that it knows the leaders by now, and would retry
        only after three seconds: so it is asked again sooner."""
        from confluent_kafka import IsolationLevel, TopicPartition

        for patience in PATIENCE:
            answers = self.client.list_offsets(
                {TopicPartition(*place): spec for place in places},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=ANSWER_SECONDS,
            )
            if not wait(answers.values(), patience).not_done:
                break
        return {(at.topic, at.partition): future.result().offset for at, future in answers.items()}


def _offsets_gone(gone: Gone) -> SourceError:
    return SourceError(
        f"kafka source: topic {gone.topic}, partition {gone.partition}: offsets {gone.since} to {gone.until - 1} are "
        "gone before they were read, by retention or because the broker lost them; let the topic keep its records "
        "longer, and write on_data_loss: continue to go on without these"
    )


_LOGIN = "correct the user and password in source.kafka.options"
_LASTING = {
    "TOPIC_AUTHORIZATION_FAILED": "let this user describe and read the topic",
    "CLUSTER_AUTHORIZATION_FAILED": "let this user describe the cluster",
    "SASL_AUTHENTICATION_FAILED": _LOGIN,
    "_AUTHENTICATION": _LOGIN,
    "_INVALID_ARG": "correct source.kafka.options",
}
"""Errors that do not pass by themselves, by librdkafka's names, and their fixes."""


def _shown(error: Any) -> str:
    """The text of an error without the state of the client."""
    return without_secrets(first_line(Exception(re.sub(r" \(after \d+ms in state .*\)", "", error.str()))))
