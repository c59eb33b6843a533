"""The pipeline: the same models behind the YAML file and the Python API.

They are frozen and strict: an unknown key is an error. A check that needs one model only is in that model. The others
are in `checks.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    field_validator,
    model_validator,
)

from latecomer.config import profiles
from latecomer.config.loading_classes import load_own, load_strategy
from latecomer.config.operation import Alerts, Lease, Retention, Schedule, Upkeep, written_upkeep
from latecomer.config.outputs import Output
from latecomer.config.paths import SourcePath, escaped
from latecomer.config.renames import DerivedColumn, SourceColumn, WrittenEither, seen_columns, source_name
from latecomer.config.sinks import AnySink, FileSink, ListedSink, OwnSink, Sink, Stream
from latecomer.config.sources import (
    Files,
    NamedSource,
    Source,
    TimePattern,
    Unit,
    any_strategy,
    loaded_source,
)
from latecomer.config.user_classes import Decoder
from latecomer.model.base import Model
from latecomer.model.sources import BySource, split_partition
from latecomer.model.strategies import AnyStrategy, Custom, Strategy
from latecomer.model.zones import Zone
from latecomer.objects.locations import Storage, Url, reached_by, scheme_of, without_file_scheme

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
INBOX = "inbox"
"""The folder of the store that receives DataFrames."""
_NAME_FIX = "use a-z, A-Z, 0-9 and _ only, not starting with a digit, at most 100 of them"


def _id_columns(written: object) -> object:
    """A column, or a tuple of several; a list of one column becomes that column."""
    if isinstance(written, str) or written is None:
        return written
    if not isinstance(written, list | tuple) or not all(isinstance(column, str) for column in written):
        raise ValueError("is not a column; name one, or several in a list: [client_id, producer_seq]")
    if not written:
        raise ValueError("is empty; name at least one column, or leave id out")
    if len(set(written)) < len(written):
        raise ValueError("names a column twice; name each once")
    return written[0] if len(written) == 1 else tuple(written)


_Columns = Annotated[tuple[str, ...], Field(min_length=1, json_schema_extra={"uniqueItems": True})]


class Event(Model):
    """Which columns make the envelope."""

    time: str = Field(description="the column with the event time")
    id: Annotated[str | _Columns | None, BeforeValidator(_id_columns)] = Field(
        None,
        description="the column that identifies an event, or several that do together; duplicates are removed",
    )
    partition: str | None = Field(None, description="the column that names the source partition")
    zone: Zone = Field("UTC", description="the zone of times written without one")
    unit: Unit | None = Field(None, description="the unit of times written as numbers")
    time_format: TimePattern | None = Field(
        None, description="the form of times in text that are not ISO-8601, such as dd.MM.yyyy HH:mm:ss"
    )
    producer: str | None = Field(None, description="the column that names who made the event")
    producer_seq: str | None = Field(
        None, description="the column with the producer's own count of its events, for `latecomer gaps`"
    )

    @property
    def id_columns(self) -> tuple[str, ...]:
        """The columns that identify an event; empty where events have no id."""
        return () if self.id is None else (self.id,) if isinstance(self.id, str) else self.id


def _strategy(
    written: object, validated: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> Strategy | None:
    """The strategy of the pipeline; with several sources, one with the strategies of all of them."""
    base, sources = info.data.get("base", Path()), info.data.get("sources")
    if written is None and not sources:
        if sources is None:  # the sources have mistakes, which are reported already
            return None
        raise ValueError("is missing; add watermark:")
    strategy = None if written is None else any_strategy(written, validated)
    if isinstance(strategy, Custom):
        strategy = load_strategy(strategy, base)
    profile = info.data.get("profile")
    if strategy is not None:
        strategy = profiles.with_profile(strategy, profile, "watermark")
    if not sources or isinstance(strategy, BySource):
        return strategy
    return BySource.of_strategies(_in_one_rhythm(sources, strategy, profile))


def _in_one_rhythm(
    sources: Mapping[str, NamedSource], common: Strategy | None, profile: str | None
) -> dict[str, Strategy]:
    """The strategy of each source: its own, or the common one. All have the same ticks."""
    strategies: dict[str, Strategy] = {}
    for name, source in sources.items():
        strategy = source.watermark or common
        if strategy is None:
            raise ValueError(
                f"source {name} has no watermark; write sources.{name}.watermark, or watermark for all of them"
            )
        strategies[name] = profiles.with_profile(strategy, profile, "watermark")
    written = {
        strategy.every
        for strategy in (common, *strategies.values())
        if strategy is not None and "every" in strategy.model_fields_set
    }
    if len(written) > 1:
        raise ValueError(
            "the ticks of all sources are the same; write every: once, in watermark, or alike in each source"
        )
    every = written.pop() if written else next(iter(strategies.values())).every
    return {
        name: each if each.every == every else each.model_copy(update={"every": every})
        for name, each in strategies.items()
    }


def _with_own_sinks(name: str, output: Output, base: Path) -> Output:
    """The output, with the user-defined classes of its sinks loaded."""
    fields = {"sinks": output.sinks, "late_to": output.late_to}
    loaded = {field: _loaded_sinks(sinks, base, f"{name}.{field}.") for field, sinks in fields.items()}
    return output if loaded == fields else output.model_copy(update=loaded)


def _loaded_sinks(sinks: tuple[Sink, ...], base: Path, field: str = "") -> tuple[Sink, ...]:
    return tuple(
        load_own(sink, Sink, base, f"{field}{nth}") if isinstance(sink, OwnSink) else sink
        for nth, sink in enumerate(sinks)
    )


def _one_source(
    written: object, validated: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> Source | None:
    """The source, where there is a single one."""
    several = info.data.get("sources", True)  # missing if they have mistakes, which are reported already
    if written is None and not several:
        raise ValueError("is missing; add source:, or several in sources:")
    if written is not None and several:
        raise ValueError("stands beside sources; set either source or sources, not both")
    return None if written is None else loaded_source(validated(written), info.data.get("base", Path()))


class Pipeline(Model):
    """A pipeline. `load_pipeline("pipeline.yaml")` reads one from a file."""

    name: str
    store: str = Field(
        min_length=1, description="a folder, relative to the pipeline file, or a URL such as s3://bucket/lake"
    )
    storage: Storage = Field(Storage(), description="how URLs are reached")
    base: Annotated[Path, WithJsonSchema({"type": "string"})] = Field(
        Path(), exclude=True, description="the folder that relative paths start from"
    )
    sources: dict[str, NamedSource] = Field(
        default_factory=dict, description="name: source, in the place of `source` where there are several"
    )
    source: Annotated[Source, WrapValidator(_one_source)] = Field(
        None,  # where there are several
        validate_default=True,
    )
    event: Event
    profile: profiles.Name | None = Field(
        None, description="another engine's habits, for what is not said otherwise: docs/comparison.md"
    )
    watermark: Annotated[AnyStrategy, WrapValidator(_strategy)] = Field(
        None,  # where every one of several sources has its own
        validate_default=True,
    )
    outputs: dict[str, Output] = Field(min_length=1)
    dead_letters_to: tuple[AnySink, ...] = Field((), description="sinks for the dead letters")
    columns: dict[str, WrittenEither] = Field(
        default_factory=dict,
        description="new name: the source's column, in backticks where its name is no plain word; or an SQL expression "
        "over its columns, computed from the log",
    )
    ledger: tuple[str, ...] = Field((), description="exact numeric columns that the ledger sums up")
    retention: Retention = Retention()
    upkeep: Annotated[
        Upkeep, BeforeValidator(written_upkeep, json_schema_input_type=Upkeep | Literal["off", False])
    ] = Upkeep()
    alerts: Alerts = Alerts()
    lease: Lease | None = Field(None, description="who may write the store, where several machines reach it")
    private: bool = Field(
        False, description="store, logs and sinks are for this user alone: modes 0700 and 0600"
    )

    schedule: dict[str, Schedule] = Field(
        default_factory=dict, description="output: when to rebuild it, and how far back"
    )

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError(f"is not a usable name; {_NAME_FIX}")
        return name

    @field_validator("sources")
    @classmethod
    def _own_sources(cls, sources: dict[str, NamedSource], info: ValidationInfo) -> dict[str, NamedSource]:
        for name in sources:
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a usable name; {_NAME_FIX}")
        base = info.data.get("base", Path())
        return {name: loaded_source(source, base, f"{name}.") for name, source in sources.items()}

    @field_validator("outputs")
    @classmethod
    def _own_outputs(cls, outputs: dict[str, Output], info: ValidationInfo) -> dict[str, Output]:
        seen: dict[str, str] = {}
        for name in outputs:
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a usable name; {_NAME_FIX}")
            other = seen.setdefault(name.lower(), name)
            if other != name:
                raise ValueError(
                    f"outputs {other!r} and {name!r} clash: they differ only in case; rename one"
                )
        base, profile = info.data.get("base", Path()), info.data.get("profile")
        filled = {name: profiles.output_with_profile(output, profile) for name, output in outputs.items()}
        return {name: _with_own_sinks(name, output, base) for name, output in filled.items()}

    @field_validator("dead_letters_to")
    @classmethod
    def _own_dead_letter_sinks(cls, sinks: tuple[Sink, ...], info: ValidationInfo) -> tuple[Sink, ...]:
        return _loaded_sinks(sinks, info.data.get("base", Path()))

    @model_validator(mode="after")
    def _hand_out_columns(self) -> Pipeline:
        """Each output has the derived columns that it names."""
        outputs = {name: output.with_columns(self.derived) for name, output in self.outputs.items()}
        if outputs != self.outputs:
            object.__setattr__(self, "outputs", outputs)  # the model is frozen once it is made
        return self

    @property
    def renames(self) -> dict[str, SourceColumn]:
        """Columns of the source under other names."""
        return {name: each for name, each in self.columns.items() if isinstance(each, SourceColumn)}

    @property
    def derived(self) -> dict[str, DerivedColumn]:
        """The columns that are computed from the log."""
        return {name: each for name, each in self.columns.items() if isinstance(each, DerivedColumn)}

    @property
    def views(self) -> dict[str, Pipeline]:
        """Source name → the pipeline with that source as its only one. A single source has the name "", and its view is
        the pipeline itself."""
        return {name: self._seen_by(name, source) for name, source in self.sources.items()} or {"": self}

    def source_of(self, partition: str | None) -> str:
        """The name of the source of a partition; empty where the pipeline has a single source."""
        return split_partition(partition or "")[0] if self.sources else ""

    def _seen_by(self, name: str, source: NamedSource) -> Pipeline:
        own = {"zone": source.zone, "unit": source.unit, "time_format": source.time_format}
        event = {what: value for what, value in own.items() if value is not None}
        return self.model_copy(
            update={
                "source": source,
                "sources": {},
                "event": self.event.model_copy(update=event),
                "watermark": self.watermark.of_source(name),
                "columns": {**self.columns, **source.renames},
            }
        )

    @property
    def files(self) -> Files:
        """The settings of a file source."""
        if self.source.files is None:
            raise TypeError(f"the source of pipeline {self.name} does not read files")
        return self.source.files

    @property
    def format(self) -> str | Decoder:
        """The format of the records."""
        return self.source.written

    @property
    def order_by(self) -> str | None:
        """The column with the arrival time. Without one, the source gives the arrival time of each row."""
        return self.source.arrivals.order_by

    @property
    def partition_column(self) -> str | None:
        return self.event.partition or self.source.arrivals.partition

    @property
    def arrival_unit(self) -> Unit | None:
        return self.source.arrivals.unit or self.event.unit

    @property
    def declared_columns(self) -> dict[str, str] | None:
        """The columns that the source declares, under the names that the pipeline uses."""
        return None if self.source.columns is None else seen_columns(self.source.columns, self.renames)

    def source_name(self, column: str) -> str:
        """The source's name for a column."""
        return source_name(column, self.renames)

    def listed_sinks(self) -> Iterator[ListedSink]:
        """Every sink, in the order of the file."""
        for name, output in self.outputs.items():
            for nth, sink in enumerate(output.sinks):
                yield ListedSink(f"outputs.{name}.sinks.{nth}", Stream.PANES, name, sink)
            for nth, sink in enumerate(output.late_to):
                yield ListedSink(f"outputs.{name}.late_to.{nth}", Stream.LATE, name, sink)
        for nth, sink in enumerate(self.dead_letters_to):
            yield ListedSink(f"dead_letters_to.{nth}", Stream.DEAD_LETTERS, None, sink)

    def without_sinks(self) -> Pipeline:
        """The same pipeline, which writes to its store alone."""
        outputs = {name: output.without_sinks() for name, output in self.outputs.items()}
        return self.model_copy(update={"outputs": outputs, "dead_letters_to": ()})

    @property
    def sink_paths(self) -> list[Path]:
        """The files and folders on this machine that sinks write to."""
        sinks = [listed.sink for listed in self.listed_sinks()]
        places = [self.place(sink.path) for sink in sinks if isinstance(sink, FileSink)]
        return [place for place in places if isinstance(place, Path)]

    def resolve(self, path: str) -> Path:
        """The absolute path; a relative one starts at the folder of the pipeline file."""
        return (self.base / Path(path).expanduser()).resolve()

    def place(self, written: str) -> PurePath:
        """A folder or file of the pipeline, on this machine or at a URL."""
        if scheme_of(written) in (None, "file"):
            return self.resolve(without_file_scheme(written))
        named = self.storage.credentials
        credentials = None if named is None else str(self.resolve(named))
        return reached_by(Url(written), self.storage.model_copy(update={"credentials": credentials}))

    @property
    def store_path(self) -> PurePath:
        return self.place(self.store)

    @property
    def source_path(self) -> str:
        """The source's folder or pattern, absolute. The folder of the pipeline file is escaped in a pattern. For
        DataFrames, it is the folder in the store that receives them."""
        if self.source.dataframe is not None:
            return str(self.store_path / INBOX)
        if scheme_of(self.files.path) not in (None, "file"):
            written_url = str(Url(self.files.path))
            self.place(SourcePath(written_url).base)
            return written_url
        written = Path(without_file_scheme(self.files.path)).expanduser()
        folder = os.path.normpath(self.base.resolve() / written)
        if Path(folder).is_dir():
            return folder
        return os.path.normpath(Path(escaped(str(self.base.resolve()))) / written)
