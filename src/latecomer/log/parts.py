"""The rows of a table in this process, a part at a time: memory stays as it is, however long the table (ADR 0068)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.fast import MOST_AT_ONCE
from latecomer.store.table import DataFile, Table


def parts_of(
    table: Table,
    files: Sequence[DataFile],
    columns: Sequence[str],
    schema: pa.Schema | None = None,
    *,
    after: int = -1,
    last: int,
    where: pc.Expression | None = None,
) -> Iterator[pa.Table]:
    """Some columns of the batches in (after, last], so many rows at a time."""
    if not files:
        return
    wanted = (pc.field("batch") > after) & (pc.field("batch") <= last)
    if where is not None:
        wanted &= where
    held: list[pa.RecordBatch] = []
    # Files are read one after the other, and no further ahead than to the next.
    rows = table.dataset(files, schema).scanner(
        columns=list(columns),
        filter=wanted,
        batch_size=MOST_AT_ONCE,
        batch_readahead=1,
        fragment_readahead=1,
    )
    for each in rows.to_batches():
        if held and sum(len(part) for part in held) + len(each) > MOST_AT_ONCE:
            yield pa.Table.from_batches(held)
            held = []
        if len(each):
            held.append(each)
    if held:
        yield pa.Table.from_batches(held)
