"""Events ⋈ timeline → windows, watermark at arrival, fate. Native Spark SQL.

The watermark reaches each event through a broadcast join on its tick, never as a literal: the
generated code stays the same from batch to batch and is compiled once.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.config.derived import derived_types
from latecomer.config.models import Output
from latecomer.log.columns import ARRIVAL, TIME, WHOLE_EVENT
from latecomer.model.verdicts import Fate, Verdict, fate_of
from latecomer.source.columns import ORIGIN, POSITION
from latecomer.spark.trying import tried
from latecomer.store.layout import EventLayout
from latecomer.store.sql import holds, quoted
from latecomer.windowing.columns import BATCH, END, TICK, WATERMARK
from latecomer.windowing.fates import CODES as CODES
from latecomer.windowing.fates import FATES as FATES
from latecomer.windowing.fates import Periods as Periods


def as_seen(events: DataFrame, layout: EventLayout, output: Output | None, *more: str) -> DataFrame:
    """The log under the source's own column names, with the envelope's times in microseconds, and with the derived
    columns of an output.

    What a plan does not use, Spark does not read.
    """
    seen = events.selectExpr(
        *(f"{quoted(stored)} as {quoted(column)}" for column, stored in layout.view.items()),
        f"unix_micros(event_time) as {TIME}",
        f"unix_micros(arrival_time) as {ARRIVAL}",
        f"tick as {TICK}",
        f"batch as {BATCH}",
        f"origin as {ORIGIN}",
        f"position as {POSITION}",
        *more,
    )
    derived = {} if output is None else output.columns
    if not derived:
        return seen
    kinds = derived_types(derived, layout.types)
    made = {name: tried(seen.sparkSession, each.sql, kinds[name], BATCH) for name, each in derived.items()}
    return seen.withColumns(made)


def whole_event(layout: EventLayout) -> str:
    """The event as it was logged, as one column."""
    return f"struct({', '.join(map(quoted, layout.stored))}) as {WHOLE_EVENT}"


def with_watermark(seen: DataFrame, timeline: DataFrame) -> DataFrame:
    """Each event with the watermark in force when it arrived."""
    on = [column for column in (BATCH, TICK) if column in timeline.columns]
    return seen.join(F.broadcast(timeline), on)


def kept_sql(output: Output) -> str:
    """Whether an output's `where` keeps an event."""
    return "true" if output.where is None else holds(output.where, BATCH)


def fate_sql(output: Output, end: str = END) -> str:
    """The fate of an event in the window that ends at `end`, as one of CODES."""
    on_time, late, too_late = (CODES[fate_of(verdict, output.late, output.too_late)] for verdict in Verdict)
    return (
        f"cast(case when not ({kept_sql(output)}) then {CODES[Fate.FILTERED]} "
        f"when {end} > {WATERMARK} then {on_time} "
        f"when {WATERMARK} < {end} + {output.allowed_lateness}L then {late} "
        f"else {too_late} end as tinyint)"
    )
