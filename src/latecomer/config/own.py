"""Sources and decoders of the user's own: what a class must say, and how the pipeline file names it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from latecomer.model.base import Model

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

OWN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")
"""How a class of the user's own is named: module:Class."""


class Named(Model):
    """What may be a class of the user's own, with the options of the pipeline file as its fields."""

    kind: ClassVar[str]
    """How the pipeline file names it: module:Class, unless it comes with latecomer."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "kind" not in cls.__dict__:
            cls.kind = f"{cls.__module__}:{cls.__qualname__}"


class Decoder(Named):
    """How the bytes of a record become columns."""

    @property
    def shown(self) -> str:
        """The decoder, for people."""
        return self.kind

    def decode(self, record: Column, columns: Mapping[str, str]) -> Column:
        """A struct with a field for each of the columns, in its type; null where the record cannot be decoded.

        `record` is binary. A record that cannot be decoded becomes a dead letter with its bytes.
        """
        raise NotImplementedError(f"{self.kind} has no decode(); write def decode(self, record, columns):")


class PolledSource(Named):
    """A source that is asked how far it reaches now, and for the rows between two of its answers."""

    ORIGIN: ClassVar[str] = "_lc_origin"
    POSITION: ClassVar[str] = "_lc_position"
    ARRIVAL: ClassVar[str] = "_lc_landed"
    RECORD: ClassVar[str] = "_lc_record"
    PARTITION: ClassVar[str] = "_lc_partition"

    def columns(self) -> Mapping[str, str] | None:
        """The columns and their types, where the source knows them; else the pipeline file declares source.schema."""
        return None

    def check(self) -> None:
        """Raise an error, in words, if the source cannot be used. It is called before Spark starts."""

    def latest(self, since: Any) -> Any:
        """How far the source reaches now: anything that JSON can write; None while it is empty.

        It is asked about once a second. `since` is its answer before, None at first. It may say less than all there
        is, so that batches stay small; it is asked again until it says the same twice.
        """
        raise NotImplementedError(f"{self.kind} has no latest(); write def latest(self, since):")

    def read(self, spark: SparkSession, since: Any, until: Any) -> DataFrame | pa.Table:
        """The rows after `since` (None: from the beginning) up to `until`, which `latest` gave. Asked again, it must
        give the same rows.

        Columns: those of the source, or RECORD, the bytes to decode; ORIGIN (text) and POSITION (bigint), which
        together name a row for ever; and ARRIVAL (timestamp), when it came. Without it, it has come when it is read.
        PARTITION (text) is the source partition of a row, where event.partition names no column.
        """
        raise NotImplementedError(f"{self.kind} has no read(); write def read(self, spark, since, until):")

    def remaining(self, until: Any) -> Any:
        """What there still is of an answer that was not read at once: the same, or, where something has gone meanwhile
        and that is no error, an answer that reaches as far and leaves it out."""
        return until

    def partitions(self, until: Any) -> Mapping[str, bool] | None:
        """Every partition there is, and whether there is more of it than up to `until`; None if that is not known.

        A partition that is named holds the watermark before its first row, and is never idle while there is more.
        """
        return None

    def unread(self, until: Any) -> int | None:
        """How many rows there were beyond `until` when `latest` gave it, if that is known."""
        return None

    def stamps_arrivals(self) -> bool:
        """Whether every row has ARRIVAL, and rows come in its order. Beside other sources, what waits is then read in
        the order of arrival; the same rows may be read several times until all of them are logged."""
        return False

    def skips_tombstones(self) -> bool:
        """Whether a RECORD that is null is left out, and only counted. Else it is a dead letter."""
        return False

    def settings(self) -> Mapping[str, str]:
        """What a Spark session needs to be started with, so that it can read."""
        return {}


class Written(Model):
    """A class of the user's own as it is written; it is loaded once the file's folder is known."""

    name: str
    options: dict[str, Any]


class WrittenDecoder(Written, Decoder):
    """A decoder that is not loaded, or not here."""

    @property
    def shown(self) -> str:
        return self.name


class WrittenSource(Written, PolledSource):
    """A source that is not loaded yet."""


def read_source(fields: Any, known: set[str], built_in: Mapping[str, type[Model]]) -> Any:
    """The section `source` of a pipeline file, with its kind as a field: `{files: …}`, or `{module:Class: …}`.

    `known` are all its keys, `built_in` the sources that come with latecomer.
    """
    if not isinstance(fields, dict):
        return fields
    if not isinstance(fields.get("own"), PolledSource | None):
        raise ValueError(
            "own is no kind of source; write the class as the key, such as my_sources:Outbox: {…}"
        )
    named = [key for key in fields if isinstance(key, str) and OWN.fullmatch(key)]
    kinds = [*named, *(key for key in (*built_in, "own") if fields.get(key) is not None)]
    if len(kinds) > 1:
        raise ValueError(
            f"names {len(kinds)} sources, {' and '.join(kinds)}; write them in sources:, each under a name of its own"
        )
    if not kinds and fields.keys() <= known:
        written = ", ".join(
            f"{kind}: {{{next(iter(each.model_fields))}: …}}" for kind, each in built_in.items()
        )
        raise ValueError(f"names no source; write {written}, or a source of your own as module:Class")
    if not named:
        return fields
    rest = {key: value for key, value in fields.items() if key != named[0]}
    options = fields[named[0]] or {}
    if not isinstance(options, dict):
        raise ValueError(f"the options of {named[0]} are not keys and values; write them as option: value")
    return {**rest, "own": WrittenSource(name=named[0], options=options)}
