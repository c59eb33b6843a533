"""The two passes over a history: first how late events are, then what the settings derived from that would do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latecomer.model.array_types import Doubles, Flags, Integers
from latecomer.model.lateness.course import NOTHING
from latecomer.model.lateness.groups import BLOCKS, Bias, LateGroup, Skew, bias, late_groups, skews
from latecomer.model.lateness.histogram import BINS, COARSE, Histogram, bin_of
from latecomer.model.lateness.sweep import Setting, Sweep, WhatIf
from latecomer.observe.advise.history import (
    ArrivalsPart,
    Codes,
    MeasuredAggregate,
    RecordedArrivals,
    Subject,
    hashed,
    kept,
    numbers,
)

SLICES = 10
MOST_PRODUCERS = 100_000
SEED = 20260425
MOST_BIASED = 5
"""For so many late groups the effect of dropping their late events is computed."""


class GroupHistograms:
    """A coarse histogram for each of several groups; values below zero are counted separately."""

    def __init__(self, groups: int) -> None:
        # Pages that nothing is written to take no memory.
        self._counts = np.zeros((groups, BINS[COARSE]), np.int64)
        self._negative = np.zeros(groups, np.int64)
        self._least = np.full(groups, np.iinfo(np.int64).max)
        self._most = np.full(groups, np.iinfo(np.int64).min)

    def add(self, codes: Integers, durations: Integers) -> None:
        bins = codes * BINS[COARSE] + bin_of(np.maximum(durations, 0), COARSE)
        filled, counts = np.unique(bins, return_counts=True)
        self._counts.reshape(-1)[filled] += counts
        self._negative += np.bincount(codes[durations < 0], minlength=len(self._negative))
        np.minimum.at(self._least, codes, durations)
        np.maximum.at(self._most, codes, durations)

    def of(self, code: int) -> Histogram:
        behind = self._counts[code].copy()
        ahead = np.zeros(BINS[COARSE], np.int64)
        # Of the values below zero only the smallest is known.
        behind[0] -= self._negative[code]
        ahead[1] = self._negative[code]
        return Histogram(COARSE, ahead, behind, int(self._least[code]), int(self._most[code]))


class Delays:
    """Both delays of each group of a column."""

    def __init__(self, codes: Codes) -> None:
        self.codes = codes
        self._age, self._behind = GroupHistograms(codes.room), GroupHistograms(codes.room)

    def add(self, codes: Integers, age: Integers, behind: Integers) -> None:
        self._age.add(codes, age)
        self._behind.add(codes, behind)

    def groups(self) -> list[tuple[str | None, Histogram, Histogram]]:
        """Each group with both histograms; the one with most events first."""
        names = enumerate(self.codes.names)
        both = [(name, self._age.of(code), self._behind.of(code)) for code, name in names]
        return sorted(both, key=lambda each: -each[1].count)


@dataclass
class FirstPass:
    """The result of the first pass: how late events are."""

    partitions: Delays
    by: Mapping[str, Delays]
    age: Histogram = field(default_factory=Histogram)
    behind: Histogram = field(default_factory=Histogram)
    overdue: dict[str, Histogram] = field(default_factory=dict)
    """For each output, how far the timeline was past the window's end, of the events for which it was past."""
    kept: dict[str, int] = field(default_factory=dict)
    """For each output, the events that its `where` keeps."""
    slices: list[Histogram] = field(default_factory=lambda: [Histogram(COARSE) for _ in range(SLICES)])
    producers: Skews = field(default_factory=lambda: Skews())
    events: int = 0
    seen: int = 0


class Skews:
    """Negative delays of each producer."""

    def __init__(self) -> None:
        self.codes = Codes(MOST_PRODUCERS)
        self._events, self._negative = (np.zeros(self.codes.room, np.int64) for _ in range(2))
        self._least = np.full(self.codes.room, np.iinfo(np.int64).max)

    def add(self, codes: Integers, age: Integers) -> None:
        self._events += np.bincount(codes, minlength=len(self._events))
        self._negative += np.bincount(codes[age < 0], minlength=len(self._events))
        np.minimum.at(self._least, codes, age)

    def skews(self) -> list[Skew]:
        return skews(self.codes.names, self._events, self._negative, self._least)


def parts_of(
    history: RecordedArrivals, columns: Iterable[str], share: float | None
) -> Iterator[tuple[int, ArrivalsPart]]:
    """All events part by part, or the same random sample of them each time; and how many each part has of all. The
    timeline is always that of all events."""
    random = np.random.default_rng(SEED)
    for part in history.parts(sorted(columns)):
        yield len(part), part if share is None else part.only(random.random(len(part)) < share)


