"""What was found of a history: how late its events come, what settings would mean, and what is advised."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from latecomer.after.advise.history import OTHERS, History, Subject
from latecomer.after.advise.measuring import First, Plan, Sample, Second, first_pass, second_pass, sweep_pass
from latecomer.config.zoned import written
from latecomer.errors import LatecomerError
from latecomer.model.durations import format_duration
from latecomer.model.lateness import advice
from latecomer.model.lateness.advice import Advised, Tried, Wish
from latecomer.model.lateness.elbow import Elbow, elbow_of
from latecomer.model.lateness.ends import WindowEnds
from latecomer.model.lateness.groups import Bias, Interval, LateGroup, Skew
from latecomer.model.lateness.histogram import COARSE, FINE, Histogram
from latecomer.model.lateness.sweep import Setting, WhatIf
from latecomer.model.strategies import Bounded, Strategy

LOG = logging.getLogger(__name__)

MOST_DELAYS, MOST_LATENESS = 10, 5
SHARES = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)


class NothingToMeasure(LatecomerError):
    """There is no event to advise from."""


def in_figures(value: float) -> str:
    """A sum or a mean for people: whole where it is large, else with six digits.

    >>> in_figures(500_069_812_345.0), in_figures(50_004.512)
    ('500,069,812,345', '50,004.5')
    """
    return f"{value:,.0f}" if abs(value) >= 100_000 else f"{value:,.6g}"


@dataclass(frozen=True)
class Distribution:
    """One of the two delays."""

    count: int
    negative: int
    least: int
    most: int
    percentiles: Mapping[float, int]
    bars: Sequence[tuple[int, int, int]] = ()
    elbow: Elbow | None = None

    @classmethod
    def of(cls, found: Histogram, whole: bool = True) -> Distribution:
        return cls(
            found.count,
            found.negative,
            found.least,
            found.most,
            found.quantiles(),
            found.bars() if whole else (),
            elbow_of(found) if whole else None,
        )


@dataclass(frozen=True)
class GroupDelays:
    """Both delays of the events of a group."""

    column: str
    value: str | None
    age: Distribution
    behind: Distribution


@dataclass(frozen=True)
class OutputReport:
    """What settings would have meant for an output."""

    name: str
    window: str
    drops_late: bool
    drops_too_late: bool
    accepts: bool
    settings: Sequence[WhatIf]
    advised: Setting
    current: Setting | None

    def answer(self, setting: Setting) -> WhatIf:
        return next(each for each in self.settings if each.setting == setting)


@dataclass(frozen=True)
class Wanted:
    """What to look at, and what for."""

    wish: Wish = field(default_factory=Wish)
    delays: tuple[int, ...] = ()
    lateness: tuple[int, ...] = ()
    sample: float | None = None


@dataclass(frozen=True)
class Advice:
    """How late events come, what settings would mean, who is late, and what is advised."""

    title: str
    kind: str
    """`log` or `files`."""
    events: int
    of_events: int
    """All there are; more than `events` where a sample was taken."""
    sample: float | None
    since: int
    until: int
    every: int | str
    age: Distribution
    behind: Distribution
    partitions: Sequence[GroupDelays]
    groups: Sequence[GroupDelays]
    outputs: Sequence[OutputReport]
    late_delay: int
    late_groups: Sequence[LateGroup]
    biases: Sequence[Bias]
    skews: Sequence[Skew]
    advised: Sequence[Advised]
    cautions: Sequence[str]
    notes: Sequence[str]
    wish: Wish = field(default_factory=Wish)

    @property
    def sampling_error(self) -> float | None:
        """Half the width of the 95 % interval of a share of one half, the widest; None where all events were read."""
        return None if self.sample is None or not self.events else 0.98 / sqrt(self.events)

    @property
    def precision(self) -> float:
        """By what part a percentile of all events is too large at most."""
        return 1.0 / (1 << FINE)

    @property
    def group_precision(self) -> float:
        """The same for a partition or group."""
        return 1.0 / (1 << COARSE)

    def _repr_html_(self) -> str:
        from latecomer.after.advise.page import fragment

        return fragment(self)

    def html(self) -> str:
        """One page, with plots, that needs nothing else."""
        from latecomer.after.advise.page import page

        return page(self)

    def svg(self) -> str:
        """The plots as one picture."""
        from latecomer.after.advise.drawn import drawn

        return drawn(self)

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON has it. Durations are whole microseconds, moments ISO-8601."""
        return {
            "source": self.title,
            "kind": self.kind,
            "events": self.events,
            "of_events": self.of_events,
            "sample": self.sample,
            "sampling_error": self.sampling_error,
            "precision": {"overall": self.precision, "groups": self.group_precision},
            "since": written(self.since),
            "until": written(self.until),
            "tick": self.every if isinstance(self.every, str) else format_duration(self.every),
            "age": _distribution(self.age),
            "behind": _distribution(self.behind),
            "partitions": [_group(each) for each in self.partitions],
            "groups": [_group(each) for each in self.groups],
            "outputs": [_output(each, self.sample is not None) for each in self.outputs],
            "late_beyond": self.late_delay,
            "late_groups": [_plain(each) for each in self.late_groups],
            "bias_if_dropped": [_plain(each) for each in self.biases],
            "clock_skew": [_plain(each) for each in self.skews],
            "advice": [{**_plain(each), "write": each.written} for each in self.advised],
            "cautions": list(self.cautions),
            "notes": list(self.notes),
        }


