"""How many rows each batch of a table has, and the sums of its measures: to compare the ledger with the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

import pyarrow as pa

from latecomer.log.logged import COLUMNS, Logged, LogSplit, Repeated
from latecomer.log.summaries import amounts_of
from latecomer.model.ledger import EVENTS, exact_amounts
from latecomer.store.data_files import batch_of, batches_of
from latecomer.store.table import Table

BatchAmounts = dict[int, dict[str, Decimal]]
"""Batch → unit → amount."""


def table_amounts(
    table: Table, columns: Mapping[str, str], measures: Mapping[str, str], after: int, last: int
) -> BatchAmounts:
    """The amounts of the batches in (after, last] of a table; `columns` has the column of each measure."""
    wanted = list(dict.fromkeys(["batch", *(columns[name] for name in measures)]))
    return amounts_by_batch(table_parts(table, wanted, after, last), columns, measures)


def table_parts(table: Table, columns: Sequence[str], after: int, last: int) -> Iterator[pa.Table]:
    """Some columns of the batches in (after, last], some rows at a time."""
    files = [file for file in table.files() if batch_of(file) > after and batches_of(file)[0] <= last]
    return LogSplit([*map(table.location, files)], 1, table.schema, after, last).tables(columns)


def repeated_amounts(
    logged: Logged, repeated: Repeated, columns: Mapping[str, str], measures: Mapping[str, str]
) -> BatchAmounts:
    """The amounts of the logged events that had come before, by the batch in which they came again."""
    parts = logged.parts([*COLUMNS, *(columns[name] for name in measures)])
    return amounts_by_batch((repeated.among(part) for part in parts), columns, measures)


@exact_amounts()
def amounts_by_batch(
    parts: Iterable[pa.Table], columns: Mapping[str, str], measures: Mapping[str, str]
) -> BatchAmounts:
    """How many rows each batch has, and the exact sum of each measure; `columns` has the column of each measure."""
    amounts: BatchAmounts = {}
    for rows in parts:
        found = amounts_of(rows, columns, measures)
        numbered = {str(nth): column for nth, column in enumerate(found.values())}  # names may be any
        by_batch = pa.table({"batch": rows.column("batch"), **numbered}).group_by("batch", use_threads=False)
        for row in by_batch.aggregate([([], "count_all"), *((nth, "sum") for nth in numbered)]).to_pylist():
            known = amounts.setdefault(row["batch"], dict.fromkeys((EVENTS, *measures), Decimal(0)))
            known[EVENTS] += row["count_all"]
            for nth, name in enumerate(measures):
                known[name] += row[f"{nth}_sum"] or 0
    return amounts
