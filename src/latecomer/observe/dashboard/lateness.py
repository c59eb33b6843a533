"""How late events arrive: histogram, curve and elbow, with the present settings and the advised ones."""

from __future__ import annotations

from typing import Any

from latecomer.config.models import Pipeline
from latecomer.model.durations import format_duration, shown_duration
from latecomer.model.lateness.advice import Advised, percentile
from latecomer.model.written_values import in_percent
from latecomer.model.zoned import written
from latecomer.observe.advise.advising import NothingToMeasure
from latecomer.observe.advise.entry import AdviceOptions, advice_on
from latecomer.observe.advise.page import AGE, BEHIND, BEHIND_MEANS, NO_ELBOW, SCALE, curves_of, delay_plot
from latecomer.observe.advise.plots import curves
from latecomer.observe.advise.report import Advice, Distribution, OutputReport
from latecomer.observe.advise.rows import setting_row
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
    delay = next((each for each in advice.advised if each.field == "watermark.delay"), None)
    return {
        "events": advice.events,
        "of_events": advice.of_events,
        "sampling_error": advice.sampling_error,
        "since": written(advice.since),
        "until": written(advice.until),
        "advised": [_advised(each) for each in advice.advised],
        "cautions": list(advice.cautions),
        "delays": [
            _delay(AGE, "Arrival less event time.", advice.age, None),
            _delay(BEHIND, BEHIND_MEANS, advice.behind, delay),
        ],
        "outputs": [_output(each, advice) for each in advice.outputs],
        "notes": list(advice.notes),
    }


def _advised(each: Advised) -> dict[str, Any]:
    return {
        "field": each.field,
        "advised": each.written,
        "now": None if each.current is None else format_duration(each.current),
        "changes": each.changes,
        "reason": each.reason,
    }


def _delay(title: str, below: str, found: Distribution, delay: Advised | None) -> dict[str, Any]:
    advised = delay.value if delay is not None and delay.changes else None
    percentiles = {percentile(share): shown_duration(value) for share, value in found.percentiles.items()}
    elbow = NO_ELBOW
    if found.elbow is not None:
        enough = f"enough for {in_percent(found.elbow.completeness, 2)} of the events"
        elbow = f"Elbow at {shown_duration(found.elbow.delay)}, {enough}."
    return {
        "title": title,
        "below": below,
        "svg": delay_plot(title, found, advised, None if delay is None else delay.current),
        "percentiles": {**percentiles, "most": shown_duration(found.most)},
        "elbow": elbow,
        "ahead": found.negative,
    }


def _output(output: OutputReport, advice: Advice) -> dict[str, Any]:
    rows = [setting_row(each, output, advice.sample is not None) for each in output.settings]
    marks: list[tuple[str, int, str]] = []
    now, advised = output.current, output.advised
    if now is not None:
        marks.append((f"now {format_duration(now.delay)}", now.delay, "now"))
    if now is None or now.delay != advised.delay:
        marks.append((f"advised {format_duration(advised.delay)}", advised.delay, "mark"))
    settings = [
        {
            "delay": format_duration(each.setting.delay),
            "lateness": format_duration(each.setting.lateness) if output.accepts else None,
            "which": " and ".join(
                name for name, setting in (("now", now), ("advised", advised)) if each.setting == setting
            ),
            "on_time": row["on_time_share"],
            "complete": row["completeness"],
        }
        for each, row in zip(output.settings, rows, strict=True)
        if each.setting in (now, advised)
    ]
    return {
        "name": output.name,
        "window": output.window,
        "svg": curves(f"On time by delay: {output.name}", curves_of(output, advice)[:1], marks, SCALE),
        "settings": settings,
    }
