"""Following sources: new data is accepted batch by batch, and between batches silence counts.

A source is asked for its new data. Its answer (which files, which offsets) is written to the store, and then read: each
answer, or a part of it, is a batch of the source.

Several sources are read in the order of arrival, across all of them: a batch has what arrived by one moment, from each
source (`model/merging.py`, ADR 0009). Sources whose rows have no arrival time are read by themselves, after the others.
As long as one of these has unread data, its partitions are not idle, however far the others have moved the arrival
clock.

A source that cannot be reached is not silent: nobody knows what data it has. No silence counts until it has answered
again, and has been read up to that answer (ADR 0009).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial

from latecomer.engine.pipeline import Engine
from latecomer.engine.quiet import heartbeat
from latecomer.engine.rebuilds import publish_rebuilds
from latecomer.engine.upkeep.scheduled import ScheduledUpkeep
from latecomer.errors import SchemaOutage, SourceOutage, StoreError
from latecomer.model.merging import Plan, ReadTo, Waiting, next_batch
from latecomer.model.sources import named_partitions
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.source.base import FollowedSource, MergedSlice, Part, Slice
from latecomer.source.choose import sources_of
from latecomer.source.decode.retrying import waits
from latecomer.store.fences import require_held
from latecomer.store.pins import is_store
from latecomer.store.store import home_of
from latecomer.store.turns import Turn, TurnPart, keep_away, sources_away, take_turn, whose_turn

LOG = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 1.0
PAUSE_SECONDS = 0.2
"""Between two requests to a source, while nothing is new."""
LONGEST_PAUSE = 0.4
"""At most so many seconds pass after a slow request before the next."""


def follow(engine: Engine, stopping: threading.Event, bounded: bool) -> None:
    """Accept new data: in a `bounded` run what the sources have now, else until the run is stopped."""
    LOG.info("looking for what is new")
    intake = Intake(engine, stopping)
    sources = sources_of(engine.pipeline, engine.store.columns)
    followed = [Following(intake, name, source) for name, source in sources.items()]
    with closing(intake):
        if bounded or len(followed) > 1:
            _catch_up(followed, intake)
        if not bounded and not stopping.is_set():
            _follow(followed, intake)
        engine.settle()
        if bounded and not stopping.is_set():
            intake.upkeep.rest()


def _catch_up(followed: Sequence[Following], intake: Intake) -> None:
    """Read what the sources have now; an interrupted batch comes first."""
    for each in followed:
        each.begin(bounded=True)
    readers = _readers(followed, intake)
    for reader in readers:
        if isinstance(reader, Following) and reader.has_news():
            intake.lags(reader.name)
    for reader in readers:
        if intake.engine.half_logged and reader.has_begun(intake.interrupted):
            reader.hand_in_again(intake.interrupted)
    for reader in readers:
        while not intake.stopping.is_set() and reader.step():
            pass
        if intake.stopping.is_set():
            return
        reader.caught_up()


def _follow(followed: Sequence[Following], intake: Intake) -> None:
    """Follow all of them until the run is stopped."""
    for each in followed:
        each.begin(bounded=False)
    readers = _readers(followed, intake)
    while not intake.stopping.is_set():
        read = [each.step() for each in readers if not intake.stopping.is_set()]
        intake.beat()
        if not any(read):
            intake.rest()
            intake.stopping.wait(PAUSE_SECONDS)


def _readers(followed: Sequence[Following], intake: Intake) -> Sequence[Following | InOrder]:
    """Of several sources, those whose rows have arrival times are read together, before the others."""
    together = [each for each in followed if intake.several and each.is_in_order]
    apart = [each for each in followed if each not in together]
    return [InOrder(intake, together), *apart] if together else apart


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
        self.engine.settle()
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
            slice_ = replace(slice_, source=name, partitions=self._named({name: slice_.partitions}))
        elif self.away:
            slice_ = replace(slice_, partitions=self._named({name: slice_.partitions}))
        return self._hand_in(Turn(name), partial(self.engine.accept, source_batch, slice_))

    def accept_together(
        self,
        turn: Turn,
        slices: Sequence[Slice],
        named: Mapping[str, Mapping[str, bool] | None],
    ) -> bool:
        """Accept the parts of slices that are read together; `named` has their sources, with the partitions of each.
        The silence of these sources counts by the arrival clock: everything that arrived by then is read."""
        parts = [
            Part(slice_, each.after, each.until) for each, slice_ in zip(turn.parts, slices, strict=True)
        ]
        partitions = self._named(named, self.behind - named.keys())
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
        """A source has unread data: it is not idle."""
        if self.several:
            self.behind.add(name)

    def goes_away(self, name: str) -> None:
        """A source cannot be reached: until it has caught up, all of its partitions may have unread data."""
        if name not in self.away:
            self._keep_away(self.away | {name})
            self.engine.keeper.timeline.name(self._named({name: None}))

    def caught_up(self, name: str) -> None:
        """A source has been read to its end: from now on its silence counts."""
        if name in self.behind | self.away:
            self.behind.discard(name)
            self._keep_away(self.away - {name})
            self.engine.keeper.timeline.name(self._named({name: None}))
            self.restart_silence()

    def came_back(self, name: str) -> None:
        """A source that could not be reached has answered, and has been read up to that answer."""
        if name in self.away:
            self.caught_up(name)

    def _keep_away(self, names: frozenset[str]) -> None:
        if names != self.away:
            self.away = names
            keep_away(self.engine.store.root, names)

    def _named(
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
        self.engine.settle()
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


class Following:
    """A source that is followed: its answers are accepted batch by batch."""

    def __init__(self, intake: Intake, name: str, source: FollowedSource) -> None:
        self.intake = intake
        self.name = name
        self.source = source
        self.keeper = intake.engine.keeper
        self.home = home_of(intake.engine.store.root, name)
        self.bounded = True
        self.reached = True
        """Whether the source answered the last request."""
        self._ask_at = 0.0
        """The earliest time of the next request."""

    @property
    def number(self) -> int:
        """The next batch of the source."""
        return self.keeper.accepted(self.name).batch + 1

    def begin(self, bounded: bool) -> None:
        """Continue after the last accepted batch; where `bounded`, ask once for all data, and never again."""
        accepted = self.keeper.accepted(self.name)
        logged = self.intake.is_logged(self.name)
        self.source.resume(self.home, accepted.batch, logged=logged, parts=accepted.parts)
        if bounded:
            self.source.find_all(self.home, self.number)
        self.bounded = bounded

    @cached_property
    def is_in_order(self) -> bool:
        """Whether it is read in the order of arrival: its rows have arrival times, or it was read so before."""
        parts = self.intake.interrupted.parts
        begun = self.keeper.accepted(self.name).begun.slices or any(
            each.source == self.name for each in parts
        )
        return bool(begun) or self.source.stamps_arrivals

    def has_begun(self, turn: Turn) -> bool:
        """Whether an interrupted batch is of this source."""
        return turn.source == self.name != ""

    def hand_in_again(self, _: Turn) -> None:
        """Accept the interrupted batch: it is the next one."""
        self.step()

    def caught_up(self) -> None:
        """Everything that the source had is read."""
        self.intake.caught_up(self.name)

    def has_news(self) -> bool:
        """Whether the store has an answer of the source that was not read yet."""
        return self.source.has_slice(self.home, self.number)

    def step(self) -> bool:
        """Accept the next batch; False where none is ready."""
        number = self.number
        self.intake.require_store()
        slice_ = self.source.slice_of(self.home, number) or self.next_slice()
        if slice_ is None:
            return False
        self.intake.lags(self.name)
        more = slice_.partitions is None and self.source.has_slice(self.home, number + 1)
        accepted = self.intake.accept(self.name, number, slice_, more)
        if accepted and self.reached and not more and not any((slice_.partitions or {}).values()):
            self.intake.came_back(self.name)
        return accepted

    def next_slice(self) -> Slice | None:
        """The next new slice, if it is time to ask for one and the source has one."""
        began, number = time.monotonic(), self.number
        if self.bounded or began < self._ask_at:
            return None
        new = None
        try:
            new = self.source.next_slice(self.home, number)
            self.reached = True
        except SourceOutage as error:
            if self.reached:
                LOG.warning("%s; it is asked again and again, and until it answers no silence counts", error)
            self.reached = False
            self.intake.goes_away(self.name)
        ended = time.monotonic()
        self._ask_at = max(began + self.source.pause, ended + min(2 * (ended - began), LONGEST_PAUSE))
        if new is None and self.reached:
            self.intake.came_back(self.name)
        return new


class WaitingSlices:
    """The slices of a source that wait to be read, each with the arrival times of its events, read when needed."""

    def __init__(self, intake: Intake, followed: Following) -> None:
        self.followed = followed
        self._log = intake.engine.log
        self._slices: dict[int, Slice] = {}
        self._waiting: dict[int, Waiting] = {}

    def has(self, nth: int) -> bool:
        return self.knows(self.followed.number + nth)

    def knows(self, number: int) -> bool:
        """Whether it is known which data a batch of the source has."""
        return number in self._slices or self.followed.source.has_slice(self.followed.home, number)

    def ask(self) -> bool:
        """Ask the source for new data; whether it has any."""
        new, number = self.followed.next_slice(), self.followed.number
        if new is not None:
            self._slices[number] = replace(new, source=self.followed.name)
        return new is not None

    def slice(self, number: int) -> Slice:
        """A batch of the source."""
        if number not in self._slices:
            slice_ = self.followed.source.slice_of(self.followed.home, number)
            assert slice_ is not None  # noqa: S101
            self._slices[number] = replace(slice_, source=self.followed.name)
        return self._slices[number]

    def __getitem__(self, nth: int, /) -> Waiting:
        number = self.followed.number + nth
        if number not in self._waiting:
            LOG.info("reading the arrival times of new data of %s", self.followed.name)
            slice_ = self.slice(number)
            more = [name for name, has_more in (slice_.partitions or {}).items() if has_more]
            self._waiting[number] = self._log.waiting(slice_, more)
        return self._waiting[number]

    def forget(self) -> None:
        """Forget slices that were read."""
        for known in (self._slices, self._waiting):
            for number in [each for each in known if each < self.followed.number]:
                del known[number]


class InOrder:
    """Sources that are followed together: their new data is accepted in the order of arrival."""

    def __init__(self, intake: Intake, followed: Sequence[Following]) -> None:
        self.intake = intake
        self.waits = {each.name: WaitingSlices(intake, each) for each in followed}

    def has_begun(self, turn: Turn) -> bool:
        return not turn.sources.isdisjoint(self.waits)

    def hand_in_again(self, turn: Turn) -> None:
        """Accept the interrupted batch, with the same parts."""
        if turn.source:
            self.waits[turn.source].followed.step()
        else:
            self._accept(turn, together=len(turn.read_to) > 1)

    def caught_up(self) -> None:
        for name in self.waits:
            self.intake.caught_up(name)

    def step(self) -> bool:
        """Accept the data of all of them that arrived next; False where there is none now."""
        self.intake.require_store()
        ready = {name: each for name, each in self.waits.items() if each.has(0) or each.ask()}
        if not ready:
            return False
        accepted = {name: each.followed.keeper.accepted(name) for name, each in ready.items()}
        plans: list[Plan] = []
        begun = {name: each.begun for name, each in accepted.items()}
        if not self.intake.await_schemas(lambda: plans.append(next_batch(ready, begun))):
            return False
        (plan,) = plans
        turn_parts = [
            TurnPart(name, accepted[name].batch + 1 + each.nth, each.after, each.until)
            for name, parts in plan.taken.items()
            for each in parts
        ]
        read_to = {
            name: ReadTo(each.batch + plan.finished[name], plan.begun[name])
            for name, each in accepted.items()
        }
        return self._accept(Turn(parts=turn_parts, read_to=read_to), together=len(ready) > 1)

    def _accept(self, turn: Turn, together: bool) -> bool:
        """Sources that are read together have no unread data that arrived by the end of the batch. Of a source that is
        read alone, or has more than its known slices, only the source can say which partitions have unread data."""
        slices = [self.waits[each.source].slice(each.batch) for each in turn.parts]
        named: dict[str, dict[str, bool]] = {name: {} for name in self.waits}
        for part, slice_ in zip(turn.parts, slices, strict=True):
            next_is_known = together and self.waits[part.source].knows(part.batch + 1)
            for partition, more in (slice_.partitions or {}).items():
                named[part.source][partition] = more and not next_is_known
        if not self.intake.accept_together(turn, slices, named):
            return False
        for name, each in self.waits.items():
            each.forget()
            if each.has(0) or any(named[name].values()):
                self.intake.lags(name)
            else:
                self.intake.behind.discard(name)
                if each.followed.reached:
                    self.intake.came_back(name)
        return True
