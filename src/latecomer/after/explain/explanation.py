"""An explanation as it is shown: as text, as a part of a page, as a picture, and as plain data. The data are one JSON
document, or one row for each event; values are written as by every other verb (docs/values.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from latecomer.after.explain.fates import JudgedEvent
from latecomer.after.explain.life import NumberHistory, PublishedNumber, total
from latecomer.after.explain.picture import picture
from latecomer.after.explain.places import in_words, shown_value
from latecomer.errors.harmless import harmless
from latecomer.model.counting import counted
from latecomer.model.markup import arrow_table, escape, fragment, heading, table, text_table, warning
from latecomer.model.panes import Op
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.model.windows import zone_of
from latecomer.model.written_values import csv_text, json_seconds, json_value
from latecomer.model.zoned import current_zone, in_zone, written
from latecomer.store.layout import TIMESTAMP, arrow_type, stored_name

_DURATION = pa.duration("us")
MOST_EVENTS = 10
"""At most so many events of each group are shown."""


@dataclass(frozen=True)
class Explanation(NumberHistory):
    """The life of one number."""

    def __str__(self) -> str:
        """The life of the number as text, for `print`."""
        with in_zone(zone_of(self.rules.window)):
            return harmless("\n".join(_lines(self)), lines=True)

    def document(self, most: int | None = None) -> dict[str, Any]:
        """The explanation as one JSON document. Each group lists at most so many events; None lists all."""
        start, end = self.window
        return {
            "output": self.output,
            "window": {"start": written(start), "end": written(end)},
            "key": _plain_values(self.key),
            "aggregates": {name: str(each) for name, each in self.rules.aggregates.items()},
            "where": self.rules.where,
            "clock": self.clock.value,
            "filter": self.filter,
            "stands": None if self.stands is None else _plain_values(self.stands),
            "reconciled": self.reconciled,
            "panes": [_plain_pane(self, published, most) for published in self.panes],
            "in_no_pane": _group(self, self.in_no_pane, most),
            "left_out": {fate.value: _group(self, events, most) for fate, events in self.left_out.items()},
            "log": {"files": self.files, "files_read": self.files_read},
            "notes": list(self.notes),
        }

    def picture(self) -> str:
        """The explanation drawn, as SVG."""
        return picture(self)

    def _repr_html_(self) -> str:
        """The explanation as a part of a page, with times in the zone of the output's windows."""
        with in_zone(zone_of(self.rules.window)):
            return fragment(_parts(self))


# In words


def title(explanation: NumberHistory) -> str:
    """The number: its output, window and key."""
    key = [f"{column}={shown_value(value)}" for column, value in explanation.key.items()]
    return " · ".join([explanation.output, in_words(explanation.window), *key])


def standing(explanation: NumberHistory) -> str:
    """The number as it is now, in a sentence."""
    if explanation.stands is not None:
        return f"stands at {values_in_words(explanation.stands)}"
    return "no number stands" if explanation.panes else "no number has been published"


def values_in_words(values: Mapping[str, Any]) -> str:
    """The values of a number, each with its name."""
    return ", ".join(f"{name} {shown_value(value)}" for name, value in values.items())


def change(by: Any) -> str:
    """A difference from the pane before, with its sign."""
    return ("+" if by > 0 else "") + shown_value(by)


def _lines(explanation: NumberHistory) -> Iterator[str]:
    yield title(explanation)
    yield standing(explanation)
    if explanation.panes:
        heads, rows = _heads(explanation), [_pane(explanation, published) for published in explanation.panes]
        panes = pa.table({str(nth): pa.array(column) for nth, column in enumerate(zip(*rows, strict=True))})
        yield from text_table(panes.rename_columns(heads), current_zone(), len(rows))
    if explanation.in_no_pane:
        yield f"accepted, and in no pane yet: {counted(len(explanation.in_no_pane), 'event')}"
    for fate, events in explanation.left_out.items():
        if events:
            yield f"left out: {fate.value.replace('_', ' ')}, {counted(len(events), 'event')}"
    yield from (f"note: {note}" for note in explanation.notes)


def _parts(explanation: NumberHistory) -> Iterator[str]:
    yield from heading(title(explanation))
    yield f"<p>{escape(standing(explanation))}</p>"
    if not explanation.reconciled:
        yield warning("a pane does not hold what the log says: see its check")
    if explanation.panes:
        yield f'<div class="picture">{picture(explanation)}</div>'
        yield from _panes(explanation)
    if explanation.in_no_pane:
        yield from _events("accepted, and in no pane yet", explanation.in_no_pane)
    for fate, events in explanation.left_out.items():
        if events:
            yield from _events(f"left out: {fate.value.replace('_', ' ')}", events)
    for note in explanation.notes:
        yield f'<p class="pale">{escape(note)}</p>'
    read = read_in_words(explanation)
    yield f'<p class="pale">{read}; times in {escape(current_zone())}</p>'


def read_in_words(explanation: NumberHistory) -> str:
    """How much of the log was read for an explanation."""
    read, were = explanation.files_read, "was" if explanation.files_read == 1 else "were"
    return f"{read:,} of the {counted(explanation.files, 'file')} of the event log {were} read"


