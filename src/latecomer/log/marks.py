"""The marks of a punctuated watermark: SQL over the source's own columns, native to Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame

from latecomer.log.columns import LOGGED, MARK
from latecomer.log.envelope import micros
from latecomer.model.durations import EARLIEST, LATEST
from latecomer.model.strategies import Needs
from latecomer.store.layout import Reading
from latecomer.store.sql import holds, quoted

_TIME, _ARRIVAL = f"unix_micros({LOGGED}event_time)", f"unix_micros({LOGGED}arrival_time)"


def with_marks(events: DataFrame, reading: Reading, needs: Needs) -> DataFrame:
    """The log with MARK: the moment that an event marks, in microseconds; null where it is no mark."""
    layout = reading.log
    seen = events.selectExpr(
        *(f"{quoted(stored)} as {quoted(column)}" for column, stored in layout.view.items()),
        *(f"{quoted(stored)} as {quoted(LOGGED + stored)}" for stored in layout.stored),
    )
    if needs.marker is not None:
        mark = _marker(needs.marker, reading)
    else:
        mark = f"case when {holds(str(needs.where), f'{LOGGED}batch')} then {_TIME} end"
    return seen.selectExpr(
        *(f"{quoted(LOGGED + stored)} as {quoted(stored)}" for stored in layout.stored), f"{mark} as {MARK}"
    )


def _marker(marker: str, reading: Reading) -> str:
    kind, event = reading.columns[marker], reading.pipeline.event
    if kind == "boolean":
        return f"case when {quoted(marker)} then {_TIME} end"
    in_envelope = reading.log.view[marker] in ("event_time", "arrival_time")
    read = micros(marker, "timestamp" if in_envelope else kind, event.unit, event.zone)
    possible = f"(case when {read} between {EARLIEST} and {LATEST} then {read} end)"
    ahead = reading.pipeline.watermark.max_future
    return possible if ahead is None else f"case when {possible} - {_ARRIVAL} <= {ahead}L then {possible} end"
