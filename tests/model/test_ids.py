"""An id of several columns: every combination of texts has its own."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.ids import event_id

AWKWARD = st.text(st.sampled_from('ab",\\[]\n'), max_size=4)
PARTS = st.lists(AWKWARD, min_size=2, max_size=3)


@given(PARTS, PARTS)
def test_no_two_are_confused(one: list[str], other: list[str]) -> None:
    assert (event_id(one) == event_id(other)) == (one == other)


@given(PARTS)
def test_it_is_a_json_array(parts: list[str]) -> None:
    assert json.loads(event_id(parts) or "") == parts


@given(PARTS, st.integers(0, 2))
def test_without_one_of_them_there_is_none(parts: list[str], nth: int) -> None:
    lacking: list[str | None] = [*parts[:nth], None, *parts[nth:]]
    assert event_id(lacking) is None


def test_one_column_is_its_own_text() -> None:
    assert event_id(['a"']) == 'a"'
    assert event_id([None]) is None
    assert event_id([]) is None
