"""Each strategy by hand: what moves it, what does not, and how its state travels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.errors import PipelineError
from latecomer.model import recent_ticks as recent
from latecomer.model.oracle.interpreter import Arrival, Interpretation, interpret
from latecomer.model.strategies import (
    Adaptive,
    Ascending,
    Bounded,
    Needs,
    Percentile,
    Punctuated,
    State,
    Strategy,
    TickSummary,
)
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import BEGIN_OF_TIME, Verdict
from scenarios import HOUR, SECOND, arrivals, clock, cut, cuts, out_of_step, quick, watermarks
from timeline_kit import Reader

NOON = clock("12:00:00")
MINUTES = Output(window={"tumbling": "1m"}, aggregates={"rows": "count(*)"}, allowed_lateness="10m")


def a_second_apart(count: int, start: int = NOON, behind: Sequence[int] = (0,)) -> list[Arrival]:
    """One event a second; how far each lies behind its arrival goes round and round."""
    return [
        Arrival(start + place * SECOND - behind[place % len(behind)], start + place * SECOND)
        for place in range(count)
    ]


def outcome_of(read: Sequence[Arrival], strategy: Strategy, **more: object) -> Interpretation:
    return interpret([read], strategy, {"out": MINUTES}, **more)


# One event six hours in the future


def with_a_visitor_from_the_future(count: int = 400) -> list[Arrival]:
    read = a_second_apart(count)
    at = read[100].arrival_time
    return [*read[:100], Arrival(at + 6 * HOUR, at), *read[100:]]


def late(outcome_of: Interpretation) -> int:
    return sum(event.verdict is not Verdict.ON_TIME for event in outcome_of.judged["out"])


def test_one_event_six_hours_in_the_future_poisons_a_bounded_watermark() -> None:
    poisoned = outcome_of(with_a_visitor_from_the_future(), Bounded("5s", max_future="off"))
    assert poisoned.watermarks == [NOON + 100 * SECOND + 6 * HOUR - 5 * SECOND]
    assert late(poisoned) == 299  # every event from the next tick on


def test_max_future_keeps_it_from_a_bounded_watermark() -> None:
    """What is beyond `max_future` is a dead letter, and a dead letter moves nothing."""
    read = [
        Arrival(event.event_time, event.arrival_time, dead=event.event_time > event.arrival_time)
        for event in with_a_visitor_from_the_future()
    ]
    guarded = outcome_of(read, Bounded("5s"))
    assert guarded.watermarks == [NOON + 393 * SECOND]
    assert sum(event.verdict is Verdict.LATE for event in guarded.judged["out"]) == 0


def test_one_event_six_hours_in_the_future_moves_nothing_with_percentile() -> None:
    strategy = Percentile(0.95, of=100, delay="5s", max_future="off")
    visited = outcome_of(with_a_visitor_from_the_future(), strategy)
    undisturbed = outcome_of(a_second_apart(400), strategy)
    assert late(visited) == 0
    # It takes one of a hundred places; among whole seconds that is a second, while it is remembered.
    assert undisturbed.watermarks[0] - visited.watermarks[0] in (0, SECOND)
    steps = [event.watermark for event in visited.judged["out"]]
    assert max(after - before for before, after in pairwise(steps[40:])) <= 2 * SECOND


def test_not_even_among_the_first_events() -> None:
    first = Arrival(NOON + 6 * HOUR, NOON)
    strategy = Percentile(0.95, of=100, max_future="off")
    before = outcome_of([first, *a_second_apart(19)], strategy)
    assert before.watermarks == [
        BEGIN_OF_TIME
    ]  # nineteen seconds are over, with twenty events: the last open
    after = outcome_of([first, *a_second_apart(21)], strategy)
    assert NOON <= after.watermarks[0] < NOON + 21 * SECOND


# Percentile


def tick(number: int, times: dict[int, int], partition: str = "") -> TickSummary:
    return TickSummary(number, number * 10, partition, sum(times.values()), max(times), times=times)


def test_the_quantile_is_by_nearest_rank() -> None:
    strategy = Percentile(0.5, of=4)
    state = strategy.advance(None, tick(1, {10: 1, 20: 1, 30: 1, 40: 1}))
    assert strategy.mark(state, "") == 20
    assert Percentile(0.51, of=4).mark(state, "") == 30
    assert Percentile(0.25, of=4, delay="3us").mark(state, "") == 7


def test_whole_ticks_slide_out_once_enough_events_are_left() -> None:
    strategy = Percentile(0.5, of=4)
    state = strategy.advance(None, tick(1, {10: 3}))
    state = strategy.advance(state, tick(2, {20: 3}))
    assert state["events"] == 6  # the newest tick alone has only three
    state = strategy.advance(state, tick(3, {30: 1}))
    assert (state["events"], state["ticks"]) == (4, [[[20, 3]], [[30, 1]]])


def test_shares_are_as_they_are_written() -> None:
    """0.07 of a hundred is seven, though 0.07 * 100 is a little more in binary."""
    counted = recent.nothing()
    recent.slide(counted, [(value, 1) for value in range(1, 101)], of=100)
    assert recent.quantile(counted, 0.07) == 7


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3)), min_size=1), min_size=1),
    st.integers(1, 12),
    st.sampled_from((0.1, 0.5, 0.95, 1.0)),
)
def test_counts_are_those_of_the_ticks_that_are_left(
    ticks: list[list[tuple[int, int]]], of: int, share: float
) -> None:
    counted = recent.nothing()
    for each in ticks:
        recent.slide(counted, each, of)
    values = sorted(v for each in counted["ticks"] for v, events in each for _ in range(events))
    assert counted["events"] == len(values)
    assert [v for v, events in counted["counts"] for _ in range(events)] == values
    assert len(values) >= min(of, sum(events for each in ticks for _, events in each))
    assert recent.quantile(counted, share) == values[-(-round(share * 100) * len(values) // 100) - 1]


@pytest.mark.parametrize(
    ("fields", "fix"),
    [
        ({"p": 0.95, "of": 10}, "write 20 or more"),
        ({"p": 0.99999}, "write 100000 or more"),
        ({"p": 1}, "use strategy: bounded"),
        ({"p": 0}, "write a number above 0"),
        ({"p": "most"}, "write a number above 0"),
        ({"p": 0.5, "of": 0}, "write 1 or more"),
    ],
)
def test_a_quantile_that_one_event_decides_is_refused(fields: dict[str, object], fix: str) -> None:
    with pytest.raises(PipelineError, match=fix):
        Percentile(**fields)


def test_by_default_it_is_the_99th_of_the_last_10_000() -> None:
    """The third seed's setting. A hundredth of them may come from the future, and one more moves it."""
    strategy = Percentile(max_future="off")
    assert (strategy.p, strategy.of) == (0.99, 10_000)
    ahead = 6 * 3600 * SECOND
    for wrong, expected in ((100, 0), (101, ahead)):
        summary = TickSummary(0, 0, "", 10_000, ahead, times={0: 10_000 - wrong, ahead: wrong})
        assert strategy.mark(strategy.advance(None, summary), "") == expected


