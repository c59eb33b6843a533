"""Which offsets are read next: everything once, no more than was asked for, and nothing that is gone unseen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.source.kafka.ranges import (
    Gone,
    MadeAgain,
    Topic,
    lag_of,
    next_answer,
    partitions_of,
    ranges_of,
)


def topic(end: list[int], begin: list[int] | None = None, id: str = "x") -> Topic:  # noqa: A002
    begin = begin or [0] * len(end)
    return Topic(id, begin, end, begin)


def test_a_topic_is_read_to_its_end_and_then_no_further() -> None:
    first = next_answer(None, {"t": topic([3, 0])}, 100, continues=False)
    assert first == {"topics": {"t": {"id": "x", "from": [0, 0], "to": [3, 0], "end": [3, 0]}}}
    assert ranges_of(first) == {("t", 0): (0, 3)}
    assert next_answer(first, {"t": topic([3, 0])}, 100, continues=False) is None
    grown = next_answer(first, {"t": topic([3, 2])}, 100, continues=False)
    assert grown is not None
    assert ranges_of(grown) == {("t", 1): (0, 2)}


def test_every_partition_gets_its_share() -> None:
    answer = next_answer(None, {"t": topic([90, 9, 1]), "u": topic([100])}, 20, continues=False)
    assert answer is not None
    assert ranges_of(answer) == {("t", 0): (0, 8), ("t", 1): (0, 2), ("t", 2): (0, 1), ("u", 0): (0, 9)}
    assert partitions_of(answer) == {"t/0": True, "t/1": True, "t/2": False, "u/0": True}
    assert lag_of(answer) == 200 - 20


def test_a_batch_of_many_partitions_has_no_more_rows_than_was_asked_for() -> None:
    answer = next_answer(None, {"t": topic([1000, *[1] * 99])}, 110, continues=False)
    assert answer is not None
    assert lag_of(answer) == 1099 - 110
    assert ranges_of(answer)["t", 0] == (0, 11)
    assert len(ranges_of(answer)) == 100


def test_no_partition_waits_for_ever_behind_others_that_grow_faster() -> None:
    answer, ends = None, [1] * 5
    for _ in range(5):
        ends[1:] = [end + 100 for end in ends[1:]]
        answer = next_answer(answer, {"t": topic(ends)}, 2, continues=False)
        assert answer is not None
        assert sum(until - since for since, until in ranges_of(answer).values()) == 2
    assert answer is not None
    assert all(answer["topics"]["t"]["to"])


def test_a_partition_without_a_record_is_news_once() -> None:
    first = next_answer(None, {"t": topic([0])}, 100, continues=False)
    assert first is not None
    assert next_answer(first, {"t": topic([0])}, 100, continues=False) is None
    added = next_answer(first, {"t": topic([0, 0])}, 100, continues=False)
    assert added is not None
    assert partitions_of(added) == {"t/0": False, "t/1": False}


def test_what_is_gone_is_named_or_written_down() -> None:
    read = next_answer(None, {"t": topic([10, 10])}, 100, continues=False)
    now = {"t": topic([20, 10], begin=[15, 10])}
    with pytest.raises(Gone) as gone:
        next_answer(read, now, 100, continues=False)
    assert (gone.value.topic, gone.value.partition, gone.value.since, gone.value.until) == ("t", 0, 10, 15)
    answer: Any = next_answer(read, now, 100, continues=True)
    assert answer["lost"] == {"t/0": [10, 15]}
    assert ranges_of(answer) == {("t", 0): (15, 20)}
    everything_gone: Any = next_answer(read, {"t": topic([20, 10], begin=[20, 10])}, 100, continues=True)
    assert everything_gone["lost"] == {"t/0": [10, 20]}
    assert ranges_of(everything_gone) == {}


def test_what_was_gone_before_the_store_began_is_no_loss() -> None:
    answer: Any = next_answer(None, {"t": topic([20], begin=[15])}, 100, continues=False)
    assert "lost" not in answer
    assert ranges_of(answer) == {("t", 0): (15, 20)}


@pytest.mark.parametrize(
    ("now", "error"),
    [
        (topic([10, 10], id="y"), MadeAgain),
        (topic([10]), MadeAgain),
        (topic([10, 4]), Gone),
    ],
    ids=["another id", "fewer partitions", "the end went back"],
)
def test_another_topic_of_the_same_name_is_refused(now: Topic, error: type[Gone]) -> None:
    read = next_answer(None, {"t": topic([10, 10])}, 100, continues=False)
    for continues in (False, True):
        with pytest.raises(error):
            next_answer(read, {"t": now}, 100, continues)


def test_a_topic_that_is_not_there_for_a_while_goes_on_where_it_was() -> None:
    both = {"t": topic([5]), "u": topic([5], id="z")}
    first = next_answer(None, both, 100, continues=False)
    without: Any = next_answer(first, {"t": topic([6])}, 100, continues=False)
    assert ranges_of(without) == {("t", 0): (5, 6)}
    again: Any = next_answer(without, {"t": topic([6]), "u": topic([7], id="z")}, 100, continues=False)
    assert ranges_of(again) == {("u", 0): (5, 7)}


@given(
    st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=6),
    st.integers(1, 40),
)
def test_every_offset_is_read_once(growth: list[list[int]], most: int) -> None:
    """However a topic grows: slices follow one another, none is more than asked for, in the end all is read."""
    ends, answer, read = [0, 0, 0], None, dict[int, list[int]]()
    for more in [*growth, *[[0, 0, 0]] * (6 * 3 * 50)]:
        ends = [end + each for end, each in zip(ends, more, strict=True)]
        found = next_answer(answer, {"t": topic(ends)}, most, continues=False)
        if found is None:
            continue
        answer = found
        ranges = ranges_of(found)
        assert sum(until - since for since, until in ranges.values()) <= most
        for (_, partition), (since, until) in ranges.items():
            read.setdefault(partition, []).extend(range(since, until))
    assert all(read.get(partition, []) == list(range(end)) for partition, end in enumerate(ends))
