"""What one pass over a batch yields for an output, lane by lane (`Lane`), as files not yet committed."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.firing.columns import Lane
from latecomer.model.ledger import ASSIGNMENTS
from latecomer.model.ledger import EVENTS as EVENT_UNIT
from latecomer.model.verdicts import Fate
from latecomer.store.columns import EVENTS, LANE, NEW_BEHIND, NEW_PARTLY, measure_column, new_column
from latecomer.store.files import Location, parquet_files, read_table
from latecomer.windowing.aggregates import assignments_column
from latecomer.windowing.fates import Counts
from latecomer.windowing.merging import Merger


@dataclass(frozen=True)
class Lanes:
    """The files of one pass."""

    folder: Location
    merger: Merger

    @cached_property
    def files(self) -> dict[str, list[Location]]:
        lanes = (Lane.OPEN, Lane.FIRED, Lane.LATE, Lane.WAITING, Lane.REST)
        return {lane: parquet_files(self.folder / f"{LANE}={lane}") for lane in lanes}

    @cached_property
    def counts(self) -> Counts:
        """What this batch's events added to each fate, in every unit of the ledger."""
        units = {EVENT_UNIT: new_column(EVENTS), ASSIGNMENTS: assignments_column(self.merger.layout)}
        units |= {measure: new_column(measure_column(measure)) for measure in self.merger.measures}
        noted = {name: column for name, column in NOTED.items() if column in self.merger.new_columns}
        fates: dict[str, dict[Fate, Decimal]] = {unit: {} for unit in units}
        notes = dict.fromkeys(noted, 0)
        for lane, files in self.files.items():
            for file in files:
                summed = [each for column in units.values() for each in self.merger.exact_columns(column)]
                columns = ["timing", *dict.fromkeys([*summed, *noted.values()])]
                table = read_table(file, columns=columns)
                for name, column in noted.items():
                    notes[name] += int(_sum(table.column(column)))
                for fate, rows in _by_fate(lane, table):
                    for unit, column in units.items():
                        counted = fates[unit].get(fate, Decimal(0))
                        fates[unit][fate] = counted + self._amount(rows, column)
        return Counts(fates, **notes)

    def _amount(self, rows: pa.Table, column: str) -> Decimal:
        return sum((_sum(rows.column(each)) for each in self.merger.exact_columns(column)), Decimal(0))

    @cached_property
    def touched(self) -> list[int]:
        """The starts of the windows that late events touched, in microseconds."""
        starts: set[int] = set()
        for file in self.files[Lane.LATE]:
            column = read_table(file, columns=["window_start"]).column(0)
            starts.update(pc.unique(column).cast(pa.int64()).to_pylist())
        return sorted(starts)


NOTED = {"late_at_source": NEW_BEHIND, "partly_late": NEW_PARTLY}


# For sessions, as long as those are in SQL


def _by_fate(lane: str, table: pa.Table) -> list[tuple[Fate, pa.Table]]:
    if lane in (Lane.OPEN, Lane.FIRED):
        return [(Fate.ON_TIME, table)]
    if lane in (Lane.LATE, Lane.WAITING):
        return [(Fate.LATE_ACCEPTED, table)]
    fates = pc.unique(table.column("timing")).to_pylist()
    return [(Fate(fate), table.filter(pc.equal(table.column("timing"), fate))) for fate in fates]


def _sum(column: pa.ChunkedArray) -> Decimal:
    exact = column.cast(pa.decimal128(38, 0)) if pa.types.is_integer(column.type) else column
    total = pc.sum(exact).as_py()
    return Decimal(0) if total is None else Decimal(total)
