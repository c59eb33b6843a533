"""A report's numbers as rows and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from latecomer.model.durations import format_duration
from latecomer.model.lateness import advice
from latecomer.model.lateness.groups import Interval
from latecomer.model.lateness.sweep import WhatIf
from latecomer.model.zoned import written

if TYPE_CHECKING:
    from latecomer.observe.advise.report import Advice, Distribution, GroupDelays, OutputReport


def in_figures(value: float) -> str:
    """A sum or a mean for people: whole where it is large, else with six digits.

    >>> in_figures(500_069_812_345.0), in_figures(50_004.512)
    ('500,069,812,345', '50,004.5')
    """
    return f"{value:,.0f}" if abs(value) >= 100_000 else f"{value:,.6g}"


def as_json(report: Advice) -> dict[str, Any]:
    """The whole report as JSON. Durations are whole microseconds, moments ISO-8601."""
    return {
        "source": report.title,
        "kind": report.kind,
        "events": report.events,
        "of_events": report.of_events,
        "sample": report.sample,
        "sampling_error": report.sampling_error,
        "precision": {"overall": report.precision, "groups": report.group_precision},
        "since": written(report.since),
        "until": written(report.until),
        "tick": report.every if isinstance(report.every, str) else format_duration(report.every),
        "age": _distribution(report.age),
        "behind": _distribution(report.behind),
        "partitions": [_group(each) for each in report.partitions],
        "groups": [_group(each) for each in report.groups],
        "outputs": [_output(each, report.sample is not None) for each in report.outputs],
        "late_beyond": report.late_delay,
        "late_groups": [_plain(each) for each in report.late_groups],
        "bias_if_dropped": [_plain(each) for each in report.biases],
        "clock_skew": [_plain(each) for each in report.skews],
        "advice": [{**_plain(each), "write": each.written} for each in report.advised],
        "cautions": list(report.cautions),
        "notes": list(report.notes),
    }


def _plain(found: Any) -> Any:
    if isinstance(found, Interval):
        return {"low": found.low, "high": found.high}
    return {
        name: _plain(value) if isinstance(value, Interval) else value for name, value in vars(found).items()
    }


def _distribution(delays: Distribution) -> dict[str, Any]:
    return {
        "events": delays.count,
        **_range(delays),
        "elbow": None if delays.elbow is None else dict(vars(delays.elbow)),
        "histogram": [{"from": low, "to": high, "events": count} for low, high, count in delays.bars],
    }


def _range(delays: Distribution) -> dict[str, Any]:
    percentiles = {advice.percentile(share): value for share, value in delays.percentiles.items()}
    return {
        "negative": delays.negative,
        "least": delays.least,
        "most": delays.most,
        "percentiles": percentiles,
    }


def _group(group: GroupDelays) -> dict[str, Any]:
    both = {"age": _range(group.age), "behind": _range(group.behind)}
    return {"column": group.column, "value": group.value, "events": group.age.count, **both}


PANES = (
    "first_numbers",
    "corrections",
    "corrections_a_minute",
    "upserts_a_day",
    "retained",
    "retained_bytes",
)
"""What cannot be computed from a sample: a pane is published once, however many of its events are in the sample."""


def _output(output: OutputReport, sampled: bool) -> dict[str, Any]:
    return {
        "output": output.name,
        "window": output.window,
        "advised": dict(vars(output.advised)),
        "current": None if output.current is None else dict(vars(output.current)),
        "settings": [setting_row(each, output, sampled) for each in output.settings],
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
