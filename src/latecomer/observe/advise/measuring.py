"""The two passes over a history: first how late events are, then what the settings derived from that would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latecomer.model.array_types import Doubles, Flags, Integers
from latecomer.model.lateness.course import NOTHING
from latecomer.model.lateness.ends import WindowEnds
from latecomer.model.lateness.groups import BLOCKS, Bias, LateGroup, Skew, bias, late_groups, skews
from latecomer.model.lateness.histogram import BINS, COARSE, Histogram, bin_of
from latecomer.model.lateness.sweep import Setting, Sweep, WhatIf
from latecomer.observe.advise.history import Codes, History, Measured, Part, Subject, hashed, kept, numbers

SLICES = 10
MOST_PRODUCERS = 100_000
SEED = 20260425
MOST_BIASED = 5
"""For so many late groups the effect of dropping their late events is computed."""
_SMALLEST, _LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def _longer(counts: Integers, length: int, filled: int = 0) -> Integers:
    """An array with room for so many groups; an array that has it already is not copied."""
    more = length - len(counts)
    return counts if more <= 0 else np.concatenate([counts, np.full((more, *counts.shape[1:]), filled)])


@dataclass
class GroupHistograms:
    """A coarse histogram for each of several groups; values below zero are counted separately."""

    _counts: Integers = field(default_factory=lambda: np.zeros((0, BINS[COARSE]), np.int64))
    _negative: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    _least: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    _most: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, codes: Integers, durations: Integers, groups: int) -> None:
        self._counts, self._negative = _longer(self._counts, groups), _longer(self._negative, groups)
        self._least = _longer(self._least, groups, _LARGEST)
        self._most = _longer(self._most, groups, _SMALLEST)
        bins = codes * BINS[COARSE] + bin_of(np.maximum(durations, 0), COARSE)
        filled, counts = np.unique(bins, return_counts=True)
        self._counts.reshape(-1)[filled] += counts
        below = durations < 0
        self._negative += np.bincount(codes[below], minlength=len(self._negative))
        np.minimum.at(self._least, codes, durations)
        np.maximum.at(self._most, codes, durations)

    def of(self, code: int) -> Histogram:
        behind = self._counts[code].copy()
        ahead = np.zeros(BINS[COARSE], np.int64)
        # Of the values below zero only the smallest is known.
        behind[0] -= self._negative[code]
        ahead[1] = self._negative[code]
        return Histogram(COARSE, ahead, behind, int(self._least[code]), int(self._most[code]))


@dataclass
class Delays:
    """Both delays of each group of a column."""

    codes: Codes = field(default_factory=Codes)
    age: GroupHistograms = field(default_factory=GroupHistograms)
    behind: GroupHistograms = field(default_factory=GroupHistograms)

    def add(self, codes: Integers, age: Integers, behind: Integers) -> None:
        groups = len(self.codes.names)
        self.age.add(codes, age, groups)
        self.behind.add(codes, behind, groups)

    def groups(self) -> list[tuple[str | None, Histogram, Histogram]]:
        """Each group with both histograms; the one with most events first."""
        both = [(name, self.age.of(code), self.behind.of(code)) for code, name in enumerate(self.codes.names)]
        return sorted(both, key=lambda each: -each[1].count)


@dataclass
class FirstPass:
    """The result of the first pass: how late events are."""

    age: Histogram = field(default_factory=Histogram)
    behind: Histogram = field(default_factory=Histogram)
    partitions: Delays = field(default_factory=Delays)
    by: dict[str, Delays] = field(default_factory=dict)
    overdue: dict[str, Histogram] = field(default_factory=dict)
    """For each output, how far the timeline was past the window's end, of the events for which it was past."""
    kept: dict[str, int] = field(default_factory=dict)
    """For each output, the events that its `where` keeps."""
    slices: list[Histogram] = field(default_factory=lambda: [Histogram(COARSE) for _ in range(SLICES)])
    producers: Skews = field(default_factory=lambda: Skews())
    events: int = 0
    seen: int = 0


