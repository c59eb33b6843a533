"""Events ⋈ timeline → window, watermark at arrival, fate. Native Spark SQL, one row in, one row out.

The watermark reaches each event through a broadcast join on its tick, never as a literal: the
generated code stays the same from batch to batch and is compiled once.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.models import Output
from latecomer.model.verdicts import Fate, Verdict, fate_of
from latecomer.model.windows import Tumbling
from latecomer.store.layout import EventLayout
from latecomer.store.sql import quoted

TIME = f"{PRIVATE}time"
ARRIVAL = f"{PRIVATE}arrival"
TICK = f"{PRIVATE}tick"
BATCH = f"{PRIVATE}batch"
START = f"{PRIVATE}start"
END = f"{PRIVATE}end"
WATERMARK = f"{PRIVATE}watermark"
FATE = f"{PRIVATE}fate"

CODES: dict[Fate, int] = {
    Fate.ON_TIME: 0,
    Fate.LATE_ACCEPTED: 1,
    Fate.SIDE_OUTPUT: 2,
    Fate.DROPPED: 3,
    Fate.FILTERED: 4,
}
"""Fates as small integers: cheaper to group by than text."""
FATES = {code: fate for fate, code in CODES.items()}


def as_seen(events: DataFrame, layout: EventLayout, *more: str) -> DataFrame:
    """The log under the source's own column names, with the envelope's times in microseconds."""
    return events.selectExpr(
        *(f"{quoted(stored)} as {quoted(column)}" for column, stored in layout.view.items()),
        f"unix_micros(event_time) as {TIME}",
        f"unix_micros(arrival_time) as {ARRIVAL}",
        f"tick as {TICK}",
        f"batch as {BATCH}",
        *more,
    )


def judged(seen: DataFrame, timeline: DataFrame, output: Output) -> DataFrame:
    """Each event with its window, the watermark at its arrival, and its fate for this output.

    `timeline` has TICK and WATERMARK, and BATCH where the events span several batches.
    """
    on = [column for column in (BATCH, TICK) if column in timeline.columns]
    with_watermark = seen.join(F.broadcast(timeline), on)
    assert isinstance(output.window, Tumbling)  # noqa: S101 - the other windows follow
    return with_window(with_watermark, output.window).withColumn(FATE, F.expr(_fate(output)))


def with_window(seen: DataFrame, window: Tumbling) -> DataFrame:
    """Add the window's start and end, in microseconds."""
    if window.zone == "UTC":
        into = f"pmod({TIME} - {window.offset}L, {window.size}L)"
        return seen.selectExpr(
            "*", f"{TIME} - {into} as {START}", f"{TIME} - {into} + {window.size}L as {END}"
        )
    local, zone, frame = f"{PRIVATE}local", window.zone, window.frame
    wall = f"unix_micros(from_utc_timestamp(timestamp_micros({TIME}), '{zone}'))"
    # At a clock change the wall clock can mislead by one frame.
    framed = (
        f"case when {TIME} < {_utc(local, zone)} then {local} - {frame}L "
        f"when {TIME} >= {_utc(f'{local} + {frame}L', zone)} then {local} + {frame}L else {local} end"
    )
    days = (
        seen.withColumn(local, F.expr(wall))
        .withColumn(local, F.expr(f"{local} - pmod({local} - {window.offset}L, {frame}L)"))
        .withColumn(local, F.expr(framed))
        .withColumn(START, F.expr(_utc(local, zone)))
        .withColumn(END, F.expr(_utc(f"{local} + {frame}L", zone)))
        .drop(local)
    )
    if window.size == frame:
        return days
    start = f"{TIME} - pmod({TIME} - {START}, {window.size}L)"
    return days.withColumn(START, F.expr(start)).withColumn(
        END, F.expr(f"least({START} + {window.size}L, {END})")
    )


def _utc(local: str, zone: str) -> str:
    return f"unix_micros(to_utc_timestamp(timestamp_micros({local}), '{zone}'))"


def _fate(output: Output) -> str:
    on_time, late, too_late = (CODES[fate_of(verdict, output.late, output.too_late)] for verdict in Verdict)
    kept = "true" if output.where is None else f"coalesce({output.where}, false)"
    return (
        f"cast(case when not ({kept}) then {CODES[Fate.FILTERED]} "
        f"when {END} > {WATERMARK} then {on_time} "
        f"when {WATERMARK} < {END} + {output.allowed_lateness}L then {late} "
        f"else {too_late} end as tinyint)"
    )
