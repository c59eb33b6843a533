"""The rows that a sink gets from the store, batch by batch: panes, side output, or dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from latecomer.config.contract import PaneShape, RowShape, Shape, SinkLogic
from latecomer.config.sinks import ListedSink, Sink, Stream
from latecomer.store.delta.table import Table, moments
from latecomer.store.layout import TIMESTAMP, PaneLayout
from latecomer.store.publications import PUBLISHED_AT, Publications
from latecomer.store.sql import listed
from latecomer.store.standing import DEAD_LETTER_ORDER, LATE_ORDER, publication_order
from latecomer.store.store import Store


@dataclass(frozen=True)
class Feed:
    """The rows for a sink. Each thread has a feed of its own: an open table is not shared."""

    listed: ListedSink
    shape: Shape
    table: Table
    order: str
    publications: Publications | None = None
    """For panes: when each batch was published."""

    def batches(self, after: int, until: int) -> list[int]:
        """The batches after one, and up to another, that may have rows."""
        if until == after + 1 and self.table.exists:
            return [until]  # the usual case: whether it has rows is seen when they are read
        return self.missing(after, until)

    def missing(self, after: int, until: int) -> list[int]:
        """The batches after one, and up to another, that have rows."""
        if after >= until:
            return []
        rows = self.table.query_rows(
            f"select distinct batch from t where batch > {after} and batch <= {until} order by batch"
        )
        return [row["batch"] for row in rows]

    def rows(self, batch: int) -> pa.Table:
        """A batch's rows in order of publication."""
        published = self.publications is not None
        names = [name for name in self.shape.schema.names if not published or name != PUBLISHED_AT]
        rows = self.table.query(f"select {listed(names)} from t where batch = {batch} order by {self.order}")
        if self.publications is None or not rows.num_rows:
            return rows
        at = self.publications.times(batch, batch, self.shape.name).get(batch)
        return rows.append_column(PUBLISHED_AT, moments([at] * rows.num_rows))


class FedSink(NamedTuple):
    """A sink of a pipeline, and its rows."""

    feed: Feed
    target: str
    """Where it writes, for people."""
    logic: SinkLogic

    @property
    def sink(self) -> Sink:
        return self.feed.listed.sink

    @property
    def name(self) -> str:
        return f"{self.sink.kind} sink {self.target}"


def feed_of(store: Store, listed: ListedSink) -> Feed:
    if listed.output is None:
        return _dead_letters(store, listed)
    return (_panes if listed.stream is Stream.PANES else _side_output)(store, listed, listed.output)


def _panes(store: Store, listed: ListedSink, output: str) -> Feed:
    rules = store.pipeline.outputs[output]
    layout = PaneLayout(rules, store.layout)
    published = layout.published
    columns = published.remove(published.get_field_index("watermark"))
    shape = PaneShape(
        output, tuple(layout.keys), tuple(layout.values), columns.append(pa.field(PUBLISHED_AT, TIMESTAMP))
    )
    panes = store.output_tables(output, published).panes
    return Feed(listed, shape, panes, publication_order(rules), Publications(store))


def _side_output(store: Store, listed: ListedSink, output: str) -> Feed:
    """The late events of an output, each with the window that it missed."""
    layout = PaneLayout(store.pipeline.outputs[output], store.layout)
    late = store.output_tables(output, layout.published).late
    place = ("batch", "origin", "position", "window_start", "window_end")
    return Feed(listed, RowShape(listed.name, listed.owner, place, late.schema), late, LATE_ORDER)


def _dead_letters(store: Store, listed: ListedSink) -> Feed:
    """The rows that never became events."""
    letters = Table(store.dead_letters.root, store.dead_letters.schema)
    place = ("batch", "origin", "position")
    return Feed(
        listed, RowShape(listed.name, listed.owner, place, letters.schema), letters, DEAD_LETTER_ORDER
    )
