"""What an output publishes when: overlapping windows, triggers, accumulation, empty windows, silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.model.aggregates import ADDITIVE
from latecomer.model.arrivals import Arrival, Heartbeat
from latecomer.model.interpreter import Interpretation, interpret
from latecomer.model.ledger import unbalanced
from latecomer.model.panes import Accumulation, Op, Pane, Timing, summed, surviving
from latecomer.model.strategies import Bounded, Strategy
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate, LatePolicy
from latecomer.model.windows import Session
from latecomer.testing.checking import fires_by_itself
from scenarios import arrivals, cut, cuts, one_by_one, out_of_step, quick, thorough, watermarks
from timeline_kit import Reader
from window_kit import AGGREGATES, WHENS, any_outputs, quiet_batches, sessions, sliding

PER_EVENT = Bounded("0s", every="event")
TUMBLING = {"tumbling": "10us"}


def counting(window: object = None, late: str = "update", lateness: str = "0s", **fields: object) -> Output:
    return Output(
        window=window or TUMBLING,
        aggregates={"rows": "count(*)"},
        allowed_lateness=lateness,
        late=late,
        **fields,
    )


def events(*times: int) -> list[Arrival]:
    """Events with these times, arriving one microsecond after the other."""
    return [Arrival(time, place) for place, time in enumerate(times)]


def outcome_of(
    batches: Sequence[Sequence[Arrival] | Heartbeat],
    output: Output,
    strategy: Strategy = PER_EVENT,
    drain: bool = False,
) -> Interpretation:
    return interpret(batches, strategy, {"out": output}, measures=["paise"], drain=drain, when=WHENS)


def shown(outcome: Interpretation) -> list[str]:
    """Every pane in a few letters: batch, timing, window, sequence, count; `-` takes back, `!` is the last."""
    return [
        f"{one.batch} {'-' if pane.op is Op.RETRACT else ''}{pane.timing.value} "
        f"[{pane.window_start},{pane.window_end}) {pane.sequence}: {pane.values['rows']}"
        f"{'!' if pane.is_last else ''}"
        for one in outcome.published["out"]
        for pane in [one.pane]
    ]


# Sliding windows


def test_one_event_can_be_on_time_for_one_window_and_too_late_for_another() -> None:
    output = counting({"sliding": "10us", "every": "5us"}, "side_output")
    outcome = outcome_of([events(12, 7)], output)
    assert [(one.window, one.fate) for one in outcome.judged["out"] if one.position == 1] == [
        ((0, 10), Fate.SIDE_OUTPUT),
        ((5, 15), Fate.ON_TIME),
    ]
    by_unit = {entry.unit: entry for entry in outcome.ledger}
    assert (by_unit["events"].received, by_unit["events"].fates[Fate.ON_TIME]) == (2, 2)
    assert (by_unit["events"].partly_late, by_unit["events"].late_at_source) == (1, 1)
    assert by_unit["assignments"].received == 4
    assert by_unit["assignments"].fates[Fate.SIDE_OUTPUT] == 1
    assert by_unit["assignments"].partly_late == 0


@given(out_of_step(), watermarks(), any_outputs(sliding()))
@quick
def test_of_an_events_windows_the_last_has_the_best_fate(
    batches: list[list[Arrival]], strategy: Strategy, output: Output
) -> None:
    ranks = [Fate.ON_TIME, Fate.LATE_ACCEPTED, Fate.SIDE_OUTPUT, Fate.DROPPED]
    verdicts = ["on_time", "late", "too_late"]
    judged = outcome_of(batches, output, strategy).judged["out"]
    for _, group in groupby((one for one in judged if one.window), key=lambda one: one.position):
        worst_first = [verdicts.index(str(one.verdict)) for one in group]
        assert worst_first == sorted(worst_first, reverse=True)
    assert {one.fate for one in judged if one.window} <= set(ranks)


@given(arrivals(rejects=False), st.integers(1, 6), st.integers(1, 4))
@quick
def test_a_sliding_window_is_the_sum_of_the_tumbling_ones_in_it(
    read: list[Arrival], every: int, times: int
) -> None:
    slow = Bounded("1h")
    panes = outcome_of([read], counting({"tumbling": f"{every}us"}), slow, drain=True).panes("out")
    slid = outcome_of(
        [read], counting({"sliding": f"{every * times}us", "every": f"{every}us"}), slow, drain=True
    )
    for pane in slid.panes("out"):
        parts = [p for p in panes if pane.window_start <= p.window_start < pane.window_end]
        assert pane.values["rows"] == sum(part.values["rows"] for part in parts)


def test_a_global_window_is_told_at_the_drain() -> None:
    outcome = outcome_of([events(1, 2), events(99)], counting({"global": True}), drain=True)
    assert [(one.batch, one.pane.values["rows"], one.pane.is_last) for one in outcome.published["out"]] == [
        (2, 3, True)
    ]


# Early panes


def test_early_by_the_arrival_clock() -> None:
    output = counting(trigger={"early": "10us"})
    read = [Arrival(1, 8), Arrival(2, 9), Arrival(3, 10), Arrival(4, 11), Arrival(5, 35), Arrival(6, 36)]
    assert shown(outcome_of(one_by_one(read), output)) == [
        "2 EARLY [0,10) 0: 2",  # 10 was reached
        "4 EARLY [0,10) 1: 4",
    ]


def test_early_by_the_arrival_clock_once_a_batch() -> None:
    output = counting(trigger={"early": {"every": "10us", "per": "batch"}})
    read = [Arrival(1, 8), Arrival(2, 9), Arrival(3, 10), Arrival(4, 11), Arrival(5, 35), Arrival(6, 36)]
    assert shown(outcome_of(one_by_one(read), output)) == ["2 EARLY [0,10) 0: 3", "4 EARLY [0,10) 1: 5"]
    assert shown(outcome_of([read], output)) == ["0 EARLY [0,10) 0: 6"]


def test_the_first_batch_counts_from_its_own_first_tick() -> None:
    output = counting(trigger={"early": "10us"})
    assert shown(outcome_of([[Arrival(1, 1008), Arrival(2, 1009)]], output)) == []
    assert shown(outcome_of([[Arrival(1, 1008), Arrival(2, 1012)]], output)) == ["0 EARLY [0,10) 0: 1"]


def test_early_by_event_time_counts_from_the_windows_start() -> None:
    output = counting(
        {"tumbling": "100us", "offset": "5us"}, trigger={"early": {"every": "30us", "clock": "event"}}
    )
    outcome = outcome_of(one_by_one(events(7, 30, 34, 35, 64, 70)), output)
    assert shown(outcome) == ["3 EARLY [5,105) 0: 4", "5 EARLY [5,105) 1: 6"]


def test_early_by_count() -> None:
    output = counting(trigger={"early": {"count": 3}})
    outcome = outcome_of(cut(events(1, 2, 3, 4, 5, 6, 7), [2, 2, 1, 2]), output)
    assert shown(outcome) == ["1 EARLY [0,10) 0: 3", "3 EARLY [0,10) 1: 6"]


def test_early_by_count_once_a_batch() -> None:
    output = counting(trigger={"early": {"count": 3, "per": "batch"}})
    outcome = outcome_of(cut(events(1, 2, 3, 4, 5, 6, 7), [2, 2, 1, 2]), output)
    assert shown(outcome) == ["1 EARLY [0,10) 0: 4", "3 EARLY [0,10) 1: 7"]


def test_a_window_without_news_has_no_early_pane() -> None:
    output = counting(by=("key",), trigger={"early": "10us"})
    read = [
        Arrival(1, 9, payload={"key": "x"}),
        Arrival(1, 10, payload={"key": "y"}),
        Arrival(1, 20, payload={"key": "x"}),
    ]
    outcome = outcome_of(one_by_one(read), output)
    assert [(one.batch, one.pane.key, one.pane.values["rows"]) for one in outcome.published["out"]] == [
        (1, ("x",), 1),
        (2, ("y",), 1),
    ]


def test_once_a_batch_a_window_that_closes_is_told_on_time_only() -> None:
    output = counting(trigger={"early": {"count": 1, "per": "batch"}})
    assert shown(outcome_of([events(1, 12)], output)) == ["0 ON_TIME [0,10) 0: 1!", "0 EARLY [10,20) 0: 1"]


def all_but_batches(panes: Sequence[Pane]) -> dict[object, list[Pane]]:
    """The panes of each window and key, in order."""
    found: dict[object, list[Pane]] = {}
    for pane in panes:
        found.setdefault(pane.place, []).append(pane)
    return found


@given(arrivals(), watermarks(), any_outputs(sliding()) | any_outputs(sessions()), cuts(), cuts())
@thorough
def test_panes_of_each_firing_are_the_same_wherever_batches_are_cut(
    read: list[Arrival], strategy: Strategy, output: Output, one: list[int], other: list[int]
) -> None:
    # A closing pane comes at the end of a batch; the others fire by themselves.
    trigger = output.trigger.model_copy(update={"closing": False})
    output = output.model_copy(update={"trigger": trigger})
    assume(fires_by_itself(output))
    in_order = sorted(read, key=lambda arrival: arrival.arrival_time)
    outcome = (
        outcome_of(cut(in_order, sizes), output, strategy, drain=True).panes("out") for sizes in (one, other)
    )
    left, right = map(all_but_batches, outcome)
    assert left == right


# Late panes


def late_ones(trigger: object, *sizes: int, lateness: str = "90us", **fields: object) -> list[str]:
    """One event on time, then a late one each 4 microseconds, from 12 on."""
    read = [Arrival(1, 0), Arrival(10, 8), *(Arrival(2, 12 + 4 * nth) for nth in range(6))]
    output = counting(lateness=lateness, trigger={"late": trigger}, **fields)
    return shown(outcome_of(cut(read, [2, *sizes]), output, drain=True))


def test_late_once_a_batch() -> None:
    assert late_ones("batch", 2, 4) == [
        "0 ON_TIME [0,10) 0: 1",
        "1 LATE [0,10) 1: 3",
        "2 LATE [0,10) 2: 7",
        "3 ON_TIME [10,20) 0: 1!",
    ]


def test_late_at_most_so_often() -> None:
    assert late_ones("every 10us", 1, 1, 1, 1, 1, 1) == [
        "0 ON_TIME [0,10) 0: 1",
        "3 LATE [0,10) 1: 3",  # the clock reached 20
        "6 LATE [0,10) 2: 6",  # and 32
        "7 ON_TIME [10,20) 0: 1!",
        "7 LATE [0,10) 3: 7!",
    ]
    assert late_ones({"every": "10us", "per": "batch"}, 1, 1, 1, 1, 1, 1) == [
        "0 ON_TIME [0,10) 0: 1",
        "1 LATE [0,10) 1: 2",  # the clock went from 8 to 12
        "3 LATE [0,10) 2: 4",  # 20
        "6 LATE [0,10) 3: 7",  # 32
        "7 ON_TIME [10,20) 0: 1!",
    ]


def test_late_so_many_at_a_time_and_the_rest_at_the_drain() -> None:
    assert late_ones({"count": 4}, 1, 2, 1, 1, 1) == [
        "0 ON_TIME [0,10) 0: 1",
        "3 LATE [0,10) 1: 5",
        "6 ON_TIME [10,20) 0: 1!",
        "6 LATE [0,10) 2: 7!",
    ]


def test_what_waits_is_told_when_the_lateness_is_over() -> None:
    output = counting(lateness="20us", trigger={"late": {"count": 100}})
    outcome = outcome_of(one_by_one(events(1, 10, 2, 29, 30)), output)
    assert shown(outcome) == [
        "1 ON_TIME [0,10) 0: 1",
        "3 ON_TIME [10,20) 0: 1",
        "4 ON_TIME [20,30) 0: 1",
        "4 LATE [0,10) 1: 2!",
    ]


# Accumulation


def story(late: str, accumulation: str | None = None) -> list[str]:
    """Early with one event, closed with two, a third one late."""
    output = counting(late=late, lateness="20us", accumulation=accumulation, trigger={"early": {"count": 1}})
    return [line for line in shown(outcome_of(one_by_one(events(1, 2, 11, 3)), output)) if "[0,10)" in line]


def test_accumulating_panes_hold_everything() -> None:
    assert story("update") == [
        "0 EARLY [0,10) 0: 1",
        "1 EARLY [0,10) 1: 2",
        "2 ON_TIME [0,10) 2: 2",
        "3 LATE [0,10) 3: 3",
    ]


def test_discarding_panes_hold_what_is_new_and_the_close_is_told_anyway() -> None:
    assert story("update", "discarding") == [
        "0 EARLY [0,10) 0: 1",
        "1 EARLY [0,10) 1: 1",
        "2 ON_TIME [0,10) 2: 0",
        "3 LATE [0,10) 3: 1",
    ]


def test_retracting_panes_take_back_what_they_replace() -> None:
    outcome = [
        "0 EARLY [0,10) 0: 1",
        "1 -EARLY [0,10) 0: 1",
        "1 EARLY [0,10) 1: 2",
        "2 -ON_TIME [0,10) 1: 2",
        "2 ON_TIME [0,10) 2: 2",
        "3 -LATE [0,10) 2: 2",
        "3 LATE [0,10) 3: 3",
    ]
    assert story("retract") == story("update", "retracting") == outcome


# The last pane


def test_an_output_that_takes_no_late_events_is_done_when_it_closes() -> None:
    outcome = outcome_of([events(1, 10)], counting(late="drop", lateness="50us"))
    assert shown(outcome) == ["0 ON_TIME [0,10) 0: 1!"]


def test_of_two_panes_in_one_batch_only_the_second_is_the_last() -> None:
    outcome = outcome_of([events(1, 10, 2, 40)], counting(lateness="20us"))
    assert shown(outcome) == [
        "0 ON_TIME [0,10) 0: 1",
        "0 ON_TIME [10,20) 0: 1!",
        "0 LATE [0,10) 1: 2!",
    ]


# Empty windows


def test_a_key_that_has_had_events_is_told_for_windows_without_any() -> None:
    output = counting(by=("key",), emit_empty=True)
    read = [
        Arrival(time, time, payload={"key": key}) for time, key in [(1, "x"), (11, "y"), (35, "y"), (45, "x")]
    ]
    outcome = outcome_of(one_by_one(read), output, drain=True)
    assert [
        (one.batch, one.pane.window_start, one.pane.key[0], one.pane.values["rows"])
        for one in outcome.published["out"]
    ] == [
        (1, 0, "x", 1),
        (2, 10, "x", 0),
        (2, 10, "y", 1),
        (2, 20, "x", 0),
        (2, 20, "y", 0),
        (3, 30, "x", 0),
        (3, 30, "y", 1),
        (4, 40, "y", 0),
        (4, 40, "x", 1),
    ]


def test_an_empty_window_counts_and_sums_zero_and_has_no_largest() -> None:
    output = Output(
        window=TUMBLING, aggregates={**AGGREGATES, "payers": "approx_count_distinct(payer)"}, emit_empty=True
    )
    outcome = outcome_of([events(1, 20)], output)
    assert outcome.panes("out")[1].values == {"paise": 0, "rows": 0, "largest": None, "payers": 0}


def test_late_events_come_after_the_empty_pane() -> None:
    outcome = outcome_of([events(1, 25, 12)], counting(lateness="50us", emit_empty=True))
    assert shown(outcome) == ["0 ON_TIME [0,10) 0: 1", "0 ON_TIME [10,20) 0: 0", "0 LATE [10,20) 1: 1"]


# Silence


def test_a_heartbeat_closes_windows_when_all_is_silent() -> None:
    idling = Bounded("3us", every="5us", idle_after="20us")
    outcome = outcome_of([[Arrival(1, 1)], Heartbeat(12), Heartbeat(24), Heartbeat(25)], counting(), idling)
    assert shown(outcome) == ["1 ON_TIME [0,10) 0: 1!"]
    assert outcome.watermarks == [BEGIN_OF_TIME, 22]
    assert [entry.batch for entry in outcome.ledger] == [0, 0, 0]


def test_a_heartbeat_at_which_nothing_fires_is_no_batch() -> None:
    idling = Bounded("0us", every="5us", idle_after="20us")
    outcome = outcome_of([[Arrival(1, 1)], Heartbeat(8), [Arrival(2, 9)]], counting(), idling)
    assert outcome.watermarks == [BEGIN_OF_TIME, 1]


def test_on_idle_hold_lets_a_heartbeat_only_end_the_tick() -> None:
    idling = Bounded("0us", every="5us", idle_after="20us", on_idle="hold")
    outcome = outcome_of([[Arrival(1, 1), Arrival(12, 2)], Heartbeat(100)], counting(), idling)
    assert outcome.watermarks == [BEGIN_OF_TIME, 12]


def test_a_trigger_by_the_arrival_clock_is_due_at_a_heartbeat_too() -> None:
    outcome = outcome_of(
        [[Arrival(1, 1)], Heartbeat(7), Heartbeat(30)],
        counting(trigger={"early": "10us"}),
        Bounded("1h", every="5us"),
    )
    assert shown(outcome) == ["1 EARLY [0,10) 0: 1"]
    assert outcome.watermarks[1] < 0


@given(quiet_batches(rejects=False), watermarks(), any_outputs(trigger={}, emit_empty=False))
@quick
def test_the_timeline_hears_the_same_silence(
    batches: list[list[Arrival] | Heartbeat], strategy: Strategy, output: Output
) -> None:
    reader, marks = Reader(strategy), list[int]()
    for length, batch in enumerate(batches, 1):
        known, marks = marks, outcome_of(batches[:length], output, strategy).watermarks
        if not isinstance(batch, Heartbeat):
            reader.read(batch)
        elif len(marks) > len(known):
            assert reader.timeline.heartbeat(batch.at) is not None
        if marks:
            assert reader.timeline.watermark == marks[-1]


# What always holds


def inserts(outcome: Interpretation) -> dict[tuple[object, ...], list[Pane]]:
    found: dict[tuple[object, ...], list[Pane]] = {}
    for pane in outcome.panes("out"):
        if pane.op is Op.INSERT:
            found.setdefault(pane.place, []).append(pane)
    return found


@given(quiet_batches() | out_of_step(), watermarks(), any_outputs(), st.booleans())
@thorough
def test_the_ledger_balances_in_every_unit(
    batches: list[list[Arrival] | Heartbeat], strategy: Strategy, output: Output, drain: bool
) -> None:
    outcome = outcome_of(batches, output, strategy, drain)
    assert unbalanced(outcome.ledger) == []
    fates = Counter(one.fate for one in outcome.judged["out"])
    for fate in Fate:
        booked = [entry.fates[fate] for entry in outcome.ledger if entry.unit == "assignments"]
        assert sum(booked) == fates[fate]


@given(quiet_batches() | out_of_step(), watermarks(), any_outputs(), st.booleans())
@thorough
def test_panes_come_early_then_on_time_then_late_and_are_numbered(
    batches: list[list[Arrival] | Heartbeat], strategy: Strategy, output: Output, drain: bool
) -> None:
    order = [Timing.EARLY, Timing.ON_TIME, Timing.LATE, Timing.CLOSING]
    outcome = outcome_of(batches, output, strategy, drain)
    for panes in inserts(outcome).values():
        timings = [order.index(pane.timing) for pane in panes]
        assert timings == sorted(timings)
        assert timings.count(1) <= 1
        assert timings.count(3) <= 1
        assert [pane.sequence for pane in panes] == list(range(len(panes)))
        assert not any(pane.is_last for pane in panes[:-1])


@given(quiet_batches() | out_of_step(), watermarks(), any_outputs())
@thorough
def test_with_closing_every_number_is_said_to_be_final_once(
    batches: list[list[Arrival] | Heartbeat], strategy: Strategy, output: Output
) -> None:
    closing = output.model_copy(update={"trigger": output.trigger.model_copy(update={"closing": True})})
    outcome = outcome_of(batches, closing, strategy, drain=True)
    panes = inserts(outcome)
    for place in surviving(outcome.panes("out")):
        assert [pane.is_last for pane in panes[place]].count(True) == 1
        assert panes[place][-1].is_last


@given(quiet_batches() | out_of_step(), watermarks(), any_outputs())
@quick
def test_without_an_on_time_pane_there_is_nothing_new(
    batches: list[list[Arrival] | Heartbeat], strategy: Strategy, output: Output
) -> None:
    # A heartbeat counts only if it publishes something, and here that differs.
    batches = [batch for batch in batches if not isinstance(batch, Heartbeat)]
    both = []
    for on_time in ("always", "if_changed"):
        update = {"on_time": on_time, "closing": False}
        trigger = output.trigger.model_copy(update=update)
        rules = output.model_copy(update={"trigger": trigger, "emit_empty": False})
        both.append(outcome_of(batches, rules, strategy, drain=True))
    always, changed = both
    assert always.judged == changed.judged
    if output.accumulation is Accumulation.DISCARDING:
        left, right = (summed(outcome.panes("out"), output.aggregates) for outcome in both)
        assert {place: values["rows"] for place, values in left.items()} == {
            place: values["rows"] for place, values in right.items()
        }
    else:
        assert _finals(always) == _finals(changed)
    assert len(changed.panes("out")) <= len(always.panes("out"))


@given(quiet_batches() | out_of_step(), watermarks(), any_outputs())
@quick
def test_after_a_drain_nothing_waits(
    batches: list[list[Arrival] | Heartbeat], strategy: Strategy, output: Output
) -> None:
    outcome = outcome_of(batches, output, strategy, drain=True)
    accepted = sum(one.fate in (Fate.ON_TIME, Fate.LATE_ACCEPTED) for one in outcome.judged["out"])
    if output.accumulation is Accumulation.DISCARDING:
        finals = [values["rows"] for values in summed(outcome.panes("out"), output.aggregates).values()]
    else:
        finals = [pane.values["rows"] for pane in surviving(outcome.panes("out")).values()]
    assert sum(finals) == accepted
    assert outcome.open_windows["out"] == []


@given(quiet_batches() | out_of_step(), watermarks(), any_outputs())
@thorough
def test_discarding_panes_add_up_to_the_accumulating_one(
    batches: list[list[Arrival] | Heartbeat], strategy: Strategy, output: Output
) -> None:
    additive = {name: each for name, each in output.aggregates.items() if each.function in ADDITIVE}
    shared = {"late": LatePolicy.UPDATE, "emit_empty": False, "aggregates": additive}
    adding = output.model_copy(update={**shared, "accumulation": Accumulation.DISCARDING})
    holding = output.model_copy(update={**shared, "accumulation": Accumulation.ACCUMULATING})
    added = summed(outcome_of(batches, adding, strategy, drain=True).panes("out"), adding.aggregates)
    held = surviving(outcome_of(batches, holding, strategy, drain=True).panes("out"))
    assert added == {place: pane.values for place, pane in held.items()}


@given(quiet_batches() | out_of_step(), watermarks(), any_outputs())
@quick
def test_every_mode_publishes_at_the_same_times(
    batches: list[list[Arrival] | Heartbeat], strategy: Strategy, output: Output
) -> None:
    found = []
    for mode in Accumulation:
        update = {"late": LatePolicy.UPDATE, "accumulation": mode}
        outcome = outcome_of(batches, output.model_copy(update=update), strategy, drain=True)
        panes = [replace(one, pane=replace(one.pane, values={})) for one in outcome.published["out"]]
        found.append([one for one in panes if one.pane.op is Op.INSERT])
    assert found[0] == found[1] == found[2]


@given(arrivals(), cuts(), cuts(), watermarks(), any_outputs())
@thorough
def test_batch_cuts_change_no_verdict_and_no_final(
    read: list[Arrival], one: list[int], other: list[int], strategy: Strategy, output: Output
) -> None:
    left, right = (outcome_of(cut(read, sizes), output, strategy, drain=True) for sizes in (one, other))
    assert [replace(each, batch=0) for each in left.judged["out"]] == [
        replace(each, batch=0) for each in right.judged["out"]
    ]
    if output.accumulation is Accumulation.DISCARDING:
        assert summed(left.panes("out"), output.aggregates) == summed(right.panes("out"), output.aggregates)
    else:
        assert _finals(left) == _finals(right)
    if not isinstance(output.window, Session) and not output.closes_silently:
        assert _on_time(left) == _on_time(right)


def _finals(outcome: Interpretation) -> dict[tuple[object, ...], object]:
    return {place: dict(pane.values) for place, pane in surviving(outcome.panes("out")).items()}


def _on_time(outcome: Interpretation) -> set[tuple[object, ...]]:
    return {
        pane.place for pane in outcome.panes("out") if pane.timing is Timing.ON_TIME and pane.op is Op.INSERT
    }


def test_a_drain_ends_at_the_end_of_time() -> None:
    assert outcome_of([events(1)], counting(), drain=True).watermarks[-1] == END_OF_TIME


@pytest.mark.parametrize("late", list(LatePolicy))
def test_late_at_source_counts_filtered_events_too(late: LatePolicy) -> None:
    outcome = interpret(
        [events(20, 5)], PER_EVENT, {"out": counting(late=late)}, where={"out": lambda _: False}
    )
    assert [entry.late_at_source for entry in outcome.ledger] == [1, 0]
