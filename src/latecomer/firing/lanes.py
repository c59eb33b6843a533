"""What one pass over a batch yields for an output, lane by lane (`Lane`), as files not yet committed."""

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
from latecomer.firing.columns import BEGAN, CLOCK, EARLY_DUE, LATE_DUE, NOW, Lane
from latecomer.log.columns import THIS_BATCH, WATERMARK_BEFORE
from latecomer.model.ledger import ASSIGNMENTS
from latecomer.model.ledger import EVENTS as EVENT_UNIT
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.triggers import Count, Every
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate
from latecomer.store.columns import EVENTS, LANE, NEW_BEHIND, NEW_PARTLY, SINCE, measure_column, new_column
from latecomer.store.files import Location, parquet_files, read_table, url
from latecomer.store.sql import quoted
from latecomer.timeline.columns import FIRED_AT, FIRED_WATERMARK
from latecomer.windowing.columns import END, FATE, LAST_ARRIVAL, LAST_SEQUENCE, LAST_WATERMARK, START
from latecomer.windowing.judge import CODES
from latecomer.windowing.merge import Counts, Merger
from latecomer.windowing.states import assignments_column

KNOWN = f"nullif({NOW}, {BEGIN_OF_TIME}L)"
"""The watermark, null where nothing is known yet."""
_EARLY = f"{PRIVATE}early"


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


def write_lanes(
    merger: Merger, inputs: Sequence[DataFrame], firings: DataFrame, params: DataFrame, folder: Location
) -> Lanes:
    """Merge events and open states in one pass, and write every lane."""
    merged = merger.merge(reduce(lambda left, right: left.unionByName(right), inputs))
    placed = merged.join(F.broadcast(firings), END, "left").crossJoin(F.broadcast(params))
    on_time, late = CODES[Fate.ON_TIME], CODES[Fate.LATE_ACCEPTED]
    closes = f"{FATE} = {on_time} and {FIRED_AT} is not null"
    published = f"'{Lane.FIRED}'"
    if merger.output.closes_silently:
        published = f"if({SINCE} > 0, {published}, '{Lane.REST}')"
    late_lane = f"if({late_due(merger.output)}, '{Lane.LATE}', '{Lane.WAITING}')"
    lane = (
        f"case when {closes} then {published} when {FATE} = {on_time} then '{Lane.OPEN}' "
        f"when {FATE} = {late} then {late_lane} else '{Lane.REST}' end"
    )
    early = early_due(merger)
    if early is None:
        laned = placed.selectExpr("*", f"{lane} as {LANE}", f"false as {_EARLY}")
    else:
        placed = placed.selectExpr("*", f"{FATE} = {on_time} and {FIRED_AT} is null and {early} as {_EARLY}")
        both = f"explode(if({_EARLY}, array('{Lane.FIRED}', '{Lane.OPEN}'), array({lane}))) as {LANE}"
        laned = placed.selectExpr("*", both)
    after = None if early is None else _after_publishing(merger)
    panes = merger.published(laned, {**_firing(merger.output), LANE: LANE}, after)
    panes.write.partitionBy(LANE).parquet(url(folder))
    return Lanes(folder, merger)


def _firing(output: Output) -> dict[str, str]:
    """The firing columns of each lane."""
    fired, late = f"{LANE} = '{Lane.FIRED}'", f"{LANE} in ('{Lane.LATE}', '{Lane.WAITING}')"
    rest = " ".join(f"when {code} then '{fate}'" for fate, code in CODES.items())
    following = f"coalesce({LAST_SEQUENCE} + 1, 0L)"
    return {
        "sequence": f"case when {fired} or {_EARLY} then {following} "
        f"when {LANE} = '{Lane.OPEN}' then {LAST_SEQUENCE} end",
        "timing": f"case when {fired} then if({_EARLY}, '{Timing.EARLY}', '{Timing.ON_TIME}') "
        f"when {late} then '{Timing.LATE}' else case {FATE} {rest} end end",
        "op": f"'{Op.INSERT}'",
        "is_last": f"{fired} and not {_EARLY} and {is_last(output, Timing.ON_TIME)}",
        "batch": THIS_BATCH,
        "fired_at": f"timestamp_micros(case when {fired} then coalesce({FIRED_AT}, {CLOCK}) "
        f"when {late} then {LAST_ARRIVAL} end)",
        "watermark": f"timestamp_micros(case when {fired} then coalesce({FIRED_WATERMARK}, {KNOWN}) "
        f"when {late} then {LAST_WATERMARK} end)",
    }


def _after_publishing(merger: Merger) -> dict[str, str]:
    """What an early pane changes in the state that stays open: the pane has been counted, and published."""
    published = f"{_EARLY} and {LANE} = '{Lane.OPEN}'"
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
    reached, earlier = (f"greatest(0, ({mark} - {START}) div {every}L)" for mark in (NOW, WATERMARK_BEFORE))
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
