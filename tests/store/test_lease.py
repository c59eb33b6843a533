"""The lease, with a clock and a place of the test's own: who has it, who may take over, and who is refused."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from latecomer.errors import StoreError
from latecomer.store.holding.lease import Heart, Holder, Lease, LeaseClock, Watcher, read_lease

TAKEOVER = 10.0


class Shelf:
    """A place that replaces only what is as it was read; the answer to a write may be lost on its way."""

    name = "lease.json"

    def __init__(self) -> None:
        self.content: bytes | None = None
        self.version = 0
        self.mute = False

    def read(self) -> tuple[bytes, str] | None:
        return None if self.content is None else (self.content, str(self.version))

    def put_if(self, content: bytes, tag: str | None) -> str | None:
        if tag != (None if self.content is None else str(self.version)):
            return None
        self.content, self.version = content, self.version + 1
        if self.mute:
            self.mute = False
            raise TimeoutError("the answer is lost")
        return str(self.version)


class ByHand(LeaseClock):
    """A clock that goes as the test says, with a beginning and a speed of its own."""

    def __init__(self, begin: float = 0.0, speed: float = 1.0) -> None:
        self.time, self.speed = begin, speed

    def now(self) -> float:
        return self.time

    def moment(self) -> str:
        return "2026-01-01T00:00:00+00:00"

    def pass_by(self, seconds: float) -> None:
        self.time += seconds * self.speed


def watcher(shelf: Shelf, clock: LeaseClock, name: str = "a", takeover: float | None = TAKEOVER) -> Watcher:
    return Watcher(shelf, Holder(name, takeover, f"host-{name}", 1), clock)


def taken(shelf: Shelf, clock: LeaseClock, name: str = "a") -> Lease:
    lease = watcher(shelf, clock, name).look()
    assert lease is not None
    return lease


def test_the_first_one_gets_it_and_the_second_waits_for_a_sign_of_life() -> None:
    shelf, clock = Shelf(), ByHand()
    first, second = taken(shelf, clock), watcher(shelf, clock, "b")
    assert (first.token, first.record.in_words) == (1, "a 1 on host-a")
    assert second.look() is None
    assert (second.signs, second.pause) == (0, 1.0)
    assert first.renew()
    assert second.look() is None
    assert second.signs == 1


def test_a_silent_one_is_taken_over_by_the_clock_of_the_watcher_alone() -> None:
    shelf, ours, theirs = Shelf(), ByHand(), ByHand(begin=-1e6)
    first, second = taken(shelf, ours), watcher(shelf, theirs, "b")
    assert second.look() is None
    theirs.pass_by(TAKEOVER - 0.001)
    assert second.look() is None
    assert first.renew()
    theirs.pass_by(0.001)
    assert second.look() is None  # there was a sign
    theirs.pass_by(TAKEOVER)
    after = second.look()
    assert after is not None
    assert after.token == 2
    assert not first.confirm()
    assert not first.renew()
    assert first.lost_to == after.record


def test_whoever_let_go_is_followed_at_once_with_the_next_token() -> None:
    shelf, clock = Shelf(), ByHand()
    first = taken(shelf, clock)
    first.let_go()
    assert taken(shelf, clock, "b").token == 2
    first.let_go()  # it is not its to let go of any more
    assert watcher(shelf, clock, "c").look() is None


def test_of_two_who_take_over_at_once_one_gets_it() -> None:
    shelf, clock = Shelf(), ByHand()
    taken(shelf, clock)
    others = [watcher(shelf, clock, name) for name in "bc"]
    assert [each.look() for each in others] == [None, None]
    clock.pass_by(TAKEOVER)
    before = shelf.read()
    won = others[0].look()
    assert won is not None
    assert before is not None
    assert shelf.put_if(b"", before[1]) is None  # what the other one has read is over
    assert others[1].look() is None


def test_a_write_that_got_through_unnoticed_is_no_loss() -> None:
    shelf, clock = Shelf(), ByHand()
    shelf.mute = True
    first = watcher(shelf, clock)
    with pytest.raises(TimeoutError):
        first.look()
    lease = first.look()
    assert lease is not None
    shelf.mute = True
    with pytest.raises(TimeoutError):
        lease.renew()
    assert lease.renew()
    assert not lease.lost
    shelf.mute = True
    with pytest.raises(TimeoutError):
        lease.renew()
    lease.let_go()
    assert taken(shelf, clock, "b").token == 2


def test_a_holder_that_was_only_cut_off_goes_on() -> None:
    shelf, clock = Shelf(), ByHand()
    lease = taken(shelf, clock)
    clock.pass_by(100 * TAKEOVER)
    assert lease.renew()


@pytest.mark.parametrize("moment", ["yesterday", "", None, 7])
def test_a_lease_whose_moments_cannot_be_read_is_refused(moment: object) -> None:
    shelf = Shelf()
    taken(shelf, ByHand())
    assert shelf.content is not None
    shelf.content = json.dumps({**json.loads(shelf.content), "since": moment}).encode()
    with pytest.raises(StoreError, match=r"lease\.json cannot be read"):
        read_lease(shelf)


def test_what_is_no_lease_is_said_so() -> None:
    shelf = Shelf()
    for content in (b"", b"[]", b'{"token": 1}', b"\xff", b'{"token": "1"}'):
        shelf.content = content
        with pytest.raises(StoreError, match=r"lease\.json cannot be read"):
            read_lease(shelf)


def test_a_lease_whose_file_is_gone_is_lost() -> None:
    shelf = Shelf()
    lease = taken(shelf, ByHand())
    shelf.content = None
    assert not lease.renew()
    assert lease.lost
    assert lease.lost_to is None


# Several engines, each at its own pace


class Log:
    """The log of a table, as Delta keeps it: a commit is put behind the version that its writer knows, unless one that
    came meanwhile carries a token, too."""

    def __init__(self) -> None:
        self.commits: list[tuple[int, int | None]] = []

    @property
    def token(self) -> int:
        return self.commits[-1][0] if self.commits else 0

    @property
    def batches(self) -> list[int]:
        return [batch for _, batch in self.commits if batch is not None]

    def put(self, known: int, token: int, batch: int | None) -> bool:
        if len(self.commits) > known:
            return False
        self.commits.append((token, batch))
        return True


class Refused(Exception):
    """Somebody else has taken over."""


TABLES = ("events", "watermarks", "ledger")


class Engine:
    """An engine that takes the lease when it can, and then runs batches. It may stop for any time between two steps."""

    def __init__(self, name: str, shelf: Shelf, logs: dict[str, Log], clock: ByHand) -> None:
        self.shelf, self.logs, self.clock, self.name = shelf, logs, clock, name
        self.lease: Lease | None = None
        self.ready = False
        """Whether it has put up its fences."""
        self.refused = 0
        self.done: list[int] = []
        self._steps = self._live()

    def step(self) -> None:
        next(self._steps)

    def _live(self) -> Iterator[None]:
        while True:
            watching = watcher(self.shelf, self.clock, self.name)
            while self.lease is None:
                with suppress(TimeoutError):
                    self.lease = watching.look()
                yield
            try:
                yield from self._work(self.lease)
            except Refused:
                self.refused += 1
            self.lease, self.ready = None, False

    def _work(self, lease: Lease) -> Iterator[None]:
        for log in self.logs.values():
            yield from self._write(log, lease.token, None)
        self.ready = True
        reached = {name: max(log.batches, default=-1) for name, log in self.logs.items()}
        yield
        while True:
            batch = reached["ledger"] + 1
            for name, log in self.logs.items():
                if reached[name] < batch:
                    yield from self._write(log, lease.token, batch)
                    reached[name] = batch
                yield
            self.done.append(batch)

    def _write(self, log: Log, token: int, batch: int | None) -> Iterator[None]:
        while True:
            known = len(log.commits)
            if log.token > token:
                raise Refused
            yield
            if log.put(known, token, batch):
                return
            yield

    def beat(self) -> None:
        if self.lease is not None:
            with suppress(TimeoutError):
                self.lease.renew()


class World:
    """Engines on one store, and what must hold whatever they do."""

    def __init__(self, speeds: Sequence[float]) -> None:
        self.shelf, self.logs = Shelf(), {name: Log() for name in TABLES}
        self.engines: list[Engine] = []
        self.refused = 0
        for nth, speed in enumerate(speeds):
            self.start(1e6 * nth, speed)

    def start(self, begin: float, speed: float) -> None:
        self.engines.append(Engine(f"{len(self.engines)}", self.shelf, self.logs, ByHand(begin, speed)))

    def go_on(self, nth: int, steps: int) -> None:
        for _ in range(steps):
            self._of(nth).step()

    def beat(self, nth: int) -> None:
        self._of(nth).beat()

    def let_go(self, nth: int) -> None:
        with suppress(TimeoutError):
            if (lease := self._of(nth).lease) is not None:
                lease.let_go()

    def die_and_start_again(self, nth: int, begin: float) -> None:
        died = self._of(nth)
        self.refused += died.refused
        self.engines.remove(died)
        self.start(begin, died.clock.speed)

    def pass_time(self, seconds: float) -> None:
        for each in self.engines:
            each.clock.pass_by(seconds)

    def all_but_one_pause(self, nth: int, steps: int) -> None:
        """The others are silent for so long that this one takes over, and comes so far."""
        self.go_on(nth, 1)
        self.pass_time(2 * TAKEOVER)
        self.go_on(nth, steps)

    def check(self) -> None:
        for log in self.logs.values():
            assert log.batches == list(range(len(log.batches)))  # none twice, none left out
            tokens = [token for token, _ in log.commits]
            assert tokens == sorted(tokens)
        reached = [len(log.batches) for log in self.logs.values()]
        assert reached == sorted(reached, reverse=True)  # nothing is there before what it rests on
        assert reached[0] - reached[-1] <= 1
        newest = max((log.token for log in self.logs.values()), default=0)
        ready = [each for each in self.engines if each.ready and each.lease and each.lease.token >= newest]
        assert len(ready) <= 1

    def check_end(self) -> None:
        """Where one is left alone, it gets on."""
        before = len(self.logs["ledger"].batches)
        self.shelf.mute = False
        for _ in range(60):
            self.pass_time(2 * TAKEOVER)
            self.go_on(0, 5)
        assert len(self.logs["ledger"].batches) > before

    def do_anything(self, by: random.Random) -> None:
        nth = by.randrange(4)
        steps: list[tuple[float, Callable[[], None]]] = [
            (8, lambda: self.go_on(nth, by.randint(1, 12))),
            (4, lambda: self.beat(nth)),
            (3, lambda: self.pass_time(by.choice(SECONDS))),
            (2, lambda: self.all_but_one_pause(nth, by.randint(1, 20))),
            (1, lambda: setattr(self.shelf, "mute", True)),
            (0.5, lambda: self.die_and_start_again(nth, by.uniform(-1e9, 1e9))),
            (0.5, lambda: self.let_go(nth)),
        ]
        by.choices([do for _, do in steps], [often for often, _ in steps])[0]()

    def _of(self, nth: int) -> Engine:
        return self.engines[nth % len(self.engines)]


SPEEDS = [0.5, 1.0, 1.5]
SECONDS = [0.5, 3.0, 9.0, 21.0]
ANY = st.integers(0, 3)


class Engines(RuleBasedStateMachine):
    """Each step of each engine is taken when it pleases the test: to pause one is to leave it out."""

    @initialize(speeds=st.lists(st.sampled_from(SPEEDS), min_size=2, max_size=4))
    def begin(self, speeds: list[float]) -> None:
        self.world = World(speeds)

    @rule(nth=ANY, steps=st.integers(1, 12))
    def go_on(self, nth: int, steps: int) -> None:
        self.world.go_on(nth, steps)

    @rule(nth=ANY)
    def give_a_sign_of_life(self, nth: int) -> None:
        self.world.beat(nth)

    @rule(seconds=st.sampled_from(SECONDS))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(nth=ANY, steps=st.integers(1, 20))
    def all_but_one_pause(self, nth: int, steps: int) -> None:
        self.world.all_but_one_pause(nth, steps)

    @rule()
    def lose_an_answer(self) -> None:
        self.world.shelf.mute = True

    @rule(nth=ANY, begin=st.floats(-1e9, 1e9))
    def die_and_start_again(self, nth: int, begin: float) -> None:
        self.world.die_and_start_again(nth, begin)

    @rule(nth=ANY)
    def let_go(self, nth: int) -> None:
        self.world.let_go(nth)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.check_end()


TestEngines = Engines.TestCase
TestEngines.settings = settings(stateful_step_count=60, max_examples=25, deadline=None)


def test_long_fights_of_several_engines() -> None:
    fought, refused = 0, 0
    for seed in range(80):
        by = random.Random(seed)
        world = World(by.choices(SPEEDS, k=by.randint(2, 4)))
        for _ in range(200):
            world.do_anything(by)
            world.check()
        fought += max(log.token for log in world.logs.values())
        refused += world.refused + sum(each.refused for each in world.engines)
        world.check_end()
    assert fought > 1000  # so often did the store change hands
    assert refused > 250  # and so often an engine woke up too late


def test_signs_of_life_come_by_themselves() -> None:
    waits: list[float] = []

    class Impatient(ByHand):
        def wait(self, stopped: threading.Event, seconds: float) -> bool:
            waits.append(seconds)
            return len(waits) > 3

    shelf = Shelf()
    heart = Heart(taken(shelf, Impatient()))
    heart._thread.join()
    assert (waits, shelf.version) == ([2.0] * 4, 4)
    heart.stop()
