"""Which offsets to read next: plain values, without a broker.

An answer has the id of every topic and, for each partition, where the next slice begins and ends and where the
partition ends. Answers are written down, so their keys are short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Answer = Mapping[str, Any]
"""`{"topics": {name: {"id": …, "from": […], "to": […], "end": […]}}, "lost": {"name/0": [17, 42]}}`"""

Place = tuple[str, int]
"""A topic and the number of a partition."""

Ranges = Mapping[Place, tuple[int, int]]
"""The first offset to read of each partition, and the one after the last."""


@dataclass(frozen=True)
class Topic:
    """A topic as the broker describes it."""

    id: str
    begin: Sequence[int]
    """The first offset that each partition still has."""
    end: Sequence[int]
    """Where each partition ends: the offset after the last record that is committed."""
    start: Sequence[int]
    """Where a store starts that has read nothing of a partition."""


class Gone(Exception):
    """The offsets to read next are not there any more."""

    def __init__(self, topic: str, partition: int | None, since: int = 0, until: int = 0) -> None:
        super().__init__(topic, partition, since, until)
        self.topic, self.partition, self.since, self.until = topic, partition, since, until


class MadeAgain(Gone):
    """Another topic of the same name."""


def next_answer(
    since: Answer | None, topics: Mapping[str, Topic], most: int, continues: bool
) -> Answer | None:
    """What to read next; None if nothing is new. With `continues`, offsets that are gone are passed over."""
    before = since["topics"] if since else {}
    starts, lost = dict[str, list[int]](), dict[str, list[int]]()
    for name, topic in topics.items():
        known = before.get(name)
        if known and known["id"] != topic.id:
            raise MadeAgain(name, None)
        read = list(known["to"]) if known else []
        if len(topic.end) < len(read):
            raise MadeAgain(name, None)
        starts[name] = _next_offsets(read, topic)
        for partition, (offset, begin, end) in enumerate(
            zip(starts[name], topic.begin, topic.end, strict=True)
        ):
            if offset < begin and partition < len(read):
                if not continues:
                    raise Gone(name, partition, offset, begin)
                lost[f"{name}/{partition}"] = [offset, begin]
            if offset > end:
                raise Gone(name, partition, end, offset)
            starts[name][partition] = max(offset, begin)
    ends = _shared_out(starts, {name: topic.end for name, topic in topics.items()}, most)
    has_new_partitions = any(len(starts[name]) > len(before.get(name, {"to": []})["to"]) for name in topics)
    if ends == starts and not has_new_partitions and not lost:
        return None
    answer: dict[str, Any] = {
        "topics": {
            name: {"id": topic.id, "from": starts[name], "to": ends[name], "end": list(topic.end)}
            for name, topic in topics.items()
        }
    }
    # A topic that a pattern matched once may be missing now and come back.
    answer["topics"] |= {
        name: {**each, "from": each["to"]} for name, each in before.items() if name not in topics
    }
    return {**answer, "lost": lost} if lost else answer


def remaining(answer: Answer, begins: Mapping[Place, int], continues: bool) -> Answer:
    """An answer without the offsets that are gone by now; `begins` has the first offset that each partition still has.

    >>> given = {"topics": {"pay": {"from": [2, 0], "to": [9, 4]}}}
    >>> remaining(given, {("pay", 0): 5, ("pay", 1): 0}, continues=True)
    {'topics': {'pay': {'from': [5, 0], 'to': [9, 4]}}, 'lost': {'pay/0': [2, 5]}}
    """
    lost = {
        place: (start, min(begins[place], to))
        for place, (start, to) in ranges_of(answer).items()
        if begins[place] > start
    }
    if not lost:
        return answer
    if not continues:
        (name, number), gap = next(iter(lost.items()))
        raise Gone(name, number, *gap)
    topics = {
        name: {
            **topic,
            "from": [lost.get((name, number), (0, start))[1] for number, start in enumerate(topic["from"])],
        }
        for name, topic in answer["topics"].items()
    }
    gaps = {f"{name}/{number}": list(gap) for (name, number), gap in lost.items()}
    return {**answer, "topics": topics, "lost": {**answer.get("lost", {}), **gaps}}


def _shared_out(
    starts: Mapping[str, Sequence[int]], ends: Mapping[str, Sequence[int]], most: int
) -> dict[str, list[int]]:
    """How far to read each partition: to its end, or `most` rows in all."""
    unread = {
        (name, partition): end - start
        for name in starts
        for partition, (start, end) in enumerate(zip(starts[name], ends[name], strict=True))
    }
    shares = unread
    if sum(unread.values()) > most:
        shares = _shares(unread, most, turn=sum(map(sum, starts.values())))
    return {
        name: [start + shares[name, partition] for partition, start in enumerate(each)]
        for name, each in starts.items()
    }


def _shares(unread: Mapping[Place, int], most: int, turn: int) -> dict[Place, int]:
    """How many of its unread rows each partition gets, `most` in all.

    Each partition with unread rows gets one of them, so that none waits for ever. The rest goes by what is unread, and
    what rounding leaves to the largest remainders. With fewer rows than partitions these take turns: `turn` grows by
    the number of rows that are read.

    >>> _shares({("t", 0): 89, ("t", 1): 9, ("t", 2): 0}, 10, turn=0)
    {('t', 0): 8, ('t', 1): 2, ('t', 2): 0}
    >>> _shares({("t", 0): 9, ("t", 1): 9, ("t", 2): 9}, 2, turn=2)
    {('t', 0): 1, ('t', 1): 0, ('t', 2): 1}
    """
    places = sorted(unread)
    first = turn % len(places)
    in_turn = [place for place in (*places[first:], *places[:first]) if unread[place]][:most]
    shares = dict.fromkeys(unread, 0) | dict.fromkeys(in_turn, 1)
    rest, rows_left = sum(unread.values()) - len(in_turn), most - len(in_turn)
    if not rows_left:
        return shares
    parts = {place: divmod((unread[place] - 1) * rows_left, rest) for place in in_turn}
    for place, (whole, _) in parts.items():
        shares[place] += whole
    by_remainder = sorted(in_turn, key=lambda place: -parts[place][1])
    for place in by_remainder[: most - sum(shares.values())]:
        shares[place] += 1
    return shares


def waiting(since: Answer | None, topics: Mapping[str, Topic]) -> dict[str, list[int]]:
    """How many offsets of each partition are not read yet.

    >>> waiting({"topics": {"pay": {"to": [7]}}}, {"pay": Topic("x", begin=[2, 0], end=[9, 4], start=[2, 0])})
    {'pay': [2, 4]}
    """
    read = {name: each["to"] for name, each in (since["topics"] if since else {}).items()}
    starts = {name: _next_offsets(read.get(name, ()), topic) for name, topic in topics.items()}
    return {
        name: [
            end - max(begin, start)
            for begin, end, start in zip(topic.begin, topic.end, starts[name], strict=True)
        ]
        for name, topic in topics.items()
    }


def _next_offsets(read: Sequence[int], topic: Topic) -> list[int]:
    """Where to read on in each partition, if so much of the topic was read."""
    return [*read, *topic.start[len(read) :]]


def partitions_of(answer: Answer) -> dict[str, bool]:
    """Every partition, and whether there is more of it than this slice reads."""
    return {
        f"{name}/{partition}": end > to
        for name, topic in answer["topics"].items()
        for partition, (to, end) in enumerate(zip(topic["to"], topic["end"], strict=True))
    }


def ranges_of(answer: Answer) -> Ranges:
    """The offsets to read, without partitions that have none."""
    return {
        (name, partition): (start, to)
        for name, topic in answer["topics"].items()
        for partition, (start, to) in enumerate(zip(topic["from"], topic["to"], strict=True))
        if to > start
    }


def lag_of(answer: Answer) -> int:
    """How many offsets there are beyond this slice."""
    return sum(sum(topic["end"]) - sum(topic["to"]) for topic in answer["topics"].values())
