"""What one pass over a batch yields for an output, lane by lane, as files not yet committed.

open   states of windows still open          → partials
fired  ON_TIME panes of windows that closed  → panes
late   what late events add to closed windows, to be merged with their last pane
rest   one row for each other fate, for the ledger alone
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.model.ledger import EVENTS as EVENT_UNIT
from latecomer.model.panes import Op, Timing
from latecomer.model.verdicts import Fate
from latecomer.store.table import parquet_files
from latecomer.timeline.keeper import FIRED_AT, FIRED_WATERMARK
from latecomer.windowing.judge import CODES, END, FATE
from latecomer.windowing.merge import LAST_ARRIVAL, LAST_WATERMARK, Merger
from latecomer.windowing.states import EVENTS, measure_column, new_column

LANE = f"{PRIVATE}lane"
OPEN, FIRED, LATE, REST = "open", "fired", "late", "rest"


@dataclass(frozen=True)
class Lanes:
    """The files of one pass."""

    folder: Path

    @cached_property
    def files(self) -> dict[str, list[Path]]:
        return {lane: parquet_files(self.folder / f"{LANE}={lane}") for lane in (OPEN, FIRED, LATE, REST)}

    def counts(self, measures: Sequence[str]) -> dict[str, dict[Fate, Decimal]]:
        """For each unit of the ledger, what this batch's events added to each fate."""
        units = {EVENT_UNIT: new_column(EVENTS)}
        units |= {measure: new_column(measure_column(measure)) for measure in measures}
        totals: dict[str, dict[Fate, Decimal]] = {unit: {} for unit in units}
        for lane, files in self.files.items():
            for file in files:
                table = pq.read_table(file, columns=["timing", *units.values()], partitioning=None)
                for fate, rows in _by_fate(lane, table):
                    for unit, column in units.items():
                        counted = totals[unit].get(fate, Decimal(0))
                        totals[unit][fate] = counted + _sum(rows.column(column))
        return totals

    @cached_property
    def touched(self) -> list[int]:
        """The starts of the windows that late events touched, in microseconds."""
        starts: set[int] = set()
        for file in self.files[LATE]:
            column = pq.read_table(file, columns=["window_start"], partitioning=None).column(0)
            starts.update(pc.unique(column).cast(pa.int64()).to_pylist())
        return sorted(starts)


def write_lanes(
    merger: Merger, inputs: Sequence[DataFrame], firings: DataFrame, params: DataFrame, folder: Path
) -> Lanes:
    """Merge events and open states in one pass, and write every lane."""
    merged = merger.merge(reduce(lambda left, right: left.unionByName(right), inputs))
    placed = merged.join(F.broadcast(firings), END, "left").crossJoin(F.broadcast(params))
    on_time, late = CODES[Fate.ON_TIME], CODES[Fate.LATE_ACCEPTED]
    fired = f"{FATE} = {on_time} and {FIRED_AT} is not null"
    rest = " ".join(f"when {code} then '{fate}'" for fate, code in CODES.items())
    panes = merger.published(
        placed,
        sequence=f"if({fired}, 0L, null)",
        timing=f"case when {fired} then '{Timing.ON_TIME}' when {FATE} = {late} then '{Timing.LATE}' "
        f"else case {FATE} {rest} end end",
        op=f"'{Op.INSERT}'",
        batch=f"{PRIVATE}batch",
        fired_at=f"timestamp_micros(case when {fired} then {FIRED_AT} "
        f"when {FATE} = {late} then {LAST_ARRIVAL} end)",
        watermark=f"timestamp_micros(case when {fired} then {FIRED_WATERMARK} "
        f"when {FATE} = {late} then {LAST_WATERMARK} end)",
        **{
            LANE: f"case when {fired} then '{FIRED}' when {FATE} = {on_time} then '{OPEN}' "
            f"when {FATE} = {late} then '{LATE}' else '{REST}' end"
        },
    )
    panes.write.partitionBy(LANE).parquet(str(folder))
    return Lanes(folder)


def _by_fate(lane: str, table: pa.Table) -> list[tuple[Fate, pa.Table]]:
    if lane in (OPEN, FIRED):
        return [(Fate.ON_TIME, table)]
    if lane == LATE:
        return [(Fate.LATE_ACCEPTED, table)]
    fates = pc.unique(table.column("timing")).to_pylist()
    return [(Fate(fate), table.filter(pc.equal(table.column("timing"), fate))) for fate in fates]


def _sum(column: pa.ChunkedArray) -> Decimal:
    exact = column.cast(pa.decimal128(38, 0)) if pa.types.is_integer(column.type) else column
    total = pc.sum(exact).as_py()
    return Decimal(0) if total is None else Decimal(total)
