"""The history of each window, and of one number: its values, when they were published, and why; what windows will
probably be; when events arrived, and how late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latecomer.after.explain.arrived import arrived, shown_length
from latecomer.after.explain.diagram import drawn
from latecomer.after.explain.explain import explain
from latecomer.after.reading.lives import Life, PublishedPane, Stage, key_texts, lives
from latecomer.after.reading.reader import Reader
from latecomer.config.models import Pipeline
from latecomer.model.durations import format_duration, to_micros
from latecomer.model.panes import Op, Timing
from latecomer.model.written_values import csv_text, json_value
from latecomer.model.zoned import current_zone, written
from latecomer.observe.advise.advising import AdviceOptions, NothingToMeasure, advice_on
from latecomer.observe.advise.page import curve_plot, curves_of, delay_plots
from latecomer.observe.advise.report import OutputReport, Report
from latecomer.observe.advise.words import about, sentence
from latecomer.observe.dashboard.parameters import FURTHEST, MOST_ROWS, Query, WrongRequest
from latecomer.observe.nowcast.nowcasting import nowcast
from latecomer.observe.nowcast.report import Nowcast
from latecomer.store.store import Store

MANY = 1_000_000
"""If there are more events, a sample is measured: a page cannot wait for minutes."""
EVENTS_EACH = 25
"""So many events of each pane are listed."""


def windows(reader: Reader, query: Query) -> dict[str, Any]:
    """The newest windows of an output, with every number they have had."""
    output = query.output(reader.pipeline.outputs)
    most, skip = query.number("most", 50, MOST_ROWS), query.number("skip", 0, FURTHEST)
    page = lives(reader, output, query.window(), query.key(), most, skip)
    return {
        "output": output,
        "keys": list(reader.pipeline.outputs[output].by),
        "aggregates": {name: str(each) for name, each in reader.pipeline.outputs[output].aggregates.items()},
        "windows": [_window(each) for each in page.windows],
        "skip": skip,
        "more": page.more,
        "older": skip + page.with_panes if page.more else None,
        "notes": list(page.notes),
    }


def _window(life: Life) -> dict[str, Any]:
    return {
        "start": written(life.start),
        "end": written(life.end),
        "key": life.key,
        "stage": _stage(life),
        "final": life.final,
        "values": None if life.values is None else _shown(life.values),
        "panes": [_pane(each) for each in life.panes],
    }


def _stage(life: Life) -> str:
    """How far a window's life is. One whose only number came late has corrected nothing."""
    inserts = [pane for pane in life.panes if pane.op is Op.INSERT]
    first_is_late = len(inserts) == 1 and inserts[0].timing is Timing.LATE
    return "published late" if life.stage is Stage.CORRECTED and first_is_late else life.stage.value


def _pane(pane: PublishedPane) -> dict[str, Any]:
    return {
        "values": _shown(pane.values),
        "numbers": {name: _number(value) for name, value in pane.values.items()},
        "sequence": pane.sequence,
        "timing": pane.timing.value,
        "op": pane.op.value,
        "batch": pane.batch,
        "published_at": written(pane.published_at),
        "at": pane.published_at // 1000 if pane.published_at is not None else None,
        "fired_at": written(pane.fired_at),
        "fired": pane.fired_at // 1000 if pane.fired_at is not None else None,
    }


def _shown(values: Mapping[str, Any]) -> dict[str, str | None]:
    """Exact, as text, with all digits of their type: a browser would round large numbers."""
    return {name: csv_text(json_value(value, zone=current_zone())) for name, value in values.items()}


def _number(value: Any) -> float | None:
    """A value as it is drawn; None for what is no number."""
    if value is None or isinstance(value, bool | str | bytes):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < float("inf") else None


def estimates(reader: Reader, query: Query) -> dict[str, Any]:
    """How complete the newest numbers are, what they will probably be, and how far to trust these estimates."""
    output = query.output(reader.pipeline.outputs)
    result = nowcast(reader, output, query.window(), query.key(), MOST_ROWS)
    keys = list(reader.pipeline.outputs[output].by)
    rows = [] if result.refused is not None else result.rows.to_pylist()
    return {
        "output": output,
        "refused": result.refused,
        "level": result.level,
        "warnings": result.warnings,
        "notes": [note for note in result.notes if note not in result.warnings],
        "rows": [
            _estimate(result, row, key_texts(result.rows.schema, {key: row[key] for key in keys}))
            for row in rows
        ],
    }


def _estimate(result: Nowcast, row: dict[str, Any], key: dict[str, str | None]) -> dict[str, Any]:
    names = result.names
    return {
        "start": written(to_micros(row["window_start"])),
        "end": written(to_micros(row["window_end"])),
        "key": key,
        "complete": row[names.complete],
        "estimates": {
            name: [csv_text(json_value(row[column])) for column in columns]
            for name, columns in names.estimates.items()
            if row[columns[0]] is not None
        },
        "past": row[names.past],
        "of": row[names.of],
        "reason": row[names.reason],
    }


def arrivals(reader: Reader, query: Query) -> dict[str, Any]:
    """Event time against arrival time, drawn; with the moments at which earlier and later drawings end."""
    output, until = query.output(reader.pipeline.outputs), query.moment("until")
    shown = arrived(reader, output, None if until is None else to_micros(until))
    since, end = shown.diagram.since, shown.diagram.until
    length = shown_length(reader.store(), reader.pipeline.outputs[output])
    newest = shown.last if shown.last is not None else end
    return {
        "output": output,
        "since": written(since),
        "until": written(end),
        "svg": drawn(shown.diagram),
        "older": written(since) if shown.first is not None and shown.first < since else None,
        "newer": written(min(end + length, newest)) if end < newest else None,
        "late": len(shown.diagram.late),
        "notes": list(shown.notes),
        "empty": "nothing has arrived yet" if shown.last is None else None,
    }


def explained(reader: Reader, query: Query) -> dict[str, Any]:
    """The history of one number, its events, and a picture of it."""
    output, window = query.output(reader.pipeline.outputs), query.window()
    if window is None:
        raise WrongRequest("window", "", "is needed", "write the moment at which the window starts")
    explanation = explain(reader, output, window, query.key())
    return {**explanation.document(EVENTS_EACH), "picture": explanation.picture()}


# How late events arrive: histogram, curve and elbow, with the present settings and the advised ones


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
                "curves": [name for name, _ in curves_of(each, advice)],
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
