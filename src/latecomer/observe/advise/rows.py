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


def as_json(found: Advice) -> dict[str, Any]:
    """Everything, as JSON has it. Durations are whole microseconds, moments ISO-8601."""
    return {
        "source": found.title,
        "kind": found.kind,
        "events": found.events,
        "of_events": found.of_events,
        "sample": found.sample,
        "sampling_error": found.sampling_error,
        "precision": {"overall": found.precision, "groups": found.group_precision},
        "since": written(found.since),
        "until": written(found.until),
        "tick": found.every if isinstance(found.every, str) else format_duration(found.every),
        "age": _distribution(found.age),
        "behind": _distribution(found.behind),
        "partitions": [_group(each) for each in found.partitions],
        "groups": [_group(each) for each in found.groups],
        "outputs": [_output(each, found.sample is not None) for each in found.outputs],
        "late_beyond": found.late_delay,
        "late_groups": [_plain(each) for each in found.late_groups],
        "bias_if_dropped": [_plain(each) for each in found.biases],
        "clock_skew": [_plain(each) for each in found.skews],
        "advice": [{**_plain(each), "write": each.written} for each in found.advised],
        "cautions": list(found.cautions),
        "notes": list(found.notes),
    }


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
