"""Decodes Avro messages in Confluent's framing, in a task."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from latecomer.model.array_types import Integers
from latecomer.model.unknown_fields import KnownFields
from latecomer.schemas.avro import Schema, SchemaError, incompatibilities, reading
from latecomer.schemas.avro.ends import Ends
from latecomer.source.decode.avro_bytes import Damaged, TooDeep
from latecomer.source.decode.avro_columns import writer_reading
from latecomer.source.decode.framing import HEAD_SIZE, End, FramedDecoder, Frames, UnknownSchemas, number_of
from latecomer.source.decode.private_columns import WRONG


@dataclass(frozen=True)
class AvroMessages(FramedDecoder):
    """Messages as columns of the reader's schema."""

    reader: Schema = field(kw_only=True)
    """The schema that determines the columns."""

    def ends(self, number: int) -> End:
        if number not in self.writers:
            raise UnknownSchemas([number])
        if not isinstance(self.writers[number], Schema):
            return lambda *_: None
        ends = Ends(self.writers[number])
        return lambda data, at, _is_last: ends.after(data, at)

    def of_writer(self, number: int, frames: Frames, rows: Integers, columns: Mapping[str, str]) -> pa.Table:
        keeps = self.unknown_fields != "ignore"
        of_writer = writer_reading(self.reader, self.writers[number], keeps, tuple(columns.items()))
        plain, odd = of_writer.at_once(frames.data, frames.starts[rows] + HEAD_SIZE, frames.ends[rows])
        wrong, odd_rows = np.zeros(len(rows), np.bool_), []
        for nth in np.flatnonzero(odd):
            try:
                record, _ = of_writer.columns.reader.record(frames.records[rows[nth]][HEAD_SIZE:])
                values, fits = of_writer.columns.row(record)
            except Damaged:
                values, fits = {}, False
            wrong[nth] = not fits
            odd_rows.append(values)
        return of_writer.with_odd(plain, odd, odd_rows).append_column(WRONG, pa.array(wrong))

    def unknown_names(self, raw: bytes, known: KnownFields) -> list[str]:
        writer = self.writers.get(number_of(raw))
        return list(reading(self.reader, writer, True).unknown) if isinstance(writer, Schema) else []

    def mistake(self, raw: bytes) -> str:
        if (wrong := self.head_mistake(raw)) is not None:
            return wrong
        number, payload = number_of(raw), raw[HEAD_SIZE:]
        with contextlib.suppress(SchemaError):  # too large to be compared
            for problem in incompatibilities(self.reader, self.writers[number]):
                return f"what schema {number} wrote cannot be read as the pipeline's schema: {problem}"
        most = self.depth_exceeded(number, payload)
        if most is None:
            return f"the {len(payload)} bytes after its id are no whole record of schema {number}"
        return f"it has more than {most} records of schema {number} in one another"

    def depth_exceeded(self, number: int, payload: bytes) -> int | None:
        """The limit of records within one another, if a message exceeds it; else None."""
        reader = writer_reading(self.reader, self.writers[number], False, ()).columns.reader
        try:
            reader.record(payload)
        except TooDeep:
            return reader.passing.deepest
        except Damaged:
            return None
        return None
