"""Sessions: intervals that merge, are told, taken back and told again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.model.aggregates import ORDERED
from latecomer.model.oracle.arrivals import Arrival, Heartbeat
from latecomer.model.oracle.interpreter import Interpretation, interpret
from latecomer.model.panes import Accumulation, Op, surviving
from latecomer.model.strategies import Bounded, Strategy
from latecomer.model.verdicts import Fate, LatePolicy
from model import books_kit
from model.books_kit import PER_EVENT
from scenarios import arrivals, one_by_one, out_of_step, quick, thorough, watermarks
from window_kit import WHENS, any_outputs, quiet_batches, sessions

SLOW = Bounded("1h")


def visits(late: str = "update", lateness: str = "0s", gap: str = "10us", **fields: object) -> Output:
    """Visits of each user, with the watermark moved by others."""
    return Output(
        window={"session": gap, "max": fields.pop("max", None)},
        by=("user",),
        aggregates={"rows": "count(*)"},
        allowed_lateness=lateness,
        late=late,
        **fields,
    )


def steps(*times: int | str) -> list[list[Arrival]]:
    """A batch each: a number is an event of ann's, `w30` another's that takes the watermark to 30."""
    read = [
        Arrival(int(time[1:]), place, payload={"user": "other"})
        if isinstance(time, str)
        else Arrival(time, place, payload={"user": "ann"})
        for place, time in enumerate(times)
    ]
    return one_by_one(read)


def outcome_of(
    batches: Sequence[Sequence[Arrival] | Heartbeat], output: Output, drain: bool = False
) -> Interpretation:
    return interpret(batches, PER_EVENT, {"out": output}, drain=drain)


def shown(outcome: Interpretation) -> list[str]:
    """Ann's panes."""
    return books_kit.shown(outcome, ("ann",))


def fates(outcome: Interpretation) -> list[Fate]:
    return [one.fate for one in outcome.judged["out"] if one.arrival.payload["user"] == "ann"]


# Merging


def test_events_within_the_gap_are_one_session() -> None:
    assert shown(outcome_of(steps(0, 9, 18, 28, "w90"), visits())) == [
        "3 ON_TIME [0,28) 0: 3!",
        "4 ON_TIME [28,38) 0: 1!",  # exactly the gap later
    ]


def test_an_event_can_join_two_sessions() -> None:
    outcome = interpret(steps(0, 15, 8), SLOW, {"out": visits()}, drain=True)
    assert shown(outcome) == ["3 ON_TIME [0,25) 0: 3!"]


def test_keys_have_sessions_of_their_own() -> None:
    outcome = outcome_of(steps(0, "w5", 6), visits(), drain=True)
    assert {(pane.window_start, pane.window_end, pane.key) for pane in outcome.panes("out")} == {
        (0, 16, ("ann",)),
        (5, 15, ("other",)),
    }


def test_max_cuts_where_it_does_not_depend_on_order() -> None:
    for times in ((0, 8, 16, 22), (22, 16, 8, 0)):
        outcome = interpret(steps(*times), SLOW, {"out": visits(max="20us")}, drain=True)
        assert shown(outcome) == ["4 ON_TIME [0,20) 0: 3!", "4 ON_TIME [22,32) 0: 1!"]


# Late events


def test_a_late_event_that_touches_an_open_session_is_on_time() -> None:
    outcome = outcome_of(steps(0, 9, 18, "w20", 1), visits("drop"))
    assert fates(outcome) == [Fate.ON_TIME] * 4
    assert outcome.judged["out"][-1].late_at_source


def test_a_late_event_grows_a_session_that_is_kept_and_takes_its_pane_back() -> None:
    for late in ("update", "retract"):
        outcome = outcome_of(steps(0, "w19", 8), visits(late, "20us"))
        assert shown(outcome) == ["1 ON_TIME [0,10) 0: 1", "2 -LATE [0,10) 0: 1", "2 LATE [0,18) 0: 2"]


def test_a_late_event_inside_a_session_updates_it() -> None:
    assert shown(outcome_of(steps(0, 8, "w30", 3), visits("update", "20us"))) == [
        "2 ON_TIME [0,18) 0: 2",
        "3 LATE [0,18) 1: 3",
    ]
    assert shown(outcome_of(steps(0, 8, "w30", 3), visits("retract", "20us"))) == [
        "2 ON_TIME [0,18) 0: 2",
        "3 -LATE [0,18) 0: 2",
        "3 LATE [0,18) 1: 3",
    ]


