"""Closing panes: the last pane of each window and key for which nothing more can come.

They hold what stands. Where the pane that stands is marked as the last already, there is nothing to add.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.models import Output
from latecomer.firing.columns import CLOCK, NOW
from latecomer.log.columns import THIS_BATCH, WATERMARK_BEFORE
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT
from latecomer.store.columns import NTH
from latecomer.store.files import Location, read_table, url
from latecomer.store.sql import double_quoted, moment_literal, quoted
from latecomer.store.standing import STANDS, newest_first, standing
from latecomer.store.table import DataFile, Table
from latecomer.timeline.keeper import Stretch
from latecomer.windowing.merge import Merger

CLOSING = "closing"
_BOTH = f"{PRIVATE}both"


def may_close(files: Iterable[DataFile], output: Output, stretch: Stretch) -> list[DataFile]:
    """The pane files that can hold a window for which nothing more can come since this stretch."""
    before = stretch.watermark_before

    def may(file: DataFile) -> bool:
        start, end = file.windows
        closes = end is None or end + output.settles_after > before
        return closes and (start is None or start < stretch.fires_at)

    return [file for file in files if may(file)]


def places_to_close(panes: Table, output: Output, stretch: Stretch) -> set[tuple[Any, ...]]:
    """The windows and keys that would have a closing pane, without Spark."""
    if not panes.exists:
        return set()
    place = ", ".join(double_quoted(name) for name in ("window_start", "window_end", *output.by))
    low = stretch.watermark_before - output.settles_after
    high = stretch.fires_at - output.settles_after
    if high <= FIRST_MOMENT:
        return set()
    since = f"window_end > {moment_literal(low)} and " if low > FIRST_MOMENT else ""
    closing = f"(select * from t where {since}window_end <= {moment_literal(high)})"
    found = panes.query(standing(closing, place, place, "not is_last"))
    return {tuple(map(repr, row.values())) for row in found.to_pylist()}


def places_in(files: Iterable[Location], output: Output) -> set[tuple[Any, ...]]:
    """The windows and keys of stored panes."""
    names = ["window_start", "window_end", *output.by]
    tables = (read_table(file, columns=names).select(names) for file in files)
    return {tuple(map(repr, row.values())) for table in tables for row in table.to_pylist()}


def write_closing_panes(
    spark: SparkSession,
    merger: Merger,
    panes: Sequence[str],
    published: Sequence[str],
    params: DataFrame,
    folder: Location,
) -> None:
    """One CLOSING pane for each window and key for which nothing more can come since this batch.

    `published` are the panes of sessions that have more to publish: those will be taken back instead.
    """
    output, schema = merger.output, merger.ddl()
    place = [quoted(name) for name in ("window_start", "window_end", *merger.layout.keys)]
    final = f"least(unix_micros(window_end) + {output.settles_after}L, {END_OF_TIME}L)"
    known = spark.read.schema(schema).parquet(*panes).crossJoin(F.broadcast(params))
    stands = (
        known.where(f"{final} > {WATERMARK_BEFORE} and {final} <= {NOW}")
        .withColumn(NTH, F.expr(newest_first(", ".join(place))))
        .where(f"{STANDS} and not is_last")
        .drop(NTH)
    )
    if published:
        names = {name: f"{PRIVATE}told_{nth}" for nth, name in enumerate(place)}
        others = spark.read.schema(schema).parquet(*published)
        others = others.select(*(F.col(name).alias(other) for name, other in names.items()))
        same = [F.col(name).eqNullSafe(F.col(other)) for name, other in names.items()]
        stands = stands.join(others, same, "left_anti")
    closing = _closing(merger)
    insert = F.struct(*(closing.get(name, F.col(quoted(name))).alias(name) for name in merger.schema.names))
    rows = [insert]
    if output.accumulation is Accumulation.RETRACTING:
        taken_back = {name: closing[name] for name in ("timing", "batch", "fired_at", "watermark")}
        taken_back |= {"op": F.lit(Op.RETRACT.value), "is_last": F.lit(False)}
        columns = (taken_back.get(name, F.col(quoted(name))).alias(name) for name in merger.schema.names)
        rows.insert(0, F.struct(*columns))
    both = stands.select(F.explode(F.array(*rows)).alias(_BOTH)).select(f"{_BOTH}.*")
    both.coalesce(1).write.parquet(url(folder))


def _closing(merger: Merger) -> dict[str, Column]:
    """What a closing pane says otherwise than the pane that stands; one that discards has nothing new."""
    nothing = merger.emptied if merger.output.accumulation is Accumulation.DISCARDING else {}
    counted = {name: f"cast(0 as {merger.state_columns[name]})" for name in merger.new_columns}
    firing = {
        "sequence": "sequence + 1",
        "timing": f"'{Timing.CLOSING}'",
        "op": f"'{Op.INSERT}'",
        "is_last": "true",
        "batch": THIS_BATCH,
        "fired_at": f"timestamp_micros(nullif({CLOCK}, {BEGIN_OF_TIME}L))",
        "watermark": f"timestamp_micros({NOW})",
    }
    return {name: F.expr(sql) for name, sql in {**nothing, **counted, **firing}.items()}