@dataclass
class Skews:
    """Negative delays of each producer."""

    codes: Codes = field(default_factory=lambda: Codes(MOST_PRODUCERS))
    events: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    negative: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    least: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, codes: Integers, age: Integers) -> None:
        count = len(self.codes.names)
        self.events, self.negative = _longer(self.events, count), _longer(self.negative, count)
        self.least = _longer(self.least, count, _LARGEST)
        self.events += np.bincount(codes, minlength=len(self.events))
        self.negative += np.bincount(codes[age < 0], minlength=len(self.events))
        np.minimum.at(self.least, codes, age)

    def skews(self) -> list[Skew]:
        return skews(self.codes.names, self.events, self.negative, self.least)


class Sample:
    """All events, or a random sample of them. The timeline is always that of all events."""

    def __init__(self, share: float | None) -> None:
        self.share = share
        self._random = np.random.default_rng(SEED)

    def of(self, part: Part) -> Part:
        if self.share is None:
            return part
        chosen: Flags = self._random.random(len(part)) < self.share
        return part.only(chosen)


def first_pass(history: History, sample: Sample) -> FirstPass:
    """Measure how late events are: overall, in each partition, group and tenth of the history, and for each output."""
    first = FirstPass(by={name: Delays() for name in history.by})
    course = history.course
    first.partitions.codes.names = list(course.partitions)
    ends = {each.name: WindowEnds(each.window) for each in history.subjects}
    for name in ends:
        first.overdue[name], first.kept[name] = Histogram(), 0
    begin, span = int(course.at.min()) if len(course.at) else 0, max(course.span, 1)
    columns = {*history.by.values(), *([history.producer] if history.producer else [])}
    for subject in history.subjects:
        if subject.where is not None:
            columns |= {*subject.where.columns.values()}
    for whole in history.parts(sorted(columns)):
        first.seen += len(whole)
        part = sample.of(whole)
        first.events += len(part)
        for subject in history.subjects:
            mine, end = kept(part, subject), ends[subject.name]
            first.kept[subject.name] += len(mine)
            if end.known and len(mine):
                overdue = course.newest[mine.row] - end.last(mine.times)
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


def behind_of(history: History, part: Part) -> Integers:
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
    history: History, settings: Mapping[str, Sequence[Setting]], sample: Sample
) -> dict[str, list[WhatIf]]:
    """Measure only what each setting would have meant for some outputs."""
    sweeps, known = _sweeps(history, settings), dict[object, int]()
    columns = set[str]().union(*(each.columns for each in history.subjects))
    for whole in history.parts(sorted(columns)):
        for _ in _swept(history, sample.of(whole), sweeps, known):
            pass
    return {name: sweep.answers(history.course) for name, sweep in sweeps.items()}


def _swept(
    history: History, part: Part, sweeps: Mapping[str, Sweep], known: dict[object, int]
) -> Iterator[tuple[str, Part]]:
    """Pass to the sweep of each output the events that the output keeps; yields them too."""
    for subject in history.subjects:
        mine = kept(part, subject)
        if subject.name in sweeps and len(mine):
            keys = hashed(mine.columns, subject.keys, known)
            sweeps[subject.name].take(history.course.newest[mine.row], mine.times, keys, mine.batch)
            yield subject.name, mine


def _sweeps(history: History, settings: Mapping[str, Sequence[Setting]]) -> dict[str, Sweep]:
    return {
        each.name: Sweep(each.window, settings[each.name], each.accepts)
        for each in history.subjects
        if WindowEnds(each.window).known
    }


def second_pass(
    history: History, settings: Mapping[str, Sequence[Setting]], delay: int, sample: Sample
) -> SecondPass:
    """Measure what the settings of each output would have meant, and for which groups. Events that are further behind
    than the delay count as late when groups are compared."""
    sweeps = _sweeps(history, settings)
    who = {name: _Counted() for name in history.by}
    sums = {each.name: _Sums(history, delay, each) for each in history.subjects}
    known: dict[object, int] = {}
    columns = {*history.by.values()}.union(*(each.columns for each in history.subjects))
    second, course = SecondPass(), history.course
    for whole in history.parts(sorted(columns)):
        part = sample.of(whole)
        for name, mine in _swept(history, part, sweeps, known):
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
                second.biases += sums[subject.name].biases_of(group, who[group.column].codes)
    return second


