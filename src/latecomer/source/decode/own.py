"""A user's own decoder, which is a Spark column: tasks read the records, and Spark decodes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from latecomer.config.names import PRIVATE
from latecomer.config.user_classes import Decoder
from latecomer.errors import SourceError, first_line
from latecomer.source.decode.base import FileSplit, RecordDecoder, other_columns
from latecomer.source.decode.limits import LongLine
from latecomer.source.decode.private_columns import BROKEN, CORRUPT, POSITION, RECORD
from latecomer.source.decode.text import TextFiles
from latecomer.source.decode.text_lines import BLANK, Lines
from latecomer.store.sql import quoted

_FIELDS = f"{PRIVATE}fields"


@dataclass(frozen=True)
class OwnRecords(RecordDecoder):
    """Records that a class outside latecomer decodes."""

    decoder: Decoder

    def decode(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        raise TypeError(f"decoder {self.decoder.kind} is a column of Spark's: Spark decodes with it")

    def decoded(self, records: DataFrame, columns: Mapping[str, str]) -> DataFrame:
        decoded = records.withColumn(_FIELDS, self._fields(columns))
        fields = dict(decoded.select(f"{_FIELDS}.*").dtypes)
        for actual, name, kind in other_columns(fields, columns):
            raise SourceError(
                f"decoder {self.decoder.kind}: decode() returned another struct than it was asked for: {actual}, "
                f"and the pipeline has {name} {kind}; make it so, or correct source.schema"
            )
        others = [quoted(name) for name in records.columns if name != RECORD]
        return decoded.select(
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


@dataclass(frozen=True)
class OwnLines(TextFiles):
    """Text files in which every line that is not blank is a record."""

    records: OwnRecords

    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        """RECORD and POSITION, which Spark decodes. A line that is too long has its first bytes, and BROKEN."""
        return self.numbered(split, _records)

    def too_long(self, line: LongLine) -> pa.Table:
        return pa.table(
            {
                RECORD: pa.array([line.first], pa.binary()),
                BROKEN: pa.array([str(line.size)], pa.string()),
                POSITION: pa.array([line.start], pa.int64()),
            }
        )


def _records(lines: Lines) -> pa.Table:
    """The lines that are not blank."""
    records = [each for each in map(lines.bytes_of, range(len(lines))) if each.strip(BLANK)]
    count = len(records)
    return pa.table({RECORD: pa.array(records, pa.binary()), BROKEN: pa.nulls(count, pa.string())})
