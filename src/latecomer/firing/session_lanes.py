"""What becomes of each session at the end of a batch, row by row, lane by lane.

open     sessions still open, whole                      → partials
waiting  closed ones whose late events wait, whole       → partials
told     the panes that these will have to take back     → partials
fired    panes, and what they take back                  → panes
rest     one row for each other fate, for the ledger alone
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.models import Output
from latecomer.firing.columns import EARLY_DUE, LATE_DUE, NOW, PANES, PRIOR, Lane
from latecomer.firing.lanes import interval_passed, is_last
from latecomer.log.columns import THIS_BATCH
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.triggers import Count, Every
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.store.columns import HELD, LANE, SINCE, UNSETTLED, WAITING_EVENTS
from latecomer.store.sql import quoted
from latecomer.timeline.columns import FIRED_AT, FIRED_WATERMARK
from latecomer.timeline.keeper import Step, Stretch
from latecomer.windowing.columns import END, FATE, LAST_ARRIVAL, LAST_WATERMARK, START
from latecomer.windowing.judge import CODES
from latecomer.windowing.merge import Merger

_FIRES, _STAYS, _SAME = f"{PRIVATE}fires", f"{PRIVATE}stays", f"{PRIVATE}same"
_ROW = f"{PRIVATE}lane_and_prior"
_CELL, _AFTER = f"{PRIVATE}step_cell", f"{PRIVATE}step_after"
_LOW, _WIDTH = f"{PRIVATE}low", f"{PRIVATE}width"
CELLS = 1024


def with_lanes(
    spark: SparkSession, merger: Merger, sessions: DataFrame, stretch: Stretch, params: DataFrame
) -> DataFrame:
    """Merged sessions → panes, states and published panes, each with its LANE."""
    publishes = PANES in sessions.columns
    placed = _with_closings(spark, sessions, stretch).crossJoin(F.broadcast(params))
    output = merger.output
    place = (
        f"t.{name} = timestamp_micros({at})" for name, at in (("window_start", START), ("window_end", END))
    )
    same = f"exists({PANES}, t -> {' and '.join(place)})"
    placed = (
        placed.withColumn(_FIRES, F.expr(_fires(output)))
        .withColumn(_STAYS, F.expr(_stays()))
        .withColumn(_SAME, F.expr(same if publishes else "false"))
    )
    nothing = f"cast(null as {_pane_type(merger)})" if publishes else "cast(null as boolean)"
    laned = placed.selectExpr("*", f"explode({_rows(output, publishes, nothing)}) as {_ROW}").selectExpr(
        "*", f"{_ROW}.lane as {LANE}", f"{_ROW}.prior as {PRIOR}"
    )
    columns = {**_firing(output, publishes), LANE: LANE, PRIOR: PRIOR}
    panes = merger.published(laned, columns, _after_publishing(merger))
    return _taken_back(panes, merger).drop(PRIOR) if publishes else panes.drop(PRIOR)


# When


def _fires(output: Output) -> str:
    """The timing of the pane that a session fires now; null where it does not."""
    closed = f"{FATE} = {CODES[Fate.ON_TIME]} and {END} <= {NOW}"
    again = f"if({HELD} > {UNSETTLED}, '{Timing.LATE}', '{Timing.ON_TIME}')"
    news = f"{UNSETTLED} > 0"
    if output.closes_silently:
        news = f"({news} and {SINCE} > {WAITING_EVENTS})"
    due = f"{news} or ({WAITING_EVENTS} > 0 and {_late_due(output)})"
    early = f"{FATE} = {CODES[Fate.ON_TIME]} and {END} > {NOW} and {SINCE} > 0 and {_early_due(output)}"
    return f"case when {closed} and ({due}) then {again} when {early} then '{Timing.EARLY}' end"


def _stays() -> str:
    """The lane in which a session's state is kept; null where it has nothing left to publish."""
    ours = f"{FATE} = {CODES[Fate.ON_TIME]}"
    return (
        f"case when {ours} and {END} > {NOW} then '{Lane.OPEN}' "
        f"when {ours} and {_FIRES} is null and {WAITING_EVENTS} > 0 then '{Lane.WAITING}' end"
    )


def _early_due(output: Output) -> str:
    match output.trigger.early:
        case None:
            return "false"
        case Count(count=count):
            return f"{SINCE} >= {count}"
        case Every(clock="arrival"):
            return f"{EARLY_DUE} = 1"
        case Every(every=every):
            return interval_passed(output, every)


def _late_due(output: Output) -> str:
    over = is_last(output, Timing.LATE)
    match output.trigger.late:
        case "batch":
            return "true"
        case Count(count=count):
            return f"({WAITING_EVENTS} >= {count} or {over})"
        case Every():
            return f"({LATE_DUE} = 1 or {over})"


def _with_closings(spark: SparkSession, sessions: DataFrame, stretch: Stretch) -> DataFrame:
    """Add when a session that has closed did so, and by which watermark.

    The step of the watermark that first reached an end is found among those in the same cell of time.
    """
    steps = [step for step in stretch.steps if step.watermark > BEGIN_OF_TIME]
    low = steps[0].watermark if steps else 0
    width = (steps[-1].watermark - low) // CELLS + 1 if steps else 1
    bounds = pa.table({_LOW: pa.array([low], pa.int64()), _WIDTH: pa.array([width], pa.int64())})
    cell = f"least(greatest(({END} - {_LOW}) div {_WIDTH}, 0L), {CELLS - 1}L)"
    celled = sessions.crossJoin(F.broadcast(spark.createDataFrame(bounds))).withColumn(_CELL, F.expr(cell))
    firsts = spark.createDataFrame(_steps_by_cell(steps, low, width)).withColumnRenamed(_CELL, f"{_CELL}s")
    reached = F.expr(f"{_CELL} = {_CELL}s and {_AFTER} < {END} and {END} <= {FIRED_WATERMARK}")
    return celled.join(F.broadcast(firsts), reached, "left")


