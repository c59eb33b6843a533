"""Where panes, side output and dead letters go besides the store: `{sqlite: results.db}`, `{delta: ./minute}` …"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny, WithJsonSchema, field_validator

from latecomer.config.kafka import ALWAYS_RESERVED, TOPIC
from latecomer.config.secrets import without_references
from latecomer.config.user_classes import OWN, Named, NamedClass, own_schema
from latecomer.errors import did_you_mean
from latecomer.errors.redacting import redacted
from latecomer.model.base import object_schema
from latecomer.model.panes import Accumulation
from latecomer.model.words import words

if TYPE_CHECKING:
    from latecomer.config.contract import Shape, SinkLogic

UPSERTED = frozenset({Accumulation.ACCUMULATING, Accumulation.RETRACTING})
CHANGES = frozenset({Accumulation.DISCARDING, Accumulation.RETRACTING})
KAFKA_RESERVED = ALWAYS_RESERVED | frozenset(
    words("transactional.id enable.idempotence acks request.required.acks partitioner")
)
"""Options that the sink sets itself: its guarantees depend on them."""
_OF_LATE, _OF_CORRECTIONS, _DEAD_LETTERS = ".late", ".corrections", "dead letters"


class Stream(StrEnum):
    """What a sink receives."""

    PANES = "panes"
    LATE = "late"
    DEAD_LETTERS = "dead_letters"


class OnOutage(StrEnum):
    """What a run does while a sink is down."""

    WAIT = "wait"
    STOP = "stop"


class Sink(Named):
    """What a sink can take. One that upserts keeps one pane of each window and key. An append-only one cannot overwrite
    what it has written."""

    METHODS: ClassVar[tuple[str, ...]] = ("logic",)
    kind: ClassVar[str]
    upserts: ClassVar[bool] = True
    accepts: ClassVar[frozenset[Accumulation]] = UPSERTED
    takes_rows: ClassVar[bool] = False
    """Whether it also takes rows that are only appended: side output and dead letters."""
    short: ClassVar[str] = "target"
    """The option that is set by text alone: `{KIND: TEXT}`."""

    on_outage: Annotated[OnOutage, WithJsonSchema({"type": "string", "enum": [*OnOutage]})] = Field(
        OnOutage.WAIT, description="while it is down, go on without it and try again; or stop the run"
    )
    max_behind: int = Field(
        10_000,
        ge=1,
        description="wait: how many batches may be completed while it is down, before the run stops",
    )

    @property
    def place(self) -> str:
        """Where it writes, as messages show it: secrets are hidden."""
        return str(getattr(self, "target", ""))

    def logic(self, pipeline: str, shape: Shape) -> SinkLogic:
        """The object that writes what one output of a pipeline publishes. A class of your own must define it."""
        raise self._lacks("logic")

    def takes(self, accumulation: Accumulation, replaces: bool) -> bool:
        """Whether the sink can take the panes; `replaces` says that a pane may replace another."""
        return accumulation in self.accepts or (accumulation is Accumulation.ACCUMULATING and not replaces)

    def part(self, name: str) -> str:
        """The part of its place that the sink uses, such as a table; empty if it uses all of it."""
        return ""


class ListedSink(NamedTuple):
    """A sink of a pipeline: its field in the file, and what it receives."""

    field: str
    stream: Stream
    output: str | None
    """None for dead letters, which belong to the whole pipeline."""
    sink: Sink

    @property
    def name(self) -> str:
        """A name for a table of what it receives."""
        if self.output is None:
            return "dead_letters"
        return self.output + ("_late" if self.stream is Stream.LATE else "")

    @property
    def owner(self) -> str:
        """The owner of the rows. No output can have the name of a side output or of the dead letters."""
        if self.output is None:
            return _DEAD_LETTERS
        return self.output + (_OF_LATE if self.stream is Stream.LATE else "")


def owner_in_words(owner: str) -> str:
    """The owner of rows, for a sentence.

    >>> owner_in_words("totals"), owner_in_words("totals.late"), owner_in_words("dead letters")
    ('output totals', 'the side output of totals', 'the lane of dead letters')
    """
    if owner == _DEAD_LETTERS:
        return "the lane of dead letters"
    for ending, what in ((_OF_LATE, "the side output"), (_OF_CORRECTIONS, "the corrections")):
        if owner.endswith(ending):
            return f"{what} of {owner.removesuffix(ending)}"
    return f"output {owner}"


def corrections_owner(output: str) -> str:
    """The owner of the corrections of an output."""
    return f"{output}{_OF_CORRECTIONS}"


class FileSink(Sink):
    """A built-in sink in a file or folder."""

    takes_rows: ClassVar[bool] = True
    short: ClassVar[str] = "path"
    path: str = Field(min_length=1, description="relative to the pipeline file")

    @property
    def place(self) -> str:
        return self.path


class OwnSink(NamedClass, Sink):
    """A user-defined sink that is not loaded yet."""


class DeltaSink(FileSink):
    """A Delta table, upserted by window and key."""

    kind: ClassVar[str] = "delta"


def _of_form(pattern: re.Pattern[str], mistake: str) -> AfterValidator:
    """Refuses text that does not match a pattern."""

    def checked(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(mistake)
        return text

    return AfterValidator(checked)


_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TableName = Annotated[
    str,
    _of_form(_PLAIN_NAME, "is not a usable table name; use a-z, A-Z, 0-9 and _, not starting with a digit"),
]


class DatabaseFileSink(FileSink):
    """A table in a database that is one file."""

    table: _TableName | None = Field(None, json_schema_extra={"pattern": f"^{_PLAIN_NAME.pattern}$"})

    def part(self, name: str) -> str:
        return f"table {(self.table or name).lower()}"


class SqliteSink(DatabaseFileSink):
    """A table in a SQLite file, upserted by window and key; named as the output by default."""

    kind: ClassVar[str] = "sqlite"


class DuckdbSink(DatabaseFileSink):
    """A table in a DuckDB file, upserted by window and key; named as the output by default."""

    kind: ClassVar[str] = "duckdb"


class ParquetSink(FileSink):
    """A folder of Parquet files, one a batch: the change stream, append only."""

    kind: ClassVar[str] = "parquet"
    upserts: ClassVar[bool] = False
    accepts: ClassVar[frozenset[Accumulation]] = CHANGES


class JsonlSink(FileSink):
    """A folder of JSON-lines files, one a batch: the change stream, append only."""

    kind: ClassVar[str] = "jsonl"
    upserts: ClassVar[bool] = False
    accepts: ClassVar[frozenset[Accumulation]] = CHANGES


_PASSWORD_IN_URL = re.compile(r"(?i)^[a-z][a-z0-9+.-]*://[^/@:]*:[^@/]+@")
_PLAIN_PASSWORD = re.compile(r"(?i)^postgres(ql)?://[^/@:]*:[^@]+@|password\s*=\s*('[^']|[^\s&'])")
LONGEST_NAME = 63
"""How many bytes of a name Postgres keeps."""


def _postgres_name(name: str) -> str:
    if "\0" in name:
        raise ValueError("a name in Postgres cannot hold a NUL character; remove it")
    if len(name.encode()) > LONGEST_NAME:
        raise ValueError(f"Postgres cuts names after {LONGEST_NAME} bytes; choose a shorter one")
    return name


_PostgresName = Annotated[str, Field(min_length=1), AfterValidator(_postgres_name)]


class PostgresSink(Sink):
    """A table in a Postgres database, upserted by window and key; named as the output by default."""

    kind: ClassVar[str] = "postgres"
    takes_rows: ClassVar[bool] = True
    target: str = Field(
        min_length=1,
        description="postgresql://user@host/database, or host=… dbname=…; secrets as ${env:NAME} or ${file:PATH}",
    )
    schema_name: _PostgresName = Field("public", alias="schema", description="made if it is not there")
    table: _PostgresName | None = Field(None, description="the output's name by default")
    serving: bool = Field(
        False, description="keep corrections, and a view of base and corrections, beside the table"
    )

    @property
    def place(self) -> str:
        return redacted(self.target)

    @property
    def has_plain_password(self) -> bool:
        return _PLAIN_PASSWORD.search(without_references(self.target)) is not None

    def part(self, name: str) -> str:
        return f"table {self.schema_name}.{self.table or name}"


_Topic = Annotated[
    str,
    _of_form(TOPIC, "is no topic; use letters, digits, dot, underscore and hyphen, at most 249 of them"),
]


class KafkaSink(Sink):
    """A Kafka topic, written with one transaction a batch: the change stream, or the standing values if compacted."""

    kind: ClassVar[str] = "kafka"
    takes_rows: ClassVar[bool] = True
    short: ClassVar[str] = "servers"
    servers: str = Field(min_length=1, description="where to ask for the brokers: host:port, comma-separated")
    topic: _Topic | None = Field(
        None,
        json_schema_extra={"pattern": f"^{TOPIC.pattern}$"},
        description="named as the output by default; it is created where there is none",
    )
    compacted: bool = Field(
        False, description="the standing value of each window and key, in a compacted topic"
    )
    partitions: int | None = Field(
        None, ge=1, description="of a topic that is created; as the broker does by default"
    )
    options: dict[str, str | int | float | bool] = Field(
        {},
        repr=False,
        description="of librdkafka: security.protocol, sasl.password … as ${env:NAME} or ${file:PATH}",
    )

    @field_validator("options")
    @classmethod
    def _no_options_of_our_own(cls, options: dict[str, Any]) -> dict[str, Any]:
        if reserved := sorted(options.keys() & KAFKA_RESERVED):
            raise ValueError(f"{reserved[0]} is set by latecomer; leave it out")
        return options

    @property
    def upserts(self) -> bool:  # type: ignore[override]
        return self.compacted

    @property
    def accepts(self) -> frozenset[Accumulation]:  # type: ignore[override]
        return UPSERTED if self.compacted else CHANGES

    @property
    def place(self) -> str:
        return f"{self.servers}/{self.topic}" if self.topic else self.servers

    def part(self, name: str) -> str:
        return f"topic {self.topic or name}"


_TABLE_IN_CATALOG = re.compile(r"[^.\s]+(\.[^.\s]+)+")
_TableInCatalog = Annotated[
    str,
    _of_form(_TABLE_IN_CATALOG, "is no table of a catalog; write NAMESPACE.NAME, such as shop.minutes"),
]
_SECRET_PROPERTY = re.compile(
    r"(?i)(^|[.-])(secret|password|credential|token|authorization|connection-string|account-key|secret-access-key)$"
)


class IcebergSink(Sink):
    """A table in an Iceberg catalog, upserted by window and key."""

    kind: ClassVar[str] = "iceberg"
    takes_rows: ClassVar[bool] = True
    short: ClassVar[str] = "table"
    table: _TableInCatalog = Field(
        json_schema_extra={"pattern": f"^{_TABLE_IN_CATALOG.pattern}$"},
        description="NAMESPACE.NAME; both are made if they are not there",
    )
    catalog: str = Field(
        "default", min_length=1, description="a catalog of pyiceberg's own configuration, or a name for it"
    )
    properties: dict[str, str | int | float | bool] = Field(
        {},
        repr=False,
        description="of the catalog, by pyiceberg's names: type, uri …; secrets as ${env:NAME} or ${file:PATH}",
    )

    @property
    def place(self) -> str:
        return f"{self.catalog}.{self.table}"

    @property
    def plain_secrets(self) -> list[str]:
        """Properties with a secret in plain text."""
        texts = {name: without_references(str(value)) for name, value in self.properties.items()}
        return [
            name
            for name, text in texts.items()
            if (_SECRET_PROPERTY.search(name) and text) or _PASSWORD_IN_URL.search(text)
        ]

    def part(self, name: str) -> str:
        return f"table {self.table}"


_BUILT_IN = (DeltaSink, IcebergSink, SqliteSink, DuckdbSink, PostgresSink, ParquetSink, JsonlSink, KafkaSink)
SINKS: dict[str, type[Sink]] = {sink.kind: sink for sink in _BUILT_IN}


def _read_sink(written: object) -> object:
    if isinstance(written, Sink):
        return written
    if not isinstance(written, dict) or len(written) != 1:
        raise ValueError(
            "is not a sink; write one of "
            + ", ".join(f"{{{kind}: {sink.short}}}" for kind, sink in SINKS.items())
        )
    ((kind, settings),) = written.items()
    if isinstance(kind, str) and OWN.fullmatch(kind):
        return OwnSink(name=kind, options=settings if isinstance(settings, dict) else {"target": settings})
    if kind not in SINKS:
        raise ValueError(
            f"unknown sink {kind}; {did_you_mean(str(kind), SINKS)}, and your own as module:Class"
        )
    fields: dict[str, Any] = settings if isinstance(settings, dict) else {SINKS[kind].short: settings}
    return SINKS[kind].model_validate(fields)


def _kind_schema(kind: str, sink: type[Sink]) -> dict[str, Any]:
    short = {"type": "string", "description": f"{sink.short}: {sink.model_fields[sink.short].description}"}
    return object_schema({kind: {"oneOf": [short, sink.model_json_schema()]}}, kind)


_OPTIONS = {"anyOf": [{"type": "object"}, {"type": "string"}]}
_SCHEMA: dict[str, Any] = {
    "oneOf": [
        *(_kind_schema(kind, sink) for kind, sink in SINKS.items()),
        own_schema("a sink", additionalProperties=_OPTIONS),
    ]
}
AnySink = Annotated[SerializeAsAny[Sink], BeforeValidator(_read_sink), WithJsonSchema(_SCHEMA)]