def advise(history: History, wanted: Wanted) -> Advice:
    """Measure a history and advise on it."""
    wish, sample = wanted.wish, wanted.sample
    first = first_pass(history, Sample(sample))
    if not first.behind.count:
        raise NothingToMeasure(
            f"{history.title} has no events to advise from; run the pipeline, or name other files"
        )
    delay, reason = advice.delay_for(first.behind, wish)
    if wish.max_latency is not None and (tried := _tried(history, first, delay, wanted)):
        delay, reason = advice.delay_under(tried, delay, wish)
    others = _idle_and_future(history, first)
    settings, lateness = _lateness(history, first, delay, wish, others)
    plan = Plan(_settings(history, first, delay, lateness, wanted), delay)
    LOG.info("counting what settings would do")
    second = second_pass(history, plan, Sample(sample))
    course, strategy = history.course, history.strategy
    partitions = first.partitions.groups() if len(course.partitions) > 1 else []
    own = advice.own_delays(delay, {str(name): behind for name, _, behind in partitions}, wish)
    advised = [
        Advised("watermark.delay", delay, reason, _delay_of(history), _sets(strategy, "delay")),
        *(
            Advised(
                f"watermark.delays.{name}", value, why, _own_delay(strategy, name), name in _delays(strategy)
            )
            for name, (value, why) in sorted(own.items())
        ),
        *others,
        *settings,
    ]
    outputs = [
        _output_report(each, history, second, delay, lateness)
        for each in history.subjects
        if each.name in second.answers
    ]
    cautions = advice.cautions(first.behind, first.slices, course.span, delay, wish)
    return Advice(
        history.title,
        history.kind,
        first.events,
        first.seen,
        sample,
        int(course.at.min()),
        int(course.at.max()),
        strategy.every,
        Distribution.of(first.age),
        Distribution.of(first.behind),
        [_delays_of("partition", *each) for each in partitions],
        [_delays_of(name, *each) for name, delays in first.by.items() for each in delays.groups()],
        outputs,
        delay,
        second.late_groups,
        second.biases,
        first.producers.skews(),
        advised,
        cautions,
        [*history.notes, *_notes(first)],
        wish,
    )


