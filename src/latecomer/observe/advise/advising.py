"""Advice on a history: measures it, and derives settings."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from latecomer.errors import LatecomerError
from latecomer.model.durations import format_duration
from latecomer.model.lateness import advice
from latecomer.model.lateness.advice import Advised, Tried, Wish
from latecomer.model.lateness.elbow import elbow_of
from latecomer.model.lateness.ends import WindowEnds
from latecomer.model.lateness.histogram import Histogram
from latecomer.model.lateness.sweep import Setting
from latecomer.model.strategies import Bounded
from latecomer.observe.advise.history import OTHERS, History, Subject
from latecomer.observe.advise.measuring import (
    FirstPass,
    Sample,
    SecondPass,
    first_pass,
    second_pass,
    sweep_pass,
)
from latecomer.observe.advise.report import SHARES, Advice, Distribution, GroupDelays, OutputReport, Wanted

LOG = logging.getLogger(__name__)

MOST_DELAYS, MOST_LATENESS = 10, 5


class NothingToMeasure(LatecomerError):
    """A history has no events."""


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
    supposed = _settings(history, first, delay, lateness, wanted)
    LOG.info("counting what settings would do")
    second = second_pass(history, supposed, delay, Sample(sample))
    course, strategy = history.course, history.strategy
    present = strategy.delays if isinstance(strategy, Bounded) else {}
    partitions = first.partitions.groups() if len(course.partitions) > 1 else []
    own = advice.own_delays(delay, {str(name): behind for name, _, behind in partitions}, wish)
    advised = [
        Advised("watermark.delay", delay, reason, _delay_of(history), "delay" in strategy.model_fields_set),
        *(
            Advised(f"watermark.delays.{name}", value, why, present.get(name), name in present)
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
        [*history.notes, *_crowded(first)],
    )


def _tried(history: History, first: FirstPass, usual: int, wanted: Wanted) -> list[Tried]:
    """What several delays would have meant for the targets, over all outputs whose windows end."""
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
    history: History, first: FirstPass, delay: int, wish: Wish, others: Sequence[Advised]
) -> tuple[list[Advised], dict[str, int]]:
    """The allowed lateness of each output; no shorter than `idle_after`, if events after a silence would be dropped."""
    idle = next((each.value for each in others if each.field == "watermark.idle_after"), None)
    advised, lateness = [], {}
    for subject in history.subjects:
        value, reason = advice.lateness_for(
            first.overdue[subject.name], max(first.kept[subject.name], 1), delay, wish
        )
        if idle is not None and subject.drops_too_late and subject.accepts and value < idle:
            value = idle
            reason = f"idle_after is {format_duration(idle)}, and events after a silence would be dropped"
        lateness[subject.name] = value
        field_name = (
            f"outputs.{subject.name}.allowed_lateness" if history.kind == "log" else "allowed_lateness"
        )
        if subject.accepts:
            advised.append(Advised(field_name, value, reason, subject.lateness, bool(subject.lateness)))
    return advised, lateness


def _settings(
    history: History, first: FirstPass, delay: int, lateness: Mapping[str, int], wanted: Wanted
) -> dict[str, list[Setting]]:
    """The settings to measure: the user's own, else round ones around what was measured."""
    percentiles = [advice.rounded_up(first.behind.quantile(share)) for share in SHARES]
    bend = elbow_of(first.behind)
    likely = [0, *percentiles, *([advice.rounded_up(bend.delay)] if bend else [])]
    delays = list(wanted.delays or sorted({*likely})[:MOST_DELAYS])
    settings = {}
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
        settings[subject.name] = [*dict.fromkeys([*own, *chosen])][:60]
    return settings


def _idle_and_future(history: History, first: FirstPass) -> list[Advised]:
    strategy = history.strategy
    every = strategy.every if isinstance(strategy.every, int) else 0
    advised = []
    idle, reason = advice.idle_for(history.course.silences, every)
    if len(history.course.partitions) > 1 and idle is not None:
        now = strategy.idle_after
        advised.append(Advised("watermark.idle_after", idle, reason, now, now is not None))
    future, reason = advice.future_for(first.age)
    is_set = "max_future" in strategy.model_fields_set
    advised.append(Advised("watermark.max_future", future, reason, strategy.max_future, is_set))
    return advised


def _crowded(first: FirstPass) -> list[str]:
    return [
        f"{name} has more than 1,000 values: the first ones are shown, all others together as {OTHERS}"
        for name, delays in first.by.items()
        if delays.codes.others
    ]


def _delay_of(history: History) -> int | None:
    """The present delay, if there is one for all partitions."""
    strategy = history.strategy
    return strategy.delay if isinstance(strategy, Bounded) and history.kind == "log" else None


def _delays_of(column: str, name: str | None, age: Histogram, behind: Histogram) -> GroupDelays:
    return GroupDelays(column, name, Distribution.of(age, False), Distribution.of(behind, False))


def _output_report(
    subject: Subject, history: History, second: SecondPass, delay: int, lateness: Mapping[str, int]
) -> OutputReport:
    answers, current = second.answers[subject.name], _delay_of(history)
    grace = lateness[subject.name] if subject.accepts else 0
    now = None if current is None else Setting(current, subject.lateness)
    window = subject.window.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    return OutputReport(
        subject.name,
        ", ".join(f"{name} {value}" for name, value in window.items()),
        subject.drops_late,
        subject.drops_too_late,
        subject.accepts,
        answers,
        Setting(delay, grace),
        now if any(each.setting == now for each in answers) else None,
    )
