"""Where events come from: the models of `source`, and of an entry in `sources`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    field_validator,
    model_validator,
)

from latecomer.config.encodings import UTF8, known_encoding
from latecomer.config.kafka import KafkaTopics
from latecomer.config.loading_classes import load_own, load_strategy, made_with, mistake
from latecomer.config.registered import Avro, Protobuf, Registered, RegisteredJson, SchemaFormat
from latecomer.config.renames import WrittenColumn
from latecomer.config.sizes import FileSize, LineSize
from latecomer.config.user_classes import (
    OWN,
    Decoder,
    PolledSource,
    WrittenDecoder,
    WrittenSource,
    own_schema,
    read_source,
)
from latecomer.model.base import Model, object_schema
from latecomer.model.strategies import AnyStrategy, Custom, Strategy
from latecomer.model.time_formats import known_pattern
from latecomer.model.types import flat_types
from latecomer.model.written_numbers import AS_USUAL, Numbers
from latecomer.model.zones import Zone

Unit = Literal["s", "ms", "us", "ns"]
TimePattern = Annotated[str, AfterValidator(known_pattern)]
UnknownFields = Literal["keep", "ignore", "dead_letter"]

# Formats

BuiltIn = Literal["json", "csv", "parquet"]
FORMATS: tuple[str, ...] = get_args(BuiltIn)
_REGISTERED: dict[str, type[Registered]] = {each.kind: each for each in (Avro, RegisteredJson, Protobuf)}
_WORDS = tuple(dict.fromkeys((*FORMATS, *_REGISTERED)))


def _read_format(written: object) -> object:
    if isinstance(written, Decoder):
        return written
    name: object = written
    options: Any = {}
    if isinstance(written, dict) and len(written) == 1:
        ((name, options),) = written.items()
    if name in FORMATS and not options:
        return name
    if isinstance(name, str) and isinstance(options or {}, dict):
        if name in _REGISTERED:
            return made_with(_REGISTERED[name], options or {}, name)
        if OWN.fullmatch(name):
            return WrittenDecoder(name=name, options=options or {})
    raise ValueError(
        f"is not a format; write one of {', '.join(_WORDS)}, or a decoder of your own as module:Class"
    )


def _options(model: type[Registered]) -> dict[str, Any]:
    made = model.model_json_schema()
    properties = {
        name: {key: value for key, value in each.items() if key not in ("default", "title")}
        for name, each in made["properties"].items()
    }
    return object_schema(properties)


_FORMAT_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"enum": [*_WORDS]},
        {"type": "string", "pattern": f"^{OWN.pattern}$", "description": "a decoder of your own"},
        *(
            object_schema({name: _options(_REGISTERED[name])}, name, description=f"{name}, with {what}")
            for name, what in {
                "avro": "the registry and the schema that the columns follow from",
                "json": "the registry that knows the schemas of the writers",
                "protobuf": "the registry, and the schema and the message that the columns follow from",
            }.items()
        ),
        own_schema("a decoder"),
    ]
}
Format = Annotated[
    BuiltIn | SerializeAsAny[Decoder],
    BeforeValidator(_read_format),
    WithJsonSchema(_FORMAT_SCHEMA),
]


# Sources


class Frames(Model):
    """DataFrames that a program passes in: `latecomer.into` for a stream, `latecomer.append` for a batch."""

    order_by: str | None = Field(
        None, description="the column with the arrival time; without it, rows come when they are handed in"
    )
    unit: Unit | None = Field(None, description="the unit of a numeric order_by; event.unit by default")
    partition: str | None = Field(None, description="the source-partition column (as event.partition)")


_UNSAID = Frames()


class Files(Model):
    """Files in a folder, read as they appear, by modification time and then by path."""

    path: str = Field(
        min_length=1,
        description="a folder, with those below it such as day=2013-01-01, or a pattern such as in/**/*.json; "
        "relative to the pipeline file",
    )
    format: Format = Field("json", description="json means JSON lines")
    order_by: str | None = Field(
        None, description="the column with the arrival time; without it, the file's modification time"
    )
    unit: Unit | None = Field(None, description="the unit of a numeric order_by; event.unit by default")
    partition: str | None = Field(None, description="the source-partition column (as event.partition)")
    max_files_per_batch: int = Field(1000, ge=1)
    header: bool = Field(True, description="csv: the first line names the columns")
    delimiter: str = Field(",", min_length=1, max_length=1)
    encoding: str = Field(UTF8, description="csv, json: such as utf-8, latin-1, windows-1252 or utf-16")

    max_line: LineSize = Field(
        16 << 20, description="csv, json: a longer line is a dead letter that keeps its first bytes"
    )
    max_unpacked: FileSize = Field(
        32 << 30, description="csv, json: a compressed file that unpacks to more is a dead letter"
    )

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, encoding: str) -> str:
        return known_encoding(encoding)

    @model_validator(mode="after")
    def _encoding_is_of_text(self) -> Self:
        binary = self.format == "parquet" or isinstance(self.format, SchemaFormat)
        if binary and self.encoding != UTF8:
            kind = self.format if isinstance(self.format, str) else self.format.kind
            raise ValueError(f"encoding is for csv and json; text in {kind} files is utf-8, leave it out")
        return self


def any_strategy(written: object, validated: ValidatorFunctionWrapHandler) -> Strategy | None:
    """The strategy from the file, or an instance of any strategy class that was made in Python."""
    return written if isinstance(written, Strategy) else validated(written)


def _flat_columns(written: object) -> object:
    """The declared columns. The fields of an object become columns with a dot in their names."""
    if not isinstance(written, Mapping):
        return written
    if not written:
        raise ValueError("is empty; declare at least one column, or leave schema out")
    columns: dict[str, str] = {}
    for name, kind in written.items():
        for leaf, leaf_kind in _leaves(str(name), kind).items():
            if columns.setdefault(leaf, leaf_kind) != leaf_kind:
                raise ValueError(
                    f"{leaf} is declared twice, as {columns[leaf]} and as {leaf_kind}; declare it once"
                )
    return columns


def _leaves(name: str, kind: object) -> dict[str, str]:
    """A declared column, or the columns of its fields; a mistake is reported at the column, not at the whole schema."""
    try:
        return flat_types(name, kind)
    except ValueError as error:
        message, _, fix = str(error).partition("; ")
        raise mistake(name, message, None, fix) from None


_FIELDS: dict[str, Any] = {"type": "object", "minProperties": 1}
_SCHEMA = {**_FIELDS, "additionalProperties": {"anyOf": [{"type": "string"}, _FIELDS]}}


class Source(Model):
    """Where events come from, and their columns where they are not to be inferred."""

    model_config = ConfigDict(populate_by_name=True)

    files: Files | None = None
    kafka: KafkaTopics | None = None
    dataframe: Frames | None = Field(
        None, description="DataFrames that a program hands in; dataframe: {} if nothing is to be said of them"
    )
    own: SerializeAsAny[PolledSource] | None = Field(
        None, description="a source of your own, written as module:Class with its options"
    )
    format: Format = Field("json", description="kafka, and a source of your own: how records are decoded")
    columns: Annotated[dict[str, str], BeforeValidator(_flat_columns), WithJsonSchema(_SCHEMA)] | None = (
        Field(
            None,
            alias="schema",
            description="column: type, such as paise: bigint, or the fields of an object",
        )
    )
    unknown_fields: UnknownFields = Field(
        "keep",
        description="fields that are no columns: keep them in the log as JSON text, ignore them, or make their record "
        "a dead letter",
    )

    numbers: Numbers = Field(
        AS_USUAL, description="csv, json: the decimal sign and the thousands sign of numbers in text"
    )

    @property
    def arrivals(self) -> Files | Frames:
        """How rows say when they came and of which partition they are. Only a source that is read from files has these
        settings: a folder, or DataFrames, which are saved as files."""
        return self.files or self.dataframe or _UNSAID

    @property
    def key(self) -> str:
        """The key in the pipeline file for `arrivals`."""
        return "files" if self.dataframe is None else "dataframe"

    @property
    def written(self) -> Format:
        """The format of the records. DataFrames are saved as Parquet (ADR 0083)."""
        if self.dataframe is not None:
            return "parquet"
        return self.format if self.files is None else self.files.format

    @property
    def polled(self) -> PolledSource | None:
        """The source that is polled for new data; None for files, which Spark lists."""
        named = (getattr(self, kind) for kind in (*SOURCES, "own"))
        return next((each for each in named if isinstance(each, PolledSource)), None)

    @property
    def has_records(self) -> bool:
        """Whether events are single records that a decoder reads: from a topic, or in files of messages. Other files
        are read whole."""
        if self.files is None and self.dataframe is None:
            return True
        return isinstance(self.written, Registered) and self.written.messages is not None

    @property
    def has_own_decoder(self) -> bool:
        """Whether a user-defined decoder decides which fields records have."""
        return not isinstance(self.written, str | Registered)

    @model_validator(mode="before")
    @classmethod
    def _kind_is_the_key(cls, fields: Any) -> Any:
        if (
            isinstance(fields, dict)
            and "dataframe" in fields
            and not fields.keys() & (SOURCES.keys() - {"dataframe"})
        ):
            fields = {**fields, "dataframe": fields["dataframe"] or {}}  # all of its settings are optional
        return read_source(fields, set(cls.model_fields) | {"schema"}, SOURCES)

    @model_validator(mode="after")
    def _format_fits(self) -> Self:
        if self.polled is not None and self.format in ("csv", "parquet"):
            raise ValueError(
                f"records of {_whose(self.polled)} cannot be {self.format}; write format: json, avro, protobuf or "
                "module:Class"
            )
        _require_registered(self)
        if self.files is not None and self.format != "json":  # a pipeline that was dumped has the default
            raise ValueError("format stands beside files; move it into files: {format: …}")
        if self.dataframe is not None and self.format != "json":
            raise ValueError("format stands beside dataframe, whose rows have columns already; leave it out")
        written, files = self.written, self.files
        if self.numbers != AS_USUAL and written not in ("csv", "json"):
            kind = written if isinstance(written, str) else written.kind
            raise ValueError(
                f"has numbers, which are for csv and plain json, beside {kind}; leave numbers out"
            )
        if files is not None and files.format == "csv" and not files.header and self.columns is None:
            raise ValueError(
                "csv files without a header need source.schema; declare the columns in their order"
            )
        return self


SOURCES: dict[str, type[Files | Frames | PolledSource]] = {
    name: kind
    for name, field in Source.model_fields.items()
    for kind in get_args(field.annotation)
    if isinstance(kind, type) and issubclass(kind, Files | Frames | PolledSource)
}
"""Key → model of the built-in sources: the fields of `Source` that are a source."""


_AnySource = TypeVar("_AnySource", bound=Source)


def _whose(source: PolledSource) -> str:
    return source.kind.capitalize() if source.kind in SOURCES else "a source of your own"


def _with_known_fields(source: _AnySource) -> _AnySource:
    """The source with `unknown_fields: ignore` where a user-defined decoder decides which fields there are. Another
    value that was set is refused."""
    if source.unknown_fields == "ignore" or not source.has_own_decoder:
        return source
    if "unknown_fields" in source.model_fields_set:
        raise ValueError(
            "has unknown_fields, and a decoder of your own says which fields there are; leave unknown_fields out"
        )
    return source.model_copy(update={"unknown_fields": "ignore"})


def _require_registered(source: Source) -> None:
    """Refuse avro and protobuf with incomplete options, and json with a registry where no record can have an id."""
    written = source.written
    if isinstance(written, Registered) and written.messages is not None and source.files is None:
        raise ValueError("has messages, and that is how files hold them; leave it out")
    if isinstance(written, RegisteredJson):
        _require_ids(source, written)
    if isinstance(written, Protobuf) and not source.has_records:
        raise ValueError(
            "has files of protobuf, which are read message by message; write messages: sized, if each has its length "
            "in four bytes before it"
        )
    if not isinstance(written, SchemaFormat):
        return
    if source.has_records:
        written.require_for_records("files" if source.polled is None else _whose(source.polled))
    if source.columns is not None:
        raise ValueError(f"has a schema beside {written.kind}, which has one of its own; leave schema out")


def _require_ids(source: Source, written: RegisteredJson) -> None:
    if source.columns is not None and written.subject is not None:
        raise ValueError(
            f"has a schema beside the subject {written.subject}, and the columns follow from one of them; leave one out"
        )
    if not source.has_records:
        raise ValueError(
            "has json with a registry, and lines of files have no id of a schema; write format: json, or messages: "
            "joined if the files hold messages as they were in a topic"
        )
    if source.files is not None and source.columns is None and written.subject is None:
        raise ValueError(
            "has messages of json, and nothing says their columns; write subject: payments-value, or a schema"
        )
    if source.kafka is None and written.id_header is not None:
        raise ValueError(
            "has an id_header, and only records of Kafka have headers; leave it out and write the framing"
        )


class NamedSource(Source):
    """One of several sources: where its events come from, what it calls the columns, and its own watermark."""

    renames: dict[str, WrittenColumn] = Field(
        default_factory=dict,
        alias="columns",
        description="new name: this source's column, in backticks where its name is no plain word",
    )
    watermark: Annotated[AnyStrategy | None, WrapValidator(any_strategy)] = Field(
        None, description="the watermark of this source; as the pipeline's by default"
    )
    zone: Zone | None = Field(None, description="the zone of its times written without one; else event.zone")
    unit: Unit | None = Field(None, description="the unit of its times written as numbers; else event.unit")
    time_format: TimePattern | None = Field(None, description="the form of its times; else event.time_format")

    @model_validator(mode="before")
    @classmethod
    def _columns_are_not_the_schema(cls, fields: Any) -> Any:
        # Without `schema`, `columns` would set the declared columns, whose name in Python it is.
        return {"schema": None, **fields} if isinstance(fields, dict) else fields


def loaded_source(source: _AnySource, base: Path, place: str = "") -> _AnySource:
    """The source, with the classes that the file names loaded; `place` stands before fields in mistakes."""
    loaded: dict[str, Any] = {}
    if isinstance(source, NamedSource) and isinstance(source.watermark, Custom):
        loaded["watermark"] = load_strategy(source.watermark, base, f"{place}watermark.")
    if isinstance(source.own, WrittenSource):
        loaded["own"] = load_own(source.own, PolledSource, base, f"{place}{source.own.name}")
    if isinstance(source.format, WrittenDecoder):
        loaded["format"] = load_own(source.format, Decoder, base, f"{place}format")
    if source.files is not None and isinstance(source.files.format, WrittenDecoder):
        decoder = load_own(source.files.format, Decoder, base, f"{place}files.format")
        loaded["files"] = source.files.model_copy(update={"format": decoder})
    return _with_known_fields(source.model_copy(update=loaded) if loaded else source)
