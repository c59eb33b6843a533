"""Following sources: what is new is accepted batch by batch, and between batches silence counts.

A source is asked what is new. What it answers is written down in the store, and then read: each answer, or a part of
it, is a batch of the source.

Several sources are asked before anything is read, and each is read to its end, one after the other; a run that goes on
follows all of them from there. As long as one has something that was not read, its partitions are not idle, however far
the others have moved the arrival clock.

A source that cannot be asked is not silent: nobody knows what it has. No silence counts until it has been asked again,
and read as far as it had come by then (ADR 0075).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from latecomer.decode.retrying import waits
from latecomer.errors import SchemaOutage, SourceOutage, StoreError
from latecomer.model.sources import named_partitions
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.pipeline import Engine
from latecomer.source.base import FollowedSource, Slice
from latecomer.source.choose import sources_of
from latecomer.store.pins import is_store
from latecomer.store.turns import keep_away, sources_away, take_turn, whose_turn

LOG = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 1.0
PAUSE_SECONDS = 0.2
"""Between two questions, while nothing is new."""
LONGEST_PAUSE = 0.4
"""Before a question that takes long is asked again, at most."""


def follow(engine: Engine, stopping: threading.Event, bounded: bool) -> None:
    """Accept what is new: all that is there now, where the run is `bounded`; else until it is stopped."""
    LOG.info("looking for what is new")
    intake = Intake(engine, stopping)
    sources = sources_of(engine.pipeline, engine.store.columns)
    followed = [Following(intake, name, source) for name, source in sources.items()]
    if bounded or len(followed) > 1:
        _catch_up(followed, intake)
    if not bounded and not stopping.is_set():
        _follow(followed, intake)
    engine.settle()


def _catch_up(followed: Sequence[Following], intake: Intake) -> None:
    """Read all that is there now; of several sources first the one whose batch was interrupted, if one was."""
    first = intake.interrupted
    in_order = sorted(followed, key=lambda each: each.name != first)
    for each in in_order:
        each.begin(bounded=True)
    for each in in_order:
        if each.has_news():
            intake.lags(each.name)
    for each in in_order:
        while not intake.stopping.is_set() and each.step():
            pass
        if intake.stopping.is_set():
            return
        intake.caught_up(each.name)


def _follow(followed: Sequence[Following], intake: Intake) -> None:
    """Follow all of them until the run is stopped."""
    for each in followed:
        each.begin(bounded=False)
    while not intake.stopping.is_set():
        read = [each.step() for each in followed if not intake.stopping.is_set()]
        intake.beat()
        if not any(read):
            intake.stopping.wait(PAUSE_SECONDS)


class Intake:
    """What is done batch by batch, and between batches, whoever hands them in."""

    def __init__(self, engine: Engine, stopping: threading.Event) -> None:
        self.engine = engine
        self.stopping = stopping
        self.several = engine.pipeline.sources
        self.behind: set[str] = set()
        """Of several sources, those that have something which was not read."""
        self.interrupted = whose_turn(engine.store.root) if engine.half_logged and self.several else ""
        """The source that a batch belongs to which was interrupted while it was logged."""
        self.away = sources_away(engine.store.root)
        """The sources that could not be asked, and have not been read since as far as they had come."""
        self.hear()

    def is_logged(self, name: str) -> bool:
        """Whether the next batch of a source is in the log already."""
        return self.engine.half_logged and self.interrupted == name

    def accept(self, name: str, source_batch: int, piece: Slice, more: bool = False) -> bool:
        """Accept a slice of a source, of which there may be more that is known. False where the run was stopped while
        the slice waited for a schema."""
        self.engine.publish_rebuilds()
        beside = f", while batch {self.engine.last} is completed" if self.engine.busy else ""
        LOG.info("reading batch %d%s", self.engine.last + 1, beside)
        if self.several:
            if not more:
                self.behind.discard(name)
            piece = replace(piece, source=name, partitions=self._named(name, piece))
            take_turn(self.engine.store.root, name)
        elif self.away:
            piece = replace(piece, partitions=self._named(name, piece))
        try:
            return self._patiently(source_batch, piece)
        finally:
            self.hear()

    def _patiently(self, source_batch: int, piece: Slice) -> bool:
        """Nothing of a batch is in the log before every schema that it needs can be had."""
        for wait in waits():
            try:
                self.engine.accept(source_batch, piece)
                break
            except SchemaOutage as error:
                LOG.warning(
                    "batch %d waits: %s. Asking again in %g s",
                    self.engine.last + 1,
                    error,
                    wait,
                )
                if self.stopping.wait(wait):
                    return False
        return True

    def lags(self, name: str) -> None:
        """A source has something that waits for its turn: it is not idle."""
        if self.several:
            self.behind.add(name)

    def goes_away(self, name: str) -> None:
        """A source cannot be asked: until it has caught up, there is more of all of its partitions."""
        if name not in self.away:
            self._keep_away(self.away | {name})
            self.engine.keeper.timeline.name(self._named(name))

    def caught_up(self, name: str) -> None:
        """A source has been read as far as it reached: from here on its silence counts."""
        if name in self.behind | self.away:
            self.behind.discard(name)
            self._keep_away(self.away - {name})
            self.engine.keeper.timeline.name(self._named(name))
            self.hear()

    def came_back(self, name: str) -> None:
        """A source has been asked, and read as far as it had come by then."""
        if name in self.away:
            self.caught_up(name)

    def _keep_away(self, names: frozenset[str]) -> None:
        if names != self.away:
            self.away = names
            keep_away(self.engine.store.root, names)

    def _named(self, name: str, piece: Slice | None = None) -> dict[str, bool]:
        """The partitions of all sources, and whether there is more of them."""
        known, named = self.engine.keeper.timeline.known(), piece.partitions if piece else None
        if self.several:
            return named_partitions(name, named, known, self.several, self.behind | self.away)
        return {
            partition: more or name in self.away
            for partition, more in {**dict.fromkeys(known, False), **(named or {})}.items()
        }

    def hear(self) -> None:
        """From here on silence counts: nothing more to read, the arrival clock at the last arrival."""
        self.quiet_since = time.monotonic()
        self.quiet_from = self.engine.keeper.timeline.last_at

    def beat(self) -> None:
        """A heartbeat, while no batch runs: the arrival clock has gone on since the last arrival."""
        if self.engine.busy:
            return
        self.require_store()
        self.engine.settle()
        self.engine.publish_rebuilds()
        if self.away:
            return
        silent = time.monotonic() - self.quiet_since
        if silent >= HEARTBEAT_SECONDS and self.quiet_from != BEGIN_OF_TIME:
            self.engine.heartbeat(self.quiet_from + int(silent * 1_000_000))

    def require_store(self) -> None:
        """Tables that are open would be written on where nobody reads them."""
        if not is_store(self.engine.store.root):
            raise StoreError(f"store {self.engine.store.root} is not there any more")


class Following:
    """A source that is followed: what it has answered, and not read yet, is accepted batch by batch."""

    def __init__(self, intake: Intake, name: str, source: FollowedSource) -> None:
        self.intake = intake
        self.name = name
        self.source = source
        self.keeper = intake.engine.keeper
        self.home = intake.engine.store.home(name)
        self.bounded = True
        self._reached = True
        """Whether the source could be asked the last time."""
        self._again = 0.0
        """When it is asked again, at the earliest."""

    @property
    def number(self) -> int:
        """The next batch of the source."""
        return self.keeper.accepted(self.name).batch + 1

    def begin(self, bounded: bool) -> None:
        """Go on where the store is; where it is `bounded`, ask for all that is there, and for nothing later."""
        there = self.keeper.accepted(self.name)
        logged = self.intake.is_logged(self.name)
        self.source.resume(self.home, there.batch, logged=logged, parts=there.parts)
        if bounded:
            self.source.ask_for_all(self.home, self.number)
        self.bounded = bounded

    def has_news(self) -> bool:
        """Whether there is anything to read that is written down."""
        return self.source.has_answered(self.home, self.number)

    def step(self) -> bool:
        """Accept the next batch; False where there is none now."""
        number = self.number
        self.intake.require_store()
        piece = self.source.answered(self.home, number) or (None if self.bounded else self._news(number))
        if piece is None:
            return False
        self.intake.lags(self.name)
        more = piece.partitions is None and self.source.has_answered(self.home, number + 1)
        accepted = self.intake.accept(self.name, number, piece, more)
        if accepted and self._reached and not more and not any((piece.partitions or {}).values()):
            self.intake.came_back(self.name)
        return accepted

    def _news(self, number: int) -> Slice | None:
        """What is new, if it is time to ask; a source that cannot be asked is away."""
        began = time.monotonic()
        if began < self._again:
            return None
        found = None
        try:
            found = self.source.news(self.home, number)
            self._reached = True
        except SourceOutage as error:
            if self._reached:
                LOG.warning("%s; it is asked again and again, and until then no silence counts", error)
            self._reached = False
            self.intake.goes_away(self.name)
        ended = time.monotonic()
        self._again = max(began + self.source.pause, ended + min(2 * (ended - began), LONGEST_PAUSE))
        if found is None and self._reached:
            self.intake.came_back(self.name)
        return found
