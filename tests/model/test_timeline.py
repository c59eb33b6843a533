"""The timeline: boundaries by hand, and that it gives every event the oracle's watermark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.model.oracle.interpreter import Arrival, Interpretation, interpret
from latecomer.model.panes import Pane, Timing, surviving
from latecomer.model.strategies import Ascending, Bounded, Strategy, TickSummary
from latecomer.model.timeline import OutOfStep, Timeline
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, judge
from latecomer.model.windows import FIRST_MOMENT, Tumbling
from scenarios import arrivals, bounded, cut, cuts, out_of_step, outputs, quick, thorough, watermarks
from timeline_kit import Reader


def summary(tick: int, newest: int, partition: str = "p", every: int = 10) -> TickSummary:
    return TickSummary(tick, tick * every, partition, events=1, max_event_time=newest)


def ticking(delay: str = "0s", **fields: object) -> Timeline:
    """A timeline in ticks of ten microseconds."""
    return Timeline(Bounded(delay, every="10us", **fields))


def in_force(batches: Sequence[Sequence[Arrival]], strategy: Strategy) -> dict[int, int]:
    reader = Reader(strategy)
    for batch in batches:
        reader.read(batch)
    return reader.in_force


def by_definition(order: Sequence[Arrival], strategy: Bounded) -> list[int]:
    """The watermark in force for each event, each from the whole history and nothing remembered."""
    every = strategy.every
    last = 0 if every == "event" else every  # how long after its tick began an event may have come
    ticks: list[tuple[int, int]] = []
    for place in range(len(order)):
        if every == "event":
            ticks.append((place, max(before.arrival_time for before in order[: place + 1])))
        else:
            tick = max(before.arrival_time // every for before in order[: place + 1])
            ticks.append((tick, tick * every))

    def allowed(tick: int, at: int) -> int:
        """What the ticks before this one allow, seen from its time."""
        past = [(event, when[1]) for event, when in zip(order, ticks, strict=True) if when[0] < tick]
        if not past:
            return BEGIN_OF_TIME
        newest, idle = {}, set()
        for name in {event.partition for event, _ in past}:
            newest[name] = max(event.event_time for event, _ in past if event.partition == name)
            heard = max(when + last for event, when in past if event.partition == name)
            if strategy.idle_after is not None and at - heard >= strategy.idle_after:
                idle.add(name)
        if idle == newest.keys():
            return max(newest.values()) - strategy.delay
        return min(time for name, time in newest.items() if name not in idle) - strategy.delay

    return [max(allowed(*earlier) for earlier in ticks[: place + 1]) for place in range(len(order))]


# Boundaries


def test_the_first_tick_meets_no_watermark() -> None:
    (row,) = ticking().extend([summary(0, 500)])
    assert row.watermark == BEGIN_OF_TIME


def test_a_tick_counts_only_once_a_later_one_is_seen() -> None:
    timeline = ticking("3us")
    assert [row.watermark for row in timeline.extend([summary(0, 50), summary(1, 60)])] == [BEGIN_OF_TIME, 47]
    assert timeline.watermark == 47


def test_a_tick_that_a_batch_cut_keeps_its_watermark() -> None:
    timeline = ticking()
    timeline.extend([summary(0, 50), summary(1, 60)])
    assert [row.watermark for row in timeline.extend([summary(1, 90)])] == [50]
    assert [row.watermark for row in timeline.extend([summary(2, 0)])] == [90]


def test_a_tick_read_out_of_step_is_judged_by_the_watermark_in_force() -> None:
    timeline = ticking()
    timeline.extend([summary(0, 10), summary(5, 60)])
    (row,) = timeline.extend([summary(3, 70)])
    assert (row.watermark, row.tick) == (10, 3)


@pytest.mark.parametrize("every", ["10us", "event"])
def test_what_is_read_out_of_step_was_heard_of_when_it_was_read(every: str) -> None:
    timeline = Timeline(Bounded("0s", every=every, idle_after="50us"))
    timeline.extend([TickSummary(10, 100, "fast", 1, 100)])
    # Sent long ago, but it shows that its partition lives: it holds the watermark back from here on.
    timeline.extend([TickSummary(1 if every == "10us" else 11, 10, "slow", 1, 10)])
    timeline.extend([TickSummary(13, 130, "fast", 1, 130)])
    timeline.extend([TickSummary(14, 140, "fast", 1, 140)])
    assert timeline.watermark == (10 if every == "10us" else 100)
    timeline.extend([TickSummary(15, 150, "fast", 1, 150)])
    timeline.extend([TickSummary(16, 160, "fast", 1, 160)])
    assert timeline.watermark == (150 if every == "10us" else 160)


def test_an_event_tick_is_over_at_once() -> None:
    timeline = Timeline(Bounded("2us", every="event"))
    rows = timeline.extend([summary(1, 50), summary(2, 40), summary(3, 60)])
    assert [(row.watermark, row.settled) for row in rows] == [(BEGIN_OF_TIME, 48), (48, 48), (48, 58)]


def test_ascending_has_no_delay() -> None:
    timeline = Timeline(Ascending(every="event"))
    timeline.extend([summary(1, 50)])
    assert timeline.watermark == 50


def test_the_row_names_the_partition_it_waits_for() -> None:
    timeline = ticking()
    rows = timeline.extend([summary(0, 90, "fast"), summary(0, 20, "slow"), summary(1, 99, "fast")])
    assert [(row.watermark, row.held_by) for row in rows] == [(BEGIN_OF_TIME, None), (20, "slow")]


def test_the_row_names_all_that_are_exactly_as_far_back_and_where_the_furthest_is() -> None:
    timeline = ticking()
    timeline.extend([summary(0, at, name) for name, at in {"c": 99, "b": 20, "d": 21, "a": 20}.items()])
    (row,) = timeline.extend([summary(1, 120, "c")])
    assert (row.held_by, row.held_with, row.unheld) == ("a", ("b",), 99)
    (row,) = timeline.extend([summary(2, at, name) for name, at in {"a": 120, "b": 120, "d": 120}.items()])
    assert (row.held_by, row.held_with, row.unheld) == ("a", ("b",), 120)
    (row,) = timeline.extend([summary(3, 130, "a")])
    assert (row.held_with, row.unheld) == ((), None)


def test_a_delay_beyond_the_calendar_is_no_watermark() -> None:
    timeline = ticking("9000d", idle_after="20us")
    ancient = FIRST_MOMENT + 1
    timeline.extend([summary(0, ancient), summary(1, ancient)])
    assert timeline.watermark == BEGIN_OF_TIME
    assert timeline.carry() == Timeline.restore(timeline.strategy, timeline.carry()).carry()


@pytest.mark.parametrize(("tick", "watermark"), [(3, 20), (4, 95)])
def test_silence_counts_from_the_end_of_the_tick_a_partition_was_heard_in(tick: int, watermark: int) -> None:
    """Its last event may have come at the very end: it is never idle a moment too early."""
    timeline = ticking(idle_after="30us")
    timeline.extend([summary(0, 20, "slow"), summary(1, 90, "fast"), summary(3, 95, "fast")])
    timeline.extend([summary(tick, 99, "fast")])
    assert timeline.watermark == watermark


def test_a_partition_that_returns_does_not_pull_the_watermark_back() -> None:
    timeline = ticking(idle_after="30us")
    timeline.extend(
        [summary(0, 20, "slow"), summary(2, 90, "fast"), summary(4, 95, "fast"), summary(5, 30, "slow")]
    )
    timeline.extend([summary(6, 99, "fast")])
    assert timeline.watermark == 95
    assert timeline.extend([summary(6, 100, "fast")])[0].held_by == "slow"


def test_all_idle_means_the_furthest() -> None:
    timeline = ticking(idle_after="30us")
    timeline.extend([summary(0, 20, "slow"), summary(0, 90, "fast"), summary(4, 0, "slow")])
    assert timeline.watermark == 90


@pytest.mark.parametrize("idle_after", ["1us", "9us", "10us"])
def test_partitions_heard_in_every_tick_are_not_idle_however_short_idle_after(idle_after: str) -> None:
    timeline = ticking(idle_after=idle_after)
    for tick in range(5):
        timeline.extend([summary(tick, 100 + tick, "fast"), summary(tick, tick, "slow")])
    assert timeline.watermark == 3


def test_the_newest_event_time_includes_the_open_tick() -> None:
    timeline = ticking("7us")
    assert timeline.newest_event_time == BEGIN_OF_TIME
    timeline.extend([summary(0, 50), summary(1, 40)])
    assert timeline.newest_event_time == 50
    timeline.extend([summary(1, 60)])
    assert timeline.newest_event_time == 60


# Idle is not finished, and a pause is not silence


def test_a_partition_that_resumes_counts_again_and_holds_the_others() -> None:
    timeline = ticking(idle_after="30us")
    timeline.extend([summary(0, 20, "slow"), summary(2, 90, "fast"), summary(4, 95, "fast")])
    assert timeline.watermark == 90  # at tick 4 `slow` has been silent for forty
    timeline.extend([summary(5, 30, "slow"), summary(5, 97, "fast")])
    assert timeline.watermark == 95
    timeline.extend([summary(6, 150, "fast"), summary(7, 160, "fast")])
    assert timeline.watermark == 95
    timeline.extend([summary(7, 120, "slow"), summary(8, 170, "fast")])
    assert timeline.watermark == 120


def test_all_idle_events_that_come_again_are_judged_by_the_furthest() -> None:
    timeline = ticking(idle_after="30us")
    timeline.extend([summary(0, 20, "slow"), summary(0, 90, "fast")])
    (row,) = timeline.extend([summary(50, 25, "slow")])
    assert (row.watermark, row.held_by) == (90, None)


def test_idle_is_not_finished() -> None:
    """Idle, the watermark stays with what was seen; finished, it goes to the end, for good."""
    idle, finished = ticking(idle_after="30us"), ticking(idle_after="30us")
    for timeline in (idle, finished):
        timeline.extend([summary(0, 20), summary(0, 95, "other")])
    idle.heartbeat(1_000)
    finished.drain()
    assert (idle.watermark, finished.watermark) == (1_000, END_OF_TIME)
    assert idle.extend([summary(200, 1_500)])[0].watermark == 1_000
    assert idle.extend([summary(201, 1_600)])[0].watermark == 1_500
    assert finished.extend([summary(200, 1_500)])[0].watermark == END_OF_TIME


def test_without_heartbeats_silence_ends_with_the_next_arrival() -> None:
    """The arrival clock stands still while nothing arrives, however long the pipeline is down."""
    timeline = ticking(idle_after="30us")
    timeline.extend([summary(0, 20, "slow"), summary(0, 90, "fast")])
    resumed = Timeline.restore(timeline.strategy, timeline.carry())
    assert resumed.heartbeat(resumed.last_at + 29) is not None
    assert resumed.watermark == 20  # 29 of silence since reading resumed: both still count
    assert (
        resumed.extend([summary(4, 95, "fast")])[0].watermark == 90
    )  # forty between arrivals: silence indeed


# Heartbeat and drain


def test_a_heartbeat_within_the_open_tick_says_nothing() -> None:
    timeline = ticking()
    timeline.extend([summary(1, 50)])
    assert timeline.heartbeat(19) is None
    assert timeline.watermark == BEGIN_OF_TIME


def test_a_heartbeat_before_any_event_says_nothing() -> None:
    assert ticking(idle_after="10us").heartbeat(1_000) is None


def test_a_heartbeat_closes_the_open_tick() -> None:
    timeline = ticking("5us")
    timeline.extend([summary(1, 50)])
    row = timeline.heartbeat(20)
    assert row is not None
    assert (row.kind, row.tick, row.watermark) == ("heartbeat", 2, 45)


def test_a_second_heartbeat_moves_the_clock_and_nothing_else() -> None:
    timeline = ticking()
    timeline.extend([summary(1, 50)])
    timeline.heartbeat(20)
    row = timeline.heartbeat(30)
    assert row is not None
    assert (row.at, row.watermark) == (30, 50)
    assert timeline.watermark == 50


def test_without_idle_after_a_heartbeat_never_follows_the_clock() -> None:
    timeline = ticking()
    timeline.extend([summary(1, 50)])
    timeline.heartbeat(1_000_000)
    assert timeline.watermark == 50


@pytest.mark.parametrize(("now", "watermark"), [(119, 45), (120, 115)])
def test_silence_of_all_follows_the_clock_less_the_delay(now: int, watermark: int) -> None:
    timeline = ticking("5us", idle_after="100us")
    timeline.extend([summary(1, 50)])
    timeline.heartbeat(now)
    assert timeline.watermark == watermark


def test_one_lively_partition_keeps_the_clock_out() -> None:
    timeline = ticking(idle_after="100us")
    timeline.extend([summary(1, 50, "silent"), summary(9, 60, "lively")])
    row = timeline.heartbeat(120)
    assert row is not None
    assert (row.watermark, row.held_by) == (60, "lively")


def test_on_idle_hold_leaves_the_clock_out() -> None:
    timeline = ticking(idle_after="100us", on_idle="hold")
    timeline.extend([summary(1, 50)])
    timeline.heartbeat(5_000)
    assert timeline.watermark == 50


def test_the_clock_never_pulls_the_watermark_back() -> None:
    timeline = ticking(idle_after="100us")
    timeline.extend([summary(1, 9_000)])
    timeline.heartbeat(500)
    assert timeline.watermark == 9_000


def test_events_in_the_heartbeats_tick_are_judged_by_it() -> None:
    timeline = ticking(idle_after="100us")
    timeline.extend([summary(1, 50)])
    timeline.heartbeat(204)
    assert [row.watermark for row in timeline.extend([summary(20, 300)])] == [204]


def test_ticks_before_the_heartbeats_join_it() -> None:
    timeline = ticking(idle_after="100us")
    timeline.extend([summary(1, 50)])
    timeline.heartbeat(204)
    assert [row.watermark for row in timeline.extend([summary(15, 300), summary(18, 310)])] == [204, 204]


def test_a_drain_ends_every_window() -> None:
    timeline = ticking()
    timeline.extend([summary(1, 50)])
    row = timeline.drain()
    assert (row.kind, row.tick, row.watermark) == ("drain", 2, END_OF_TIME)
    assert timeline.extend([summary(3, 60)])[0].watermark == END_OF_TIME


def test_draining_nothing_is_allowed() -> None:
    assert ticking().drain().watermark == END_OF_TIME


@given(out_of_step(rejects=False), watermarks(), st.lists(st.integers(0, 60), max_size=15))
@quick
def test_a_heartbeat_that_says_nothing_changes_nothing(
    batches: list[list[Arrival]], strategy: Strategy, pauses: list[int]
) -> None:
    """The engine records no silent heartbeat, so a restart must not depend on one."""
    beating, recorded = Reader(strategy), Reader(strategy)
    for number, batch in enumerate(batches):
        beating.read(batch)
        recorded.read(batch)
        for pause in pauses[number : number + 2]:
            before = beating.timeline.carry()
            at = beating.timeline.last_at + pause
            if beating.timeline.heartbeat(at) is None:
                assert recorded.timeline.heartbeat(at) is None
                recorded.timeline = Timeline.restore(strategy, before)
            else:
                recorded.timeline.heartbeat(at)
    assert beating.in_force == recorded.in_force
    assert beating.timeline.watermark == recorded.timeline.watermark


# The oracle agrees


@given(out_of_step(rejects=False), watermarks())
@thorough
def test_every_event_meets_the_oracles_watermark(batches: list[list[Arrival]], strategy: Strategy) -> None:
    reader = Reader(strategy)
    after = []
    for batch in batches:
        reader.read(batch)
        after.append(reader.timeline.watermark)
    outcome = interpret(batches, strategy, {"out": COUNTING})
    assert reader.in_force == {event.position: event.watermark for event in outcome.judged["out"]}
    assert after == outcome.watermarks


@given(out_of_step(rejects=False), bounded())
@thorough
def test_the_oracle_gives_the_watermark_of_the_definition(
    batches: list[list[Arrival]], strategy: Bounded
) -> None:
    judged = interpret(batches, strategy, {"out": COUNTING}).judged["out"]
    assert [event.watermark for event in judged] == by_definition([e.arrival for e in judged], strategy)


@given(out_of_step(rejects=False), watermarks())
@quick
def test_the_watermark_never_decreases(batches: list[list[Arrival]], strategy: Strategy) -> None:
    timeline = Timeline(strategy)
    reader = Reader(strategy)
    reader.timeline = timeline
    marks = []
    for batch in batches:
        before = timeline.watermark
        reader.read(batch)
        marks += [before, timeline.watermark]
    assert marks == sorted(marks)
    assert all(mark <= timeline.watermark for mark in reader.in_force.values())


@given(out_of_step(rejects=False), watermarks(), st.lists(st.booleans(), max_size=20))
@thorough
def test_a_restart_between_any_two_batches_changes_nothing(
    batches: list[list[Arrival]], strategy: Strategy, restarts: list[bool]
) -> None:
    restarting = Reader(strategy)
    for number, batch in enumerate(batches):
        restarting.read(batch)
        if number < len(restarts) and restarts[number]:
            restarting.restart()
    assert restarting.in_force == in_force(batches, strategy)


def test_nothing_carried_is_a_fresh_start() -> None:
    strategy = Bounded("1s")
    assert Timeline.restore(strategy, None) == Timeline(strategy)


@given(out_of_step(rejects=False), watermarks())
@quick
def test_a_carry_restores_all_of_the_state(batches: list[list[Arrival]], strategy: Strategy) -> None:
    reader = Reader(strategy)
    for batch in batches:
        reader.read(batch)
    assert Timeline.restore(strategy, reader.timeline.carry()) == reader.timeline


# Batch cuts do not matter

COUNTING = Output(window={"tumbling": "10us"}, aggregates={"rows": "count(*)"})


@given(arrivals(rejects=False), cuts(), cuts(), watermarks(), st.integers(0, 20))
@thorough
def test_any_two_cuts_give_every_event_one_verdict(
    read: list[Arrival], one: list[int], other: list[int], strategy: Strategy, lateness: int
) -> None:
    window = Tumbling("5us")

    def verdicts(sizes: list[int]) -> list[str]:
        marks = in_force(cut(read, sizes), strategy)
        return [
            judge(window.assign(event.event_time).end, marks[place], lateness)
            for place, event in enumerate(read)
        ]

    assert verdicts(one) == verdicts(other)


def _told(
    read: list[Arrival], sizes: list[int], strategy: Strategy, output: Output, drain: bool
) -> Interpretation:
    keep = {"out": lambda payload: payload["ok"]}
    return interpret(cut(read, sizes), strategy, {"out": output}, where=keep, drain=drain)


def _on_time(outcome: Interpretation) -> dict[tuple[object, ...], Pane]:
    """That nothing more can come is known sooner or later, depending on the cut."""
    return {
        pane.place: replace(pane, is_last=False)
        for pane in outcome.panes("out")
        if pane.timing is Timing.ON_TIME
    }


@given(arrivals(), cuts(), cuts(), watermarks(), outputs(), st.booleans())
@thorough
def test_any_two_cuts_give_one_outcome(
    read: list[Arrival], one: list[int], other: list[int], strategy: Strategy, output: Output, drain: bool
) -> None:
    """Verdicts, fates, ON_TIME panes, what is still open, and the numbers that stand."""
    left, right = _told(read, one, strategy, output, drain), _told(read, other, strategy, output, drain)
    judged_left, judged_right = (
        [(event.position, event.fate, event.verdict, event.watermark) for event in outcome.judged["out"]]
        for outcome in (left, right)
    )
    assert judged_left == judged_right
    assert _on_time(left) == _on_time(right)
    assert left.open_windows == right.open_windows
    standing_left, standing_right = (
        {place: pane.values for place, pane in surviving(outcome.panes("out")).items()}
        for outcome in (left, right)
    )
    assert standing_left == standing_right


def test_what_is_read_out_of_step_is_counted_beyond_a_tick_and_the_delay() -> None:
    timeline = ticking("30us")
    assert timeline.out_of_step([summary(1, 10)]) is None  # nothing has been read before
    timeline.extend([summary(10, 100), summary(9, 90)])
    at_most = [summary(tick, 0) for tick in (7, 8, 9, 10, 11)]
    assert timeline.out_of_step(at_most) is None
    assert timeline.out_of_step([*at_most, summary(6, 0), summary(2, 0, "q")]) == OutOfStep(2, 80)
    timeline.heartbeat(500)  # a clock that goes on is nothing that was read
    assert timeline.out_of_step(at_most) is None
    restored = Timeline.restore(timeline.strategy, timeline.carry())
    assert restored.out_of_step([summary(6, 0)]) == OutOfStep(1, 40)
    without_delay = ticking()
    without_delay.extend([summary(10, 100)])
    assert without_delay.out_of_step([summary(9, 0)]) is None
    assert without_delay.out_of_step([summary(8, 0)]) == OutOfStep(1, 20)
