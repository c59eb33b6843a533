"""Keeps every sink in step with the store, each at its own pace."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pyarrow as pa

from latecomer.config.sinks import ListedSink, OnOutage, Sink, Stream
from latecomer.errors import LatecomerError, SinkOutage
from latecomer.sink import SinkLogic, make_sink, target_of
from latecomer.sink.published import Feed, feed_of
from latecomer.sink.status import SCHEMA, reached_by, status_row, write_notes
from latecomer.sink.waiting import Clock
from latecomer.sink.worker import SinkWorker
from latecomer.store.failpoints import failpoint
from latecomer.store.fences import confirm_held
from latecomer.store.store import Store

NOTE_SECONDS = 1.0
"""How often a run that is well writes down how far its sinks are."""


def check_sinks(store: Store) -> None:
    """Open every sink once and let go of it: one that cannot be used is reported before Spark starts. One that is down
    is waited for, unless its pipeline file says otherwise."""
    for sink, _, logic, _ in _sinks(store):
        try:
            logic.open()
        except SinkOutage:
            if sink.on_outage is OnOutage.STOP:
                raise
        with suppress(SinkOutage):
            logic.close()


def _sinks(
    store: Store, wanted: Callable[[ListedSink], bool] = lambda _: True
) -> Iterator[tuple[Sink, str, SinkLogic, Feed]]:
    """Every sink, where it writes, and not yet open; with what it is fed with."""
    for listed in filter(wanted, store.pipeline.listed_sinks()):
        feed, sink = feed_of(store, listed), listed.sink
        yield sink, target_of(sink, store.pipeline), make_sink(sink, store.pipeline, feed.shape), feed


def sink_status(store: Store) -> pa.Table:
    """How far each sink is, and why it is not further."""
    complete = store.ledger.last_batch()
    rows = [
        status_row(store.root, sink, target, logic, feed, complete)
        for sink, target, logic, feed in _sinks(store)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def ask_sinks(store: Store) -> Iterator[tuple[ListedSink, str, int | LatecomerError | None]]:
    """Every sink, where it writes, and what it answers when it is asked for its last batch: None where it cannot be
    asked, an error where it does not answer. Nothing is opened or made."""
    for _, target, logic, feed in _sinks(store):
        try:
            yield feed.listed, target, logic.peek()
        except LatecomerError as error:
            yield feed.listed, target, error


def still_wanted(store: Store, stream: Stream, output: str | None, until: int) -> tuple[int, str] | None:
    """The first batch up to another whose rows a sink lacks, and which sink that is; None where every one has them.

    Nothing is opened or made. A sink that cannot be asked so, or is down, has what the last run noted.
    """
    wanted = []
    for sink, target, logic, feed in _sinks(
        store, lambda each: (each.stream, each.output) == (stream, output)
    ):
        reached, _ = reached_by(store.root, sink, target, logic, feed)
        missing = feed.missing(-1 if reached is None else reached, until)
        wanted += [(batch, f"{sink.kind} sink {target}") for batch in missing[:1]]
    return min(wanted, default=None)


class SinkKeeper:
    """The outputs' sinks. The engine announces batches here and waits for no sink, until the run is done."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        allowed = partial(confirm_held, store.root)
        self.workers = [SinkWorker(*each, self._note_change, clock, allowed) for each in _sinks(store)]
        self._root, self._clock = store.root, clock or Clock()
        self._applied: int | None = None
        self._noted: tuple[float, tuple[bool, ...]] | None = None
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
        """At once where a sink goes down or comes back, else once in a while."""
        now, down = self._clock.now(), tuple(worker.outage is not None for worker in self.workers)
        if self._noted is None or down != self._noted[1] or now - self._noted[0] >= NOTE_SECONDS:
            self._noted = now, down
            write_notes(self._root, self.workers)
