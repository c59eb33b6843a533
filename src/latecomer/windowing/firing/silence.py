"""What is published without any new event: windows that end, and triggers that go by a clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.log.timeline.keeper import Section
from latecomer.model.triggers import Count, Every, per_firing
from latecomer.store.data_files import DataFile, kind_of
from latecomer.store.files import dataset
from latecomer.store.layout import TIMESTAMP
from latecomer.store.private_columns import SINCE, WAITING_EVENTS
from latecomer.store.table import Table
from latecomer.windowing.firing.clocks import Clocks, interval_passed, settled_by
from latecomer.windowing.firing.private_columns import PaneLane

HasNews = Callable[[pa.RecordBatch, Section], bool]
"""Whether closed windows have events that no pane has published, by the columns NEWS of their states."""
NEWS = ("window_end", SINCE, WAITING_EVENTS)


def silence_publishes(
    output: Output,
    partials: Table,
    states: Sequence[DataFile],
    section: Section,
    has_news: HasNews,
    fires: Callable[[Sequence[DataFile], Section], bool],
) -> bool:
    """Whether one of these open states publishes anything in a section without events; `fires` answers that for
    triggers."""
    early, late = output.trigger.early, output.trigger.late
    by_rule = any(per_firing(rule) and not isinstance(rule, Every | Count) for rule in (early, late))
    if by_rule and states and fires(states, section):
        return True
    still_open = [file for file in states if kind_of(file) != PaneLane.WAITING]
    unpublished = any(file.maximum.get(SINCE, 0) > 0 for file in still_open)
    waiting = len(still_open) < len(states)
    return (
        any(_ends_with_news(output, partials, file, section, has_news) for file in states)
        or (
            unpublished and isinstance(early, Every) and _passes(early, output, partials, still_open, section)
        )
        or (waiting and isinstance(late, Every) and section.passed(late.every))
    )


def has_news(closed: pa.RecordBatch, _section: Section) -> bool:
    """Whether windows that closed have had events since their last pane."""
    return bool(pc.any(pc.greater(closed.column(SINCE), 0)).as_py())


def _ends_with_news(
    output: Output, partials: Table, file: DataFile, section: Section, has_news: HasNews
) -> bool:
    """Whether a window of this file has reached its end, and has something to publish."""
    waiting = kind_of(file) == PaneLane.WAITING
    if file.window_ends[0] > (settled_by(output, section.fires_at) if waiting else section.fires_at):
        return False
    if waiting or not output.closes_silently:
        return True
    closed = pc.field("window_end") <= pa.scalar(section.fires_at, pa.int64()).cast(TIMESTAMP)
    states = dataset([partials.location(file)])
    parts = states.to_batches(columns=[name for name in NEWS if name in states.schema.names], filter=closed)
    return any(has_news(part, section) for part in parts)


def _passes(
    early: Every, output: Output, partials: Table, still_open: Sequence[DataFile], section: Section
) -> bool:
    """Whether a clock reached a multiple of the interval for a window with unpublished events."""
    # Only the watermark, and windows that end, have intervals that count from a window's start.
    by_start = early.clock != "arrival" and not output.window.endless
    starts = np.array(sorted(_starts_unpublished(partials, still_open)) if by_start else [0], np.int64)
    return bool(interval_passed(early, output, Clocks.of(-1, section, output), starts).any())


def _starts_unpublished(partials: Table, still_open: Sequence[DataFile]) -> set[int]:
    starts: set[int] = set()
    for file in still_open:
        unpublished = dataset([partials.location(file)]).to_batches(
            columns=["window_start"], filter=pc.field(SINCE) > 0
        )
        for part in unpublished:
            starts.update(pc.unique(part.column("window_start")).cast(pa.int64()).to_pylist())
    return starts