def _heads(explanation: NumberHistory) -> list[str]:
    aggregates = explanation.rules.aggregates
    return ["", "timing", "op", *aggregates, "took in", "batch", "published at", "why", "check"]


def _panes(explanation: NumberHistory) -> Iterator[str]:
    heads = _heads(explanation)
    count = len(explanation.rules.aggregates)
    rows = [_pane(explanation, published) for published in explanation.panes]
    yield from table(heads, rows, numbers=[0, *range(3, 5 + count)], words=[len(heads) - 2])


def _pane(explanation: NumberHistory, published: PublishedNumber) -> list[str | None]:
    pane, check = published.pane, published.check
    agrees = {True: "as the log says", False: f"not as the log says: {check.reason}", None: "not compared"}
    return [
        str(pane.sequence),
        pane.timing.value,
        pane.op.value,
        *(_amount(published, name) for name in explanation.rules.aggregates),
        "" if pane.op is Op.RETRACT else f"{len(published.took):,}",
        str(pane.batch),
        written(pane.published_at),
        explanation.why(published),
        agrees[check.agrees],
    ]


def _amount(published: PublishedNumber, name: str) -> str | None:
    value, by = published.pane.values.get(name), published.differences.get(name)
    if value is None:
        return None
    return shown_value(value) + (f" ({change(by)})" if by else "")


def _events(title: str, events: Sequence[JudgedEvent]) -> Iterator[str]:
    yield from heading(title, counted(len(events), "event"))
    rows = event_rows({(None, ""): events[:MOST_EVENTS]}).drop_columns(["pane", "fate"])
    empty = [name for name in rows.schema.names if rows[name].null_count == rows.num_rows]
    yield from arrow_table(rows.drop_columns(empty), current_zone())


# As plain data


def _plain_pane(explanation: NumberHistory, published: PublishedNumber, most: int | None) -> dict[str, Any]:
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
        "took_in": _group(explanation, published.took, most),
        "lost": _group(explanation, published.lost, most),
        "check": {
            "agrees": published.check.agrees,
            "compared": list(published.check.compared),
            "reason": published.check.reason,
        },
    }


def _group(explanation: NumberHistory, events: Sequence[JudgedEvent], most: int | None) -> dict[str, Any]:
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


def sums(explanation: NumberHistory, events: Sequence[JudgedEvent]) -> dict[str, Any]:
    """The ledger's measures, added up. A sum of no events also has the digits of its column."""
    return {
        measure: json_value(total(events, measure), arrow_type(kind))
        for measure, kind in explanation.measures.items()
    }


_COLUMNS: Mapping[str, tuple[Callable[[JudgedEvent], Any], pa.DataType]] = {
    "event_time": (lambda each: each.event.event_time, TIMESTAMP),
    "arrival_time": (lambda each: each.event.arrival_time, TIMESTAMP),
    "partition": (lambda each: each.event.partition, pa.string()),
    "batch": (lambda each: each.event.batch, pa.int64()),
    "file": (lambda each: each.event.file, pa.string()),
    "position": (lambda each: each.event.position, pa.int64()),
    "event_id": (lambda each: each.event.event_id, pa.string()),
    "watermark": (lambda each: _known(each.event.watermark), TIMESTAMP),
    "verdict": (lambda each: None if each.verdict is None else each.verdict.value, pa.string()),
    "behind": (lambda each: each.event.behind, _DURATION),
    "past_end": (lambda each: each.past_end, _DURATION),
    "reason": (lambda each: each.reason, pa.string()),
    "first_arrival_time": (lambda each: each.event.first_arrival, TIMESTAMP),
}
"""What is shown of an event, and its type."""


def _event(judged: JudgedEvent) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, (of, kind) in _COLUMNS.items():
        value = of(judged)
        plain[name] = written(value) if kind == TIMESTAMP else _seconds(value) if kind == _DURATION else value
    return {**plain, "values": _plain_values(judged.event.payload)}


def event_rows(groups: Mapping[tuple[int | None, str], Sequence[JudgedEvent]]) -> pa.Table:
    """One row for each event of several groups, with its pane and fate."""
    rows = [(pane, fate, each) for (pane, fate), events in groups.items() for each in events]
    columns = {
        "pane": pa.array([pane for pane, _, _ in rows], pa.int64()),
        "fate": pa.array([fate for _, fate, _ in rows], pa.string()),
    }
    columns |= {
        name: pa.array([of(each) for *_, each in rows], kind)
        for name, (of, kind) in _COLUMNS.items()
        if name != "verdict"
    }
    for name in rows[0][-1].event.payload if rows else ():
        values = [each.event.payload[name] for *_, each in rows]
        columns[stored_name(name, columns)] = pa.array(
            [csv_text(json_value(value)) if isinstance(value, list | dict) else value for value in values]
        )
    return pa.table(columns)


def _plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json_value(value, zone=current_zone()) for name, value in values.items()}


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else json_seconds(micros)


def _known(watermark: int) -> int | None:
    return None if watermark == BEGIN_OF_TIME else watermark