def _tried(history: History, first: First, usual: int, wanted: Wanted) -> list[Tried]:
    """What delays would have meant, for the targets: in every output whose windows end."""
    overdue = {
        each.name: first.overdue[each.name] for each in history.subjects if WindowEnds(each.window).known
    }
    if not overdue:
        return []
    LOG.info("looking for a delay that meets the targets")
    delays = advice.delays_to_try(overdue, first.kept, usual, wanted.wish)
    settings = {name: [Setting(delay, 0) for delay in delays] for name in overdue}
    answers = list(sweep_pass(history, settings, Sample(wanted.sample)).values())
    return [
        Tried(
            each[0].setting.delay,
            min(answer.on_time_share for answer in each),
            max(
                (answer.published_after for answer in each if answer.published_after is not None),
                default=None,
            ),
        )
        for each in zip(*answers, strict=True)
    ]


def _lateness(
    history: History, first: First, delay: int, wish: Wish, others: Sequence[Advised]
) -> tuple[list[Advised], dict[str, int]]:
    """The allowed lateness of each output: no shorter than a silence after which what a partition brings would be
    dropped."""
    idle = next((each.value for each in others if each.field == "watermark.idle_after"), None)
    advised, lateness = [], {}
    for subject in history.subjects:
        value, reason = advice.lateness_for(
            first.overdue[subject.name], max(first.kept[subject.name], 1), delay, wish
        )
        if idle is not None and subject.drops_too_late and subject.accepts and value < idle:
            value = idle
            reason = f"idle_after is {format_duration(idle)}, and what comes after a silence would be dropped"
        lateness[subject.name] = value
        field_name = (
            f"outputs.{subject.name}.allowed_lateness" if history.kind == "log" else "allowed_lateness"
        )
        if subject.accepts:
            advised.append(Advised(field_name, value, reason, subject.lateness, bool(subject.lateness)))
    return advised, lateness


def _settings(
    history: History, first: First, delay: int, lateness: Mapping[str, int], wanted: Wanted
) -> dict[str, list[Setting]]:
    """The settings that are looked at: those asked for, else round ones from what was measured."""
    percentiles = [advice.rounded_up(first.behind.quantile(share)) for share in SHARES]
    bend = elbow_of(first.behind)
    likely = [0, *percentiles, *([advice.rounded_up(bend.delay)] if bend else [])]
    delays = list(wanted.delays or sorted({*likely})[:MOST_DELAYS])
    found = {}
    for subject in history.subjects:
        over = first.overdue[subject.name]
        rest = [advice.rounded_up(over.quantile(share)) for share in (0.9, 0.99, 1.0)] if over.count else []
        graces = list(wanted.lateness or sorted({0, *rest})[:MOST_LATENESS])
        current = [] if _delay_of(history) is None else [Setting(_delay_of(history) or 0, subject.lateness)]
        own = [Setting(delay, lateness[subject.name]), Setting(delay, 0), *current]
        chosen = [Setting(each, grace) for each in delays for grace in graces]
        chosen += [Setting(each, lateness[subject.name]) for each in delays]
        if not subject.accepts:
            chosen = [Setting(each.delay, 0) for each in chosen]
        found[subject.name] = [*dict.fromkeys([*own, *chosen])][:60]
    return found


def _idle_and_future(history: History, first: First) -> list[Advised]:
    strategy = history.strategy
    every = strategy.every if isinstance(strategy.every, int) else 0
    found = []
    idle, reason = advice.idle_for(history.course.silences, every)
    if len(history.course.partitions) > 1 and idle is not None:
        now = strategy.idle_after
        found.append(Advised("watermark.idle_after", idle, reason, now, now is not None))
    future, reason = advice.future_for(first.age)
    is_set = "max_future" in strategy.model_fields_set
    found.append(Advised("watermark.max_future", future, reason, strategy.max_future, is_set))
    return found


def _notes(first: First) -> list[str]:
    crowded = [name for name, delays in first.by.items() if delays.codes.others]
    return [
        f"{name} has more than 1,000 values: those seen first are told apart, the rest are {OTHERS}"
        for name in crowded
    ]


def _delay_of(history: History) -> int | None:
    """The delay that is in force, where there is one for all partitions."""
    strategy = history.strategy
    return strategy.delay if isinstance(strategy, Bounded) and history.kind == "log" else None