def _steps_by_cell(steps: Sequence[Step], low: int, width: int) -> pa.Table:
    """Each step in every cell where an end could be that it is the first to reach."""

    def cell(moment: int) -> int:
        return min(max((moment - low) // width, 0), CELLS - 1)

    afters = [BEGIN_OF_TIME, *(step.watermark for step in steps)]
    rows = [
        (number, after, step.watermark, step.at)
        for after, step in zip(afters, steps, strict=False)
        for number in range(cell(after + 1), cell(step.watermark) + 1)
    ]
    names = (_CELL, _AFTER, FIRED_WATERMARK, FIRED_AT)
    return pa.table({name: pa.array([row[i] for row in rows], pa.int64()) for i, name in enumerate(names)})


# What


def _rows(output: Output, publishes: bool, nothing: str) -> str:
    """The rows that a session becomes, as an array of lane and, where the row is one, earlier pane."""
    retracting = output.accumulation is Accumulation.RETRACTING
    fires, stays = f"{_FIRES} is not null", f"{_STAYS} is not null"

    def own(lane: str, when: str) -> str:
        return f"if({when}, array(named_struct('lane', {lane}, 'prior', {nothing})), array())"

    def each_published(lane: str, when: str) -> str:
        return f"if({when}, transform({PANES}, t -> named_struct('lane', {lane}, 'prior', t)), array())"

    parts = [
        own(f"'{Lane.FIRED}'", fires),
        own(_STAYS, stays),
        own(f"'{Lane.TO_RETRACT}'", f"{fires} and {stays}"),
        own(f"'{Lane.REST}'", f"{FATE} != {CODES[Fate.ON_TIME]}"),
    ]
    if publishes:
        parts.append(each_published(f"'{Lane.FIRED}'", fires if retracting else f"{fires} and not {_SAME}"))
        parts.append(each_published(f"'{Lane.TO_RETRACT}'", f"{_FIRES} is null and {stays}"))
        if output.accumulation is Accumulation.DISCARDING:
            parts.append(each_published(f"'{Lane.TO_RETRACT}'", f"{fires} and {stays} and {_SAME}"))
    return f"concat({', '.join(parts)})"


def _firing(output: Output, publishes: bool) -> dict[str, str]:
    """The firing columns of each lane."""
    fired, published = f"{LANE} = '{Lane.FIRED}'", f"{LANE} = '{Lane.TO_RETRACT}'"
    closes = f"{UNSETTLED} > 0 and {END} <= {NOW}"
    following = f"if({_SAME}, array_max({PANES}.sequence) + 1, 0L)" if publishes else "0L"
    fates = " ".join(f"when {code} then '{fate}'" for fate, code in CODES.items())
    last = " ".join(
        f"when {_FIRES} = '{timing}' then {is_last(output, timing)}"
        for timing in (Timing.ON_TIME, Timing.LATE)
    )
    return {
        "sequence": f"case when {fired} or {published} then {following} end",
        "timing": f"if({fired} or {published}, {_FIRES}, case {FATE} {fates} end)",
        # A published pane is kept as what it will be.
        "op": f"if({published} or {PRIOR} is not null, '{Op.RETRACT}', '{Op.INSERT}')",
        "is_last": f"{fired} and {PRIOR} is null and coalesce(case {last} end, false)",
        "batch": THIS_BATCH,
        "fired_at": f"timestamp_micros(if({closes}, {FIRED_AT}, {LAST_ARRIVAL}))",
        "watermark": f"timestamp_micros(if({closes}, {FIRED_WATERMARK}, nullif({LAST_WATERMARK}, {BEGIN_OF_TIME}L)))",
    }


def _after_publishing(merger: Merger) -> dict[str, str]:
    """What a firing changes in the state: the pane has been published, and counted once."""
    fires = f"{_FIRES} is not null"
    counted = f"{PRIOR} is not null or ({fires} and {LANE} != '{Lane.FIRED}')"
    after = {column: f"if({counted}, 0, {quoted(column)})" for column in merger.new_columns}
    after |= {column: f"if({fires}, 0L, {column})" for column in (SINCE, WAITING_EVENTS)}
    after[UNSETTLED] = (
        f"if({LANE} in ('{Lane.FIRED}', '{Lane.TO_RETRACT}', '{Lane.WAITING}'), 0L, {UNSETTLED})"
    )
    if merger.output.accumulation is Accumulation.DISCARDING:
        published = f"{fires} and {LANE} = '{Lane.OPEN}'"
        after |= {name: f"if({published}, {sql}, {quoted(name)})" for name, sql in merger.emptied.items()}
    return after


def _taken_back(panes: DataFrame, merger: Merger) -> DataFrame:
    """Rows that are an earlier pane have its window, values, state and sequence."""
    own = {"op", "is_last", "batch", "fired_at", "watermark", *merger.new_columns, LANE, PRIOR}
    timing = f"if({PRIOR} is null or {LANE} = '{Lane.FIRED}', timing, {PRIOR}.timing) as timing"
    return panes.selectExpr(
        *(
            timing
            if name == "timing"
            else quoted(name)
            if name in own
            else f"if({PRIOR} is null, {quoted(name)}, {PRIOR}.{quoted(name)}) as {quoted(name)}"
            for name in panes.columns
        )
    )


def _pane_type(merger: Merger) -> str:
    return f"struct<{merger.ddl()}>"
