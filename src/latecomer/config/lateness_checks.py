"""Checks of lateness, silence and retention: settings that lose events, wait for ever, or have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.config.views import in_each_source
from latecomer.errors import Problem
from latecomer.model.durations import format_duration
from latecomer.model.verdicts import LatePolicy, TooLatePolicy
from latecomer.model.windows import FOREVER, AnyWindow, Session


def _longest_silence(pipeline: Pipeline) -> int | None:
    """The longest `idle_after` of all sources; None where no source has one."""
    lengths = [view.watermark.idle_after for view in pipeline.views.values()]
    return max((length for length in lengths if length is not None), default=None)


def unsafe_lateness(pipeline: Pipeline, name: str, output: Output) -> Iterator[Problem]:
    """An allowed lateness so short that the events of a partition that returns from silence are dropped."""
    idle_after = _longest_silence(pipeline)
    if (
        idle_after is not None
        and output.late is not LatePolicy.DROP
        and output.too_late is TooLatePolicy.DROP
        and output.allowed_lateness < idle_after
    ):
        yield Problem(
            f"outputs.{name}.allowed_lateness",
            "is shorter than watermark.idle_after "
            f"({format_duration(idle_after)}): what a partition brings when it returns from silence would be "
            "dropped as too late",
            format_duration(output.allowed_lateness),
            f"set allowed_lateness: {format_duration(idle_after)} or more, or too_late: side_output",
        )


def warnings(pipeline: Pipeline) -> list[Problem]:
    """Settings that are allowed, and in some situations lose events; each with the field to change."""
    idle_after, problems = _longest_silence(pipeline), [*_never_late(pipeline)]
    if idle_after is None:
        return problems
    what = "partition" if any(view.partition_column for view in pipeline.views.values()) else "source"
    return problems + [
        Problem(
            f"outputs.{name}.{'too_late' if output.late is not LatePolicy.DROP else 'late'}",
            f"a {what} that is silent for longer than watermark.idle_after ({format_duration(idle_after)}) no "
            "longer holds the watermark: what it brings when it returns may be too late, and is dropped (the "
            "ledger counts it)",
            "drop",
            "write too_late: side_output to keep it, or leave idle_after out",
        )
        for name, output in pipeline.outputs.items()
        if output.too_late is TooLatePolicy.DROP
    ]


def _never_late(pipeline: Pipeline) -> Iterator[Problem]:
    """Settings for late events that have no effect: without an allowed lateness, every late event is too late."""
    for name, output in pipeline.outputs.items():
        if output.allowed_lateness or output.window.endless:
            continue
        retracts_others = output.late is LatePolicy.RETRACT and (output.trigger.early or output.window.merges)
        written = "late" in output.model_fields_set and output.late.value != output.too_late.value
        if written and not retracts_others:
            field, value = "late", output.late.value
        elif output.trigger.late != "batch":
            field, value = "trigger.late", output.trigger.model_dump()["late"]
        else:
            continue
        yield Problem(
            f"outputs.{name}.{field}",
            f"never happens: without allowed_lateness, events that come after their window has closed "
            f"{_LEAVES[output.too_late]}",
            value,
            f"write allowed_lateness: 1h, or as long as they may be late, or leave {field} out",
        )


_LEAVES = {TooLatePolicy.DROP: "are dropped", TooLatePolicy.SIDE_OUTPUT: "go to the side output"}


def doubts(pipeline: Pipeline) -> list[Problem]:
    """Settings that are probably mistakes: a partition that may hold the watermark for ever, a lateness that has no
    effect, a schedule that leaves windows out."""
    return [*_waiting_for_ever(pipeline), *_without_effect(pipeline), *_missed_by_schedules(pipeline)]


def _without_effect(pipeline: Pipeline) -> list[Problem]:
    """An allowed lateness without effect: late events go where too late ones go. With event ids it has one: it decides
    how long ids are remembered."""
    return [
        Problem(
            f"outputs.{name}.allowed_lateness",
            f"changes nothing: late events {_LEAVES[output.too_late]}, however late they are",
            format_duration(output.allowed_lateness),
            "write late: update (or retract) to have them counted, or leave allowed_lateness out",
        )
        for name, output in pipeline.outputs.items()
        if output.allowed_lateness
        and output.late.value == output.too_late.value
        and all(view.event.id is None for view in pipeline.views.values())
    ]


def _missed_by_schedules(pipeline: Pipeline) -> list[Problem]:
    """Schedules whose `last` is shorter than the pause between two runs: some windows are never rebuilt."""
    return [
        Problem(
            f"schedule.{name}.last",
            f"is shorter than the longest pause between two runs ({format_duration(pause)}): some windows that end in "
            "between are never rebuilt",
            format_duration(each.last),
            f"write last: {format_duration(pause)} or more",
        )
        for name, each in pipeline.schedule.items()
        if each.last < (pause := each.longest_pause())
    ]


def _waiting_for_ever(pipeline: Pipeline) -> list[Problem]:
    """Partitions without `idle_after`: one row with a new name, or an empty partition, holds the watermark for ever."""
    return in_each_source(pipeline, partial(_waits_for_ever, len(pipeline.sources) > 1))


def _waits_for_ever(several: bool, pipeline: Pipeline) -> list[Problem]:
    partition, kafka = pipeline.partition_column, pipeline.source.kafka
    if pipeline.watermark.idle_after is not None or (partition is None and kafka is None and not several):
        return []
    waits = (
        f"for every {partition} that was ever heard of: one that falls silent, were it a single row with a wrong name,"
        if partition is not None
        else "for every partition of the topics: one that has no records, or falls silent,"
        if kafka is not None
        else "for this source: once it has nothing more to bring, it"
    )
    return [
        Problem(
            "watermark.idle_after",
            f"is not set, so the watermark waits {waits} holds it for ever, and no window closes",
            None,
            "write idle_after: 5m or longer than any usual pause, and whoever is silent for so long holds nobody back",
        )
    ]


def delays_without_partitions(pipeline: Pipeline) -> Iterator[Problem]:
    """`delays` of partitions in a source without a partition column."""
    delays = getattr(pipeline.watermark, "delays", {})
    if delays and pipeline.partition_column is None:
        reason = "names partitions, and there is no partition column"
        fix = "name the column in event.partition, or leave delays out"
        yield Problem("watermark.delays", reason, sorted(delays), fix)


def looks_back(window: AnyWindow) -> int:
    """How far before the watermark an open window may begin; a gap for sessions without `max`."""
    return window.gap if isinstance(window, Session) and window.max is None else window.reach


def short_retention(pipeline: Pipeline) -> Iterator[Problem]:
    """A retention of events that is shorter than an output needs the log."""
    kept = pipeline.retention.events
    if kept is None:
        return
    for name, output in pipeline.outputs.items():
        window = output.window
        remembers = pipeline.event.id is not None and window.reach >= FOREVER
        if window.endless or remembers:
            reason = "is never over" if window.endless else "without max remembers every id"
            yield Problem(
                "retention.events",
                f"output {name} needs the log for ever: a {window.kind} window {reason}",
                format_duration(kept),
                "leave retention.events out"
                + (f", or give outputs.{name}.window a max" if window.merges else ""),
            )
            continue
        needed = output.allowed_lateness + window.joinable_after + looks_back(window)
        if kept < needed:
            yield Problem(
                "retention.events",
                f"is shorter than output {name} may look back: its window and allowed lateness are "
                f"{format_duration(needed)}",
                format_duration(kept),
                f"set retention.events: {format_duration(needed)} or more",
            )
