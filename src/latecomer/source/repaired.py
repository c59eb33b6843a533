"""Dead letters as a source: their records are decoded again, with a fix applied to them.

Each record is decoded by the decoder of its form: JSON, a line of CSV under the header of its file, or the pipeline's
own format. A column that the fix computes is not decoded, so it does not matter what is wrong with it. The fix is SQL:
Spark applies it to the texts of the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from latecomer.config.names import PRIVATE
from latecomer.config.registered import Registered, RegisteredJson
from latecomer.errors import StoreError
from latecomer.model.arrays import flat
from latecomer.model.types import is_decimal, is_nested
from latecomer.model.written_numbers import Signs
from latecomer.source.base import Chunk, Clock, Slice, Source, Split
from latecomer.source.decode.base import RecordDecoder
from latecomer.source.decode.choose import framed_decoder, record_decoder
from latecomer.source.decode.csv_rows import CsvLines
from latecomer.source.decode.json_rows import JsonRecords
from latecomer.source.decode.json_text import texts_of
from latecomer.source.decode.own import OwnRecords
from latecomer.source.decode.private_columns import CORRUPT, INVALID, KEPT, RECORD, SCHEMA_ID
from latecomer.source.decode.text_lines import Lines
from latecomer.source.fixes import Fix, list_of, literal, number
from latecomer.source.letters import RecordLetters
from latecomer.source.private_columns import (
    FIRST_ARRIVAL,
    FOLDERS,
    FORM,
    GIVEN_TIME,
    LANDED,
    MISFIT,
    NUMBER,
    ORIGIN,
    PARTITION,
    POSITION,
)
from latecomer.source.staging import StagedSplit, Staging, staged_rows
from latecomer.spark.at_url import frame_of
from latecomer.store.files import Location, read_table, write_table
from latecomer.store.repairs import Repair
from latecomer.store.sql import quoted

_TYPED, _TEXT = f"{PRIVATE}typed_", f"{PRIVATE}decoded_text_"
"""Prefixes of column names: for the decoded value, and for its text."""
_RAW = f"{PRIVATE}raw_record"

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
_CARRIED = (NUMBER, ORIGIN, POSITION, PARTITION, FIRST_ARRIVAL, FOLDERS)


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
    """Dead letters to be read again; `newest` is when they arrive."""

    letters: Location
    forms: Sequence[Form]


def slice_of(repair: Repair) -> RepairSlice:
    """The slice of a replay that was written down."""
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

    def splits(self, slice_: Slice, staging: Staging) -> Sequence[Split]:
        """The rows with the fix applied: computed once, and staged."""
        if not isinstance(slice_, RepairSlice):
            raise TypeError(f"a {type(slice_).__name__} has no dead letters")
        letters = read_table(slice_.letters)
        splits: list[StagedSplit] = []
        for nth, form in enumerate(slice_.forms or [JSON]):
            records = letters.filter(pc.equal(letters.column(FORM), nth))
            if records.num_rows:
                splits += staging.staged(self._fixed(self._decoded(records, form, staging)), slice_.newest)
        return splits

    def read(self, splits: Sequence[Split]) -> Iterator[Chunk]:
        letters = RecordLetters(self.pipeline, self.read_columns)
        for split in splits:
            if isinstance(split, StagedSplit):
                for rows in staged_rows(split, self.columns):
                    landed = pa.array(np.full(rows.num_rows, split.newest, np.int64))
                    yield Chunk(rows.append_column(LANDED, landed), Clock.READ, letters)

    def _decoded(self, records: pa.Table, form: Form, staging: Staging) -> DataFrame:
        """Each record with its columns in their types and as texts, under private names."""
        strict = {
            name: kind
            for name, kind in self.read_columns.items()
            if form.kind == "own" or name not in self._text_only
        }
        if form.kind == "own" and isinstance(self.decoder, OwnRecords):
            return self._decoded_by_spark(records, self.decoder, strict, staging)
        values = flat(records.column(RECORD)).to_pylist()
        match form.kind:
            case "json":
                source = self.pipeline.source
                decoded = JsonRecords(source.unknown_fields, self.read_columns, source.numbers).decode(
                    values, strict
                )
                texts = JsonRecords().decode(values, dict.fromkeys(self.read_columns, "string"))
            case "csv":
                decoded, texts = (self._csv(values, form.header, each) for each in (strict, None))
            case "own":
                decoded = self._framed(values, strict)
                texts = pa.table(
                    {
                        name: pa.array(texts_of(decoded.column(name), kind), pa.string())
                        for name, kind in strict.items()
                    }
                )
        return _staged_frame(self._prepared(records, decoded, texts, strict), staging)

    def _prepared(
        self, records: pa.Table, decoded: pa.Table, texts: pa.Table, strict: Mapping[str, str]
    ) -> pa.Table:
        count = records.num_rows
        columns = {name: records.column(name) for name in _CARRIED}
        columns[_RAW] = records.column(RECORD)
        columns[CORRUPT] = decoded.column(CORRUPT)
        for name in self.read_columns:
            has_column = name in texts.column_names
            columns[_TEXT + name] = texts.column(name) if has_column else pa.nulls(count, pa.string())
        columns |= {_TYPED + name: decoded.column(name) for name in strict}
        for name, kind in self._noted.items():
            has_column = name in decoded.column_names
            columns[name] = decoded.column(name) if has_column else pa.nulls(count, kind)
        return pa.table(columns)

    def _decoded_by_spark(
        self, records: pa.Table, decoder: OwnRecords, strict: Mapping[str, str], staging: Staging
    ) -> DataFrame:
        frame = _staged_frame(records.append_column(_RAW, records.column(RECORD)), staging)
        decoded = decoder.decoded(frame, strict)
        return decoded.select(
            *_CARRIED,
            _RAW,
            F.col(CORRUPT).cast("binary").alias(CORRUPT),
            *(F.col(quoted(name)).alias(_TYPED + name) for name in strict),
            *(
                (F.to_json(quoted(name)) if is_nested(kind) else F.col(quoted(name)).cast("string")).alias(
                    _TEXT + name
                )
                for name, kind in strict.items()
            ),
            *(F.lit(None).cast("string").alias(name) for name in self._noted),
        )

    @property
    def _noted(self) -> dict[str, pa.DataType]:
        """The private columns that the decoder may add; for a user's own decoder, KEPT at most."""
        has_ids = isinstance(self.pipeline.format, Registered) and self.pipeline.source.has_records
        ids = {SCHEMA_ID: pa.int32()} if has_ids else {}
        kept = {KEPT: pa.string()} if self.looks_for_unknown else {}
        checked = {INVALID: pa.bool_()} if isinstance(self.pipeline.format, RegisteredJson) else {}
        return {**ids, **kept, **checked}

    @cached_property
    def decoder(self) -> RecordDecoder:
        """The decoder of records that are neither JSON nor CSV."""
        return record_decoder(self.pipeline)

    def _framed(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        """Records that name their schema; those whose schema is not known anywhere are corrupt."""
        decoder = framed_decoder(self.pipeline)
        decoder.know(decoder.in_tasks().unknown_ids(records), wait=False)
        return decoder.decode(records, columns)

    def _csv(
        self, records: Sequence[bytes], header: Sequence[str], strict: Mapping[str, str] | None
    ) -> pa.Table:
        """Lines of CSV in the `strict` types, or all as texts."""
        kinds = dict.fromkeys(self.read_columns, "string") if strict is None else dict(strict)
        unknown = "ignore" if strict is None else self.pipeline.source.unknown_fields
        lines = CsvLines(header, kinds, self.pipeline.files.delimiter, unknown, self.pipeline.source.numbers)
        rows = [lines.read(Lines.of_records([record])) for record in records]  # a blank line has no row
        return pa.concat_tables(rows, promote_options="default")

    @cached_property
    def _text_only(self) -> set[str]:
        """The source's columns that are read only as text: those that the fix computes, and a time that it parses."""
        timed = {self.pipeline.event.time} if self.fix.time_format or self.fix.time_unit else set()
        return {self.pipeline.source_name(column) for column in {*self.fix.columns, *timed}}

    def _fixed(self, rows: DataFrame) -> DataFrame:
        """The columns of the pipeline, with the fix applied."""
        named = self.pipeline.source_name
        others = [name for name in rows.columns if not name.startswith(_TEXT)]
        seen = rows.select(
            *(
                F.coalesce(F.col(quoted(_TEXT + named(column))), self._of_folder(column, "string")).alias(
                    column
                )
                for column in self.columns
            ),
            *map(quoted, others),
        )
        misfit = self.fix.misfit(self.pipeline, self.columns, seen)
        return seen.select(
            *(self._value(column, kind).alias(column) for column, kind in self.columns.items()),
            F.coalesce(CORRUPT, F.when(misfit.isNotNull(), F.col(_RAW))).alias(CORRUPT),
            ORIGIN,
            POSITION,
            PARTITION,
            FIRST_ARRIVAL,
            self.fix.time(self.pipeline, seen).alias(GIVEN_TIME),
            NUMBER,
            misfit.alias(MISFIT),
            *self._noted,
        )

    def _value(self, column: str, kind: str) -> Column:
        if column in self.fix.columns:
            return F.expr(self.fix.value(column, kind))
        if self.pipeline.source_name(column) in self._text_only:  # it may still be as the pipeline says
            text = quoted(column)
            if is_nested(kind):
                return F.expr(list_of(text, kind))
            return F.expr(
                number(f"trim({text})", kind, self._signs(column))
                if is_decimal(kind)
                else f"try_cast({text} as {kind})"
            )
        typed = F.col(quoted(_TYPED + self.pipeline.source_name(column)))
        return typed if is_nested(kind) else F.coalesce(typed, self._of_folder(column, kind))

    def _of_folder(self, column: str, kind: str) -> Column:
        """The value of a column in the folder names of the record's file."""
        text = F.try_element_at(F.col(FOLDERS), F.lit(self.pipeline.source_name(column)))
        if kind == "string":
            return text
        if is_decimal(kind):
            name = literal(self.pipeline.source_name(column))
            return F.expr(number(f"try_element_at({FOLDERS}, {name})", kind, self._signs(column)))
        return text.try_cast(kind)

    def _signs(self, column: str) -> Signs:
        return self.pipeline.source.numbers.of(self.pipeline.source_name(column))


def _staged_frame(rows: pa.Table, staging: Staging) -> DataFrame:
    return frame_of(staging.spark, [write_table(rows, staging.new_file())])
