"""A decoder of the user's own: one record at a time, as a Spark column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.own import Decoder
from latecomer.decode import lines
from latecomer.decode.base import NewReader, RecordDecoder, other_columns
from latecomer.decode.columns import CORRUPT, RECORD
from latecomer.decode.files import SourceFile, together
from latecomer.decode.text import TextFiles
from latecomer.errors import SourceError, first_line
from latecomer.fast import Declined
from latecomer.store.sql import quoted

_FIELDS = f"{PRIVATE}fields"


@dataclass(frozen=True)
class OwnRecords(RecordDecoder):
    """Records as a class outside latecomer decodes them."""

    decoder: Decoder

    def decoded(self, records: DataFrame, columns: Mapping[str, str]) -> DataFrame:
        made = records.withColumn(_FIELDS, self._fields(columns))
        self._require_columns(dict(made.select(f"{_FIELDS}.*").dtypes), columns)
        others = [quoted(name) for name in records.columns if name != RECORD]
        return made.select(
            *(F.col(f"{_FIELDS}.{quoted(name)}").alias(name) for name in columns),
            F.when(F.col(_FIELDS).isNull(), F.col(RECORD).cast("string")).alias(CORRUPT),
            *others,
        )

    def _fields(self, columns: Mapping[str, str]) -> Column:
        try:
            fields = self.decoder.decode(F.col(RECORD), dict(columns))
        except Exception as error:
            raised = f"{type(error).__name__}: {first_line(error)}"
            raise SourceError(
                f"decoder {self.decoder.kind} failed with {raised}; correct the class"
            ) from error
        if not isinstance(fields, Column):
            raise SourceError(
                f"decoder {self.decoder.kind}: decode() returned a {type(fields).__name__}; return a Spark column"
            )
        return fields

    def _require_columns(self, found: Mapping[str, str], columns: Mapping[str, str]) -> None:
        for there, name, kind in other_columns(found, columns):
            raise SourceError(
                f"decoder {self.decoder.kind}: decode() returned another struct than it was asked for: {there}, "
                f"and the pipeline has {name} {kind}; make it so, or correct source.schema"
            )


@dataclass(frozen=True)
class OwnLines(TextFiles):
    """Files of text, of which every line that is not blank is a record."""

    records: OwnRecords

    def parts(self, reader: NewReader, files: Sequence[SourceFile], by_line: bool) -> list[DataFrame]:
        return [
            self.records.decoded(lines.as_records(reader(), paths), self.columns) for paths in together(files)
        ]

    def doubt(self, part: DataFrame) -> Column | None:
        return None

    def value(self, column: str, by_line: bool) -> str:
        return quoted(column)

    def require_fast(self) -> None:
        raise Declined("a decoder of your own")
