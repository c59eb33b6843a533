"""Decodes Avro messages in Confluent's framing, in a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latecomer.schemas.avro import Schema
from latecomer.schemas.avro.ends import Ends
from latecomer.source.decode.avro_bytes import Damaged, TooDeep
from latecomer.source.decode.avro_columns import AvroColumns
from latecomer.source.decode.avro_reading import Rows, writer_reading
from latecomer.source.decode.frames import HEAD_SIZE, Decoded, End, FramedDecoder, Frames, Mask, Numbers


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

    def of_writer(self, number: int, frames: Frames, rows: Numbers, columns: Mapping[str, str]) -> Decoded:
        keeps = self.unknown_fields != "ignore"
        of_writer = writer_reading(self.reader, self.writers[number], keeps, tuple(columns.items()))
        plain, odd = of_writer.at_once(frames.data, frames.starts[rows] + HEAD_SIZE, frames.ends[rows])
        corrupt = np.zeros(len(rows), np.bool_)
        payloads = [frames.records[row][HEAD_SIZE:] for row in rows[odd]]
        damaged = np.zeros(len(payloads), np.bool_)
        odd_rows = Rows.of(_one_by_one(of_writer.columns, payloads, damaged), columns)
        corrupt[odd] = damaged
        whole = plain.with_odd(odd, odd_rows)
        return Decoded(whole.columns, corrupt, whole.kept)


def _one_by_one(
    columns: AvroColumns, payloads: Sequence[bytes], damaged: Mask
) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    """The columns of records, and their other fields. Records that cannot be read, or whose values the columns do not
    take, are marked as `damaged`."""
    for nth, payload in enumerate(payloads):
        try:
            values, kept, fits = columns.row(payload)
        except Damaged:
            values, kept, fits = {}, None, False
        damaged[nth] = not fits
        yield values, kept
