"""Late panes: what late events add, merged with the last pane of their window and key."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from latecomer.config.checks import PRIVATE
from latecomer.firing.columns import PRIOR
from latecomer.firing.lanes import is_last
from latecomer.log.columns import THIS_BATCH
from latecomer.model.durations import to_micros
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.verdicts import Fate
from latecomer.store.columns import NTH
from latecomer.store.files import Location, url
from latecomer.store.sql import quoted
from latecomer.store.standing import STANDS, newest_first
from latecomer.store.table import DataFile
from latecomer.windowing.columns import LAST_ARRIVAL, LAST_SEQUENCE, LAST_WATERMARK
from latecomer.windowing.merge import Merger

_CAUSE = f"{PRIVATE}cause_"
"""Before the name of a column: what the pane says that takes another back."""
_TOUCHED = f"{PRIVATE}touched_"
"""Before the name of a column: the window and key that late events touched."""


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
    added: Sequence[Location],
    earlier: Sequence[str],
    params: DataFrame,
    folder: Location,
) -> None:
    """One LATE pane for each window and key that late events touched.

    It holds all that is known, or with `discarding` only what was added. With `retracting`, the pane
    that it replaces is taken back first.
    """
    schema = merger.ddl()
    delta = spark.read.schema(schema).parquet(*map(url, added))
    inputs = merger.of_states(delta, Fate.LATE_ACCEPTED, fresh=True)
    retracting = bool(earlier) and merger.output.accumulation is Accumulation.RETRACTING
    if earlier:
        held = _standing(spark.read.schema(schema).parquet(*earlier), delta, merger)
        if merger.output.accumulation is Accumulation.DISCARDING:
            inputs = inputs.unionByName(merger.of_sequences(held))
        else:
            whole = [f"struct({', '.join(map(quoted, held.columns))}) as {PRIOR}"] if retracting else []
            inputs = inputs.withColumn(PRIOR, _prior(schema)) if retracting else inputs
            inputs = inputs.unionByName(merger.of_states(held, Fate.LATE_ACCEPTED, more=whole))
    merged = merger.merge(inputs, first=PRIOR if retracting else None)
    firing = {
        "sequence": f"coalesce({LAST_SEQUENCE} + 1, 0L)",
        "timing": f"'{Timing.LATE}'",
        "op": f"'{Op.INSERT}'",
        "is_last": is_last(merger.output, Timing.LATE),
        "batch": THIS_BATCH,
        "fired_at": f"timestamp_micros({LAST_ARRIVAL})",
        "watermark": f"timestamp_micros({LAST_WATERMARK})",
        **({PRIOR: PRIOR} if retracting else {}),
    }
    panes = merger.published(merged.crossJoin(F.broadcast(params)), firing)
    if retracting:
        panes = _with_retracts(panes)
    panes.coalesce(1).write.parquet(url(folder))


def write_retracts(
    spark: SparkSession,
    merger: Merger,
    fired: Sequence[Location],
    earlier: Sequence[str],
    params: DataFrame,
    folder: Location,
) -> None:
    """Take back what panes that just fired replace: the early panes of their windows."""
    schema = merger.ddl()
    panes = spark.read.schema(schema).parquet(*map(url, fired)).where("sequence > 0")
    held = _standing(spark.read.schema(schema).parquet(*earlier), panes, merger)
    place = ("window_start", *merger.layout.keys)
    why = {f"{_CAUSE}{name}": name for name in (*place, "timing", "fired_at", "watermark")}
    new = panes.selectExpr(*(f"{quoted(name)} as {quoted(other)}" for other, name in why.items()))
    same = [F.col(quoted(name)).eqNullSafe(F.col(quoted(f"{_CAUSE}{name}"))) for name in place]
    replaced = {
        "op": F.lit(Op.RETRACT.value),
        "is_last": F.lit(False),
        "batch": F.col(THIS_BATCH),
        **{name: F.col(f"{_CAUSE}{name}") for name in ("timing", "fired_at", "watermark")},
    }
    retracts = held.join(new, same).crossJoin(F.broadcast(params))
    columns = (replaced.get(name, F.col(quoted(name))).alias(name) for name in held.columns)
    retracts.select(*columns).coalesce(1).write.parquet(url(folder))


def _prior(schema: str) -> Column:
    return F.lit(None).cast(StructType.fromDDL(schema))


def _standing(panes: DataFrame, delta: DataFrame, merger: Merger) -> DataFrame:
    """The pane that was published last for each window and key in `delta`."""
    place = ["window_start", *merger.layout.keys]
    wanted = delta.select(*(F.col(quoted(name)).alias(f"{_TOUCHED}{name}") for name in place))
    same = [F.col(quoted(name)).eqNullSafe(F.col(quoted(f"{_TOUCHED}{name}"))) for name in place]
    held = panes.where(F.col("op") == Op.INSERT.value).join(F.broadcast(wanted), same, "left_semi")
    newest = newest_first(", ".join(map(quoted, place)))
    return held.withColumn(NTH, F.expr(newest)).where(STANDS).drop(NTH)


def _with_retracts(panes: DataFrame) -> DataFrame:
    """Each pane that replaces another, preceded by the withdrawal of that other."""
    names = [name for name in panes.columns if name != PRIOR]
    replaced = {"op": F.lit(Op.RETRACT.value), "timing": F.lit(Timing.LATE.value), "is_last": F.lit(False)}
    replaced |= {name: F.col(name) for name in ("batch", "fired_at", "watermark")}
    retract = F.struct(*(replaced.get(name, F.col(f"{PRIOR}.{quoted(name)}")).alias(name) for name in names))
    insert = F.struct(*(F.col(quoted(name)) for name in names))
    pair = F.when(F.col(PRIOR).isNull(), F.array(insert)).otherwise(F.array(retract, insert))
    return panes.select(F.explode(pair).alias(PRIOR)).select(f"{PRIOR}.*")
