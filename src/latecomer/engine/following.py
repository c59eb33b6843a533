"""Following sources: new data is accepted batch by batch, and between batches silence counts.

A source is asked for its new data. Its answer (which files, which offsets) is written to the store, and then read: each
answer, or a part of it, is a batch of the source.

Several sources are read in the order of arrival, across all of them: a batch has what arrived by one moment, from each
source (`model/source_order.py`, ADR 0009). Sources whose rows have no arrival time are read by themselves, after the
others. As long as one of these has unread data, its partitions are not idle, however far the others have moved the
arrival clock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property

from latecomer.engine.intake import Intake
from latecomer.engine.pipeline import Engine
from latecomer.errors import SourceOutage
from latecomer.model.source_order import NextBatch, ReadTo, Waiting, next_batch
from latecomer.source.base import FollowedSource, Slice
from latecomer.source.choose import sources_of
from latecomer.store.source_turns import Turn, TurnPart
from latecomer.store.store import home_of

LOG = logging.getLogger(__name__)
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
        engine.await_batch()
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
        plans: list[NextBatch] = []
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