def test_a_session_drawn_into_one_that_is_open_again_is_retracted_when_that_one_fires() -> None:
    outcome = outcome_of(steps(0, "w12", 8, "w18"), visits("update", "20us"))
    assert shown(outcome) == ["1 ON_TIME [0,10) 0: 1", "3 -LATE [0,10) 0: 1", "3 LATE [0,18) 0: 2"]
    assert fates(outcome) == [Fate.ON_TIME, Fate.ON_TIME]


def test_a_bridge_takes_back_every_session_that_it_joins() -> None:
    assert shown(outcome_of(steps(0, 15, "w40", 8), visits("update", "90us"))) == [
        "1 ON_TIME [0,10) 0: 1",
        "2 ON_TIME [15,25) 0: 1",
        "3 -LATE [0,10) 0: 1",
        "3 -LATE [15,25) 0: 1",
        "3 LATE [0,25) 0: 3",
    ]


def test_a_session_of_late_events_only_has_no_on_time_pane() -> None:
    assert shown(outcome_of(steps("w40", 8), visits("update", "90us"))) == ["1 LATE [8,18) 0: 1"]


def test_a_rejected_event_leaves_nothing_behind() -> None:
    outcome = outcome_of(steps("w40", 8, 12, "w90"), visits("update"))
    assert fates(outcome) == [Fate.SIDE_OUTPUT, Fate.SIDE_OUTPUT]
    assert shown(outcome) == []


# Final sessions


def test_an_event_that_touches_a_final_session_is_too_late() -> None:
    outcome = outcome_of(steps(0, "w12", 8, "w90"), visits("update"))
    assert fates(outcome) == [Fate.ON_TIME, Fate.SIDE_OUTPUT]
    assert outcome.judged["out"][2].window == (0, 10)
    assert shown(outcome) == ["1 ON_TIME [0,10) 0: 1!"]


def test_an_event_right_after_a_final_session_starts_a_new_one() -> None:
    assert shown(outcome_of(steps(0, "w12", 10, "w90"), visits("update"))) == [
        "1 ON_TIME [0,10) 0: 1!",
        "3 ON_TIME [10,20) 0: 1!",
    ]


def test_what_takes_no_late_events_has_final_sessions_as_soon_as_they_close() -> None:
    outcome = outcome_of(steps(0, "w12", 8), visits("drop", "50us"))
    assert fates(outcome) == [Fate.ON_TIME, Fate.DROPPED]
    assert shown(outcome) == ["1 ON_TIME [0,10) 0: 1!"]


# Triggers and modes


def test_an_early_pane_is_taken_back_when_the_session_has_grown() -> None:
    outcome = outcome_of(steps(0, 5, 8, "w90"), visits(trigger={"early": {"count": 2}}))
    assert shown(outcome) == ["1 EARLY [0,15) 0: 2", "3 -ON_TIME [0,15) 0: 2", "3 ON_TIME [0,18) 0: 3!"]


def test_an_early_pane_takes_back_the_sessions_it_reopened() -> None:
    outcome = outcome_of(steps(0, "w12", 8, "w18"), visits("update", "20us", trigger={"early": {"count": 1}}))
    assert shown(outcome) == [
        "0 EARLY [0,10) 0: 1",
        "1 ON_TIME [0,10) 1: 1",
        "2 -EARLY [0,10) 1: 1",
        "2 EARLY [0,18) 0: 2",
        "3 LATE [0,18) 1: 2",
    ]


def test_late_events_wait_for_their_trigger() -> None:
    outcome = outcome_of(steps(0, "w40", 3, 8, 5), visits("update", "90us", trigger={"late": {"count": 3}}))
    assert shown(outcome) == ["1 ON_TIME [0,10) 0: 1", "4 -LATE [0,10) 0: 1", "4 LATE [0,18) 0: 4"]


def test_a_discarding_session_that_has_grown_tells_everything_anew() -> None:
    outcome = outcome_of(steps(0, "w12", 3, 8, 4, "w40"), visits("update", "40us", accumulation="discarding"))
    assert shown(outcome) == [
        "1 ON_TIME [0,10) 0: 1",
        "5 -LATE [0,10) 0: 1",
        "5 LATE [0,18) 0: 4",
    ]


# What always holds


