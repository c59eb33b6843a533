"""Advice on a history: checks the options of `advise`, measures the history, and derives settings."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from latecomer.config.arguments import require_kind
from latecomer.config.checks import require_output
from latecomer.config.models import Pipeline
from latecomer.errors import LatecomerError, did_you_mean
from latecomer.model.durations import DURATION_FIX, format_duration, parse_duration
from latecomer.model.lateness import advice
from latecomer.model.lateness.advice import COMPLETENESS, Advised, Tried, Wish
from latecomer.model.lateness.histogram import Histogram, elbow_of
from latecomer.model.lateness.sweep import Setting
from latecomer.model.strategies import Bounded
from latecomer.model.zones import is_zone, zone_fix
from latecomer.observe.advise.history import OTHERS, RecordedArrivals, Subject
from latecomer.observe.advise.log import LogHistory
from latecomer.observe.advise.measuring import (
    FirstPass,
    SecondPass,
    first_pass,
    second_pass,
    sweep_pass,
)
from latecomer.observe.advise.page import Advice
from latecomer.observe.advise.raw import RawHistory
from latecomer.observe.advise.raw_files import RawSource, refused
from latecomer.observe.advise.report import SHARES, Distribution, GroupDelays, OutputReport

LOG = logging.getLogger(__name__)
MOST_DELAYS, MOST_LATENESS = 10, 5
UNITS = ("s", "ms", "us", "ns")
_DURATIONS = {"every": None, "idle_after": None, "max_future": "5m", "window": "1m"}
_COLUMNS = ("event_time", "arrival", "partition", "producer")
_FILES = (*_COLUMNS, "measures", "unit", "zone", *_DURATIONS)


@dataclass(frozen=True)
class AdviceOptions:
    """The options for any history, as the user writes them."""

    by: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    delays: tuple[str, ...] = ()
    lateness: tuple[str, ...] = ()
    target_completeness: float | None = None
    max_latency: str | None = None
    sample: float | None = None


@dataclass(frozen=True)
class AdviceTargets:
    """The targets, and the settings to measure."""

    wish: Wish = field(default_factory=Wish)
    delays: tuple[int, ...] = ()
    lateness: tuple[int, ...] = ()
    sample: float | None = None


def advice_on(source: Pipeline | str | Path, options: AdviceOptions, files: Mapping[str, Any]) -> Advice:
    """Advice on a pipeline that has run, or on files."""
    require_kind("advise", (Pipeline, str, Path), "a Pipeline, or the path of files", source=source)
    wanted = wanted_of(options)
    return advise(history_of(source, options, files), wanted)


def history_of(
    source: Pipeline | str | Path, options: AdviceOptions, files: Mapping[str, Any]
) -> RecordedArrivals:
    """The log of a pipeline, or files."""
    for name in files:
        if name not in _FILES:
            raise refused(name, "there is no such option", None, did_you_mean(name, _FILES))
    given = {name: value for name, value in files.items() if value not in (None, (), [])}
    if isinstance(source, Pipeline):
        if given:
            name = next(iter(given))
            raise refused(
                _option(name), "is for raw files: a pipeline file has it", given[name], "leave it out"
            )
        for output in options.outputs:
            require_output(source, output)
        return LogHistory(source, options.by, options.outputs)
    if options.outputs:
        raise refused("--output", "raw files have no outputs", options.outputs[0], "leave it out")
    if "event_time" not in given:
        fix = "name the column: --event-time event_time; or name a pipeline file"
        raise refused("--event-time", "is needed for raw files", None, fix)
    return RawHistory(_raw_source(str(source), options, given))


def _option(name: str) -> str:
    return "--" + {"measures": "measure"}.get(name, name).replace("_", "-")


def _raw_source(path: str, options: AdviceOptions, given: Mapping[str, Any]) -> RawSource:
    columns = {name: given[name] for name in _COLUMNS if name in given}
    for name, column in columns.items():
        require_kind("advise", str, "the name of a column", **{name: column})
    unit, zone = given.get("unit"), given.get("zone", "UTC")
    if unit is not None and unit not in UNITS:
        raise refused("--unit", "is not a unit of time", unit, f"write one of {', '.join(UNITS)}")
    if not isinstance(zone, str) or not is_zone(zone):
        raise refused("--zone", "is not a time zone", zone, zone_fix(str(zone)))
    lengths = {
        name: _duration(_option(name), given.get(name, usual), name != "idle_after")
        for name, usual in _DURATIONS.items()
    }
    measures = given.get("measures", ())
    require_kind("advise", (list, tuple), "columns in a list", measures=measures)
    given_lengths: dict[str, Any] = {name: length for name, length in lengths.items() if length is not None}
    return RawSource(
        path, **columns, by=options.by, measures=tuple(measures), unit=unit, zone=zone, **given_lengths
    )


def wanted_of(options: AdviceOptions) -> AdviceTargets:
    """The options, checked and parsed."""
    share = options.target_completeness
    if share is not None and not _is_share(share):
        fix = "write a share above 0 and below 1, such as 0.995"
        raise refused("--target-completeness", "is not a share", share, fix)
    if options.sample is not None and not (_is_share(options.sample) or options.sample == 1):
        raise refused(
            "--sample", "is not a share", options.sample, "write a share above 0 and up to 1, such as 0.1"
        )
    limit = None if options.max_latency is None else _duration("--max-latency", options.max_latency)
    return AdviceTargets(
        Wish(share or COMPLETENESS, limit, share is not None),
        tuple(dict.fromkeys(_duration("--delay", each, False) or 0 for each in options.delays)),
        tuple(dict.fromkeys(_duration("--lateness", each, False) or 0 for each in options.lateness)),
        None if options.sample == 1 else options.sample,
    )


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1


def _duration(option: str, written: object, above_zero: bool = True) -> int | None:
    if written is None:
        return None
    try:
        micros = parse_duration(written)
    except (TypeError, ValueError):
        raise refused(option, "is not a duration", written, DURATION_FIX) from None
    if micros < 0 or (above_zero and not micros):
        raise refused(option, "is too short", written, DURATION_FIX)
    return micros


# Advising


class NothingToMeasure(LatecomerError):
    """A history has no events."""


def advise(history: RecordedArrivals, wanted: AdviceTargets) -> Advice:
    """Measure a history and advise on it."""
    wish, sample = wanted.wish, wanted.sample
    first = first_pass(history, sample)
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
    second = second_pass(history, supposed, delay, sample)
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


def _tried(history: RecordedArrivals, first: FirstPass, usual: int, wanted: AdviceTargets) -> list[Tried]:
    """What several delays would have meant for the targets, over all outputs whose windows end."""
    overdue = {each.name: first.overdue[each.name] for each in history.subjects if not each.window.endless}
    if not overdue:
        return []
    LOG.info("looking for a delay that meets the targets")
    delays = advice.delays_to_try(overdue, first.kept, usual, wanted.wish)
    settings = {name: [Setting(delay, 0) for delay in delays] for name in overdue}
    answers = list(sweep_pass(history, settings, wanted.sample).values())
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
    history: RecordedArrivals, first: FirstPass, delay: int, wish: Wish, others: Sequence[Advised]
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
    history: RecordedArrivals,
    first: FirstPass,
    delay: int,
    lateness: Mapping[str, int],
    wanted: AdviceTargets,
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


def _idle_and_future(history: RecordedArrivals, first: FirstPass) -> list[Advised]:
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


def _delay_of(history: RecordedArrivals) -> int | None:
    """The present delay, if there is one for all partitions."""
    strategy = history.strategy
    return strategy.delay if isinstance(strategy, Bounded) and history.kind == "log" else None


def _delays_of(column: str, name: str | None, age: Histogram, behind: Histogram) -> GroupDelays:
    return GroupDelays(column, name, Distribution.of(age, False), Distribution.of(behind, False))


def _output_report(
    subject: Subject, history: RecordedArrivals, second: SecondPass, delay: int, lateness: Mapping[str, int]
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
