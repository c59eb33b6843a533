"""What events would have added that sessions dropped, as long as those are in SQL."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.firing.batch import Batch
from latecomer.firing.output import OutputLogic
from latecomer.firing.sessions import SessionLogic
from latecomer.model import types
from latecomer.model.aggregates import Aggregate
from latecomer.model.verdicts import Fate
from latecomer.store.files import Location
from latecomer.store.sql import quoted
from latecomer.windowing.columns import END, FATE, START
from latecomer.windowing.fates import CODES, Periods


def dropped_from_sessions(
    logic: OutputLogic, log: Batch, folder: Location, periods: Periods, additive: Mapping[str, Aggregate]
) -> pa.Table:
    """Window, key, and what the dropped events would have added."""
    assert isinstance(logic, SessionLogic)  # noqa: S101
    gone = logic.judged(log, folder / "suspects", periods).where(F.col(FATE) == CODES[Fate.DROPPED])
    keys = [quoted(key) for key in logic.layout.keys]
    sums = [F.expr(_summed(each, logic.layout.types)).alias(name) for name, each in additive.items()]
    grouped = gone.groupBy(START, END, *keys).agg(*(sums or [F.lit(0).alias(f"{PRIVATE}none")]))
    moments = [F.timestamp_micros(START).alias("window_start"), F.timestamp_micros(END).alias("window_end")]
    return grouped.select(*moments, *keys, *map(quoted, additive)).toArrow()


def _summed(aggregate: Aggregate, kinds: Mapping[str, str]) -> str:
    if aggregate.column is None:
        return "count(1)"
    column = quoted(aggregate.column)
    if aggregate.function == "count":
        return f"count({column})"
    kind = kinds[aggregate.column]
    wide = f"decimal(38,{types.scale_of(kind)})" if types.is_exact(kind) else "double"
    return f"sum(cast({column} as {wide}))"
