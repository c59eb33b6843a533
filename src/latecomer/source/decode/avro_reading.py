"""Makes columns of the records of one writer: of plain ones all at once, of odd ones one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from latecomer.source.decode.private_columns import KEPT
from latecomer.source.decode.typed_columns import null_columns, with_rows

FEW = 8
"""So few records are read one by one: to read them all at once takes longer."""


@dataclass(frozen=True)
class WriterReading:
    """How the records of one writer are read: one by one, or all at once if there is a plan."""

    columns: AvroColumns
    plan: Plan | None

    def at_once(
        self, data: bytes, starts: Integers, ends: Integers, whole: bool = False
    ) -> tuple[dict[str, pa.Array], Flags]:
        """The columns and KEPT of records that lie side by side in a buffer, and which of the records are odd. If they
        have to be `whole`, records with bytes behind their end are odd too."""
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
                plain = {name: decoded[name] for name in self.columns.columns}
                return {**plain, KEPT: self._kept(decoded, len(odd))}, odd
        odd[:] = True
        return null_columns(self._kinds, len(odd)), odd

    def with_odd(
        self, plain: Mapping[str, pa.Array], odd: Flags, rows: Sequence[Mapping[str, Any]]
    ) -> pa.Table:
        """The same columns, with rows that were read one by one in the place of the odd ones."""
        return pa.table(with_rows(plain, self._kinds, odd, rows))

    @property
    def _kinds(self) -> dict[str, str]:
        return {**self.columns.columns, KEPT: "string"}

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