def first_pass(history: RecordedArrivals, sample: float | None) -> FirstPass:
    """Measure how late events are: overall, in each partition, group and tenth of the history, and for each output."""
    course = history.course
    partitions = Codes(len(course.partitions), list(course.partitions))
    first = FirstPass(Delays(partitions), {name: Delays(Codes()) for name in history.by})
    for each in history.subjects:
        first.overdue[each.name], first.kept[each.name] = Histogram(), 0
    begin, span = int(course.at.min()) if len(course.at) else 0, max(course.span, 1)
    columns = {*history.by.values(), *([history.producer] if history.producer else [])}
    for subject in history.subjects:
        if subject.where is not None:
            columns |= {*subject.where.columns.values()}
    for seen, part in parts_of(history, columns, sample):
        first.seen += seen
        first.events += len(part)
        for subject in history.subjects:
            mine = kept(part, subject)
            first.kept[subject.name] += len(mine)
            if not subject.window.endless and len(mine):
                overdue = course.newest[mine.row] - subject.window.last_ends(mine.times)
                first.overdue[subject.name].add(overdue[overdue >= 0])
        part = part.only(course.counts[part.row])
        if not len(part):
            continue
        behind = behind_of(history, part)
        first.age.add(part.age)
        first.behind.add(behind)
        if len(course.partitions) > 1:
            known = part.partition >= 0
            first.partitions.add(part.partition[known], part.age[known], behind[known])
        nth = np.minimum((course.at[part.row] - begin) * SLICES // span, SLICES - 1)
        for place in np.unique(nth).tolist():
            first.slices[place].add(behind[nth == place])
        for name, stored in history.by.items():
            delays = first.by[name]
            delays.add(delays.codes.of(part.columns.column(stored)), part.age, behind)
        if history.producer is not None:
            producers = first.producers
            producers.add(producers.codes.of(part.columns.column(history.producer)), part.age)
    return first


def behind_of(history: RecordedArrivals, part: ArrivalsPart) -> Integers:
    """How far each event is behind the newest of its own partition, as it was before the event's tick."""
    before = history.course.before(part.row, np.maximum(part.partition, 0))
    return np.where(before == NOTHING, 0, np.maximum(before - part.times, 0))


# The second pass


@dataclass
class SecondPass:
    """The result of the second pass: what settings would do, which groups are late, and the bias of dropping them."""

    answers: dict[str, list[WhatIf]] = field(default_factory=dict)
    late_groups: list[LateGroup] = field(default_factory=list)
    biases: list[Bias] = field(default_factory=list)


def sweep_pass(
    history: RecordedArrivals, settings: Mapping[str, Sequence[Setting]], sample: float | None
) -> dict[str, list[WhatIf]]:
    """Measure only what each setting would have meant for some outputs."""
    sweeps = _sweeps(history, settings)
    columns = set[str]().union(*(each.columns for each in history.subjects))
    for _, part in parts_of(history, columns, sample):
        for _ in _swept(history, part, sweeps):
            pass
    return {name: sweep.answers(history.course) for name, sweep in sweeps.items()}


def _swept(
    history: RecordedArrivals, part: ArrivalsPart, sweeps: Mapping[str, Sweep]
) -> Iterator[tuple[str, ArrivalsPart]]:
    """Pass to the sweep of each output the events that the output keeps; yields them too."""
    for subject in history.subjects:
        mine = kept(part, subject)
        if subject.name in sweeps and len(mine):
            keys = hashed(mine.columns, subject.keys)
            sweeps[subject.name].take(history.course.newest[mine.row], mine.times, keys, mine.batch)
            yield subject.name, mine


def _sweeps(history: RecordedArrivals, settings: Mapping[str, Sequence[Setting]]) -> dict[str, Sweep]:
    return {
        each.name: Sweep(each.window, settings[each.name], each.accepts)
        for each in history.subjects
        if not each.window.endless
    }


def second_pass(
    history: RecordedArrivals, settings: Mapping[str, Sequence[Setting]], delay: int, sample: float | None
) -> SecondPass:
    """Measure what the settings of each output would have meant, and for which groups. Events that are further behind
    than the delay count as late when groups are compared."""
    sweeps = _sweeps(history, settings)
    who = {name: _Counted() for name in history.by}
    sums = {each.name: _Sums(history, delay, each) for each in history.subjects}
    columns = {*history.by.values()}.union(*(each.columns for each in history.subjects))
    second, course = SecondPass(), history.course
    for _, part in parts_of(history, columns, sample):
        for name, mine in _swept(history, part, sweeps):
            sums[name].take(mine, {column: who[column].codes for column in who})
        late = behind_of(history, part) > delay
        block = blocks_of(history, part)
        for name, stored in history.by.items():
            who[name].take(part.columns.column(stored), block, late)
    for name, counted in who.items():
        second.late_groups += counted.late_groups(name)
    for subject in history.subjects:
        if subject.name in sweeps:
            second.answers[subject.name] = sweeps[subject.name].answers(course, subject.state_bytes)
            second.biases += sums[subject.name].biases()
            for group in second.late_groups[:MOST_BIASED]:
                second.biases += sums[subject.name].biases(group, who[group.column].codes)
    return second


def blocks_of(history: RecordedArrivals, part: ArrivalsPart) -> Integers:
    """The block of arrival time that each event is in."""
    at = history.course.at
    begin, span = int(at.min()) if len(at) else 0, max(history.course.span, 1)
    return np.minimum((at[part.row] - begin) * BLOCKS // span, BLOCKS - 1)


class _Counted:
    """Events and late events of each group and block."""

    def __init__(self) -> None:
        self.codes = Codes()
        self._events, self._late = (np.zeros((self.codes.room, BLOCKS), np.int64) for _ in range(2))

    def take(self, values: Any, block: Integers, late: Flags) -> None:
        places, shape = self.codes.of(values) * BLOCKS + block, self._events.shape
        self._events += np.bincount(places, minlength=self._events.size).reshape(shape)
        self._late += np.bincount(places[late], minlength=self._events.size).reshape(shape)

    def late_groups(self, column: str) -> list[LateGroup]:
        heard = np.flatnonzero(self._events.sum(0))
        return late_groups(column, self.codes.names, self._events[:, heard], self._late[:, heard])


class _Sums:
    """Counts and sums of all events and of the late ones, for each aggregate of an output; also by group."""

    def __init__(self, history: RecordedArrivals, delay: int, subject: Subject) -> None:
        self.history, self.delay, self.subject = history, delay, subject
        self._sums: dict[tuple[str, str | None], Doubles] = {}
        """Aggregate, and the column of groups or None → counts and sums by group and block."""

    def take(self, part: ArrivalsPart, codes: Mapping[str, Codes]) -> None:
        newest = self.history.course.newest[part.row]
        late = newest - self.subject.window.last_ends(part.times) >= self.delay
        block = blocks_of(self.history, part)
        grouped: dict[str | None, tuple[Integers, int]] = {None: (block, BLOCKS)}
        for name, each in codes.items():
            places = each.of(part.columns.column(self.history.by[name])) * BLOCKS + block
            grouped[name] = places, each.room * BLOCKS
        for measured in self.subject.aggregates:
            values, has_value = _amounts(measured, part)
            for column, (places, size) in grouped.items():
                sums = _sums(places, size, values, has_value, late)
                self._sums[measured.name, column] = self._sums.get((measured.name, column), 0.0) + sums

    def biases(self, group: LateGroup | None = None, codes: Codes | None = None) -> Iterator[Bias]:
        """The bias of each aggregate if late events were dropped: of all events, or of a group that is late more often
        than others."""
        column = None if group is None else group.column
        first = 0 if group is None or codes is None else codes.names.index(group.value) * BLOCKS
        place = None if group is None else (group.column, group.value)
        for each in self.subject.aggregates:
            if (sums := self._sums.get((each.name, column))) is not None:
                heard = sums[:, first : first + BLOCKS]
                change = bias(each.function, *heard[:, heard[0] > 0])
                yield Bias(self.subject.name, each.name, each.written, *change, place)


def _amounts(measured: MeasuredAggregate, part: ArrivalsPart) -> tuple[Doubles, Flags]:
    """What each event adds to an aggregate, and whether it adds anything."""
    if measured.column is None:
        return np.ones(len(part)), np.ones(len(part), bool)
    values = part.columns.column(measured.column)
    if measured.function == "count":
        has_value = values.is_valid().to_numpy(zero_copy_only=False)
        return has_value.astype(np.float64), has_value
    return numbers(values)


def _sums(places: Integers, size: int, values: Doubles, has_value: Flags, late: Flags) -> Doubles:
    """Counts of all events and of late ones, then sums of both, by place."""
    late_ones = has_value & late
    return np.stack(
        [
            np.bincount(places[has_value], minlength=size),
            np.bincount(places[late_ones], minlength=size),
            np.bincount(places[has_value], values[has_value], size),
            np.bincount(places[late_ones], values[late_ones], size),
        ]
    )