# Adaptive


def test_the_delay_widens_in_a_burst_and_tightens_after_it() -> None:
    """Prompt, then a minute in which half the events come forty seconds late, then prompt again."""
    prompt, burst = a_second_apart(300), a_second_apart(60, NOON + 300 * SECOND, (0, 40 * SECOND))
    read = [*prompt, *burst, *a_second_apart(250, NOON + 360 * SECOND)]
    judged = outcome_of(read, Adaptive(0.9, of=100)).judged["out"]
    lag = [event.arrival.arrival_time - event.watermark for event in judged]
    assert lag[299] <= 2 * SECOND
    assert 39 * SECOND <= lag[359] <= 42 * SECOND
    assert lag[-1] <= 2 * SECOND
    steps = [event.watermark for event in judged]
    assert steps == sorted(steps)


@pytest.mark.parametrize("target", [0.8, 0.9, 0.99])
def test_the_completeness_asked_for_is_the_one_that_is_reached(target: float) -> None:
    """Delays as phones have them: most below two seconds, some for minutes; 20,000 events, ten a second."""
    chance = Random(8)
    born = [NOON + number * SECOND // 10 for number in range(20_000)]
    sent = [(time + int(chance.lognormvariate(0, 1.5) * SECOND), time) for time in born]
    reader = Reader(Adaptive(target, of=4000, resolution="100ms"))
    arriving = [Arrival(time, arrived) for arrived, time in sorted(sent)]
    for start in range(0, len(arriving), 500):
        reader.read(arriving[start : start + 500])
    late = sum(event.event_time < reader.in_force[place] for place, event in enumerate(arriving))
    reached = 1 - late / len(arriving)
    assert abs(reached - target) <= (1 - target) / 4, reached


def test_the_delay_is_measured_against_the_largest_event_time_before_the_tick() -> None:
    strategy = Adaptive(1, of=10)
    state = strategy.advance(None, tick(1, {5: 1, 100: 1}))
    assert strategy.lag(state, "") == 0  # nothing came before
    state = strategy.advance(state, tick(2, {70: 1, 200: 1}))
    assert (strategy.lag(state, ""), strategy.mark(state, "")) == (30, 170)


def test_the_delay_stays_within_its_bounds() -> None:
    narrow = Adaptive(0.5, of=4, at_least="20us", at_most="50us")
    state = narrow.advance(None, tick(1, {1_000: 1}))
    assert narrow.mark(state, "") == 980
    state = narrow.advance(state, tick(2, {1: 4}))
    assert narrow.mark(state, "") == 950


def test_bounds_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(PipelineError, match="write at_most: 20m or more"):
        Adaptive(at_least="20m")


# Punctuated


def test_only_marks_move_a_punctuated_watermark() -> None:
    read = [
        Arrival(
            event.event_time, event.arrival_time, payload={"kind": "mark" if place in (20, 40) else "tick"}
        )
        for place, event in enumerate(a_second_apart(60))
    ]
    judged = outcome_of(
        read, Punctuated(where="kind = 'mark'", delay="2s"), marks=lambda row: row["kind"] == "mark"
    ).judged["out"]
    assert {event.watermark for event in judged} == {BEGIN_OF_TIME, NOON + 18 * SECOND, NOON + 38 * SECOND}


def test_a_marker_that_holds_times_marks_them() -> None:
    read = [Arrival(0, 0), Arrival(10, 10, payload={"until": 7}), Arrival(20, 20, payload={"until": 3})]
    strategy = Punctuated(marker="until", every="event")
    assert outcome_of(read, strategy).watermarks == [7]


def test_a_marker_beyond_max_future_marks_nothing() -> None:
    read = [Arrival(10, 10, payload={"until": 16}), Arrival(20, 20)]
    assert outcome_of(read, Punctuated(marker="until", every="event", max_future="5us")).watermarks == [
        BEGIN_OF_TIME
    ]
    assert outcome_of(read, Punctuated(marker="until", every="event", max_future="6us")).watermarks == [16]


def test_a_partition_without_a_mark_holds_the_others_until_it_is_idle() -> None:
    timeline = Timeline(Punctuated(marker="m", every="10us", idle_after="50us"))
    timeline.extend([TickSummary(1, 10, "silent", 1, 5), TickSummary(1, 10, "marked", 1, 5, marked=4)])
    timeline.extend([TickSummary(2, 20, "marked", 1, 6, marked=6)])
    assert timeline.watermark == BEGIN_OF_TIME
    timeline.extend([TickSummary(7, 70, "marked", 1, 7)])
    assert timeline.watermark == 6


@pytest.mark.parametrize("fields", [{}, {"where": "a", "marker": "b"}, {"where": "  "}])
def test_what_is_a_mark_is_said_once(fields: dict[str, str]) -> None:
    with pytest.raises(
        PipelineError, match="needs one condition" if "  " not in fields.values() else "an empty predicate"
    ):
        Punctuated(**fields)


# Delays of their own


@pytest.mark.parametrize("strategy", [Bounded, Percentile, Punctuated])
def test_a_partition_may_have_a_delay_of_its_own(strategy: type[Strategy]) -> None:
    more = {Percentile: {"p": 0.5, "of": 2}, Punctuated: {"marker": "m"}}.get(strategy, {})
    timeline = Timeline(strategy(delay="1us", delays={"t7": "30us"}, every="10us", **more))
    for number in (1, 2):
        timeline.extend(
            TickSummary(number, number * 10, name, 2, 101, 100, {100: 1, 101: 1}) for name in ("t1", "t7")
        )
    newest = 101 if strategy is Bounded else 100
    assert timeline.watermark == newest - 30
    row = timeline.extend([TickSummary(3, 30, "t1", 1, 101, 100, {100: 1})])[0]
    assert (row.held_by, row.unheld) == ("t7", newest - 1)


def test_the_longest_delay_decides_when_all_are_silent() -> None:
    timeline = Timeline(Bounded("1us", delays={"t7": "30us"}, every="10us", idle_after="100us"))
    timeline.extend([TickSummary(1, 10, "t1", 1, 10), TickSummary(1, 10, "t7", 1, 10)])
    timeline.heartbeat(500)
    assert timeline.watermark == 470


# A tick that several batches brought


def test_a_tick_in_two_batches_is_one_tick_to_the_strategy() -> None:
    class Summaries(Strategy):
        def advance(self, state: State, summary: TickSummary) -> State:
            return [
                *(state or []),
                [summary.tick, summary.at, summary.events, summary.max_event_time, summary.marked],
            ]

        def mark(self, state: State, partition: str) -> int:
            return 0

    timeline = Timeline(Summaries(every="10us"))
    timeline.extend([TickSummary(1, 10, "p", 2, 50, 40, {40: 2})])
    timeline = Timeline.restore(timeline.strategy, timeline.carry())
    timeline.extend([TickSummary(1, 10, "p", 3, 45, None, {40: 1, 45: 2})])
    (joined,) = timeline._open_tick()
    assert joined == TickSummary(1, 10, "p", 5, 50, 40, {40: 3, 45: 2})
    timeline.extend([TickSummary(0, 0, "q", 1, 7), TickSummary(2, 20, "p", 1, 60)])
    assert {name: known.state for name, known in timeline.partitions.items()} == {
        "p": [[1, 10, 5, 50, 40]],
        "q": [[1, 10, 1, 7, None]],  # read out of step: it belongs to the tick that was open
    }


@given(arrivals(rejects=False), cuts(), cuts(), watermarks())
@quick
def test_batch_cuts_change_no_verdict_whatever_the_strategy(
    read: list[Arrival], one: list[int], other: list[int], strategy: Strategy
) -> None:
    output = Output(window={"tumbling": "5us"}, aggregates={"rows": "count(*)"}, allowed_lateness="9us")
    left, right = (interpret(cut(read, sizes), strategy, {"out": output}) for sizes in (one, other))
    assert [(e.watermark, e.verdict) for e in left.judged["out"]] == [
        (e.watermark, e.verdict) for e in right.judged["out"]
    ]


# The carry


def test_a_carry_of_the_first_version_is_read() -> None:
    old = {
        "watermark": 40,
        "last_tick": 5,
        "last_at": 50,
        "partitions": {"p": [45, 40]},
        "open": [[5, 50, "p", 2, 52]],
    }
    timeline = Timeline.restore(Bounded("5us", every="10us"), json.dumps(old))
    assert timeline.newest_event_time == 52
    timeline.extend([TickSummary(6, 60, "p", 1, 60)])
    assert timeline.watermark == 47


@given(out_of_step(rejects=False), watermarks(), watermarks())
@quick
def test_another_strategy_on_a_carry_never_moves_the_watermark_back(
    batches: list[list[Arrival]], before: Strategy, after: Strategy
) -> None:
    reader = Reader(before)
    for batch in batches[: len(batches) // 2]:
        reader.read(batch)
    then = reader.timeline.watermark
    changed = after.model_copy(update={"every": before.every})
    reader.timeline = Timeline.restore(changed, reader.timeline.carry())
    for batch in batches[len(batches) // 2 :]:
        reader.read(batch)
        assert reader.timeline.watermark >= then
        then = reader.timeline.watermark


def test_after_a_change_of_strategy_a_partition_holds_until_it_is_heard_of() -> None:
    timeline = Timeline(Bounded("0s", every="10us"))
    timeline.extend(
        [
            TickSummary(1, 10, "slow", 1, 10),
            TickSummary(1, 10, "fast", 1, 90),
            TickSummary(2, 20, "fast", 1, 91),
        ]
    )
    assert timeline.watermark == 10
    changed = Timeline.restore(Percentile(0.5, of=2, every="10us"), timeline.carry())
    assert changed.watermark == 10
    changed.extend([tick(3, {92: 2, 93: 2}, "fast"), tick(4, {94: 2}, "fast")])
    assert (changed.watermark, changed.newest_event_time) == (10, 94)
    changed.extend([tick(5, {50: 2, 60: 2}, "slow"), tick(6, {95: 1}, "fast")])
    assert changed.watermark == 50


def test_bounded_and_ascending_know_the_same() -> None:
    timeline = Timeline(Bounded("7us", every="10us"))
    timeline.extend([TickSummary(1, 10, "p", 1, 30), TickSummary(2, 20, "p", 1, 40)])
    assert timeline.watermark == 23
    changed = Timeline.restore(Ascending(every="10us"), timeline.carry())
    changed.extend([TickSummary(3, 30, "p", 1, 41)])
    assert changed.watermark == 40


# One's own


class Counting(Strategy):
    """Moves with every second tick."""

    step: int = 2

    def advance(self, state: State, summary: TickSummary) -> State:
        ticks = (state or {"ticks": 0})["ticks"] + 1
        mark = summary.max_event_time if ticks % self.step == 0 else (state or {}).get("mark")
        return {"ticks": ticks, "mark": mark}

    def mark(self, state: State, partition: str) -> int | None:
        return state["mark"]


@given(out_of_step(rejects=False), st.sampled_from(("event", "3us")))
@quick
def test_a_strategy_of_ones_own_says_what_it_says_to_the_oracle(
    batches: list[list[Arrival]], every: str
) -> None:
    strategy = Counting(every=every)
    reader, after = Reader(strategy), []
    for batch in batches:
        reader.read(batch)
        reader.restart()
        after.append(reader.timeline.watermark)
    assert after == interpret(batches, strategy, {"out": MINUTES}).watermarks


def test_only_what_is_needed_is_asked_for() -> None:
    assert Bounded("1s").needs == Ascending().needs == Needs()
    assert Percentile().needs == Adaptive().needs == Needs(resolution=SECOND)
    assert Punctuated(where="x").needs == Needs(where="x")
