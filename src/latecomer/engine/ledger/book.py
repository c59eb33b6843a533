"""The ledger as it is written: per batch, output and unit, what was received and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.errors import LedgerError
from latecomer.log.events import LoggedBatch, Received
from latecomer.log.summaries import sums_of
from latecomer.model.ledger import ASSIGNMENTS, EVENTS, Entry, unbalanced
from latecomer.model.verdicts import WITHOUT_WINDOW, Fate
from latecomer.store.layout import LEDGER
from latecomer.windowing.fates import Counts

if TYPE_CHECKING:
    from latecomer.engine.ledger.report import AcceptedBatch
    from latecomer.windowing.firing.output import OutputLogic, Prepared


@dataclass(frozen=True)
class Intake:
    """What a batch received, in every unit, and what became of it before any output saw it."""

    received: Mapping[str, Decimal]
    duplicate: Mapping[str, Decimal]
    dead_letter: Mapping[str, Decimal]


def intake(
    received: Received,
    logged: Mapping[str, Decimal],
    duplicates: Mapping[str, Decimal],
    dead_letters: Mapping[str, Decimal],
) -> Intake:
    """A batch's intake: rows as the source counted them, measures as the log sums them up."""
    totals = {
        measure: logged[measure] + duplicates.get(measure, Decimal(0)) + dead_letters.get(measure, Decimal(0))
        for measure in logged
    }
    return Intake(
        {EVENTS: Decimal(received.rows), **totals},
        {EVENTS: Decimal(received.duplicates), **duplicates},
        {EVENTS: Decimal(received.dead_letters), **dead_letters},
    )


def logged_intake(logged: LoggedBatch) -> Intake:
    """The intake of a batch of data."""
    return intake(logged.received, logged.ticks.measures, logged.duplicates, logged.letters)


def repaired_intake(
    received: Received,
    logged: Mapping[str, Decimal],
    duplicates: Mapping[str, Decimal],
    moved: Mapping[str, Decimal],
) -> Intake:
    """The intake of a batch of dead letters that were repaired: they had been received before, and what they were then
    is taken out. `moved` is what the ledger has of them, in every unit."""
    known = {unit: -amount for unit, amount in moved.items()}
    measures = {measure: known.get(measure, Decimal(0)) for measure in logged}
    none = Received(0, received.events, received.duplicates, int(known.get(EVENTS, 0)))
    return intake(none, logged, duplicates, measures)


def with_duplicates(taken: Intake, more: Mapping[str, Decimal]) -> Intake:
    """The same intake, of which more are duplicates."""
    known = taken.duplicate
    units = {**known, **more}
    return replace(
        taken,
        duplicate={unit: known.get(unit, Decimal(0)) + more.get(unit, Decimal(0)) for unit in units},
    )


def entries_of(
    batch: int, output: str, taken: Intake, counts: Counts, windows_each: int | None = 1
) -> list[Entry]:
    """The ledger's lines for one batch and output.

    A row that no output saw, and an event that was filtered or failed, is one assignment; each other event has
    `windows_each`. None where that differs from event to event: then what was received in assignments
    is taken from what became of them.
    """
    entries = []
    for unit, received in taken.received.items():
        aside = {
            Fate.DUPLICATE: taken.duplicate.get(unit, Decimal(0)),
            Fate.DEAD_LETTER: taken.dead_letter.get(unit, Decimal(0)),
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
    """The ledger's lines for a batch, which balance; a batch that received nothing has none."""
    if accepted.intake is None or not accepted.received.rows:
        return []
    number, taken = accepted.batch.number, accepted.intake
    entries = [
        entry
        for output, ready in zip(outputs, prepared, strict=True)
        for entry in entries_of(number, output.name, taken, ready.counts, output.windows_each)
    ]
    require_balance(entries)
    return entries


def require_balance(entries: Iterable[Entry]) -> None:
    """Fail loudly where something was lost or counted twice, before anything is published."""
    wrong = unbalanced(entries)
    if wrong:
        lines = "\n".join(str(entry) for entry in wrong)
        raise LedgerError(f"the ledger does not balance; nothing of this batch was published\n{lines}")


def as_table(entries: Sequence[Entry]) -> pa.Table:
    columns = {
        "batch": [entry.batch for entry in entries],
        "output": [entry.output for entry in entries],
        "unit": [entry.unit for entry in entries],
        "received": [entry.received for entry in entries],
        **{fate.value: [entry.fates.get(fate, Decimal(0)) for entry in entries] for fate in Fate},
        "partly_late": [entry.partly_late for entry in entries],
        "late_at_source": [entry.late_at_source for entry in entries],
    }
    return pa.table(
        {name: pa.array(values, LEDGER.field(name).type) for name, values in columns.items()}, schema=LEDGER
    )


def amounts_by_batch(
    parts: Iterable[pa.Table], columns: Mapping[str, str], measures: Mapping[str, str]
) -> dict[int, dict[str, Decimal]]:
    """How many rows each batch has, and the exact sum of each measure; `columns` maps it to its column."""
    found: dict[int, dict[str, Decimal]] = {}
    for rows in parts:
        for batch in pc.unique(rows.column("batch")).to_pylist():
            some = rows.filter(pc.field("batch") == batch)
            known = found.setdefault(batch, dict.fromkeys((EVENTS, *measures), Decimal(0)))
            known[EVENTS] += some.num_rows
            for name, amount in sums_of(some, columns, measures).items():
                known[name] += amount
    return found
