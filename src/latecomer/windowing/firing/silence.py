"""What is published without any new event: windows that end, and triggers that go by a clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.log.timeline.keeper import Section
from latecomer.model.triggers import Count, Every, per_firing
from latecomer.store.columns import SINCE, WAITING_EVENTS
from latecomer.store.data_files import DataFile, kind_of
from latecomer.store.files import dataset
from latecomer.store.layout import TIMESTAMP
from latecomer.store.table import Table
from latecomer.windowing.firing.columns import Lane

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
    still_open = [file for file in states if kind_of(file) != Lane.WAITING]
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
    waiting = kind_of(file) == Lane.WAITING
    if file.window_ends[0] + (output.settles_after if waiting else 0) > section.fires_at:
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
    if early.clock == "arrival":
        return section.passed(early.every)
    if output.window.endless:
        return section.began_at // early.every < section.fires_at // early.every
    return any(
        max(section.watermark_before - start, 0) // early.every < (section.fires_at - start) // early.every
        for start in _starts_unpublished(partials, still_open)
    )


def _starts_unpublished(partials: Table, still_open: Sequence[DataFile]) -> set[int]:
    starts: set[int] = set()
    for file in still_open:
        unpublished = dataset([partials.location(file)]).to_batches(
            columns=["window_start"], filter=pc.field(SINCE) > 0
        )
        for part in unpublished:
            starts.update(pc.unique(part.column("window_start")).cast(pa.int64()).to_pylist())
    return starts
