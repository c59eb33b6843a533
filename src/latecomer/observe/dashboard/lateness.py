"""How late events arrive: histogram, curve and elbow, with the present settings and the advised ones."""

from __future__ import annotations

from typing import Any

from latecomer.config.models import Pipeline
from latecomer.model.durations import format_duration
from latecomer.model.zoned import written
from latecomer.observe.advise.advising import AdviceOptions, NothingToMeasure, advice_on
from latecomer.observe.advise.page import curve_plot, delay_plots
from latecomer.observe.advise.report import OutputReport, Report
from latecomer.observe.advise.words import about, sentence
from latecomer.store.store import Store

MANY = 1_000_000
"""If there are more events, a sample is measured: a page cannot wait for minutes."""


def lateness(pipeline: Pipeline, store: Store) -> dict[str, Any]:
    """What `latecomer advise` measures, drawn."""
    events = sum(file.rows for file in store.events.files())
    sample = MANY / events if events > MANY else None
    try:
        advice = advice_on(pipeline, AdviceOptions(sample=sample), {})
    except NothingToMeasure:
        return {"events": 0}
    return {
        "events": advice.events,
        "of_events": advice.of_events,
        "sampling_error": advice.sampling_error,
        "since": written(advice.since),
        "until": written(advice.until),
        "advised": [
            {
                "field": each.field,
                "advised": each.written,
                "now": None if each.current is None else format_duration(each.current),
                "changes": each.changes,
                "reason": each.reason,
            }
            for each in advice.advised
        ],
        "cautions": list(advice.cautions),
        "delays": [
            {
                "title": title,
                "below": means,
                "svg": plot,
                "percentiles": delays.figures,
                "about": [f"{sentence(text)}." for text in about(delays)],
            }
            for title, means, delays, plot in delay_plots(advice)
        ],
        "outputs": [
            {
                "name": each.name,
                "window": each.window,
                "svg": curve_plot(each, advice),
                "settings": _settings(each, advice),
            }
            for each in advice.outputs
        ],
        "notes": list(advice.notes),
    }


def _settings(output: OutputReport, advice: Report) -> list[dict[str, Any]]:
    """The present setting and the advised one."""
    named = (("now", output.current), ("advised", output.advised))
    return [
        {
            "delay": format_duration(each.setting.delay),
            "lateness": format_duration(each.setting.lateness) if output.accepts else None,
            "which": which,
            "on_time": row["on_time_share"],
            "complete": row["completeness"],
        }
        for each, row in zip(output.settings, output.rows(advice.sampled), strict=True)
        if (which := " and ".join(name for name, setting in named if each.setting == setting))
    ]
