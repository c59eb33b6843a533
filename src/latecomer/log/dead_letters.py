"""Dead letters as they are kept: text that every reader can read, the bytes behind it, and what was wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from latecomer.log.columns import RAW, REASON
from latecomer.source.base import Letters
from latecomer.store.files import Location, new_parquet, open_parquet, remove
from latecomer.store.layout import DEAD_LETTERS

_MADE = {"raw", "raw_bytes", "detail"}


@dataclass(frozen=True)
class Filing:
    """Files the dead letters of a batch."""

    letters: Letters

    def file(self, written: Location, home: Location) -> Location:
        """A file of the dead letters' lane, as their table has it, in the place where it belongs."""
        columns = {REASON if name == "reason" else name: name for name in DEAD_LETTERS.names}
        kept = {private: name for private, name in columns.items() if name not in _MADE}
        with open_parquet(written) as lane, new_parquet(home, DEAD_LETTERS) as letters:
            # By group: its size is bounded, whatever that of its rows.
            batches = (
                rows
                for group in range(lane.num_row_groups)
                for rows in lane.iter_batches(10_000, row_groups=[group], columns=[*kept, RAW])
            )
            for rows in batches:
                found = {name: _valid(rows.column(private)) for private, name in kept.items()}
                raw = rows.column(RAW).cast(pa.binary()).to_pylist()
                where = (found[name].to_pylist() for name in ("reason", "origin", "position"))
                made = [self.letters.filed(*place) for place in zip(raw, *where, strict=True)]
                found |= _columns(made, ("raw", "raw_bytes", "detail"))
                letters.write_table(
                    pa.table({name: found[name] for name in DEAD_LETTERS.names}, DEAD_LETTERS)
                )
        remove(written)
        return home


def _columns(rows: Sequence[tuple[Any, ...]], names: Iterable[str]) -> dict[str, pa.Array]:
    return {
        name: pa.array([row[place] for row in rows], DEAD_LETTERS.field(name).type)
        for place, name in enumerate(names)
    }


def _valid(column: pa.Array) -> pa.Array:
    """The column; text of which some is not UTF-8 with U+FFFD for what is not."""
    if not pa.types.is_string(column.type):
        return column
    values = column.cast(pa.binary())
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode(errors="replace") for value in values.to_pylist()]
        return pa.array(texts, pa.string())
