"""Keeps every sink in step with the store, each at its own pace."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pyarrow as pa

from latecomer.config.sinks import ListedSink, OnOutage, Stream
from latecomer.errors import LatecomerError, SinkOutage
from latecomer.sink import make_sink, target_of
from latecomer.sink.published import FedSink, feed_of
from latecomer.sink.status import SCHEMA, reached_by, status_row, write_notes
from latecomer.sink.worker import SinkClock, SinkWorker
from latecomer.store.failpoints import failpoint
from latecomer.store.holding.fences import confirm_held
from latecomer.store.store import Store

NOTE_SECONDS = 1.0
"""How often a run notes the progress of its sinks while none of them is down."""


def check_sinks(store: Store) -> None:
    """Open and close every sink, so that one that cannot be used is reported before Spark starts. A sink that is down
    is no error, unless its `on_outage` is stop."""
    for each in _sinks(store):
        try:
            each.logic.open()
        except SinkOutage:
            if each.sink.on_outage is OnOutage.STOP:
                raise
        with suppress(SinkOutage):
            each.logic.close()


def _sinks(store: Store, wanted: Callable[[ListedSink], bool] = lambda _: True) -> Iterator[FedSink]:
    """The sinks of the pipeline, not yet open."""
    for listed in filter(wanted, store.pipeline.listed_sinks()):
        feed, sink = feed_of(store, listed), listed.sink
        yield FedSink(feed, target_of(sink, store.pipeline), make_sink(sink, store.pipeline, feed.shape))


def sink_status(store: Store) -> pa.Table:
    """The progress of each sink, and why it is behind."""
    complete = store.ledger.last_batch()
    rows = [status_row(store.root, each, complete) for each in _sinks(store)]
    return pa.Table.from_pylist(rows, SCHEMA)


def ask_sinks(store: Store) -> Iterator[tuple[ListedSink, str, int | LatecomerError | None]]:
    """Every sink, where it writes, and its last batch: None where it cannot be asked, an error where it does not
    answer. Nothing is opened or made."""
    for each in _sinks(store):
        try:
            yield each.feed.listed, each.target, each.logic.peek()
        except LatecomerError as error:
            yield each.feed.listed, each.target, error


def still_wanted(store: Store, stream: Stream, output: str | None, until: int) -> tuple[int, str] | None:
    """The first batch, up to `until`, whose rows a sink lacks, and the name of that sink; None where no sink lacks any.

    Nothing is opened or made. For a sink that cannot be asked or is down, the notes of the last run count.
    """
    lacking = []
    for each in _sinks(store, lambda listed: (listed.stream, listed.output) == (stream, output)):
        reached, _ = reached_by(store.root, each)
        missing = each.feed.missing(-1 if reached is None else reached, until)
        lacking += [(batch, each.name) for batch in missing[:1]]
    return min(lacking, default=None)


class SinkKeeper:
    """The sinks of a run. The engine announces batches here. It does not wait for sinks until the run is done."""

    def __init__(self, store: Store, clock: SinkClock | None = None) -> None:
        allowed = partial(confirm_held, store.root)
        self.workers = [SinkWorker(each, self._note_change, clock, allowed) for each in _sinks(store)]
        self._root, self._clock = store.root, clock or SinkClock()
        self._applied: int | None = None
        self._noted: tuple[float, tuple[bool, ...]] | None = None
        self._noting = threading.Lock()

    def start(self, complete: int) -> None:
        """Bring each sink to the last complete batch: some were down, or are new."""
        for worker in self.workers:
            worker.open(complete)
        self._applied = min((worker.reached for worker in self.workers), default=complete)
        for worker in self.workers:
            worker.start()

    def announce(self, batch: int) -> None:
        """A batch is complete in the store. Raises the error of a sink that has to stop the run."""
        self.require_working()
        for worker in self.workers:
            worker.announce(batch)
        if not self.workers:
            failpoint("sinks.applied", batch)
        self.require_working()

    def finish(self) -> None:
        """Wait until every sink has every batch; a sink that is down gets a little more time."""
        for worker in self.workers:
            worker.finish()
        for worker in self.workers:
            worker.wait_until_finished()
        self.require_working()

    def require_working(self) -> None:
        """Raise the error of a sink that has to stop the run."""
        for worker in self.workers:
            if worker.failure is not None:
                raise worker.failure

    def close(self) -> None:
        """Close the sinks, whatever they lack."""
        for worker in self.workers:
            worker.close()
        if self._noted is not None:
            write_notes(self._root, self.workers)

    def _note_change(self, _: SinkWorker) -> None:
        with self._noting:
            self._write_notes()
            before = self._applied
            self._applied = after = min(worker.reached for worker in self.workers)
        if before is not None:
            for batch in range(before + 1, after + 1):
                failpoint("sinks.applied", batch)

    def _write_notes(self) -> None:
        """Write the notes: at once where a sink goes down or comes back, else every NOTE_SECONDS."""
        now, down = self._clock.now(), tuple(worker.outage is not None for worker in self.workers)
        if self._noted is None or down != self._noted[1] or now - self._noted[0] >= NOTE_SECONDS:
            self._noted = now, down
            write_notes(self._root, self.workers)
