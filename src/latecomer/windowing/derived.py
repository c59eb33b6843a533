"""The derived columns of single events of the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.log.logged_events import Logged, LogSplit
from latecomer.model.windows import Window
from latecomer.spark.base import InProcess
from latecomer.spark.session import build_session, own_session
from latecomer.spark.when_needed import when_needed
from latecomer.store.files import KeptScratch, log_file
from latecomer.store.layout import TIMESTAMP
from latecomer.store.store import Store
from latecomer.windowing.spark_columns import computed
from latecomer.windowing.visible_events import as_seen, event_tables, stored_columns

_PLACE = ("batch", "origin", "position")


def derived_values(
    store: Store, output: Output, paths: Sequence[str], interval: Window
) -> dict[tuple[int, str, int], tuple[dict[str, Any], frozenset[str]]]:
    """Batch, origin and position of each event in a span of event time → its derived columns, and the names of those
    that cannot be computed for it. Starts Spark where it is needed and not running."""
    log = log_file(store.root, "spark.log")
    runner = InProcess(when_needed(lambda: own_session(build_session(store.pipeline.name, log))))
    low, high = (pa.scalar(moment, pa.int64()).cast(TIMESTAMP) for moment in (interval.start, interval.end))
    within = (pc.field("event_time") >= low) & (pc.field("event_time") < high)
    logged = Logged([LogSplit([Path(path) for path in paths], 1, store.layout.schema, where=within)])
    wanted = list(dict.fromkeys([*stored_columns(store.layout, [output], ()), *_PLACE]))
    scratch = KeptScratch()  # a store may only be readable
    by_place: dict[tuple[int, str, int], tuple[dict[str, Any], frozenset[str]]] = {}
    with computed(logged, [output], store.layout, runner, scratch.folder) as events:
        for part in event_tables(events, wanted, [output], store.layout):
            seen = as_seen(part, store.layout, output)
            made = {name: seen.column(name).to_pylist() for name in output.columns}
            places = zip(*(part.column(name).to_pylist() for name in _PLACE), strict=True)
            for nth, place in enumerate(places):
                failed = frozenset(
                    name for name, mask in seen.failed.items() if mask is not None and mask[nth]
                )
                by_place[place] = {name: values[nth] for name, values in made.items()}, failed
    return by_place
