"""JSON: one object for each line, or for each message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from latecomer.config.sources import UnknownFields
from latecomer.model.written_numbers import AS_USUAL, Numbers
from latecomer.source.decode.base import FileSplit, RecordDecoder
from latecomer.source.decode.json_rows import JsonLines
from latecomer.source.decode.text import TextFiles
from latecomer.source.decode.text_lines import Lines


class JsonFiles(TextFiles):
    """Files of JSON lines."""

    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        return self.numbered(
            split, JsonLines(dict(self.columns), self.unknown_fields, numbers=self.numbers).read
        )


@dataclass(frozen=True)
class JsonRecords(RecordDecoder):
    """A JSON object a record, in UTF-8."""

    unknown_fields: UnknownFields = "ignore"
    known: Mapping[str, str] | None = None
    """Fields that count as known, besides the columns."""
    numbers: Numbers = AS_USUAL

    def decode(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        reader = JsonLines(
            dict(columns), self.unknown_fields, dict(self.known or {}), blank_rows=True, numbers=self.numbers
        )
        return reader.read(Lines.of_records(records))