def _delays(strategy: Strategy) -> Mapping[str, int]:
    return strategy.delays if isinstance(strategy, Bounded) else {}


def _own_delay(strategy: Strategy, partition: str) -> int | None:
    return _delays(strategy).get(partition)


def _sets(strategy: Strategy, name: str) -> bool:
    return name in strategy.model_fields_set


def _delays_of(column: str, name: str | None, age: Histogram, behind: Histogram) -> GroupDelays:
    return GroupDelays(column, name, Distribution.of(age, False), Distribution.of(behind, False))


def _output_report(
    subject: Subject, history: History, second: Second, delay: int, lateness: Mapping[str, int]
) -> OutputReport:
    answers = second.answers[subject.name]
    current = _delay_of(history)
    grace = lateness[subject.name] if subject.accepts else 0
    now = None if current is None else Setting(current, subject.lateness)
    there = {each.setting for each in answers}
    return OutputReport(
        subject.name,
        _window_in_words(subject),
        subject.drops_late,
        subject.drops_too_late,
        subject.accepts,
        answers,
        Setting(delay, grace),
        now if now in there else None,
    )


def _window_in_words(subject: Subject) -> str:
    window = subject.window
    settings = window.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    return ", ".join(f"{name} {value}" for name, value in settings.items())


# As JSON


def _plain(found: Any) -> Any:
    if isinstance(found, Interval):
        return {"low": found.low, "high": found.high}
    return {
        name: _plain(value) if isinstance(value, Interval) else value for name, value in vars(found).items()
    }


def _distribution(found: Distribution) -> dict[str, Any]:
    return {
        "events": found.count,
        "negative": found.negative,
        "least": found.least,
        "most": found.most,
        "percentiles": {advice.percentile(share): value for share, value in found.percentiles.items()},
        "elbow": None if found.elbow is None else dict(vars(found.elbow)),
        "histogram": [{"from": low, "to": high, "events": count} for low, high, count in found.bars],
    }


def _group(found: GroupDelays) -> dict[str, Any]:
    return {
        "column": found.column,
        "value": found.value,
        "events": found.age.count,
        **{
            name: {
                "negative": each.negative,
                "least": each.least,
                "most": each.most,
                "percentiles": {advice.percentile(share): value for share, value in each.percentiles.items()},
            }
            for name, each in (("age", found.age), ("behind", found.behind))
        },
    }


PANES = (
    "first_numbers",
    "corrections",
    "corrections_a_minute",
    "upserts_a_day",
    "retained",
    "retained_bytes",
)
"""What cannot be computed from a sample: a pane is there or not, however many of its events are."""


def _output(found: OutputReport, sampled: bool) -> dict[str, Any]:
    return {
        "output": found.name,
        "window": found.window,
        "advised": dict(vars(found.advised)),
        "current": None if found.current is None else dict(vars(found.current)),
        "settings": [setting_row(each, found, sampled) for each in found.settings],
    }


def setting_row(answer: WhatIf, output: OutputReport, sampled: bool) -> dict[str, Any]:
    """A setting and what it would mean, as one flat row."""
    late, too_late = answer.late, answer.too_late
    refused = 0 if output.accepts else late
    dropped = (refused if output.drops_late else 0) + (too_late if output.drops_too_late else 0)
    aside = refused + too_late - dropped
    row = {
        "delay": answer.setting.delay,
        "allowed_lateness": answer.setting.lateness,
        "events": answer.events,
        "on_time": answer.on_time,
        "late_accepted": late if output.accepts else 0,
        "side_output": aside,
        "dropped": dropped,
        "on_time_share": answer.on_time_share,
        "completeness": answer.completeness if output.accepts else answer.on_time_share,
        "published_after": answer.published_after,
        "published_after_p99": answer.published_after_p99,
        "waits_for": answer.waits_for,
        "windows": answer.windows,
        **{name: getattr(answer, name) for name in PANES},
        "error": answer.error,
    }
    return {**row, **dict.fromkeys(PANES, None)} if sampled else row
