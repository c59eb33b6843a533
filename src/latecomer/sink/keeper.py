"""Keeps every sink in step with the panes: batch by batch, from wherever the sink says it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from latecomer.errors import SinkError
from latecomer.firing.output import OutputLogic
from latecomer.sink import SinkLogic, open_sink
from latecomer.sink.base import PaneShape
from latecomer.store.layout import PaneLayout
from latecomer.store.publication import publication_order
from latecomer.store.sql import double_quoted
from latecomer.store.store import Store


def check_sinks(store: Store) -> None:
    """Open every sink once and let go of it: one that cannot be used is told before Spark starts."""
    for name, output in store.pipeline.outputs.items():
        for sink in _opened(store, name, PaneLayout(output, store.layout)):
            sink.close()


def _opened(store: Store, output: str, layout: PaneLayout) -> Iterator[SinkLogic]:
    """An output's sinks."""
    pipeline, schema = store.pipeline, layout.published
    shape = PaneShape(
        output,
        tuple(layout.keys),
        tuple(layout.values),
        schema.remove(schema.get_field_index("watermark")),
    )
    for sink in pipeline.outputs[output].sinks:
        yield open_sink(sink, pipeline.resolve(sink.path), pipeline.name, shape)


class SinkKeeper:
    """Applies published panes to the outputs' sinks."""

    def __init__(self, store: Store, outputs: Sequence[OutputLogic]) -> None:
        self.store = store
        self._sinks: list[tuple[OutputLogic, SinkLogic]] = []
        for output in outputs:
            self._sinks += [(output, sink) for sink in _opened(store, output.name, output.layout)]

    def catch_up(self, last: int) -> None:
        """Bring each sink to the last complete batch: one that was down, or was added later."""
        for output, sink in self._sinks:
            behind = sink.last_batch()
            if behind > last:
                raise SinkError(
                    f"{sink.kind} sink {sink.path} holds batch {behind} of output {output.name}, and the "
                    f"store has only come to batch {last}: it was filled from another store; give the sink "
                    "another path, or remove what it holds"
                )
            if behind < last and output.tables.panes.exists:
                missing = output.tables.panes.query(
                    f"select distinct batch from t where batch > {behind} and batch <= {last} order by batch"
                )
                for batch in missing.column("batch").to_pylist():
                    self._apply(output, sink, batch)

    def apply(self, batch: int) -> None:
        """Hand a batch's panes to every sink."""
        for output, sink in self._sinks:
            if output.tables.panes.holds(batch):
                self._apply(output, sink, batch)

    def close(self) -> None:
        for _, sink in self._sinks:
            sink.close()

    def _apply(self, output: OutputLogic, sink: SinkLogic, batch: int) -> None:
        columns = [field for field in output.layout.published.names if field != "watermark"]
        names = ", ".join(map(double_quoted, columns))
        panes = output.tables.panes.query(
            f"select {names} from t where batch = {batch} order by {publication_order(output.output)}"
        )
        if panes.num_rows:
            sink.apply(batch, panes)