@given(quiet_batches() | out_of_step(), watermarks(), any_outputs(sessions()))
@thorough
def test_at_most_one_session_stands_at_any_instant(
    batches: list[list[Arrival] | Heartbeat], strategy: Strategy, output: Output
) -> None:
    outcome = interpret(batches, strategy, {"out": output}, when=WHENS)
    panes = outcome.panes("out")
    for length in range(1, len(panes) + 1):
        if length < len(panes) and panes[length].op is Op.RETRACT:
            continue  # in the middle of replacing
        standing = surviving(panes[:length])
        for key in {place[2] for place in standing}:
            intervals = sorted((start, end) for start, end, its in standing if its == key)
            assert all(before[1] <= after[0] for before, after in pairwise(intervals))


@given(arrivals(rejects=False), st.randoms(use_true_random=False), any_outputs(sessions()))
@quick
def test_when_all_are_on_time_their_order_says_nothing(
    read: list[Arrival], rng: Random, output: Output
) -> None:
    by_time_alone = {
        name: each
        for name, each in output.aggregates.items()
        if each.function not in ORDERED  # those go by arrival where times are equal
    }
    update = {"accumulation": Accumulation.ACCUMULATING, "aggregates": by_time_alone}
    on_time = output.model_copy(update=update)
    shuffled = [
        Arrival(one.event_time, place, "", one.payload)
        for place, one in enumerate(rng.sample(read, len(read)))
    ]
    outcome = [interpret([each], SLOW, {"out": on_time}, drain=True, when=WHENS) for each in (read, shuffled)]
    left, right = (
        {place: pane.values for place, pane in surviving(one.panes("out")).items()} for one in outcome
    )
    assert left == right


@given(arrivals(rejects=False), any_outputs(sessions()))
@quick
def test_sessions_on_time_are_the_runs_without_a_gap(read: list[Arrival], output: Output) -> None:
    """Worked out once more, from the sorted times."""
    whole = output.model_copy(update={"by": (), "window": output.window.model_copy(update={"max": None})})
    outcome = interpret([read], SLOW, {"out": whole}, drain=True, when=WHENS)
    gap, runs = output.window.gap, []
    for time in sorted(one.event_time for one in read):
        if runs and (time < runs[-1][1] or (output.window.joins and time == runs[-1][1])):
            runs[-1] = (runs[-1][0], time + gap)
        else:
            runs.append((time, time + gap))
    assert sorted((start, end) for start, end, _ in surviving(outcome.panes("out"))) == runs


@given(quiet_batches() | out_of_step(), watermarks(), any_outputs(sessions()))
@thorough
def test_a_retract_names_a_pane_that_stands(
    batches: list[list[Arrival] | Heartbeat], strategy: Strategy, output: Output
) -> None:
    standing = set()
    for pane in interpret(batches, strategy, {"out": output}, drain=True, when=WHENS).panes("out"):
        if pane.op is Op.RETRACT:
            assert (pane.place, pane.sequence) in standing
            standing.discard((pane.place, pane.sequence))
        else:
            assert (pane.place, pane.sequence) not in standing
            standing.add((pane.place, pane.sequence))


@given(quiet_batches() | out_of_step(), watermarks(), any_outputs(sessions()))
@thorough
def test_the_last_pane_of_a_session_is_the_last_word_on_its_span(
    batches: list[list[Arrival] | Heartbeat], strategy: Strategy, output: Output
) -> None:
    last: list[tuple[int, int, object]] = []
    for pane in interpret(batches, strategy, {"out": output}, drain=True, when=WHENS).panes("out"):
        for start, end, key in last:
            assert key != pane.key or pane.window_end <= start or end <= pane.window_start
        if pane.is_last:
            last.append(pane.place)


@given(quiet_batches() | out_of_step(), watermarks(), any_outputs(sessions()))
@quick
def test_what_takes_no_late_events_takes_nothing_back_but_early_panes(
    batches: list[list[Arrival] | Heartbeat], strategy: Strategy, output: Output
) -> None:
    update = {"late": LatePolicy.DROP, "accumulation": Accumulation.ACCUMULATING}
    panes = interpret(
        batches, strategy, {"out": output.model_copy(update=update)}, drain=True, when=WHENS
    ).panes("out")
    outcome = {(pane.place, pane.sequence): pane.timing for pane in panes if pane.op is Op.INSERT}
    assert {outcome[pane.place, pane.sequence].value for pane in panes if pane.op is Op.RETRACT} <= {"EARLY"}
