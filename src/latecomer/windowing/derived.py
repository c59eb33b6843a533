"""The derived columns of logged events, for those who look at events one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as F

from latecomer.config.models import Output
from latecomer.model.windows import Window
from latecomer.spark.session import build_session, own_session
from latecomer.store.sql import ddl
from latecomer.store.store import Store
from latecomer.windowing.derived_in_process import as_seen, stored_columns
from latecomer.windowing.spark_columns import computed_tables

_PLACE = ("batch", "origin", "position")


def derived_values(
    store: Store, output: Output, paths: Sequence[str], stretch: Window
) -> dict[tuple[int, str, int], dict[str, Any]]:
    """Batch, origin and position of each event in a span of event time → its derived columns; starts Spark where none
    is running."""
    spark = own_session(build_session(store.pipeline.name, store.root / "logs" / "spark.log"))
    events = spark.read.schema(ddl(store.layout.stored)).parquet(*paths)
    time = F.unix_micros("event_time")
    events = events.where((time >= stretch.start) & (time < stretch.end))
    wanted = list(dict.fromkeys([*stored_columns(store.layout, [output], ()), *_PLACE]))
    found: dict[tuple[int, str, int], dict[str, Any]] = {}
    for part in computed_tables(events, wanted, [output], store.layout):
        seen = as_seen(part, store.layout, output)
        made = {name: seen.column(name).to_pylist() for name in output.columns}
        places = zip(*(part.column(name).to_pylist() for name in _PLACE), strict=True)
        for nth, place in enumerate(places):
            found[place] = {name: values[nth] for name, values in made.items()}
    return found
