"""Makes columns of the records of one writer: of plain ones all at once, of odd ones one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from latecomer.model.array_types import Flags, Integers
from latecomer.schemas.avro import Schema, reading
from latecomer.source.decode.avro_batch import Cursor, Plan, RowByRow
from latecomer.source.decode.avro_columns import AvroColumns
from latecomer.source.decode.json_text import kept_text
from latecomer.source.decode.null_rows import null_columns
from latecomer.source.decode.typed_columns import array_of

FEW = 8
"""So few records are read one by one: to read them all at once takes longer."""


@dataclass(frozen=True)
class Rows:
    """The columns of some records, and their other fields as JSON."""

    columns: pa.Table
    kept: pa.Array

    @classmethod
    def of(cls, pairs: Iterable[tuple[Mapping[str, Any], str | None]], columns: Mapping[str, str]) -> Rows:
        """For records that were read one by one."""
        values: dict[str, list[Any]] = {name: [] for name in columns}
        kept: list[str | None] = []
        for row, text in pairs:
            for name, column in values.items():
                column.append(row.get(name))
            kept.append(text)
        table = pa.table({name: array_of(column, columns[name]) for name, column in values.items()})
        return cls(table, pa.array(kept, pa.string()))

    def with_odd(self, odd: Flags, others: Rows) -> Rows:
        """The same rows, with others in the place of the odd ones."""
        if not odd.any():
            return self
        places = np.arange(len(odd))
        places[odd] = len(odd) + np.arange(len(others.kept))
        back = pa.array(places)
        table = pa.concat_tables([self.columns, others.columns]).take(back)
        return Rows(table, pa.concat_arrays([self.kept, others.kept]).take(back))


@dataclass(frozen=True)
class WriterReading:
    """How the records of one writer are read: one by one, or all at once if there is a plan."""

    columns: AvroColumns
    plan: Plan | None

    def at_once(
        self, data: bytes, starts: Integers, ends: Integers, whole: bool = False
    ) -> tuple[Rows, Flags]:
        """The rows of records that lie side by side in a buffer, and which of them are odd. If they have to be `whole`,
        records with bytes behind their end are odd too."""
        odd = np.zeros(len(starts), np.bool_)
        if self.plan is not None and len(starts) > FEW:
            cursor = Cursor(data, starts, ends, np.arange(len(starts)), odd)
            try:
                decoded = self.plan.columns(cursor)
            except RowByRow:
                pass
            else:
                if whole:
                    odd |= cursor.at != ends
                table = pa.table({name: decoded[name] for name in self.columns.columns})
                return Rows(table, self._kept(decoded, len(odd))), odd
        odd[:] = True
        nothing = pa.table(null_columns(self.columns.columns, len(odd)))
        return Rows(nothing, pa.nulls(len(odd), pa.string())), odd

    def _kept(self, decoded: Mapping[str, pa.Array], count: int) -> pa.Array:
        names = self.columns.unknown
        if not names:
            return pa.nulls(count, pa.string())
        columns = [decoded[name].to_pylist() for name in names]
        rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        return pa.array(kept_text(names, rows), pa.string())


@lru_cache(maxsize=256)
def writer_reading(
    reader: Schema, writer: Schema, keeps: bool, columns: tuple[tuple[str, str], ...]
) -> WriterReading:
    """How records of a writer's schema become these columns, with their other fields if it `keeps` them."""
    resolved, kinds = reading(reader, writer, keeps), dict(columns)
    try:
        plan = Plan(writer, resolved, kinds)
    except RowByRow:
        plan = None
    return WriterReading(AvroColumns(writer, resolved, kinds), plan)
