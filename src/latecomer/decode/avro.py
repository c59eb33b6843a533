"""Avro, decoded by Spark: messages in Confluent's framing, and object files.

A message is a zero byte, the id of its schema in four bytes, and the payload. Each id has a column of its own, with
what `from_avro` makes of the messages of that id, and null for all others; the columns of the source choose among them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import pyarrow as pa

from latecomer.config.avro_files import file_schema
from latecomer.config.checks import PRIVATE
from latecomer.config.damage import DamagedFile
from latecomer.config.models import Pipeline
from latecomer.config.sources import UnknownFields
from latecomer.decode.avro_containers import AvroContainers
from latecomer.decode.avro_messages import AvroMessages
from latecomer.decode.base import FileDecoder, FileSplit
from latecomer.decode.files import SourceFile
from latecomer.decode.frames import HEAD_SIZE, number_of
from latecomer.decode.framing import FramedRecords
from latecomer.decode.retrying import reading as reading_file
from latecomer.model.avro import (
    Schema,
    SchemaError,
    incompatibilities,
    parse_schema,
    reading,
)
from latecomer.model.unknown_fields import Known
from latecomer.store.schemas import WriterSchemas, reader_of

ROWS_A_BYTE = 2048
"""Deflate packs a thousand bytes into one at best, and a row has one, unless it has no fields."""
_PARSED, _WHOLE = f"{PRIVATE}as_", f"{PRIVATE}whole"
_OPTIONS = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}
_UUID = "regexp_replace(lower(hex({0})), '(.{{8}})(.{{4}})(.{{4}})(.{{4}})(.{{12}})', '$1-$2-$3-$4-$5')"


@dataclass
class AvroRecords(FramedRecords):
    """Messages in Confluent's framing."""

    @cached_property
    def reader(self) -> Schema:
        return reader_of(self.pipeline)

    @cached_property
    def schemas(self) -> WriterSchemas:
        return WriterSchemas.of(self.pipeline)

    def in_tasks(self) -> AvroMessages:
        return AvroMessages(dict(self.schemas.known), self._unknown, reader=self.reader)

    @property
    def _unknown(self) -> UnknownFields:
        return self.pipeline.source.unknown_fields

    def unknown_names(self, raw: bytes, known: Known) -> list[str]:
        """The fields that the writer of a message had and that are no columns."""
        writer = self.schemas.known.get(number_of(raw))
        return list(reading(self.reader, writer, True).unknown) if isinstance(writer, Schema) else []

    def mistake(self, raw: bytes) -> str:
        """What is wrong with a message that could not be decoded."""
        if (wrong := self.head_mistake(raw)) is not None:
            return wrong
        number, writer = number_of(raw), self.schemas.known[number_of(raw)]
        with contextlib.suppress(SchemaError):  # it takes too many steps to compare
            for problem in incompatibilities(self.reader, writer) if isinstance(writer, Schema) else ():
                return f"what schema {number} wrote cannot be read as the pipeline's schema: {problem}"
        damaged = f"the {len(raw) - HEAD_SIZE} bytes after its id are no whole record of schema {number}"
        most = self.in_tasks().depth_exceeded(number, raw[HEAD_SIZE:]) if isinstance(writer, Schema) else None
        return (
            damaged if most is None else f"it has more than {most} records of schema {number} in one another"
        )


# Whether a column takes what was written


@dataclass(frozen=True)
class AvroFiles(FileDecoder):
    """Object files, each with the schema that it was written with."""

    pipeline: Pipeline
    columns: Mapping[str, str]
    """Under the names that the source has for them."""

    @cached_property
    def reader(self) -> Schema:
        return reader_of(self.pipeline)

    def misfit(self, file: SourceFile) -> str | None:
        try:
            with reading_file(file.local):
                writer = _schema_of(file)
            for problem in incompatibilities(self.reader, writer):
                return f"what its schema wrote cannot be read as the pipeline's schema: {problem}"
        except (DamagedFile, SchemaError) as error:
            return f"not a readable Avro file: {error}"
        return None

    @property
    def _unknown(self) -> UnknownFields:
        return self.pipeline.source.unknown_fields

    def in_tasks(self) -> AvroContainers:
        """What decodes files in a task."""
        return AvroContainers(self.reader, self.columns, self._unknown)

    def splits(self, file: SourceFile, size: int) -> list[FileSplit]:
        return self.in_tasks().splits(file, size)

    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        return self.in_tasks().decode(split)


@lru_cache(maxsize=4096)
def _schema_of(file: SourceFile) -> Schema:
    return parse_schema(file_schema(file.local))
