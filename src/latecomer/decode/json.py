"""JSON: one object a line, or one a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from latecomer.config.encodings import UTF8
from latecomer.config.sources import UnknownFields
from latecomer.decode import lines
from latecomer.decode.base import CORRUPT, PERMISSIVE, NewReader, RecordDecoder
from latecomer.decode.decimals import decimals_as_text
from latecomer.decode.files import SourceFile, grouped, together
from latecomer.decode.nested import flattened, read_ddl
from latecomer.decode.text import TextFiles


class JsonFiles(TextFiles):
    """Files of JSON lines."""

    def parts(self, reader: NewReader, files: Sequence[SourceFile], by_line: bool) -> list[DataFrame]:
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
        return [
            flattened(reader().options(**PERMISSIVE).schema(schema).json(paths), read)
            for paths in together(files)
        ]

    @property
    def always_by_line(self) -> bool:
        """Spark's reader does not say which fields it passes over."""
        return super().always_by_line or self.unknown_fields != "ignore"


@dataclass(frozen=True)
class JsonRecords(RecordDecoder):
    """A JSON object a record, in UTF-8."""

    unknown_fields: UnknownFields = "ignore"
    known: Mapping[str, str] | None = None
    """Fields that are known besides the columns that are asked for."""

    def decoded(self, records: DataFrame, columns: Mapping[str, str]) -> DataFrame:
        return lines.json_records(
            lines.as_lines(records), UTF8, columns, blanks=True, unknown=self.unknown_fields, known=self.known
        )
