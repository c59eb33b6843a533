"""Late panes: what late events add, merged with the last pane of their window and key."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.model.durations import to_micros
from latecomer.model.panes import Op, Timing
from latecomer.model.verdicts import Fate, LatePolicy
from latecomer.store.sql import quoted
from latecomer.store.table import DataFile
from latecomer.windowing.merge import LAST_ARRIVAL, LAST_SEQUENCE, LAST_WATERMARK, Merger

_LAST = f"{PRIVATE}last"


def touching(files: Iterable[DataFile], starts: Sequence[int]) -> list[DataFile]:
    """The pane files that can hold one of these windows (`starts` ascending)."""
    found = []
    for file in files:
        low, high = to_micros(file.minimum["window_start"]), to_micros(file.maximum["window_start"])
        place = bisect_left(starts, low)
        if place < len(starts) and starts[place] <= high:
            found.append(file)
    return found


def write_late_panes(
    spark: SparkSession,
    merger: Merger,
    added: Sequence[Path],
    earlier: Sequence[str],
    params: DataFrame,
    folder: Path,
) -> None:
    """One LATE pane for each window and key that late events touched; with `retract`, the pane that
    it replaces is taken back first."""
    schema = merger.ddl()
    delta = spark.read.schema(schema).parquet(*(str(file) for file in added))
    inputs = merger.of_states(delta, Fate.LATE_ACCEPTED, fresh=True)
    retracts = None
    if earlier:
        last = _last_panes(spark.read.schema(schema).parquet(*earlier), delta, merger)
        if merger.output.late is LatePolicy.RETRACT:
            last = last.cache()
            retracts = last
        inputs = inputs.unionByName(merger.of_states(last, Fate.LATE_ACCEPTED))
    merged = merger.merge(inputs).crossJoin(F.broadcast(params))
    panes = merger.published(
        merged,
        sequence=f"coalesce({LAST_SEQUENCE} + 1, 0L)",
        timing=f"'{Timing.LATE}'",
        op=f"'{Op.INSERT}'",
        batch=f"{PRIVATE}batch",
        fired_at=f"timestamp_micros({LAST_ARRIVAL})",
        watermark=f"timestamp_micros({LAST_WATERMARK})",
    )
    if retracts is not None:
        panes = panes.unionByName(_retracted(retracts, panes, merger))
    panes.coalesce(1).write.parquet(str(folder))
    if retracts is not None:
        retracts.unpersist()


def _last_panes(panes: DataFrame, delta: DataFrame, merger: Merger) -> DataFrame:
    """The pane that stands now for each window and key in `delta`."""
    place = ["window_start", *merger.layout.keys]
    wanted = delta.select(*(F.col(quoted(name)).alias(f"{PRIVATE}want_{name}") for name in place))
    same = [F.col(quoted(name)).eqNullSafe(F.col(quoted(f"{PRIVATE}want_{name}"))) for name in place]
    held = panes.where(F.col("op") == Op.INSERT.value).join(F.broadcast(wanted), same, "left_semi")
    whole = F.struct(*(F.col(quoted(name)) for name in panes.columns))
    latest = held.groupBy(*(F.col(quoted(name)) for name in place)).agg(
        F.max_by(whole, F.col("sequence")).alias(_LAST)
    )
    return latest.select(*(F.col(f"{_LAST}.{quoted(name)}").alias(name) for name in panes.columns))


def _retracted(last: DataFrame, panes: DataFrame, merger: Merger) -> DataFrame:
    """The panes in `last` taken back, at the moment their replacement is published."""
    place = ["window_start", *merger.layout.keys]
    moments = panes.select(
        *(F.col(quoted(name)).alias(f"{PRIVATE}want_{name}") for name in place),
        F.col("batch").alias(f"{PRIVATE}batch"),
        F.col("fired_at").alias(f"{PRIVATE}fired_at"),
        F.col("watermark").alias(f"{PRIVATE}watermark"),
    )
    same = [F.col(quoted(name)).eqNullSafe(F.col(quoted(f"{PRIVATE}want_{name}"))) for name in place]
    replaced = {
        "op": F.lit(Op.RETRACT.value),
        "timing": F.lit(Timing.LATE.value),
        **{name: F.col(f"{PRIVATE}{name}") for name in ("batch", "fired_at", "watermark")},
    }
    return last.join(F.broadcast(moments), same).select(
        *(replaced.get(name, F.col(quoted(name))).alias(name) for name in last.columns)
    )
