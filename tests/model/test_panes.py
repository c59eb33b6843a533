"""Panes: which of the published numbers stands."""

from __future__ import annotations

import pytest

from latecomer.model.aggregates import parse_aggregate
from latecomer.model.panes import Op, Pane, Timing, summed, surviving


def insert(sequence: int, start: int = 0, key: tuple[object, ...] = ()) -> Pane:
    timing = Timing.LATE if sequence else Timing.ON_TIME
    return Pane(start, start + 10, key, {"n": sequence}, sequence, timing)


def retract(sequence: int) -> Pane:
    return Pane(0, 10, (), {"n": sequence}, sequence, Timing.LATE, Op.RETRACT)


@pytest.mark.parametrize(
    ("published", "standing"),
    [
        ([], None),
        ([insert(0)], 0),
        ([insert(0), insert(1)], 1),
        ([insert(0), retract(0), insert(1)], 1),
        ([insert(0), retract(0)], None),
        ([insert(0), insert(1), retract(0)], 1),  # a stale retract takes nothing back
        ([retract(0), insert(0)], 0),  # nor does one of what was never stated
        ([insert(0), insert(2), insert(1)], 2),  # a stale insert does not win
        ([insert(0), retract(0), insert(1), retract(1), insert(2)], 2),
    ],
)
def test_the_pane_that_stands(published: list[Pane], standing: int | None) -> None:
    stands = surviving(published).get((0, 10, ()))
    assert (stands and stands.sequence) == standing


def test_a_pane_published_twice_stands_as_it_was_first() -> None:
    first, again = insert(0), Pane(0, 10, (), {"n": 99}, 0, Timing.ON_TIME)
    assert surviving([first, again]) == {(0, 10, ()): first}


def test_sessions_that_share_a_start_stand_for_themselves() -> None:
    short, long = Pane(0, 10, (), {"n": 1}, 0, Timing.ON_TIME), Pane(0, 18, (), {"n": 2}, 0, Timing.LATE)
    assert surviving([short, long]) == {(0, 10, ()): short, (0, 18, ()): long}


AGGREGATES = {name: parse_aggregate(f"{name}(paise)") for name in ("sum", "count", "min", "max")}


def part(sequence: int, *paise: int | None, op: Op = Op.INSERT) -> Pane:
    values = {name: aggregate.evaluate(paise) for name, aggregate in AGGREGATES.items()}
    return Pane(0, 10, (), values, sequence, Timing.LATE, op)


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ([part(0, 5, 3), part(1), part(2, 9)], (5, 3, 9)),
        ([part(0, 5, 3), part(1, 9), part(0, 5, 3, op=Op.RETRACT)], (9,)),
        ([part(0, None), part(1)], (None,)),
        ([part(0, 5), part(0, 5)], (5,)),  # published twice is once
    ],
)
def test_discarding_panes_add_up(parts: list[Pane], whole: tuple[int | None, ...]) -> None:
    assert summed(parts, AGGREGATES) == {(0, 10, ()): part(0, *whole).values}


def test_what_does_not_add_up_is_refused() -> None:
    with pytest.raises(ValueError, match="avg of parts does not give avg of the whole"):
        summed([insert(0)], {"n": parse_aggregate("avg(paise)")})


def test_windows_and_keys_stand_for_themselves() -> None:
    panes = [insert(0, 0, ("a",)), insert(3, 0, ("b",)), insert(1, 10, ("a",)), insert(0, 0, (None,))]
    assert surviving(panes) == {pane.place: pane for pane in panes}
