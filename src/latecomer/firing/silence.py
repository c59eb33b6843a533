"""What silence alone publishes: windows that end, and triggers that go by a clock, without any new event."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.models import Output
from latecomer.firing.columns import Lane
from latecomer.model.triggers import Count, Every
from latecomer.store.columns import SINCE
from latecomer.store.files import read_table
from latecomer.store.layout import TIMESTAMP
from latecomer.store.table import DataFile, Table, kind_of
from latecomer.timeline.keeper import Stretch

HasNews = Callable[[pa.Table, Stretch], bool]
"""Whether closed windows, by their states, have anything that was not published yet."""


def silence_publishes(
    output: Output,
    partials: Table,
    states: Sequence[DataFile],
    stretch: Stretch,
    has_news: HasNews,
    fires: HasNews,
) -> bool:
    """Whether one of these open states publishes anything in a stretch without events; `fires` says whether its trigger
    does."""
    early, late = output.trigger.early, output.trigger.late
    if any(output.per_firing(rule) and not isinstance(rule, Every | Count) for rule in (early, late)):
        tables = [read_table(partials.location(file)) for file in states]
        if tables and fires(pa.concat_tables(tables), stretch):
            return True
    still_open = [file for file in states if kind_of(file) != Lane.WAITING]
    unpublished = any(file.maximum.get(SINCE, 0) > 0 for file in still_open)
    waiting = len(still_open) < len(states)
    return (
        any(_ends_with_news(output, partials, file, stretch, has_news) for file in states)
        or (
            unpublished and isinstance(early, Every) and _passes(early, output, partials, still_open, stretch)
        )
        or (waiting and isinstance(late, Every) and stretch.passed(late.every))
    )


def has_news(closed: pa.Table, _stretch: Stretch) -> bool:
    """Whether windows that closed have had events since their last pane."""
    return any(since > 0 for since in closed.column(SINCE).to_pylist())


def _ends_with_news(
    output: Output, partials: Table, file: DataFile, stretch: Stretch, has_news: HasNews
) -> bool:
    """Whether a window of this file has reached its end, and something of it is to be published."""
    waiting = kind_of(file) == Lane.WAITING
    if file.window_ends[0] + (output.settles_after if waiting else 0) > stretch.fires_at:
        return False
    if waiting or not output.closes_silently:
        return True
    states = read_table(partials.location(file))
    closed = pc.field("window_end") <= pa.scalar(stretch.fires_at, pa.int64()).cast(TIMESTAMP)
    return has_news(states.filter(closed), stretch)


def _passes(
    early: Every, output: Output, partials: Table, still_open: Sequence[DataFile], stretch: Stretch
) -> bool:
    """Whether a clock reached a multiple of the interval for a window with events yet to be published."""
    if early.clock == "arrival":
        return stretch.passed(early.every)
    if output.window.endless:
        return stretch.began_at // early.every < stretch.fires_at // early.every
    return any(
        max(stretch.watermark_before - start, 0) // early.every < (stretch.fires_at - start) // early.every
        for start in _starts_unpublished(partials, still_open)
    )


def _starts_unpublished(partials: Table, still_open: Sequence[DataFile]) -> set[int]:
    starts: set[int] = set()
    for file in still_open:
        states = read_table(partials.location(file), ["window_start", SINCE])
        unpublished = states.filter(pc.field(SINCE) > 0).column("window_start")
        starts.update(pc.unique(unpublished).cast(pa.int64()).to_pylist())
    return starts
