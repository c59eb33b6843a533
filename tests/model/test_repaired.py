"""Dead letters that are taken in again: they meet the watermark in force, and move nothing."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.model.ledger import unbalanced
from latecomer.model.oracle.arrivals import Arrival, Repaired
from latecomer.model.oracle.interpreter import interpret
from latecomer.model.strategies import Bounded, TickSummary
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import Fate

STRATEGY = Bounded("2us", every="5us")
OUTPUTS = {
    "updated": Output(
        window={"tumbling": "10us"}, aggregates={"n": "count(*)"}, allowed_lateness="20us", late="update"
    ),
    "sliding": Output(window={"sliding": "10us", "every": "5us"}, aggregates={"n": "count(*)"}, late="drop"),
    "sessions": Output(window={"session": "4us"}, aggregates={"n": "count(*)"}),
}


def arrival(at: int, behind: int = 0, **more: object) -> Arrival:
    return Arrival(at - behind, at, "a", {"paise": 100}, **more)  # type: ignore[arg-type]


def letter(at: int) -> Arrival:
    return replace(arrival(at), dead=True)


def test_a_repaired_row_meets_the_watermark_in_force_now() -> None:
    """It would have been on time when it first came; its window has closed since."""
    batches = [[arrival(1), letter(2)], [arrival(40)], [arrival(50)]]
    again = Repaired([(letter(2), replace(arrival(2), arrival_time=50))])
    outcome = interpret([*batches, again], STRATEGY, {"updated": OUTPUTS["updated"]})
    (judged,) = [each for each in outcome.judged["updated"] if each.batch == 3]
    assert (judged.fate, judged.watermark) == (Fate.SIDE_OUTPUT, 38)


def test_the_ledger_moves_it_from_dead_letter_to_its_fate() -> None:
    batches = [[arrival(1), letter(2)], [arrival(6)], Repaired([(letter(2), arrival(2))])]
    ledger = interpret(batches, STRATEGY, OUTPUTS, measures=["paise"]).ledger
    assert not unbalanced(ledger)
    moved = {(entry.output, entry.unit): entry for entry in ledger if entry.batch == 2}
    entry = moved["updated", "events"]
    assert (entry.received, entry.fates[Fate.DEAD_LETTER], entry.fates[Fate.ON_TIME]) == (0, -1, 1)
    assert moved["sliding", "assignments"].received == 1, "it was one assignment and is two"
    assert moved["updated", "paise"].fates[Fate.DEAD_LETTER] == -100
    assert _total(ledger, "updated", Fate.DEAD_LETTER) == 0


def test_what_is_dead_still_is_counted_once() -> None:
    batches = [[arrival(1), letter(2)], Repaired([(letter(2), letter(2))])]
    ledger = interpret(batches, STRATEGY, OUTPUTS).ledger
    assert {entry.batch for entry in ledger} == {0}
    assert _total(ledger, "updated", Fate.DEAD_LETTER) == 1


def test_a_repaired_row_that_came_before_is_a_duplicate() -> None:
    first = arrival(1, event_id="x")
    batches = [[first, letter(2)], Repaired([(letter(2), arrival(2, event_id="x"))])]
    ledger = interpret(batches, STRATEGY, OUTPUTS).ledger
    assert not unbalanced(ledger)
    assert _total(ledger, "updated", Fate.DUPLICATE) == 1


ARRIVALS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), min_size=1, max_size=12)


@given(ARRIVALS, ARRIVALS, st.integers(0, 12))
def test_every_other_event_is_judged_as_if_nothing_had_been_repaired(
    steps: list[tuple[int, int]], repaired: list[tuple[int, int]], cut: int
) -> None:
    at, arrivals = 100, []
    for step, behind in steps:
        at += step
        arrivals.append(arrival(at, behind))
    again = Repaired([(letter(100), arrival(at + 50, behind)) for _, behind in repaired])
    plain = interpret([arrivals[:cut], arrivals[cut:]], STRATEGY, OUTPUTS, drain=True)
    mixed = interpret([arrivals[:cut], again, arrivals[cut:]], STRATEGY, OUTPUTS, drain=True)
    for name in ("updated", "sliding"):
        results = [(each.arrival, each.fate, each.watermark) for each in plain.judged[name]]
        others = [each for each in mixed.judged[name] if each.batch != 1]
        assert [(each.arrival, each.fate, each.watermark) for each in others] == results
    assert not unbalanced(mixed.ledger)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=8), st.lists(st.integers(0, 100), max_size=4))
def test_the_timeline_stays_where_it_is(times: list[int], ticks: list[int]) -> None:
    timeline = Timeline(STRATEGY)
    timeline.extend([TickSummary(at // 5, at // 5 * 5, "a", 1, at) for at in times])
    before = timeline.carry()
    rows = timeline.repaired(ticks)
    assert timeline.carry() == before
    assert {row.tick for row in rows} == (set(ticks) or {timeline.last_tick})
    assert {(row.watermark, row.at, row.kind) for row in rows} == {
        (timeline.watermark, timeline.last_at, "repair")
    }


def _total(ledger: object, output: str, fate: Fate) -> Decimal:
    return sum(
        (
            entry.fates.get(fate, Decimal(0))
            for entry in ledger  # type: ignore[attr-defined]
            if (entry.output, entry.unit) == (output, "events")
        ),
        Decimal(0),
    )
