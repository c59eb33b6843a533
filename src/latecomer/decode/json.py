"""JSON: one object a line, or one a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from latecomer.config.encodings import UTF8
from latecomer.config.sources import UnknownFields
from latecomer.decode.arrow_json import json_lines, require_plain_columns
from latecomer.decode.base import PERMISSIVE, FileSplit, NewReader, RecordDecoder
from latecomer.decode.columns import CORRUPT, KEPT
from latecomer.decode.decimals import decimals_as_text
from latecomer.decode.files import SourceFile, grouped, together
from latecomer.decode.json_rows import JsonLines
from latecomer.decode.text import TextFiles, others_in, runs_on
from latecomer.decode.text_lines import Lines
from latecomer.fast import Declined
from latecomer.model.types import is_decimal, is_nested, leaf_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class JsonFiles(TextFiles):
    """Files of JSON lines."""

    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        return self.numbered(split, JsonLines(dict(self.columns), self.unknown_fields).read)

    def parts(self, reader: NewReader, files: Sequence[SourceFile], by_line: bool) -> list[DataFrame]:
        from pyspark.sql import functions as F

        from latecomer.decode import lines
        from latecomer.decode.nested import flattened, read_ddl

        if by_line:
            return [
                lines.json_records(
                    lines.read(reader(), paths, encoding), encoding, self.columns, unknown=self.unknown_fields
                )
                for encoding, group in grouped(files, self.encoding_of).items()
                for paths in together(group)
            ]
        read = decimals_as_text(self.columns)
        schema = read_ddl({**read, CORRUPT: "string"})
        kept = {KEPT: F.lit(None).cast("string")} if self.unknown_fields != "ignore" else {}
        return [
            flattened(reader().options(**PERMISSIVE).schema(schema).json(paths), read).withColumns(kept)
            for paths in together(files)
        ]

    def require_fast(self) -> None:
        super().require_fast()
        require_plain_columns(self.columns)

    def load(self, file: SourceFile) -> pa.Table:
        return json_lines(self.text_of(file), self.columns, self.unknown_fields)

    def needs_lines(self, files: Sequence[SourceFile]) -> bool:
        """Spark's reader says neither which fields it passes over, nor what follows an object in its line: so a file
        that may have such is read by its lines. Decimals in lists and maps cannot be text at first, and only of lines
        can be told on which of them it would stall."""
        return (
            super().needs_lines(files)
            or (self.unknown_fields != "ignore" and any(map(self._may_have_others, files)))
            or any(is_nested(kind) and _has_decimals(kind) for kind in self.columns.values())
            or any(map(runs_on, files))
        )

    def _may_have_others(self, file: SourceFile) -> bool:
        return others_in(file, tuple(self.columns.items()))


def _has_decimals(kind: str) -> bool:
    return any(map(is_decimal, leaf_types(kind)))


@dataclass(frozen=True)
class JsonRecords(RecordDecoder):
    """A JSON object a record, in UTF-8."""

    unknown_fields: UnknownFields = "ignore"
    known: Mapping[str, str] | None = None
    """Fields that are known besides the columns that are asked for."""

    def decode(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        reader = JsonLines(dict(columns), self.unknown_fields, dict(self.known or {}), blank_rows=True)
        return reader.read(Lines.of_records(records))

    def decoded(self, records: DataFrame, columns: Mapping[str, str]) -> DataFrame:
        from latecomer.decode import lines

        return lines.json_records(
            lines.as_lines(records), UTF8, columns, blanks=True, unknown=self.unknown_fields, known=self.known
        )

    def require_fast(self, columns: Mapping[str, str]) -> None:
        require_plain_columns(columns)

    def load(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        """Records of a line of plain JSON each."""
        text = b"\n".join(records)
        if text.count(b"\n") != len(records) - 1:
            raise Declined("records of several lines")
        rows = json_lines(text, columns, self.unknown_fields)
        if rows.num_rows != len(records):
            raise Declined("records that are not one object each")
        return rows
