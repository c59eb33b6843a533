"""An explanation as plain data: one JSON document, or one row for each event.

Values are written as by every other verb: docs/values.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from latecomer.after.explain.fates import Judged
from latecomer.after.explain.life import Published, total
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.model.written_values import csv_text, json_seconds, json_value, short_text
from latecomer.model.zoned import current_zone, written
from latecomer.store.layout import TIMESTAMP, arrow_type, stored_name

if TYPE_CHECKING:
    from latecomer.after.explain.explanation import Explanation

_DURATION = pa.duration("us")


def document(explanation: Explanation, most: int | None = None) -> dict[str, Any]:
    """Everything an explanation shows. Each group lists at most so many events; None lists all."""
    start, end = explanation.window
    return {
        "output": explanation.output,
        "window": {"start": written(start), "end": written(end)},
        "key": _plain_values(explanation.key),
        "aggregates": {name: str(each) for name, each in explanation.rules.aggregates.items()},
        "where": explanation.rules.where,
        "clock": explanation.clock.value,
        "filter": explanation.filter,
        "stands": None if explanation.stands is None else _plain_values(explanation.stands),
        "reconciled": explanation.reconciled,
        "panes": [_pane(explanation, published, most) for published in explanation.panes],
        "in_no_pane": group(explanation, explanation.in_no_pane, most),
        "left_out": {
            fate.value: group(explanation, events, most) for fate, events in explanation.left_out.items()
        },
        "log": {"files": explanation.files, "files_read": explanation.files_read},
        "notes": list(explanation.notes),
    }


def _pane(explanation: Explanation, published: Published, most: int | None) -> dict[str, Any]:
    pane = published.pane
    return {
        "window_start": written(pane.window.start),
        "window_end": written(pane.window.end),
        "sequence": pane.sequence,
        "timing": pane.timing.value,
        "op": pane.op.value,
        "is_last": pane.is_last,
        "values": _plain_values(pane.values),
        "before": None if published.before is None else _plain_values(published.before),
        "difference": _plain_values(published.differences),
        "batch": pane.batch,
        "known_at": written(explanation.known_at(published)),
        "published_at": written(pane.published_at),
        "batch_ended_at": written(pane.ended_at),
        "fired_at": written(pane.fired_at),
        "watermark": written(pane.watermark),
        "why": explanation.why(published),
        "where": explanation.under(published).where,
        "took_in": group(explanation, published.took, most),
        "lost": group(explanation, published.lost, most),
        "check": {
            "agrees": published.check.agrees,
            "compared": list(published.check.compared),
            "reason": published.check.reason,
        },
    }


def group(explanation: Explanation, events: Sequence[Judged], most: int | None) -> dict[str, Any]:
    """A group of events in figures, and the first of them one by one."""
    arrivals = [each.event.arrival_time for each in events]
    behind = [each.event.behind for each in events if each.event.behind is not None]
    partitions = Counter(each.event.partition for each in events if each.event.partition is not None)
    return {
        "count": len(events),
        "sums": sums(explanation, events),
        "partitions": dict(sorted(partitions.items())),
        "behind_watermark": len(behind),
        "most_behind": _seconds(max(behind, default=None)),
        "first_arrival": written(min(arrivals, default=None)),
        "last_arrival": written(max(arrivals, default=None)),
        "events": [_event(each) for each in events[:most]],
    }


def sums(explanation: Explanation, events: Sequence[Judged]) -> dict[str, Any]:
    """The ledger's measures, added up. A sum of no events also has the digits of its column."""
    return {
        measure: json_value(total(events, measure), arrow_type(kind))
        for measure, kind in explanation.measures.items()
    }


def _event(judged: Judged) -> dict[str, Any]:
    event = judged.event
    return {
        "event_time": written(event.event_time),
        "arrival_time": written(event.arrival_time),
        "partition": event.partition,
        "batch": event.batch,
        "file": event.file,
        "position": event.position,
        "event_id": event.event_id,
        "watermark": written(_known(event.watermark)),
        "verdict": None if judged.verdict is None else judged.verdict.value,
        "behind": _seconds(event.behind),
        "past_end": _seconds(judged.past_end),
        "reason": judged.reason,
        "first_arrival_time": written(event.first_arrival),
        "values": _plain_values(event.payload),
    }


# One row an event


def event_rows(groups: Mapping[tuple[int | None, str], Sequence[Judged]]) -> pa.Table:
    """One row for each event of several groups, with its pane and fate."""
    rows = [(pane, fate, each) for (pane, fate), events in groups.items() for each in events]
    events = [each.event for _, _, each in rows]
    columns = {
        "pane": pa.array([pane for pane, _, _ in rows], pa.int64()),
        "fate": pa.array([fate for _, fate, _ in rows], pa.string()),
        "event_time": pa.array([event.event_time for event in events], TIMESTAMP),
        "arrival_time": pa.array([event.arrival_time for event in events], TIMESTAMP),
        "partition": pa.array([event.partition for event in events], pa.string()),
        "batch": pa.array([event.batch for event in events], pa.int64()),
        "file": pa.array([event.file for event in events], pa.string()),
        "position": pa.array([event.position for event in events], pa.int64()),
        "event_id": pa.array([event.event_id for event in events], pa.string()),
        "watermark": pa.array([_known(event.watermark) for event in events], TIMESTAMP),
        "behind": pa.array([event.behind for event in events], _DURATION),
        "past_end": pa.array([each.past_end for _, _, each in rows], _DURATION),
        "reason": pa.array([each.reason for _, _, each in rows], pa.string()),
        "first_arrival_time": pa.array([event.first_arrival for event in events], TIMESTAMP),
    }
    for name in events[0].payload if events else ():
        values = [event.payload[name] for event in events]
        columns[stored_name(name, columns)] = pa.array(
            [csv_text(json_value(value)) if isinstance(value, list | dict) else value for value in values]
        )
    return pa.table(columns)


def _plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json_value(value, zone=current_zone()) for name, value in values.items()}


def shown_value(value: Any) -> str:
    """A value in a sentence or a picture."""
    return "null" if value is None else short_text(value, current_zone())


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else json_seconds(micros)


def _known(watermark: int) -> int | None:
    return None if watermark == BEGIN_OF_TIME else watermark
