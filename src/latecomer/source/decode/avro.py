"""Avro as the driver knows it: messages in Confluent's framing, and object files.

Tasks decode both: `avro_messages.py`, `avro_containers.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from latecomer.config.models import Pipeline
from latecomer.config.sources import UnknownFields
from latecomer.model.unknown_fields import Known
from latecomer.schemas.avro import (
    Schema,
    SchemaError,
    incompatibilities,
    reading,
)
from latecomer.source.decode.avro_containers import AvroContainers
from latecomer.source.decode.avro_messages import AvroMessages
from latecomer.source.decode.base import FileDecoder, FileSplit
from latecomer.source.decode.files import SourceFile
from latecomer.source.decode.frames import HEAD_SIZE, number_of
from latecomer.source.decode.framing import FramedRecords
from latecomer.store.schemas import WriterSchemas, reader_of


@dataclass
class AvroRecords(FramedRecords):
    """Messages in Confluent's framing."""

    @cached_property
    def reader(self) -> Schema:
        found: Schema = reader_of(self.pipeline)
        return found

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


@dataclass(frozen=True)
class AvroFiles(FileDecoder):
    """Object files, each with the schema that it was written with."""

    pipeline: Pipeline
    columns: Mapping[str, str]
    """Under the names that the source has for them."""

    @cached_property
    def reader(self) -> Schema:
        found: Schema = reader_of(self.pipeline)
        return found

    def misfit(self, file: SourceFile) -> str | None:
        return self.in_tasks().misfit(file)

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
