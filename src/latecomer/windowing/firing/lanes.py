"""Sums up the rows of each lane of a batch, in every unit of the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model.ledger import ASSIGNMENTS, exact_amounts
from latecomer.model.ledger import EVENTS as EVENT_UNIT
from latecomer.model.verdicts import Fate
from latecomer.store.private_columns import (
    EVENTS,
    NEW_BEHIND,
    NEW_PARTLY,
    late_column,
    measure_column,
    new_column,
)
from latecomer.windowing.aggregates import assignments_column
from latecomer.windowing.fates import Counts
from latecomer.windowing.firing.private_columns import PaneLane
from latecomer.windowing.merge import Merger

_NOTED = {"late_at_source": NEW_BEHIND, "partly_late": NEW_PARTLY}


@exact_amounts()
def counts_of_lanes(lanes: Mapping[str, pa.Table], merger: Merger) -> Counts:
    """What a batch's events added to each fate."""
    if merger.output.window.merges:
        return _counts_of_sessions(lanes, merger)
    units = {EVENT_UNIT: new_column(EVENTS), ASSIGNMENTS: assignments_column(merger.layout)}
    units |= {measure: new_column(measure_column(measure)) for measure in merger.measures}
    noted = {name: column for name, column in _NOTED.items() if column in merger.new_columns}
    fates: dict[str, dict[Fate, Decimal]] = {unit: {} for unit in units}
    notes = dict.fromkeys(noted, 0)
    for lane, table in lanes.items():
        for name, column in noted.items():
            notes[name] += int(_sum(table.column(column)))
        for fate, rows in _by_fate(lane, table):
            for unit, column in units.items():
                _add(fates[unit], fate, _amount(rows, column, merger))
    return Counts(fates, **notes)


def _counts_of_sessions(lanes: Mapping[str, pa.Table], merger: Merger) -> Counts:
    """A session holds on-time and late events together, and counts them separately."""
    sums = {EVENT_UNIT: EVENTS, **{name: measure_column(name) for name in merger.measures}}
    fates: dict[str, dict[Fate, Decimal]] = {unit: {} for unit in sums}
    behind = 0
    for lane, table in lanes.items():
        if lane == PaneLane.TO_RETRACT:
            continue
        behind += int(_sum(table.column(NEW_BEHIND)))
        for fate, rows in _rest(table) if lane == PaneLane.REST else [(Fate.ON_TIME, table)]:
            for unit, column in sums.items():
                came_late = _amount(rows, late_column(column), merger)
                _add(fates[unit], fate, _amount(rows, new_column(column), merger) - came_late)
                if lane != PaneLane.REST:
                    _add(fates[unit], Fate.LATE_ACCEPTED, came_late)
    return Counts({**fates, ASSIGNMENTS: fates[EVENT_UNIT]}, late_at_source=behind)


def _add(amounts: dict[Fate, Decimal], fate: Fate, amount: Decimal) -> None:
    amounts[fate] = amounts.get(fate, Decimal(0)) + amount


def _amount(rows: pa.Table, column: str, merger: Merger) -> Decimal:
    return sum((_sum(rows.column(each)) for each in merger.exact_columns(column)), Decimal(0))


def _by_fate(lane: str, table: pa.Table) -> list[tuple[Fate, pa.Table]]:
    if lane in (PaneLane.OPEN, PaneLane.FIRED):
        return [(Fate.ON_TIME, table)]
    if lane in (PaneLane.LATE, PaneLane.WAITING):
        return [(Fate.LATE_ACCEPTED, table)]
    return _rest(table)


def _rest(table: pa.Table) -> list[tuple[Fate, pa.Table]]:
    fates = pc.unique(table.column("timing")).to_pylist()
    return [(Fate(fate), table.filter(pc.equal(table.column("timing"), fate))) for fate in fates]


def _sum(column: pa.ChunkedArray) -> Decimal:
    exact = column.cast(pa.decimal128(38, 0)) if pa.types.is_integer(column.type) else column
    total = pc.sum(exact).as_py()
    return Decimal(0) if total is None else Decimal(total)
