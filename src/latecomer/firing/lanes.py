"""What one pass over a batch yields for an output, lane by lane, as files not yet committed.

open     states of windows still open              → partials
fired    ON_TIME panes of windows that closed, and EARLY ones of windows that did not → panes
late     what late events add to closed windows, to be merged with their last pane
waiting  the same, where the trigger has it wait   → partials
rest     one row for each other fate, for the ledger alone
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.models import Output
from latecomer.model.ledger import ASSIGNMENTS
from latecomer.model.ledger import EVENTS as EVENT_UNIT
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.triggers import Count, Every
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate
from latecomer.store.files import Location, parquet_files, read_table, url
from latecomer.store.sql import quoted
from latecomer.timeline.keeper import FIRED_AT, FIRED_WATERMARK
from latecomer.windowing.assign import END, START
from latecomer.windowing.judge import CODES, FATE
from latecomer.windowing.merge import LAST_ARRIVAL, LAST_SEQUENCE, LAST_WATERMARK, Counts, Merger
from latecomer.windowing.states import (
    EVENTS,
    NEW_BEHIND,
    NEW_PARTLY,
    SINCE,
    assignments_column,
    measure_column,
    new_column,
)

LANE = f"{PRIVATE}lane"
OPEN, FIRED, LATE, WAITING, REST = "open", "fired", "late", "waiting", "rest"

BATCH = f"{PRIVATE}batch"
BEFORE, NOW, CLOCK = f"{PRIVATE}before", f"{PRIVATE}now", f"{PRIVATE}clock"
BEGAN = f"{PRIVATE}began"
EARLY_DUE, LATE_DUE = f"{PRIVATE}early_due", f"{PRIVATE}late_due"
"""What a batch is given: its number, the watermark before and after it, the arrival clock, where the
watermark began (before the batch, or where it was first known), and whether the clock lets early and
waiting panes fire."""
KNOWN = f"nullif({NOW}, {BEGIN_OF_TIME}L)"
"""The watermark, null where nothing is known yet."""
_FIRES, _EARLY = f"{PRIVATE}fires", f"{PRIVATE}early"


@dataclass(frozen=True)
class Lanes:
    """The files of one pass."""

    folder: Location
    merger: Merger

    @cached_property
    def files(self) -> dict[str, list[Location]]:
        lanes = (OPEN, FIRED, LATE, WAITING, REST)
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
        for file in self.files[LATE]:
            column = read_table(file, columns=["window_start"]).column(0)
            starts.update(pc.unique(column).cast(pa.int64()).to_pylist())
        return sorted(starts)


NOTED = {"late_at_source": NEW_BEHIND, "partly_late": NEW_PARTLY}


def write_lanes(
    merger: Merger, inputs: Sequence[DataFrame], firings: DataFrame, params: DataFrame, folder: Location
) -> Lanes:
    """Merge events and open states in one pass, and write every lane."""
    merged = merger.merge(reduce(lambda left, right: left.unionByName(right), inputs))
    placed = merged.join(F.broadcast(firings), END, "left").crossJoin(F.broadcast(params))
    on_time, late = CODES[Fate.ON_TIME], CODES[Fate.LATE_ACCEPTED]
    closes = f"{FATE} = {on_time} and {FIRED_AT} is not null"
    published = f"if({SINCE} > 0, '{FIRED}', '{REST}')" if merger.output.closes_silently else f"'{FIRED}'"
    lane = (
        f"case when {closes} then {published} when {FATE} = {on_time} then '{OPEN}' "
        f"when {FATE} = {late} then if({late_due(merger.output)}, '{LATE}', '{WAITING}') else '{REST}' end"
    )
    early = early_due(merger)
    if early is None:
        laned = placed.selectExpr("*", f"{lane} as {LANE}", f"false as {_EARLY}")
    else:
        placed = placed.selectExpr("*", f"{FATE} = {on_time} and {FIRED_AT} is null and {early} as {_EARLY}")
        both = f"explode(if({_EARLY}, array('{FIRED}', '{OPEN}'), array({lane}))) as {LANE}"
        laned = placed.selectExpr("*", both)
    after = None if early is None else _after_publishing(merger)
    panes = merger.published(laned, {**_firing(merger.output), LANE: LANE}, after)
    panes.write.partitionBy(LANE).parquet(url(folder))
    return Lanes(folder, merger)


def _firing(output: Output) -> dict[str, str]:
    """The firing columns of each lane."""
    fired, late = f"{LANE} = '{FIRED}'", f"{LANE} in ('{LATE}', '{WAITING}')"
    rest = " ".join(f"when {code} then '{fate}'" for fate, code in CODES.items())
    following = f"coalesce({LAST_SEQUENCE} + 1, 0L)"
    return {
        "sequence": f"case when {fired} or {_EARLY} then {following} when {LANE} = '{OPEN}' then {LAST_SEQUENCE} end",
        "timing": f"case when {fired} then if({_EARLY}, '{Timing.EARLY}', '{Timing.ON_TIME}') "
        f"when {late} then '{Timing.LATE}' else case {FATE} {rest} end end",
        "op": f"'{Op.INSERT}'",
        "is_last": f"{fired} and not {_EARLY} and {is_last(output, Timing.ON_TIME)}",
        "batch": BATCH,
        "fired_at": f"timestamp_micros(case when {fired} then coalesce({FIRED_AT}, {CLOCK}) "
        f"when {late} then {LAST_ARRIVAL} end)",
        "watermark": f"timestamp_micros(case when {fired} then coalesce({FIRED_WATERMARK}, {KNOWN}) "
        f"when {late} then {LAST_WATERMARK} end)",
    }


def _after_publishing(merger: Merger) -> dict[str, str]:
    """What an early pane changes in the state that stays open: the pane has been counted, and published."""
    published = f"{_EARLY} and {LANE} = '{OPEN}'"
    stays = {column: f"if({published}, 0, {quoted(column)})" for column in merger.new_columns}
    stays[SINCE] = f"if({published}, 0L, {SINCE})"
    if merger.output.accumulation is Accumulation.DISCARDING:
        stays |= {name: f"if({published}, {sql}, {quoted(name)})" for name, sql in merger.emptied.items()}
    return stays


def early_due(merger: Merger) -> str | None:
    """Whether an open window fires early, in SQL."""
    match merger.output.trigger.early:
        case None:
            return None
        case Count(count=count):
            return f"{SINCE} >= {count}"
        case Every(clock="arrival"):
            return f"{EARLY_DUE} = 1 and {SINCE} > 0"
        case Every(every=every):
            return f"{SINCE} > 0 and {interval_passed(merger.output, every)}"


def interval_passed(output: Output, every: int) -> str:
    """Whether the watermark has passed a multiple of an interval from the window's start on, in SQL.

    The global window has no start: its intervals are those of the clock, from the first watermark on.
    """
    if output.window.endless:
        now, began = (f"({mark} - pmod({mark}, {every}L)) div {every}L" for mark in (NOW, BEGAN))
        return f"{NOW} > {BEGIN_OF_TIME}L and {now} > {began}"
    reached, earlier = (f"greatest(0, ({mark} - {START}) div {every}L)" for mark in (NOW, BEFORE))
    return f"{NOW} > {START} and {reached} > {earlier}"


def late_due(output: Output) -> str:
    """Whether what late events add fires now, in SQL."""
    over = is_last(output, Timing.LATE)
    match output.trigger.late:
        case "batch":
            return "true"
        case Count(count=count):
            return f"({EVENTS} >= {count} or {over})"
        case Every():
            return f"({LATE_DUE} = 1 or {over})"


def is_last(output: Output, timing: Timing) -> str:
    """Whether nothing more can come for a window that fires, in SQL.

    A window that closed is published for the last time where the watermark that closed it left no time for
    late events, a late one where the batch's end leaves none.
    """
    reached = FIRED_WATERMARK if timing is Timing.ON_TIME else NOW
    return f"{reached} >= least({END} + {output.settles_after}L, {END_OF_TIME}L)"


def _by_fate(lane: str, table: pa.Table) -> list[tuple[Fate, pa.Table]]:
    if lane in (OPEN, FIRED):
        return [(Fate.ON_TIME, table)]
    if lane in (LATE, WAITING):
        return [(Fate.LATE_ACCEPTED, table)]
    fates = pc.unique(table.column("timing")).to_pylist()
    return [(Fate(fate), table.filter(pc.equal(table.column("timing"), fate))) for fate in fates]


def _sum(column: pa.ChunkedArray) -> Decimal:
    exact = column.cast(pa.decimal128(38, 0)) if pa.types.is_integer(column.type) else column
    total = pc.sum(exact).as_py()
    return Decimal(0) if total is None else Decimal(total)
