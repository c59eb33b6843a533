"""The windows that a rebuild is asked for: those of a range, or those of `last`, which ended, or got late events,
within a time before the watermark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from latecomer.config.arguments import Refused
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.errors import NoStore
from latecomer.log.timeline.keeper import TimelineKeeper
from latecomer.model.durations import DURATION_FIX, parse_duration, to_micros
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, TooLatePolicy
from latecomer.model.windows import Session
from latecomer.store.coverage import covered_since
from latecomer.store.delta.table import Table
from latecomer.store.sql import moment_literal
from latecomer.store.store import Store, open_store


@dataclass(frozen=True)
class RangeNames:
    """How the arguments of a range are written."""

    since: str = "since"
    until: str = "until"
    last: str = "last"
    example: str = 'since and until, or last="4h"'


def range_asked(
    pipeline: Pipeline,
    name: str,
    since: datetime | None,
    until: datetime | None,
    last: object,
    names: RangeNames,
    refused: Refused,
) -> tuple[int | None, int | None]:
    """The range of starts of the windows that the arguments of a call name. Refuses a range beside `last`, and
    neither."""
    is_range = since is not None or until is not None
    if last is not None and is_range:
        raise refused(names.last, "is a range of its own", f"leave {names.since} and {names.until} out")
    if last is not None:
        try:
            length = parse_duration(last)
        except (TypeError, ValueError):
            raise refused(names.last, "is not a duration", DURATION_FIX) from None
        if length <= 0:
            raise refused(names.last, "is no time at all", DURATION_FIX)
        return last_windows(pipeline, name, length)
    if not is_range:
        raise refused(names.since, "is missing", f"name the windows: {names.example}")
    return _micros(since), _micros(until)


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def last_windows(pipeline: Pipeline, name: str, length: int) -> tuple[int, int]:
    """The range of starts of the windows that ended within this time before the watermark, or for which an event came
    too late within it. Where the store was drained, its newest event stands for the watermark."""
    store, output = open_store(pipeline), pipeline.outputs[name]
    watermark, arrived = _reached(store)
    ended = _start_of(output, watermark - length)
    touched = _touched(store, name, arrived - length)
    if touched is None or touched >= ended:
        return ended, watermark
    # Windows whose events retention has removed cannot be computed anew; the others can.
    whole = covered_since(store)
    first = touched if whole is None else max(touched, whole + output.window.grows_by)
    return min(first, ended), watermark


def _reached(store: Store) -> tuple[int, int]:
    """How far event time and arrivals have come."""
    keeper = TimelineKeeper(store.watermarks, store.pipeline.watermark)
    reached = keeper.reached(store.ledger.last_batch())
    if reached is not None and BEGIN_OF_TIME < reached.watermark < END_OF_TIME:
        return reached.watermark, reached.at
    newest = [to_micros(file.maximum["event_time"]) for file in store.events.files()]
    if not newest:
        raise NoStore(f"store {store.root} has no event yet; run the pipeline first")
    return max(newest) + 1, max(newest) + 1 if reached is None else reached.at


def _start_of(output: Output, moment: int) -> int:
    """Where the first window starts that ends after a moment. For sessions it is the moment: sessions count that reach
    beyond it."""
    if isinstance(output.window, Session):
        return moment
    return min(window.start for window in output.window.assign_all(moment))


def _touched(store: Store, name: str, arrived: int) -> int | None:
    """Where the first window starts for which an event has come too late since a moment of arrival."""
    output = store.pipeline.outputs[name]
    firsts = [_least(store.output_tables(name, pa.schema([])).late, "window_start", arrived)]
    if output.too_late is TooLatePolicy.DROP:  # they are in the log alone
        event = _least(store.events, "event_time", arrived)
        firsts.append(None if event is None else _start_of(output, event))
    return min((each for each in firsts if each is not None), default=None)


def _least(table: Table, column: str, arrived: int) -> int | None:
    rows = table.query_rows(
        f"select min({column}) as m from t where arrival_time >= {moment_literal(arrived)}"
    )
    return _micros(rows[0]["m"]) if rows else None
