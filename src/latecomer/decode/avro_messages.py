"""Messages of Avro in Confluent's framing, decoded in a task: plain ones of a writer all at once, odd ones by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from latecomer.decode.avro_batch import Cursor, Plan, RowByRow
from latecomer.decode.avro_columns import AvroColumns, arrow_column
from latecomer.decode.avro_data import Damaged
from latecomer.decode.frames import HEAD_SIZE, Decoded, FramedDecoder, Frames, Mask, Numbers
from latecomer.decode.json_text import kept_text
from latecomer.model.avro import Schema, reading

FEW = 8
"""So few records of a writer are read one by one: to begin with all at once would take longer."""


@dataclass(frozen=True)
class AvroMessages(FramedDecoder):
    """Messages as columns of the reader's schema."""

    reader: Schema = field(kw_only=True)
    """The schema that the columns follow from."""

    def of_writer(self, number: int, frames: Frames, rows: Numbers, columns: Mapping[str, str]) -> Decoded:
        keeps = self.unknown_fields != "ignore"
        how = _how(self.reader, self.writers[number], keeps, tuple(columns.items()))
        return how.decoded(frames, rows)


@dataclass(frozen=True)
class _How:
    """How the records of one writer are read: all at once, where there is a plan, and one by one."""

    columns: AvroColumns
    plan: Plan | None

    def decoded(self, frames: Frames, rows: Numbers) -> Decoded:
        odd, made = np.ones(len(rows), np.bool_), None
        if self.plan is not None and len(rows) > FEW:
            odd[:] = False
            nth = np.arange(len(rows))
            cursor = Cursor(frames.data, frames.starts[rows] + HEAD_SIZE, frames.ends[rows], nth, odd)
            try:
                made = self.plan.columns(cursor)
            except RowByRow:
                odd[:] = True
        singly = self._one_by_one([frames.records[row][HEAD_SIZE:] for row in rows[odd]])
        if made is None:
            return singly
        return self._joined(made, odd, singly)

    def _one_by_one(self, payloads: Sequence[bytes]) -> Decoded:
        values: dict[str, list[Any]] = {name: [] for name in self.columns.columns}
        kept: list[str | None] = []
        corrupt = np.zeros(len(payloads), np.bool_)
        for nth, payload in enumerate(payloads):
            try:
                row, text = self.columns.row(payload)
            except Damaged:
                row, text, corrupt[nth] = {}, None, True
            for name, column in values.items():
                column.append(row.get(name))
            kept.append(text)
        kinds = self.columns.columns
        table = pa.table({name: arrow_column(column, kinds[name]) for name, column in values.items()})
        return Decoded(table, corrupt, pa.array(kept, pa.string()))

    def _joined(self, made: Mapping[str, pa.Array], odd: Mask, singly: Decoded) -> Decoded:
        """Plain records, and in the place of odd ones what was read of each by itself."""
        kept = self._kept(made, len(odd))
        table = pa.table({name: made[name] for name in self.columns.columns})
        if not odd.any():
            return Decoded(table, odd, kept)
        places = np.arange(len(odd))
        places[odd] = len(odd) + np.arange(len(singly.corrupt))
        back = pa.array(places)
        corrupt = np.zeros(len(odd), np.bool_)
        corrupt[odd] = singly.corrupt
        both = pa.concat_tables([table, singly.columns]).take(back)
        texts = None if kept is None else pa.concat_arrays([kept, singly.kept]).take(back)
        return Decoded(both, corrupt, texts)

    def _kept(self, made: Mapping[str, pa.Array], count: int) -> pa.Array | None:
        names = self.columns.unknown
        if not names:
            return None
        columns = [made[name].to_pylist() for name in names]
        rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        return pa.array(kept_text(names, rows), pa.string())


@lru_cache(maxsize=256)
def _how(reader: Schema, writer: Schema, keeps: bool, columns: tuple[tuple[str, str], ...]) -> _How:
    found, kinds = reading(reader, writer, keeps), dict(columns)
    try:
        plan = Plan(writer, found, kinds)
    except RowByRow:
        plan = None
    return _How(AvroColumns(writer, found, kinds), plan)
