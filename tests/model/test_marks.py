"""The marks of many partitions, held against a plain loop over them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.partition_marks import Active, Marks, PartitionMark
from latecomer.model.verdicts import BEGIN_OF_TIME

MOMENTS = st.integers(0, 20) | st.just(BEGIN_OF_TIME)
KNOWN = st.builds(
    PartitionMark,
    st.sampled_from("abcdef"),
    MOMENTS,
    MOMENTS,
    st.sampled_from([None, 3, 7]),
)


def by_hand(known: Sequence[PartitionMark], at: int) -> dict[str, int]:
    return {
        each.name: each.mark
        for each in known
        if each.idle_after is None or at - each.seen_at < each.idle_after
    }


def heard_of(
    known: Sequence[PartitionMark], later: Sequence[PartitionMark]
) -> tuple[Marks, list[PartitionMark]]:
    """Marks that some partitions are in from the beginning, and others moved or came later."""
    stands = {each.name: each for each in known}
    marks = Marks(stands.values())
    for each in later:
        before = stands.get(each.name)
        if marks.move(each.name, each.mark, each.seen_at):
            assert before is not None
            each = PartitionMark(each.name, each.mark, each.seen_at, before.idle_after)
        else:
            assert before is None
            marks.add([each])
        stands[each.name] = each
    return marks, list(stands.values())


@pytest.mark.drawn
@given(st.lists(KNOWN, max_size=6), st.lists(KNOWN, max_size=8), st.integers(0, 30))
def test_the_active_marks_are_those_of_a_plain_loop(
    known: list[PartitionMark], later: list[PartitionMark], at: int
) -> None:
    marks, stands = heard_of(known, later)
    active, expected = marks.active(at), by_hand(stands, at)
    assert dict(active.items()) == expected
    assert bool(active) == bool(expected)
    if expected:
        slowest = min(expected.values())
        assert (active.slowest, active.furthest) == (slowest, max(expected.values()))
        assert active.at(slowest) == sorted(name for name, mark in expected.items() if mark == slowest)


def test_before_time_began_nobody_is_silent() -> None:
    active: Active = Marks([PartitionMark("a", 5, BEGIN_OF_TIME, 1)]).active(BEGIN_OF_TIME)
    assert active.items() == [("a", 5)]
