"""User-defined sources and decoders: the methods that a class must have, and how the pipeline file names it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from latecomer.model.base import Model

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

OWN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")
"""How the pipeline file names a user-defined class: module:Class."""


def own_schema(what: str, **more: Any) -> dict[str, Any]:
    """The JSON Schema of a user-defined class with its options."""
    return {
        "type": "object",
        "description": f"{what} of your own, module:Class, with its options",
        "propertyNames": {"pattern": f"^{OWN.pattern}$"},
        "minProperties": 1,
        "maxProperties": 1,
        **more,
    }


class Named(Model):
    """The base of classes that users may define. The options in the pipeline file are the fields of the class."""

    kind: ClassVar[str]
    """The name in the pipeline file: module:Class, unless the class comes with latecomer."""
    METHODS: ClassVar[tuple[str, ...]] = ()
    """Those that a user-defined class must have. latecomer's own have none: its stages read and write for these."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "kind" not in cls.__dict__:
            cls.kind = f"{cls.__module__}:{cls.__qualname__}"

    def _lacks(self, method: str) -> NotImplementedError:
        return NotImplementedError("; ".join(lacking(type(self), method)))


def lacking(made: type[Named], method: str) -> tuple[str, str]:
    """What is wrong with a class that lacks a method, and the fix."""
    arguments = ", ".join(inspect.signature(getattr(made, method)).parameters)
    return f"{made.kind} has no {method}()", f"write def {method}({arguments}):"


class Decoder(Named):
    """Makes columns of the bytes of a record."""

    METHODS: ClassVar[tuple[str, ...]] = ("decode",)

    @property
    def shown(self) -> str:
        """The name of the decoder that messages show."""
        return self.kind

    def decode(self, record: Column, columns: Mapping[str, str]) -> Column:
        """A struct with a field of the right type for each column; null where the record cannot be decoded.

        `record` is binary. A record that cannot be decoded becomes a dead letter with its bytes.
        """
        raise self._lacks("decode")


class PolledSource(Named):
    """A source that is polled for the end of its data, and for the rows between two such ends."""

    ORIGIN: ClassVar[str] = "_lc_origin"
    POSITION: ClassVar[str] = "_lc_position"
    ARRIVAL: ClassVar[str] = "_lc_landed"
    RECORD: ClassVar[str] = "_lc_record"
    PARTITION: ClassVar[str] = "_lc_partition"
    METHODS: ClassVar[tuple[str, ...]] = ("latest", "read")

    def columns(self) -> Mapping[str, str] | None:
        """The columns and their types. None where the source does not know them: then the pipeline file declares
        source.schema."""
        return None

    def check(self) -> None:
        """Raise an error with a clear message if the source cannot be used. It is called before Spark starts."""

    def latest(self, since: Any) -> Any:
        """The end of the source's data now: any value that JSON can hold; None while the source is empty.

        It is called about once a second. `since` is the value that it returned before, None at first. It may return an
        earlier end, to keep batches small; it is called until it returns the same value twice.
        """
        raise self._lacks("latest")

    def read(self, spark: SparkSession, since: Any, until: Any) -> DataFrame | pa.Table:
        """The rows after `since` (None: from the beginning) up to `until`, which `latest` returned. A second call must
        return the same rows.

        Columns: those of the source, or RECORD, the bytes to decode; ORIGIN (text) and POSITION (bigint), which
        together identify a row for ever; and ARRIVAL (timestamp), when the row came. Without ARRIVAL, a row comes when
        it is read. PARTITION (text) is the source partition of a row, where event.partition names no column.
        """
        raise self._lacks("read")

    def remaining(self, until: Any) -> Any:
        """The part of an end that can still be read, where it was not read at once: `until` itself, or, where data was
        deleted and that is no error, an end that reaches as far and leaves the deleted data out."""
        return until

    def partitions(self, until: Any) -> Mapping[str, bool] | None:
        """Every partition, and whether it has data after `until`; None if that is not known.

        A partition that is named here holds the watermark before its first row, and is never idle while it has more.
        """
        return None

    def unread(self, until: Any) -> int | None:
        """How many rows there were after `until` when `latest` returned it; None if that is not known."""
        return None

    def stamps_arrivals(self) -> bool:
        """Whether every row has ARRIVAL, and rows come in its order. Together with other sources, waiting rows are then
        read in the order of arrival; the same rows may be read several times until all of them are logged."""
        return False

    def skips_tombstones(self) -> bool:
        """Whether a RECORD that is null is left out and only counted. Otherwise it is a dead letter."""
        return False

    def settings(self) -> Mapping[str, str]:
        """The Spark settings that the session must be started with."""
        return {}


class NamedClass(Model):
    """A user-defined class as the file names it; it is loaded once the file's folder is known."""

    name: str
    options: dict[str, Any]


class WrittenDecoder(NamedClass, Decoder):
    """A decoder that is not loaded yet, or not in this process."""

    @property
    def shown(self) -> str:
        return self.name


class WrittenSource(NamedClass, PolledSource):
    """A source that is not loaded yet."""


def read_source(fields: Any, known: set[str], built_in: Mapping[str, type[Model]]) -> Any:
    """The section `source` of a pipeline file, `{files: …}` or `{module:Class: …}`, as fields of the model.

    `known` are the keys of the section, `built_in` the sources that come with latecomer.
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
