"""What a sink is fed with: an output's panes, batch by batch, as they stand in the store."""

from __future__ import annotations

import pyarrow as pa

from latecomer.config.contract import PaneShape
from latecomer.store.layout import PaneLayout
from latecomer.store.publication import publication_order
from latecomer.store.sql import listed
from latecomer.store.store import Store
from latecomer.store.table import Table


class PublishedPanes:
    """An output's published panes. Each thread has its own: an open table is not shared."""

    def __init__(self, store: Store, output: str) -> None:
        self._output = store.pipeline.outputs[output]
        layout = PaneLayout(self._output, store.layout)
        published = layout.published
        self._table: Table = store.output_tables(output, published).panes
        self.shape = PaneShape(
            output,
            tuple(layout.keys),
            tuple(layout.values),
            published.remove(published.get_field_index("watermark")),
        )

    def batches(self, after: int, until: int) -> list[int]:
        """The batches that may have published something, after one and up to another."""
        if until == after + 1 and self._table.exists:
            return [until]  # as a rule; whether it has panes is seen when they are read
        return self.missing(after, until)

    def missing(self, after: int, until: int) -> list[int]:
        """The batches that did publish something."""
        if after >= until or not self._table.exists:
            return []
        found = self._table.query(
            f"select distinct batch from t where batch > {after} and batch <= {until} order by batch"
        )
        batches: list[int] = found.column("batch").to_pylist()
        return batches

    def panes(self, batch: int) -> pa.Table:
        """A batch's panes in order of publication."""
        return self._table.query(
            f"select {listed(self.shape.schema.names)} from t where batch = {batch} "
            f"order by {publication_order(self._output)}"
        )
