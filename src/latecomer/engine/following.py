"""Following sources: what is new is accepted batch by batch, and between batches silence counts.

A source is asked what is new. What it answers is written down in the store, and then read: each answer, or a part of
it, is a batch of the source.

Several sources are read in the order of arrival, across all of them: a batch is what came until a moment, of each
(`model/merging.py`, ADR 0009). Those whose rows do not say when they came are read by themselves, after the others. As
long as one of these has something that was not read, its partitions are not idle, however far the others have moved the
arrival clock.

A source that cannot be asked is not silent: nobody knows what it has. No silence counts until it has been asked again,
and read as far as it had come by then (ADR 0009).
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
from latecomer.source.base import FollowedSource, Part, Slice, Together
from latecomer.source.choose import sources_of
from latecomer.source.decode.retrying import waits
from latecomer.store.fences import require_held
from latecomer.store.pins import is_store
from latecomer.store.turns import Turn, TurnPart, keep_away, sources_away, take_turn, whose_turn

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
    with closing(intake):
        if bounded or len(followed) > 1:
            _catch_up(followed, intake)
        if not bounded and not stopping.is_set():
            _follow(followed, intake)
        engine.settle()
        if bounded and not stopping.is_set():
            intake.upkeep.rest()


def _catch_up(followed: Sequence[Following], intake: Intake) -> None:
    """Read all that is there now; first of all the batch that was interrupted, if one was."""
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
    """Of several sources, those that say when their rows came are read together, and before the others."""
    together = [each for each in followed if intake.several and each.is_in_order]
    apart = [each for each in followed if each not in together]
    return [InOrder(intake, together), *apart] if together else apart


class Intake:
    """What is done batch by batch, and between batches, whoever hands them in."""

    def __init__(self, engine: Engine, stopping: threading.Event) -> None:
        self.engine = engine
        self.stopping = stopping
        self.several = engine.pipeline.sources
        self.behind: set[str] = set()
        """Of several sources, those that have something which was not read."""
        self.interrupted = whose_turn(engine.store.root) if engine.half_logged and self.several else Turn()
        """What a batch is made of that was interrupted while it was logged."""
        self.away = sources_away(engine.store.root)
        """The sources that could not be asked, and have not been read since as far as they had come."""
        self.upkeep = engine.upkeep = ScheduledUpkeep(engine.pipeline, self._forget_files)
        self.hear()

    def _forget_files(self) -> None:
        """Know the files of tables as they are now: others may be deleted from here on."""
        self.engine.settle()
        store, outputs = self.engine.store, self.engine.outputs
        published = [table for logic in outputs for table in logic.tables.all]
        for table in (*store.logged_tables, store.ledger, *published):
            table.refresh()
        for logic in outputs:
            logic.remember()

    def rest(self) -> None:
        """Nothing is new."""
        if not self.engine.busy:
            self.upkeep.quiet()

    def close(self) -> None:
        """Nothing more is handed in."""
        self.upkeep.close()

    def is_logged(self, name: str) -> bool:
        """Whether the next batch of a source is in the log already."""
        return self.engine.half_logged and name in self.interrupted.sources

    def accept(self, name: str, source_batch: int, slice_: Slice, more: bool = False) -> bool:
        """Accept a slice of a source, of which there may be more that is known. False where the run was stopped while
        the slice waited for a schema."""
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
        """Accept the parts of slices that are read together; `named` are their sources, and the partitions that each
        names. The silence of these sources counts by the arrival clock: what came by then is read."""
        parts = [
            Part(slice_, each.after, each.until) for each, slice_ in zip(turn.parts, slices, strict=True)
        ]
        partitions = self._named(named, self.behind - named.keys())
        together = Together.of(parts, turn.read_to, partitions)
        return self._hand_in(turn, partial(self.engine.take, turn.parts[-1].batch, together))

    def _hand_in(self, turn: Turn, accept: Callable[[], None]) -> bool:
        self.upkeep.busy()
        publish_rebuilds(self.engine)
        beside = f", while batch {self.engine.last} is completed" if self.engine.busy else ""
        LOG.info("reading batch %d%s", self.engine.last + 1, beside)
        if self.several:
            take_turn(self.engine.store.root, turn)
        try:
            return self.patiently(accept)
        finally:
            self.hear()

    def patiently(self, do: Callable[[], object]) -> bool:
        """Nothing of a batch is in the log before every schema that it needs can be had. False where the run was
        stopped before that."""
        for wait in waits():
            try:
                do()
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
            self.engine.keeper.timeline.name(self._named({name: None}))

    def caught_up(self, name: str) -> None:
        """A source has been read as far as it reached: from here on its silence counts."""
        if name in self.behind | self.away:
            self.behind.discard(name)
            self._keep_away(self.away - {name})
            self.engine.keeper.timeline.name(self._named({name: None}))
            self.hear()

    def came_back(self, name: str) -> None:
        """A source has been asked, and read as far as it had come by then."""
        if name in self.away:
            self.caught_up(name)

    def _keep_away(self, names: frozenset[str]) -> None:
        if names != self.away:
            self.away = names
            keep_away(self.engine.store.root, names)

    def _named(
        self, read: Mapping[str, Mapping[str, bool] | None], behind: Set[str] | None = None
    ) -> dict[str, bool]:
        """The partitions of all sources, and whether there is more of them, when some are `read`."""
        known = self.engine.keeper.timeline.known()
        if self.several:
            lagging = self.behind if behind is None else behind
            return named_partitions(read, known, self.several, lagging | self.away)
        ((name, named),) = read.items()
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
        publish_rebuilds(self.engine)
        if self.away:
            return
        silent = time.monotonic() - self.quiet_since
        if silent >= HEARTBEAT_SECONDS and self.quiet_from != BEGIN_OF_TIME:
            heartbeat(self.engine, self.quiet_from + int(silent * 1_000_000))

    def require_store(self) -> None:
        """Tables that are open would be written on where nobody reads them, and where another engine has taken over no
        commit of this one is accepted."""
        require_held(self.engine.store.root)
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

    @cached_property
    def is_in_order(self) -> bool:
        """Whether it is read in the order of arrival: every row says when it came, or some were read like that."""
        parts = self.intake.interrupted.parts
        begun = self.keeper.accepted(self.name).begun.slices or any(
            each.source == self.name for each in parts
        )
        return bool(begun) or self.source.stamps_arrivals

    def has_begun(self, turn: Turn) -> bool:
        """Whether a batch that was interrupted is of this source."""
        return turn.source == self.name != ""

    def hand_in_again(self, _: Turn) -> None:
        """Accept the batch that was interrupted: the next one."""
        self.step()

    def caught_up(self) -> None:
        """All that was there is read."""
        self.intake.caught_up(self.name)

    @property
    def reached(self) -> bool:
        """Whether the source could be asked the last time."""
        return self._reached

    def has_news(self) -> bool:
        """Whether there is anything to read that is written down."""
        return self.source.has_answered(self.home, self.number)

    def step(self) -> bool:
        """Accept the next batch; False where there is none now."""
        number = self.number
        self.intake.require_store()
        slice_ = self.source.answered(self.home, number) or self.news()
        if slice_ is None:
            return False
        self.intake.lags(self.name)
        more = slice_.partitions is None and self.source.has_answered(self.home, number + 1)
        accepted = self.intake.accept(self.name, number, slice_, more)
        if accepted and self._reached and not more and not any((slice_.partitions or {}).values()):
            self.intake.came_back(self.name)
        return accepted

    def news(self) -> Slice | None:
        """What is new, if it is time to ask; a source that cannot be asked is away."""
        began, number = time.monotonic(), self.number
        if self.bounded or began < self._again:
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


class Waits:
    """The slices of a source that wait, each with when its events came, once somebody asks."""

    def __init__(self, intake: Intake, followed: Following) -> None:
        self.followed = followed
        self._log = intake.engine.log
        self._slices: dict[int, Slice] = {}
        self._looked: dict[int, Waiting] = {}

    def has(self, nth: int) -> bool:
        return self.knows(self.followed.number + nth)

    def knows(self, number: int) -> bool:
        """Whether it is known what a batch of the source is made of."""
        return number in self._slices or self.followed.source.has_answered(self.followed.home, number)

    def ask(self) -> bool:
        """Whether anything is new, where nothing waits."""
        found, number = self.followed.news(), self.followed.number
        if found is not None:
            self._slices[number] = replace(found, source=self.followed.name)
        return found is not None

    def slice(self, number: int) -> Slice:
        """A batch of the source."""
        if number not in self._slices:
            found = self.followed.source.answered(self.followed.home, number)
            assert found is not None  # noqa: S101
            self._slices[number] = replace(found, source=self.followed.name)
        return self._slices[number]

    def __getitem__(self, nth: int, /) -> Waiting:
        number = self.followed.number + nth
        if number not in self._looked:
            LOG.info("looking when what waits in %s came", self.followed.name)
            slice_ = self.slice(number)
            more = [name for name, there_is in (slice_.partitions or {}).items() if there_is]
            self._looked[number] = self._log.waiting(slice_, more)
        return self._looked[number]

    def forget(self) -> None:
        """What is read is not asked for again."""
        for known in (self._slices, self._looked):
            for number in [each for each in known if each < self.followed.number]:
                del known[number]


class InOrder:
    """Sources that are followed together: what is new is accepted in the order of arrival."""

    def __init__(self, intake: Intake, followed: Sequence[Following]) -> None:
        self.intake = intake
        self.waits = {each.name: Waits(intake, each) for each in followed}

    def has_begun(self, turn: Turn) -> bool:
        return not turn.sources.isdisjoint(self.waits)

    def hand_in_again(self, turn: Turn) -> None:
        """Accept the batch that was interrupted: of the same parts."""
        if turn.source:
            self.waits[turn.source].followed.step()
        else:
            self._accept(turn, together=len(turn.read_to) > 1)

    def caught_up(self) -> None:
        for name in self.waits:
            self.intake.caught_up(name)

    def step(self) -> bool:
        """Accept what came next, of all of them; False where there is nothing now."""
        self.intake.require_store()
        there = {name: each for name, each in self.waits.items() if each.has(0) or each.ask()}
        if not there:
            return False
        accepted = {name: each.followed.keeper.accepted(name) for name, each in there.items()}
        plans: list[Plan] = []
        begun = {name: each.begun for name, each in accepted.items()}
        if not self.intake.patiently(lambda: plans.append(next_batch(there, begun))):
            return False
        (plan,) = plans
        parts = [
            TurnPart(name, accepted[name].batch + 1 + each.nth, each.after, each.until)
            for name, taken in plan.taken.items()
            for each in taken
        ]
        read_to = {
            name: ReadTo(each.batch + plan.finished[name], plan.begun[name])
            for name, each in accepted.items()
        }
        return self._accept(Turn(parts=parts, read_to=read_to), together=len(there) > 1)

    def _accept(self, turn: Turn, together: bool) -> bool:
        """Sources that are read together have no more of what came by then. Of one that is read alone, or has more than
        was asked for, only itself can say which of its partitions are behind."""
        slices = [self.waits[each.source].slice(each.batch) for each in turn.parts]
        named: dict[str, dict[str, bool]] = {name: {} for name in self.waits}
        for part, slice_ in zip(turn.parts, slices, strict=True):
            waited_for = together and self.waits[part.source].knows(part.batch + 1)
            for partition, more in (slice_.partitions or {}).items():
                named[part.source][partition] = more and not waited_for
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
