"""The ledger's lines: for each batch, output and unit, how much was received and how much had each fate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from latecomer.engine.ledger.report import BatchReport, Stopwatch
from latecomer.errors import BUG, LedgerError
from latecomer.log.logged_events import COLUMNS, Logged, LogSplit, Repeated
from latecomer.log.summaries import amounts_of
from latecomer.model.ledger import ASSIGNMENTS, EVENTS, Entry, exact_amounts, unbalanced
from latecomer.model.verdicts import WITHOUT_WINDOW, Fate
from latecomer.store.delta.data_files import batch_of, batches_of
from latecomer.store.delta.table import Table
from latecomer.store.layout import LEDGER
from latecomer.windowing.fate_counts import Counts

if TYPE_CHECKING:
    from latecomer.log.readable import LoggedBatch, Received
    from latecomer.store.store import Store
    from latecomer.windowing.firing.output import FiringBatch, OutputLogic, Prepared

BatchAmounts = dict[int, dict[str, Decimal]]
"""Batch → unit → amount."""


@dataclass(frozen=True)
class ReceivedAmounts:
    """What a batch received, in every unit, and how much of it reached no output: duplicates and dead letters."""

    received: Mapping[str, Decimal]
    duplicate: Mapping[str, Decimal]
    dead_letter: Mapping[str, Decimal]


@dataclass
class AcceptedBatch:
    """A batch that is in the log and on the timeline."""

    batch: FiringBatch
    report: BatchReport
    """What is known of it before it is published."""
    amounts: ReceivedAmounts | None = None
    """None where it received nothing."""
    watch: Stopwatch = field(default_factory=Stopwatch)


@exact_amounts()
def received_amounts(
    received: Received,
    logged: Mapping[str, Decimal],
    duplicates: Mapping[str, Decimal],
    dead_letters: Mapping[str, Decimal],
) -> ReceivedAmounts:
    """The amounts of a batch: rows as counted by the source, measures as summed in the log."""
    totals = {
        measure: logged[measure] + duplicates.get(measure, Decimal(0)) + dead_letters.get(measure, Decimal(0))
        for measure in logged
    }
    return ReceivedAmounts(
        {EVENTS: Decimal(received.rows), **totals},
        {EVENTS: Decimal(received.duplicates), **duplicates},
        {EVENTS: Decimal(received.dead_letters), **dead_letters},
    )


def logged_amounts(logged: LoggedBatch) -> ReceivedAmounts:
    """The amounts of a batch of data."""
    return received_amounts(logged.received, logged.ticks.measures, logged.duplicates, logged.letters)


def repaired_amounts(
    received: Received,
    logged: Mapping[str, Decimal],
    duplicates: Mapping[str, Decimal],
    moved: Mapping[str, Decimal],
) -> ReceivedAmounts:
    """The amounts of a batch of repaired dead letters. They were received by earlier batches, so they are subtracted
    from the dead letters here. `moved` is how much of them the ledger has, in every unit."""
    known = {unit: amount.copy_negate() for unit, amount in moved.items()}
    measures = {measure: known.get(measure, Decimal(0)) for measure in logged}
    none = replace(received, rows=0, dead_letters=int(known.get(EVENTS, 0)))
    return received_amounts(none, logged, duplicates, measures)


@exact_amounts()
def with_duplicates(amounts: ReceivedAmounts, more: Mapping[str, Decimal]) -> ReceivedAmounts:
    """The same amounts, with more of them counted as duplicates."""
    known = amounts.duplicate
    duplicate = {unit: known.get(unit, Decimal(0)) + more.get(unit, Decimal(0)) for unit in {**known, **more}}
    return replace(amounts, duplicate=duplicate)


def entries_of(
    batch: int, output: str, amounts: ReceivedAmounts, counts: Counts, windows_each: int | None = 1
) -> list[Entry]:
    """The ledger's lines for one batch and output.

    A row that reached no output, and an event that was filtered or failed, counts as one assignment; each other event
    as `windows_each`. Where that is None, events differ: then the assignments received are the sum of their fates.
    """
    entries = []
    for unit, received in amounts.received.items():
        aside = {
            Fate.DUPLICATE: amounts.duplicate.get(unit, Decimal(0)),
            Fate.DEAD_LETTER: amounts.dead_letter.get(unit, Decimal(0)),
        }
        fates = {**counts.fates.get(unit, {}), **aside}
        noted = (counts.partly_late, counts.late_at_source) if unit == EVENTS else (0, 0)
        entries.append(Entry(batch, output, unit, received, fates, *noted))
        if unit == EVENTS:
            assigned = {**counts.fates.get(ASSIGNMENTS, {}), **aside}
            windowed = received - sum(fates.get(fate, Decimal(0)) for fate in WITHOUT_WINDOW)
            pairs = received + windowed * ((windows_each or 1) - 1)
            entry = Entry(batch, output, ASSIGNMENTS, pairs, assigned)
            entries.append(replace(entry, received=entry.accounted) if windows_each is None else entry)
    return entries


def balanced_entries(
    accepted: AcceptedBatch, outputs: Sequence[OutputLogic], prepared: Sequence[Prepared]
) -> list[Entry]:
    """The ledger's lines for a batch, checked to balance; none for one that received nothing."""
    if (amounts := accepted.amounts) is None:
        return []
    entries = [
        entry
        for output, ready in zip(outputs, prepared, strict=True)
        for entry in entries_of(
            accepted.batch.number, output.name, amounts, ready.counts, output.windows_each
        )
    ]
    require_balance(entries)
    return entries


def require_balance(entries: Iterable[Entry]) -> None:
    """Raise an error if something was lost or counted twice, before anything is published."""
    wrong = unbalanced(entries)
    if wrong:
        lines = "\n".join(str(entry) for entry in wrong)
        raise LedgerError(
            f"the ledger does not balance; nothing of this batch was published. Keep the store as it is: {BUG}, with "
            f"these lines\n{lines}"
        )


def as_table(entries: Sequence[Entry]) -> pa.Table:
    """The lines as rows of the ledger."""
    rows = (
        {**vars(entry), **{fate.value: entry.fates.get(fate, Decimal(0)) for fate in Fate}}
        for entry in entries
    )
    return pa.Table.from_pylist(list(rows), LEDGER)


# The amounts of tables, to compare the ledger with


def table_amounts(
    store: Store, table: Table, columns: Mapping[str, str], after: int, last: int
) -> BatchAmounts:
    """The amounts of the batches in (after, last] of a table; `columns` has the column of each measure that it has."""
    measures = {name: kind for name, kind in store.measures().items() if name in columns}
    wanted = list(dict.fromkeys(["batch", *(columns[name] for name in measures)]))
    return amounts_by_batch(table_parts(table, wanted, after, last), columns, measures)


def table_parts(table: Table, columns: Sequence[str], after: int, last: int) -> Iterator[pa.Table]:
    """Some columns of the batches in (after, last], some rows at a time."""
    files = [file for file in table.files() if batch_of(file) > after and batches_of(file)[0] <= last]
    return LogSplit([*map(table.location, files)], 1, table.schema, after, last).tables(columns)


def event_times(parts: Iterable[pa.Table], extreme: Literal["min", "max"]) -> dict[int, datetime]:
    """The earliest or the latest event time of each batch."""
    times: dict[int, datetime] = {}
    choose = {"min": min, "max": max}[extreme]
    for part in parts:
        for row in part.group_by("batch").aggregate([("event_time", extreme)]).to_pylist():
            batch, time = row["batch"], row[f"event_time_{extreme}"]
            times[batch] = choose(time, times.get(batch, time))
    return times


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
