"""The ledger as it is written: per batch, output and unit, what was received and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.errors import LedgerError
from latecomer.log.events import Received
from latecomer.model.ledger import ASSIGNMENTS, EVENTS, Entry, unbalanced
from latecomer.model.verdicts import Fate
from latecomer.store.layout import LEDGER
from latecomer.store.sql import quoted

Counts = Mapping[str, Mapping[Fate, Decimal]]


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


def entries_of(batch: int, output: str, taken: Intake, counts: Counts) -> list[Entry]:
    """The ledger's lines for one batch and output."""
    entries = []
    for unit, received in taken.received.items():
        fates = {
            **counts.get(unit, {}),
            Fate.DUPLICATE: taken.duplicate.get(unit, Decimal(0)),
            Fate.DEAD_LETTER: taken.dead_letter.get(unit, Decimal(0)),
        }
        entries.append(Entry(batch, output, unit, received, fates))
        if unit == EVENTS:
            # With windows that do not overlap, an event has one assignment; without a window it counts one.
            entries.append(Entry(batch, output, ASSIGNMENTS, received, fates))
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
    }
    return pa.table(
        {name: pa.array(values, LEDGER.field(name).type) for name, values in columns.items()}, schema=LEDGER
    )


def sum_measures(rows: DataFrame, columns: Mapping[str, str]) -> dict[str, Decimal]:
    """The exact sum of each measure; `columns` maps it to its SQL."""
    if not columns:
        return {}
    sums = [F.sum(F.expr(sql).cast("decimal(38,6)")).alias(f"m{i}") for i, sql in enumerate(columns.values())]
    found = rows.agg(*sums).toArrow().to_pylist()[0]
    return {measure: found[f"m{index}"] or Decimal(0) for index, measure in enumerate(columns)}


def measure_in_raw(measure: str) -> str:
    """A measure read out of a dead letter's raw text, as far as it can be."""
    path = measure.replace("\\", "").replace("'", "").replace('"', "")
    return f"try_cast(get_json_object({quoted('raw')}, \"$['{path}']\") as decimal(38,6))"
