"""Dead letters as a source: their records are decoded once more, with a fix applied to them.

Each record is decoded by the decoder of its own form: JSON, a line of CSV under the header of its file, or what a
decoder of the user's reads. A column that the fix makes anew is not decoded, so that it does not matter what is wrong
with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.encodings import UTF8
from latecomer.config.own import Decoder
from latecomer.config.registered import Registered
from latecomer.config.registered_json import RegisteredJson
from latecomer.config.sources import UnknownFields
from latecomer.decode import json_rules, lines
from latecomer.decode.base import PERMISSIVE, RecordDecoder
from latecomer.decode.choose import record_decoder
from latecomer.decode.columns import CORRUPT, EXTRA, INVALID, KEPT, RECORD, SCHEMA_ID
from latecomer.decode.decimals import number
from latecomer.decode.json import JsonRecords
from latecomer.decode.nested import list_of
from latecomer.decode.own import OwnRecords
from latecomer.decode.retrying import patiently
from latecomer.errors import StoreError
from latecomer.model.types import is_decimal, is_nested
from latecomer.source.base import Letters, Rows, Slice, Source
from latecomer.source.columns import (
    BROKEN,
    FIRST_ARRIVAL,
    FOLDERS,
    FORM,
    FULL_ORIGIN,
    GIVEN_TIME,
    LANDED,
    MISFIT,
    NUMBER,
    ORIGIN,
    PARTITION,
    POSITION,
    READ,
)
from latecomer.source.fixes import Fix
from latecomer.source.letters import RecordLetters
from latecomer.store.files import Location, url
from latecomer.store.repairs import Repair
from latecomer.store.sql import ddl, quoted

_TYPED, _RAW, _TEXTS = f"{PRIVATE}typed", f"{PRIVATE}raw_record", f"{PRIVATE}decoded_texts"

LETTERS = pa.schema(
    [
        (NUMBER, pa.int64()),
        (ORIGIN, pa.string()),
        (POSITION, pa.int64()),
        (PARTITION, pa.string()),
        (FIRST_ARRIVAL, pa.timestamp("us", "UTC")),
        (FORM, pa.int32()),
        (FOLDERS, pa.map_(pa.string(), pa.string())),
        (RECORD, pa.binary()),
    ]
)
"""The records of a slice, in a Parquet file."""

_Written = TypeVar("_Written")


@dataclass(frozen=True)
class Form:
    """How a record is written."""

    kind: Literal["json", "csv", "own"]
    header: tuple[str, ...] = ()

    def written(self) -> dict[str, Any]:
        return {"kind": self.kind, "header": list(self.header)}

    @classmethod
    def restored(cls, written: Mapping[str, Any]) -> Form:
        if written["kind"] not in ("json", "csv", "own"):
            raise ValueError(written["kind"])
        return cls(written["kind"], tuple(map(str, written["header"])))


JSON = Form("json")


@dataclass(frozen=True)
class RepairSlice(Slice):
    """Dead letters that are to be read once more; `newest` is when they arrive."""

    letters: Location
    forms: Sequence[Form]


def slice_of(repair: Repair) -> RepairSlice:
    """What a replay that was written down reads."""
    try:
        forms = [Form.restored(form) for form in repair.forms]
        return RepairSlice(repair.arrival, repair.letters, forms, source=repair.source)
    except (KeyError, TypeError, ValueError):
        raise StoreError(
            f"{repair.folder}: its plan is not what latecomer wrote; restore the store from a backup"
        ) from None


@dataclass(frozen=True)
class RepairedSource(Source):
    """The records of dead letters, with a fix."""

    fix: Fix
    settings: ClassVar[Mapping[str, str]] = MappingProxyType({**lines.SETTINGS, **json_rules.SETTINGS})

    def letters(self, piece: Slice) -> Letters:
        return RecordLetters(self.pipeline, self.read_columns)

    def read(self, spark: SparkSession, piece: Slice, write: Callable[[Rows], _Written]) -> _Written:
        return patiently(lambda: write(self.rows(spark, piece)))

    def rows(self, spark: SparkSession, piece: Slice) -> Rows:
        """The rows: the source's columns as the fix makes them, and where each row stands."""
        if not isinstance(piece, RepairSlice):
            raise TypeError(f"a {type(piece).__name__} has no dead letters")
        found = spark.read.schema(ddl(_SPARK)).parquet(url(piece.letters)).withColumn(_RAW, F.col(RECORD))
        counts, parts = [], []
        for nth, form in enumerate(piece.forms or [JSON]):
            counts.append(Observation())
            records = found.where(F.col(FORM) == nth)
            if form.kind == "own":
                self.decoder.learn(records, wait=False)
            records = records.observe(counts[-1], F.count(F.lit(1)).alias(READ))
            parts.append(self._fixed(self._decoded(records, form), piece))
        return Rows(reduce(lambda left, right: left.unionByName(right), parts), counts)

    def _decoded(self, records: DataFrame, form: Form) -> DataFrame:
        """Each record with its columns in their own types, as one struct, and as texts, as another."""
        strict = {
            name: kind
            for name, kind in self.read_columns.items()
            if form.kind == "own" or name not in self._anew
        }
        match form.kind:
            case "json":
                decoded = JsonRecords(self._unknown, self.read_columns).decoded(records, strict)
                texts = F.from_json(
                    F.col(_RAW).cast("string"), ddl(dict.fromkeys(self.read_columns, "string")), {}
                )
            case "csv":
                decoded, texts = self._csv(records, form.header, strict)
            case "own":
                decoded = self.decoder.decoded(records, strict)
                texts = F.struct(
                    *(
                        F.to_json(quoted(name)).alias(name)
                        if is_nested(kind)
                        else F.col(quoted(name)).cast("string").alias(name)
                        for name, kind in strict.items()
                    )
                )
        typed = F.struct(*(F.col(quoted(name)).alias(name) for name in strict)) if strict else F.lit(None)
        # A letter that is told as JSON does not say what it was written with.
        number = F.col(SCHEMA_ID) if SCHEMA_ID in decoded.columns else F.lit(None).cast("int")
        numbered = [number.alias(SCHEMA_ID)] if self._has_ids else []
        kept = F.col(KEPT) if KEPT in decoded.columns else F.lit(None).cast("string")
        unknown = [kept.alias(KEPT)] if self.looks_for_unknown else []
        invalid = F.col(INVALID) if INVALID in decoded.columns else F.lit(False)
        checked = [invalid.alias(INVALID)] if self._is_checked else []
        return decoded.select(
            *_CARRIED, CORRUPT, typed.alias(_TYPED), texts.alias(_TEXTS), *numbered, *unknown, *checked
        )

    @property
    def _unknown(self) -> UnknownFields:
        return self.pipeline.source.unknown_fields

    @cached_property
    def decoder(self) -> RecordDecoder:
        """The decoder of records that are neither JSON nor CSV."""
        own = self.pipeline.format
        if isinstance(own, Registered):
            return record_decoder(self.pipeline)
        assert isinstance(own, Decoder)  # noqa: S101
        return OwnRecords(own)

    @property
    def _has_ids(self) -> bool:
        return isinstance(self.pipeline.format, Registered) and self.pipeline.source.has_records

    @property
    def _is_checked(self) -> bool:
        return isinstance(self.pipeline.format, RegisteredJson)

    def _csv(
        self, records: DataFrame, header: Sequence[str], strict: Mapping[str, str]
    ) -> tuple[DataFrame, Column]:
        options = {**PERMISSIVE, "sep": self.pipeline.files.delimiter, "escape": '"'}
        names = [name if name in self.read_columns else f"{EXTRA}{nth}" for nth, name in enumerate(header)]
        layout = {name: strict.get(name, "string") for name in names}
        extra = {column: name for column, name in zip(names, header, strict=True) if column != name}
        decoded = lines.csv_records(
            lines.as_lines(records), UTF8, layout, options, header=False, unknown=self._unknown, extra=extra
        )
        missing = [F.lit(None).cast(kind).alias(n) for n, kind in strict.items() if n not in layout]
        texts = F.from_csv(
            F.col(_RAW).cast("string"), ddl(dict.fromkeys(names, "string")), {**options, "mode": "PERMISSIVE"}
        )
        both = F.struct(
            *(
                (texts[name] if name in layout else F.lit(None).cast("string")).alias(name)
                for name in self.read_columns
            )
        )
        return decoded.select("*", *missing), both

    @cached_property
    def _anew(self) -> set[str]:
        """The source's columns that are read as text alone: what is made anew, and a time that is written otherwise."""
        timed = {self.pipeline.event.time} if self.fix.time_format or self.fix.time_unit else set()
        return {self.pipeline.source_name(column) for column in {*self.fix.columns, *timed}}

    def _fixed(self, rows: DataFrame, piece: RepairSlice) -> DataFrame:
        """The columns of the pipeline, with the fix applied."""
        named = self.pipeline.source_name
        seen = rows.select(
            *(
                F.coalesce(
                    F.col(f"{_TEXTS}.{quoted(named(column))}"), self._of_folder(column, "string")
                ).alias(column)
                for column in self.columns
            ),
            *_CARRIED,
            CORRUPT,
            _TYPED,
            *([SCHEMA_ID] if self._has_ids else []),
            *([KEPT] if self.looks_for_unknown else []),
            *([INVALID] if self._is_checked else []),
        )
        misfit = self.fix.misfit(self.pipeline, self.columns, seen)
        return seen.select(
            *(self._value(column, kind).alias(column) for column, kind in self.columns.items()),
            F.coalesce(CORRUPT, F.when(misfit.isNotNull(), F.col(_RAW).cast("string"))).alias(CORRUPT),
            F.lit(None).cast("string").alias(BROKEN),
            ORIGIN,
            F.col(ORIGIN).alias(FULL_ORIGIN),
            POSITION,
            PARTITION,
            FIRST_ARRIVAL,
            F.timestamp_micros(F.lit(piece.newest)).alias(LANDED),
            self.fix.time(self.pipeline, seen).alias(GIVEN_TIME),
            NUMBER,
            misfit.alias(MISFIT),
            *([SCHEMA_ID] if self._has_ids else []),
            *([KEPT] if self.looks_for_unknown else []),
            *([INVALID] if self._is_checked else []),
        )

    def _value(self, column: str, kind: str) -> Column:
        if column in self.fix.columns:
            return F.expr(self.fix.value(column, kind))
        if self.pipeline.source_name(column) in self._anew:  # it may still be as the pipeline says
            text = quoted(column)
            if is_nested(kind):
                return F.expr(list_of(text, kind))
            return F.expr(
                number(f"trim({text})", kind) if is_decimal(kind) else f"try_cast({text} as {kind})"
            )
        typed = F.col(f"{_TYPED}.{quoted(self.pipeline.source_name(column))}")
        return typed if is_nested(kind) else F.coalesce(typed, self._of_folder(column, kind))

    def _of_folder(self, column: str, kind: str) -> Column:
        """What the folders of a record's file say of a column."""
        text = F.try_element_at(F.col(FOLDERS), F.lit(self.pipeline.source_name(column)))
        if kind == "string":
            return text
        if is_decimal(kind):
            name = self.pipeline.source_name(column).replace("\\", "\\\\").replace("'", "\\'")
            return F.expr(number(f"try_element_at({FOLDERS}, '{name}')", kind))
        return text.try_cast(kind)


_SPARK = {
    NUMBER: "bigint",
    ORIGIN: "string",
    POSITION: "bigint",
    PARTITION: "string",
    FIRST_ARRIVAL: "timestamp",
    FORM: "int",
    FOLDERS: "map<string,string>",
    RECORD: "binary",
}
_CARRIED = (NUMBER, ORIGIN, POSITION, PARTITION, FIRST_ARRIVAL, FOLDERS, _RAW)
