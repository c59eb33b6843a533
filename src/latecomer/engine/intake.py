"""Accepts batches from all sources of a run, and does what is due between batches.

A source that cannot be reached is not silent: nobody knows what data it has. No silence counts until it has answered
again, and has been read up to that answer (ADR 0009).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial

from latecomer.engine.pipeline import Engine
from latecomer.engine.rebuilds import publish_rebuilds
from latecomer.engine.upkeep.scheduled import ScheduledUpkeep
from latecomer.engine.without_data import heartbeat
from latecomer.errors import SchemaOutage, StoreError
from latecomer.model.sources import named_partitions
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.source.base import BatchPart, MergedSlice, Slice
from latecomer.source.decode.retrying import waits
from latecomer.store.holding.fences import require_held
from latecomer.store.pins import is_store
from latecomer.store.source_turns import Turn, sources_away, take_turn, whose_turn, write_away

LOG = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 1.0


class Intake:
    """Accepts batches from all sources, and does what is due between batches."""

    def __init__(self, engine: Engine, stopping: threading.Event) -> None:
        self.engine = engine
        self.stopping = stopping
        self.several = engine.pipeline.sources
        self.behind: set[str] = set()
        """Of several sources, those that have unread data."""
        self.interrupted = whose_turn(engine.store.root) if engine.half_logged and self.several else Turn()
        """The parts of a batch that was interrupted while it was logged."""
        self.away = sources_away(engine.store.root)
        """The sources that could not be reached, and have not caught up since."""
        self.upkeep = engine.upkeep = ScheduledUpkeep(engine.pipeline, self._refresh_files)
        self.restart_silence()

    def _refresh_files(self) -> None:
        """Read again which files the tables have: upkeep may delete others from now on."""
        self.engine.await_batch()
        store, outputs = self.engine.store, self.engine.outputs
        published = [table for logic in outputs for table in logic.tables.all]
        for table in (*store.logged_tables, store.ledger, *published):
            table.refresh()
        for logic in outputs:
            logic.remember()

    def rest(self) -> None:
        """Nothing is new: upkeep may begin."""
        if not self.engine.busy:
            self.upkeep.quiet()

    def close(self) -> None:
        """No more batches come."""
        self.upkeep.close()

    def is_logged(self, name: str) -> bool:
        """Whether the next batch of a source is in the log already."""
        return self.engine.half_logged and name in self.interrupted.sources

    def accept(self, name: str, source_batch: int, slice_: Slice, more: bool = False) -> bool:
        """Accept a slice of a source; `more` says whether its next slice is known already. False where the run was
        stopped while the slice waited for a schema."""
        if self.several:
            if not more:
                self.behind.discard(name)
            slice_ = replace(
                slice_, source=name, partitions=self._unread_by_partition({name: slice_.partitions})
            )
        elif self.away:
            slice_ = replace(slice_, partitions=self._unread_by_partition({name: slice_.partitions}))
        return self._hand_in(Turn(name), partial(self.engine.accept, source_batch, slice_))

    def accept_together(
        self, turn: Turn, slices: Sequence[Slice], named: Mapping[str, Mapping[str, bool] | None]
    ) -> bool:
        """Accept the parts of slices that are read together; `named` has their sources, with the partitions of each.
        The silence of these sources counts by the arrival clock: everything that arrived by then is read."""
        parts = [
            BatchPart(slice_, each.after, each.until) for each, slice_ in zip(turn.parts, slices, strict=True)
        ]
        partitions = self._unread_by_partition(named, self.behind - named.keys())
        together = MergedSlice.of(parts, turn.read_to, partitions)
        return self._hand_in(turn, partial(self.engine.take, turn.parts[-1].batch, together))

    def _hand_in(self, turn: Turn, accept: Callable[[], None]) -> bool:
        self.upkeep.busy()
        publish_rebuilds(self.engine)
        beside = f", while batch {self.engine.last} is completed" if self.engine.busy else ""
        LOG.info("reading batch %d%s", self.engine.last + 1, beside)
        if self.several:
            take_turn(self.engine.store.root, turn)
        try:
            return self.await_schemas(accept)
        finally:
            self.restart_silence()

    def await_schemas(self, step: Callable[[], object]) -> bool:
        """Try a step until every schema that it needs can be read: until then nothing of its batch is in the log. False
        where the run was stopped before that."""
        for wait in waits():
            try:
                step()
                break
            except SchemaOutage as error:
                LOG.warning("batch %d waits: %s. Asking again in %g s", self.engine.last + 1, error, wait)
                if self.stopping.wait(wait):
                    return False
        return True

    def lags(self, name: str) -> None:
        """A source has unread data: it is not idle."""
        if self.several:
            self.behind.add(name)

    def goes_away(self, name: str) -> None:
        """A source cannot be reached: until it has caught up, all of its partitions may have unread data."""
        if name not in self.away:
            self._keep_away(self.away | {name})
            self.engine.keeper.timeline.name_partitions(self._unread_by_partition({name: None}))

    def caught_up(self, name: str) -> None:
        """A source has been read to its end: from now on its silence counts."""
        if name in self.behind | self.away:
            self.behind.discard(name)
            self._keep_away(self.away - {name})
            self.engine.keeper.timeline.name_partitions(self._unread_by_partition({name: None}))
            self.restart_silence()

    def came_back(self, name: str) -> None:
        """A source that could not be reached has answered, and has been read up to that answer."""
        if name in self.away:
            self.caught_up(name)

    def _keep_away(self, names: frozenset[str]) -> None:
        if names != self.away:
            self.away = names
            write_away(self.engine.store.root, names)

    def _unread_by_partition(
        self, read: Mapping[str, Mapping[str, bool] | None], behind: Set[str] | None = None
    ) -> dict[str, bool]:
        """The partitions of all sources, each with whether it has unread data, once those of `read` are read."""
        known = self.engine.keeper.timeline.known()
        if self.several:
            lagging = self.behind if behind is None else behind
            return named_partitions(read, known, self.several, lagging | self.away)
        ((name, named),) = read.items()
        return {
            partition: more or name in self.away
            for partition, more in {**dict.fromkeys(known, False), **(named or {})}.items()
        }

    def restart_silence(self) -> None:
        """Count silence from now on, with the arrival clock at the last arrival."""
        self.quiet_since = time.monotonic()
        self.quiet_from = self.engine.keeper.timeline.last_at

    def beat(self) -> None:
        """A heartbeat, while no batch runs: silence moves the arrival clock past the last arrival."""
        if self.engine.busy:
            return
        self.require_store()
        self.engine.await_batch()
        publish_rebuilds(self.engine)
        if self.away:
            return
        silent = time.monotonic() - self.quiet_since
        if silent >= HEARTBEAT_SECONDS and self.quiet_from != BEGIN_OF_TIME:
            heartbeat(self.engine, self.quiet_from + int(silent * 1_000_000))

    def require_store(self) -> None:
        """Stop where the store was removed, or another engine has taken it over: nobody would read what this one
        writes."""
        require_held(self.engine.store.root)
        if not is_store(self.engine.store.root):
            raise StoreError(f"store {self.engine.store.root} does not exist any more")
