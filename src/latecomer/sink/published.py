"""What a sink is fed with, batch by batch, as it stands in the store: panes, side output, or dead letters."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from latecomer.config.contract import PaneShape, RowShape, Shape
from latecomer.config.sinks import ListedSink, Stream
from latecomer.store.layout import PaneLayout
from latecomer.store.publication import DEAD_LETTER_ORDER, LATE_ORDER, publication_order
from latecomer.store.sql import listed
from latecomer.store.store import Store
from latecomer.store.table import Table


@dataclass(frozen=True)
class Feed:
    """The rows that a sink is to have. Each thread has its own: an open table is not shared."""

    listed: ListedSink
    shape: Shape
    table: Table
    order: str

    def batches(self, after: int, until: int) -> list[int]:
        """The batches that may have rows, after one and up to another."""
        if until == after + 1 and self.table.exists:
            return [until]  # as a rule; whether it has rows is seen when they are read
        return self.missing(after, until)

    def missing(self, after: int, until: int) -> list[int]:
        """The batches that do have rows."""
        if after >= until or not self.table.exists:
            return []
        found = self.table.query(
            f"select distinct batch from t where batch > {after} and batch <= {until} order by batch"
        )
        batches: list[int] = found.column("batch").to_pylist()
        return batches

    def rows(self, batch: int) -> pa.Table:
        """A batch's rows in order of publication."""
        columns = listed(self.shape.schema.names)
        return self.table.query(f"select {columns} from t where batch = {batch} order by {self.order}")


def feed_of(store: Store, listed: ListedSink) -> Feed:
    """What a sink is to have."""
    if listed.output is None:
        return _dead_letters(store, listed)
    return (_panes if listed.stream is Stream.PANES else _side_output)(store, listed, listed.output)


def _panes(store: Store, listed: ListedSink, output: str) -> Feed:
    """An output's published panes."""
    rules = store.pipeline.outputs[output]
    layout = PaneLayout(rules, store.layout)
    published = layout.published
    shape = PaneShape(
        output,
        tuple(layout.keys),
        tuple(layout.values),
        published.remove(published.get_field_index("watermark")),
    )
    return Feed(listed, shape, store.output_tables(output, published).panes, publication_order(rules))


def _side_output(store: Store, listed: ListedSink, output: str) -> Feed:
    """The events that were late for an output, each with the window it missed."""
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
