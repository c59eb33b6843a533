"""The section `source: {kafka: …}` of a pipeline file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, WithJsonSchema, field_validator, model_validator

from latecomer.config.secrets import resolved
from latecomer.config.user_classes import PolledSource
from latecomer.errors.redacting import conceal, concealed_in, is_secret
from latecomer.model.base import Model
from latecomer.model.words import words

Metadata = Literal["key", "headers", "timestamp", "timestamp_type", "topic", "partition", "offset"]
METADATA: dict[str, str] = {
    "key": "string",
    "headers": "string",
    "timestamp": "timestamp",
    "timestamp_type": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
}
"""The fields of a Kafka record besides its value, and their types as columns."""
Options = Mapping[str, str | int | float | bool]
TOPIC = re.compile(r"(?!\.\.?$)[A-Za-z0-9._-]{1,249}")
ALWAYS_RESERVED = frozenset(
    words(
        "bootstrap.servers metadata.broker.list group.id isolation.level enable.auto.commit enable.partition.eof "
        "error_cb logger"
    )
)
RESERVED = ALWAYS_RESERVED | {"auto.offset.reset"}
"""Options that the source sets itself: its guarantees depend on them."""


def written_settings(servers: str, options: Options) -> dict[str, str]:
    """The settings of a cluster in the pipeline file, by field: each may refer to a secret."""
    return {"servers": servers, **{f"options.{name}": str(value) for name, value in options.items()}}


class ClientSettings(dict[str, str]):
    """Settings of a client, secrets included. A process that receives them hides these in its errors, too."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (dict(self), concealed_in(self.values()))


def _received(settings: dict[str, str], secrets: list[str]) -> ClientSettings:
    for secret in secrets:
        conceal(secret)
    return ClientSettings(settings)


def client_options(written: Options, base: Path) -> dict[str, str]:
    """Options of a client with their secrets, as text. Paths and references to files are relative to `base`, the folder
    of the pipeline file."""
    options = {}
    for name, value in written.items():
        text = str(value).lower() if isinstance(value, bool) else resolved(str(value), base)
        if name.endswith(".location"):
            # For a user who does not exist, the client itself says that it cannot open the file.
            with suppress(RuntimeError):
                text = str(Path(text).expanduser())
            text = str(base / text)
        options[name] = conceal(text) if is_secret(name) else text
    return options


class StartAt(Model):
    """A place to start at: the first records of a time, or an offset for each partition."""

    timestamp: Annotated[datetime, WithJsonSchema({"type": "string"})] | None = Field(
        None, description="records from this time on, as 2026-04-25T14:00Z"
    )
    offsets: dict[str, dict[int, Annotated[int, Field(ge=0)]]] | None = Field(
        None, description='topic: {"partition": offset}; partitions that are left out start at the beginning'
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.timestamp is None) == (self.offsets is None):
            raise ValueError('is no place to start at; write {timestamp: …} or {offsets: {topic: {"0": 17}}}')
        return self


class KafkaTopics(PolledSource):
    """Topics of a Kafka cluster, read between offsets by librdkafka, in tasks."""

    kind: ClassVar[str] = "kafka"
    servers: str = Field(min_length=1, description="where to ask for the brokers: host:port, comma-separated")
    topics: tuple[str, ...] = Field((), description="the topics to read; or say pattern")
    pattern: str | None = Field(
        None, description="a regular expression that the whole name of a topic matches"
    )
    start: Literal["earliest", "latest"] | StartAt = Field("earliest", description="where a new store begins")
    max_rows_per_batch: Annotated[int, Field(ge=1)] = 100_000
    arrival: Literal["broker", "read"] | None = Field(
        None,
        description="when a row came: by the broker's clock, or when it was read; the broker's is the default where "
        "the topic says LogAppendTime",
    )
    on_data_loss: Literal["stop", "continue"] = Field(
        "stop", description="when offsets are gone before they were read"
    )
    tombstones: Literal["dead_letter", "skip"] = Field(
        "dead_letter", description="what becomes of a record without a value; what is skipped is counted"
    )
    metadata: dict[str, Metadata] = Field(
        default_factory=dict, description="column: what Kafka says of a record besides its value"
    )
    options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="of the client, as librdkafka names them, such as security.protocol"
    )

    @field_validator("topics")
    @classmethod
    def _possible_topics(cls, topics: tuple[str, ...]) -> tuple[str, ...]:
        for topic in topics:
            if not TOPIC.fullmatch(topic):
                raise ValueError(f"{topic!r} is no name of a topic; use letters, digits, . _ and -")
        if len(set(topics)) < len(topics):
            raise ValueError("names a topic twice; name each once")
        return topics

    @field_validator("pattern")
    @classmethod
    def _regular(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"is no regular expression ({error}); write one such as payments\\..*") from None
        return pattern

    @field_validator("options")
    @classmethod
    def _free_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        for name in options:
            if name in RESERVED:
                raise ValueError(f"{name} is not an option: the source sets it itself; leave it out")
            if name.startswith("java."):
                raise ValueError(
                    f"{name} is an option of Java's client, and topics are read with librdkafka; write "
                    f"{name.removeprefix('java.')} if librdkafka has it, or leave it out"
                )
        return options

    @model_validator(mode="after")
    def _one_way_to_name_topics(self) -> Self:
        if bool(self.topics) == (self.pattern is not None):
            raise ValueError(
                "names its topics twice, or not at all; write topics: [payments], or pattern: payments.*"
            )
        return self

    @property
    def named(self) -> str:
        return f"topics matching {self.pattern}" if self.pattern else ", ".join(self.topics)


assert METADATA.keys() == {*get_args(Metadata)}  # noqa: S101
