"""What an output publishes, whatever events come and however they are cut into batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from hypothesis import assume, given
from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.model.aggregates import ADDITIVE
from latecomer.model.ledger import unbalanced
from latecomer.model.oracle.arrivals import Arrival, Heartbeat
from latecomer.model.oracle.interpreter import Interpretation
from latecomer.model.panes import Accumulation, Op, Pane, Timing, summed, surviving
from latecomer.model.strategies import Bounded, Strategy
from latecomer.model.verdicts import Fate, LatePolicy
from latecomer.model.windows import Session
from latecomer.testing.checking import fires_by_itself
from model.books_kit import counting, outcome_of
from scenarios import arrivals, cut, cuts, duplicates_of, out_of_step, quick, thorough, watermarks
from timeline_kit import Reader
from window_kit import any_outputs, quiet_batches, sessions, sliding

# Sliding windows


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


# Silence


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


# Panes and the ledger


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


# Wherever batches are cut


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
    left, right = (outcome_of(cut(in_order, sizes), output, strategy, drain=True) for sizes in (one, other))
    assume(duplicates_of(left) == duplicates_of(right))
    assert all_but_batches(left.panes("out")) == all_but_batches(right.panes("out"))


@given(arrivals(), cuts(), cuts(), watermarks(), any_outputs())
@thorough
def test_batch_cuts_change_no_verdict_and_no_final(
    read: list[Arrival], one: list[int], other: list[int], strategy: Strategy, output: Output
) -> None:
    left, right = (outcome_of(cut(read, sizes), output, strategy, drain=True) for sizes in (one, other))
    assume(duplicates_of(left) == duplicates_of(right))
    assert [replace(each, batch=0) for each in left.judged["out"]] == [
        replace(each, batch=0) for each in right.judged["out"]
    ]
    if output.accumulation is Accumulation.DISCARDING:
        assert summed(left.panes("out"), output.aggregates) == summed(right.panes("out"), output.aggregates)
    else:
        assert _finals(left) == _finals(right)
    if not isinstance(output.window, Session) and not output.closes_silently:
        assert _on_time(left) == _on_time(right)


def _on_time(outcome: Interpretation) -> set[tuple[object, ...]]:
    return {
        pane.place for pane in outcome.panes("out") if pane.timing is Timing.ON_TIME and pane.op is Op.INSERT
    }


def _finals(outcome: Interpretation) -> dict[tuple[object, ...], object]:
    return {place: dict(pane.values) for place, pane in surviving(outcome.panes("out")).items()}
