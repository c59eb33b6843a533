"""Avro messages in Confluent's framing on the driver's side. Tasks decode them in `avro_messages.py`."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import cached_property

from latecomer.model.unknown_fields import KnownFields
from latecomer.schemas.avro import Schema, SchemaError, incompatibilities, reading
from latecomer.source.decode.avro_messages import AvroMessages
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
