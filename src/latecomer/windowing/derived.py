"""The derived columns of logged events, for those who look at events one by one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import functions as F

from latecomer.config.models import Output
from latecomer.log.columns import TIME
from latecomer.model.durations import to_moment
from latecomer.model.windows import Window
from latecomer.source.columns import ORIGIN, POSITION
from latecomer.spark.session import build_session, own_session
from latecomer.store.sql import ddl, quoted
from latecomer.store.store import Store
from latecomer.windowing.columns import BATCH
from latecomer.windowing.judge import as_seen


def derived_values(
    store: Store, output: Output, paths: Sequence[str], stretch: Window
) -> dict[tuple[int, str, int], dict[str, Any]]:
    """Batch, origin and position of each event in a stretch of event time → its derived columns; starts Spark where
    none is running."""
    spark = own_session(build_session(store.pipeline.name, store.root / "logs" / "spark.log"))
    events = spark.read.schema(ddl(store.layout.stored)).parquet(*paths)
    seen = as_seen(events, store.layout, output).where(
        (F.col(TIME) >= stretch.start) & (F.col(TIME) < stretch.end)
    )
    names = list(output.columns)
    kinds = dict(seen.select(*map(quoted, names)).dtypes)
    made = [
        F.unix_micros(quoted(name)) if kinds[name] == "timestamp" else F.col(quoted(name)) for name in names
    ]
    found: dict[tuple[int, str, int], dict[str, Any]] = {}
    for batch, origin, position, *values in seen.select(BATCH, ORIGIN, POSITION, *made).collect():
        found[batch, origin, position] = {
            name: _moment(value) if kinds[name] == "timestamp" else value
            for name, value in zip(names, values, strict=True)
        }
    return found


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else to_moment(micros).astimezone(UTC)
