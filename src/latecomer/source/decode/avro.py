"""Avro on the driver's side: messages in Confluent's framing, and object files.

Tasks decode them in `avro_messages.py` and `avro_containers.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from latecomer.config.models import Pipeline
from latecomer.model.unknown_fields import KnownFields
from latecomer.schemas.avro import Schema, SchemaError, incompatibilities, reading
from latecomer.source.decode.avro_containers import AvroContainers
from latecomer.source.decode.avro_messages import AvroMessages
from latecomer.source.decode.base import FileDecoder, FileSplit
from latecomer.source.decode.files import SourceFile
from latecomer.source.decode.frames import HEAD_SIZE, number_of
from latecomer.source.decode.framing import FramedRecords
from latecomer.store.schemas import reader_of


@dataclass
class AvroRecords(FramedRecords):
    """Messages in Confluent's framing."""

    @cached_property
    def reader(self) -> Schema:
        schema: Schema = reader_of(self.pipeline)
        return schema

    def in_tasks(self) -> AvroMessages:
        return AvroMessages(dict(self.schemas.known), self.pipeline.source.unknown_fields, reader=self.reader)

    def unknown_names(self, raw: bytes, known: KnownFields) -> list[str]:
        writer = self.schemas.known.get(number_of(raw))
        return list(reading(self.reader, writer, True).unknown) if isinstance(writer, Schema) else []

    def mistake(self, raw: bytes) -> str:
        if (wrong := self.head_mistake(raw)) is not None:
            return wrong
        number, writer = number_of(raw), self.schemas.known[number_of(raw)]
        with contextlib.suppress(SchemaError):  # too large to be compared
            for problem in incompatibilities(self.reader, writer) if isinstance(writer, Schema) else ():
                return f"what schema {number} wrote cannot be read as the pipeline's schema: {problem}"
        damaged = f"the {len(raw) - HEAD_SIZE} bytes after its id are no whole record of schema {number}"
        most = self.in_tasks().depth_exceeded(number, raw[HEAD_SIZE:]) if isinstance(writer, Schema) else None
        if most is None:
            return damaged
        return f"it has more than {most} records of schema {number} in one another"


@dataclass(frozen=True)
class AvroFiles(FileDecoder):
    """Object files, each with the schema of its writer."""

    pipeline: Pipeline
    columns: Mapping[str, str]
    """By their names in the source."""

    @cached_property
    def reader(self) -> Schema:
        schema: Schema = reader_of(self.pipeline)
        return schema

    def misfit(self, file: SourceFile) -> str | None:
        return self.in_tasks().misfit(file)

    def in_tasks(self) -> AvroContainers:
        """The decoder in tasks."""
        return AvroContainers(self.reader, self.columns, self.pipeline.source.unknown_fields)

    def splits(self, file: SourceFile, size: int) -> list[FileSplit]:
        return self.in_tasks().splits(file, size)

    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        return self.in_tasks().decode(split)
