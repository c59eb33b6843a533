"""Decodes Avro messages in Confluent's framing, in a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latecomer.model.array_types import Integers
from latecomer.schemas.avro import Schema
from latecomer.schemas.avro.ends import Ends
from latecomer.source.decode.avro_bytes import Damaged, TooDeep
from latecomer.source.decode.avro_reading import Rows, writer_reading
from latecomer.source.decode.frames import HEAD_SIZE, Decoded, End, FramedDecoder, Frames


@dataclass(frozen=True)
class AvroMessages(FramedDecoder):
    """Messages as columns of the reader's schema."""

    reader: Schema = field(kw_only=True)
    """The schema that determines the columns."""

    def ends(self, number: int) -> End:
        writer = self.writer(number)
        if not isinstance(writer, Schema):
            return lambda *_: None
        ends = Ends(writer)
        return lambda data, at, _is_last: ends.after(data, at)

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

    def of_writer(self, number: int, frames: Frames, rows: Integers, columns: Mapping[str, str]) -> Decoded:
        keeps = self.unknown_fields != "ignore"
        of_writer = writer_reading(self.reader, self.writers[number], keeps, tuple(columns.items()))
        plain, odd = of_writer.at_once(frames.data, frames.starts[rows] + HEAD_SIZE, frames.ends[rows])
        corrupt = np.zeros(len(rows), np.bool_)

        def one_by_one() -> Iterator[tuple[Mapping[str, Any], str | None]]:
            for nth in np.flatnonzero(odd):
                try:
                    values, kept, fits = of_writer.columns.row(frames.records[rows[nth]][HEAD_SIZE:])
                except Damaged:
                    values, kept, fits = {}, None, False
                corrupt[nth] = not fits
                yield values, kept

        whole = plain.with_odd(odd, Rows.of(one_by_one(), columns))
        return Decoded(whole.columns, corrupt, whole.kept)
