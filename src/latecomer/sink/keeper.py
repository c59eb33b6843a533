"""Keeps every sink in step with the store, each at its own pace."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from latecomer.config.sinks import OnOutage, Sink
from latecomer.errors import SinkOutage
from latecomer.sink import SinkLogic, make_sink
from latecomer.sink.published import PublishedPanes
from latecomer.sink.waiting import Clock
from latecomer.sink.worker import SinkWorker
from latecomer.store.failpoints import failpoint
from latecomer.store.store import Store


def check_sinks(store: Store) -> None:
    """Open every sink once and let go of it: one that cannot be used is told before Spark starts. One that is down
    is waited for, unless its pipeline file says otherwise."""
    for sink, logic, _ in _sinks(store):
        try:
            logic.open()
        except SinkOutage:
            if sink.on_outage is OnOutage.STOP:
                raise
        logic.close()


def _sinks(store: Store) -> Iterator[tuple[Sink, SinkLogic, PublishedPanes]]:
    """Every sink, not yet open, with what it is fed with."""
    for name, output in store.pipeline.outputs.items():
        for sink in output.sinks:
            panes = PublishedPanes(store, name)
            yield sink, make_sink(sink, store.pipeline, panes.shape), panes


class SinkKeeper:
    """The outputs' sinks. The engine announces batches here and waits for no sink, until the run is done."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self.workers = [
            SinkWorker(sink, logic, panes, self._note_change, clock) for sink, logic, panes in _sinks(store)
        ]
        self._applied: int | None = None
        self._noting = threading.Lock()

    def start(self, complete: int) -> None:
        """Bring each sink to the last complete batch: one that was down, or was added later."""
        for worker in self.workers:
            worker.open(complete)
        self._applied = min((worker.reached for worker in self.workers), default=complete)
        for worker in self.workers:
            worker.start()

    def announce(self, batch: int) -> None:
        """A batch is complete in the store. What has gone wrong in a sink for good is raised here."""
        self.require_working()
        for worker in self.workers:
            worker.announce(batch)
        if not self.workers:
            failpoint("sinks.applied", batch)
        self.require_working()

    def finish(self) -> None:
        """Wait until every sink has every batch; an outage is waited for a little longer."""
        for worker in self.workers:
            worker.finish()
        for worker in self.workers:
            worker.wait_until_finished()
        self.require_working()

    def require_working(self) -> None:
        """Raise what has gone wrong in a sink, if it has to stop the run."""
        for worker in self.workers:
            if worker.failure is not None:
                raise worker.failure

    def close(self) -> None:
        """Let go of the sinks, wherever they are."""
        for worker in self.workers:
            worker.close()

    def _note_change(self, _: SinkWorker) -> None:
        with self._noting:
            before = self._applied
            self._applied = after = min(worker.reached for worker in self.workers)
        if before is not None:
            for batch in range(before + 1, after + 1):
                failpoint("sinks.applied", batch)