def blocks_of(history: History, part: Part) -> Integers:
    """The block of arrival time that each event is in."""
    at = history.course.at
    begin, span = int(at.min()) if len(at) else 0, max(history.course.span, 1)
    return np.minimum((at[part.row] - begin) * BLOCKS // span, BLOCKS - 1)


@dataclass
class _Counted:
    """Events and late events of each group and block."""

    codes: Codes = field(default_factory=Codes)
    events: Integers = field(default_factory=lambda: np.zeros((0, BLOCKS), np.int64))
    late: Integers = field(default_factory=lambda: np.zeros((0, BLOCKS), np.int64))

    def take(self, values: Any, block: Integers, late: Flags) -> None:
        places = self.codes.of(values) * BLOCKS + block
        groups = len(self.codes.names)
        self.events, self.late = _longer(self.events, groups), _longer(self.late, groups)
        self.events += np.bincount(places, minlength=groups * BLOCKS).reshape(groups, BLOCKS)
        self.late += np.bincount(places[late], minlength=groups * BLOCKS).reshape(groups, BLOCKS)

    def late_groups(self, column: str) -> list[LateGroup]:
        heard = np.flatnonzero(self.events.sum(0))
        return late_groups(column, self.codes.names, self.events[:, heard], self.late[:, heard])


class _Sums:
    """Counts and sums of all events and of the late ones, for each aggregate of an output; also by group."""

    def __init__(self, history: History, delay: int, subject: Subject) -> None:
        self.history, self.delay, self.subject = history, delay, subject
        self._ends = WindowEnds(subject.window)
        self._sums = {each.name: np.zeros((4, BLOCKS)) for each in subject.aggregates}
        self._by_group: dict[tuple[str, str], Doubles] = {}
        """Aggregate and column → counts and sums by group and block."""

    def take(self, part: Part, codes: Mapping[str, Codes]) -> None:
        newest = self.history.course.newest[part.row]
        late = newest - self._ends.last(part.times) >= self.delay
        block = blocks_of(self.history, part)
        grouped = {
            name: (each.of(part.columns.column(self.history.by[name])) * BLOCKS + block, len(each.names))
            for name, each in codes.items()
        }
        for each in self.subject.aggregates:
            if each.column is None:
                values, has_value = np.ones(len(part)), np.ones(len(part), bool)
            elif each.function == "count":
                has_value = part.columns.column(each.column).is_valid().to_numpy(zero_copy_only=False)
                values = has_value.astype(np.float64)
            else:
                values, has_value = numbers(part.columns.column(each.column))
            self._sums[each.name] += _sums(block, 1, values, has_value, late)
            for name, (places, groups) in grouped.items():
                known = self._by_group.get((each.name, name), np.zeros((4, 0)))
                wider = np.zeros((4, groups * BLOCKS))
                wider[:, : known.shape[1]] = known
                self._by_group[each.name, name] = wider + _sums(places, groups, values, has_value, late)

    def biases(self) -> list[Bias]:
        """The bias of each aggregate if late events were dropped."""
        return [
            bias
            for each in self.subject.aggregates
            for bias in self._biased(each, self._sums[each.name], None)
        ]

    def biases_of(self, group: LateGroup, codes: Codes) -> list[Bias]:
        """The bias of the numbers of a group that is late more often than others."""
        nth = codes.names.index(group.value)
        found: list[Bias] = []
        for each in self.subject.aggregates:
            sums = self._by_group.get((each.name, group.column))
            if sums is not None and sums.shape[1] >= (nth + 1) * BLOCKS:
                mine = sums[:, nth * BLOCKS : (nth + 1) * BLOCKS]
                found += self._biased(each, mine, (group.column, group.value))
        return found

    def _biased(self, each: Measured, sums: Doubles, group: tuple[str, str | None] | None) -> Iterator[Bias]:
        heard = sums[:, sums[0] > 0]
        change = bias(each.function, heard[0], heard[1], heard[2], heard[3])
        if change is not None:
            yield Bias(self.subject.name, each.name, each.written, *change, group)


def _sums(places: Integers, groups: int, values: Doubles, has_value: Flags, late: Flags) -> Doubles:
    """Counts of all events and of late ones, then sums of both, by place."""
    size, late_ones = groups * BLOCKS, has_value & late
    return np.stack(
        [
            np.bincount(places[has_value], minlength=size),
            np.bincount(places[late_ones], minlength=size),
            np.bincount(places[has_value], values[has_value], size),
            np.bincount(places[late_ones], values[late_ones], size),
        ]
    )
