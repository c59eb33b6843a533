"""What a pipeline does now, and its three signals day by day: lag, side output, corrections."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from latecomer.after.reading.reader import Reader
from latecomer.model.durations import UNITS, to_micros
from latecomer.model.ledger import EVENTS
from latecomer.model.publications import is_history
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.written_values import json_rows, short_text
from latecomer.model.zoned import current_zone, written
from latecomer.observe.alerts import RecordedWeeks, SignalVerdict, judge
from latecomer.observe.check import recorded_by
from latecomer.observe.history import DAY, MINUTE, SECOND
from latecomer.observe.recorded import CORRECTED, daily_lag
from latecomer.sink.keeper import sink_status
from latecomer.store.delta.table import Table
from latecomer.store.holding.lock import is_leased, lease_of, running_on
from latecomer.store.layout import PaneLayout
from latecomer.store.sql import moment_literal, text_literal
from latecomer.store.store import Store

DAYS = 30
SLOWEST = 20
"""So many partitions are listed."""


BARS = 60
"""At most so many bars are drawn."""
_WIDTHS = [
    *(each * UNITS["m"] for each in (1, 5, 15)),
    *(each * UNITS["h"] for each in (1, 6)),
    *(each * DAY for each in (1, 7, 30, 365, 3650)),
]
_HEADS = "(select at, unnest(partitions) as p from t where kind = 'tick')"
"""A row for each tick and partition, with its number of events."""


def now(reader: Reader, clock: int) -> dict[str, Any]:
    """The state of a pipeline at a moment of the wall clock."""
    store = reader.store()
    timeline, recorded = reader.timeline(), recorded_by(store, clock, (DAYS + 1) * DAY)
    verdicts = judge(recorded, clock)
    running = running_on(store.root)
    last, history = _last_publication(store), _history_until(store)
    return {
        "history": None if history is None else history // 1000,
        "running": running is not None,
        "since": None if running is None else written(round(running[1] * SECOND)),
        "lease": _lease(store),
        "batches": store.ledger.last_batch() + 1,
        "published_at": None if last is None else last // 1000,
        "watermark": _watermark(timeline),
        "partitions": _partitions(timeline),
        "throughput": _throughput(store, last),
        "received": _received(store, last) if history is None else _received_by_arrival(store),
        "fates": in_order(json_rows(reader.ledger_totals(), current_zone()), recorded.outputs),
        "differences": unbalanced(recorded.differences),
        "signals": [_signal(each) for each in verdicts],
        "days": _days(store, recorded, clock, history),
    }


def in_order(rows: Iterable[dict[str, Any]], outputs: Sequence[str]) -> list[dict[str, Any]]:
    """Rows in the order of the pipeline file's outputs; outputs that it no longer has come last."""
    place = {name: nth for nth, name in enumerate(outputs)}
    return sorted(rows, key=lambda row: place.get(row["output"], len(place)))


def unbalanced(differences: Mapping[tuple[str, str], Decimal]) -> list[dict[str, str]]:
    """The lines of the ledger that do not balance, and by how much."""
    return [
        {"output": output, "unit": unit, "difference": short_text(amount)}
        for (output, unit), amount in differences.items()
    ]


def sinks(store: Store) -> list[dict[str, Any]]:
    """How far each sink is. Each sink is asked, which takes a while if one is down."""
    return list(json_rows(sink_status(store), current_zone()))


def _lease(store: Store) -> dict[str, Any] | None:
    """The lease of a store, if it has one."""
    record = lease_of(store.root) if is_leased(store.root) else None
    if record is None:
        return None
    return {
        "holder": None if record.stopped else record.in_words,
        "token": record.token,
        "renewed": written(round(record.renewed_seconds * SECOND)),
        "gives_signs": record.gives_signs(time.time()),
        "takeover": record.takes_over_after,
    }


def _last_publication(store: Store) -> int | None:
    sql = "select max(published_at) as at from t where output is null"
    published = (row["at"] for row in store.publications.query_rows(sql))
    return next((to_micros(at) for at in published if at is not None), None)


def _watermark(timeline: Timeline | None) -> dict[str, Any]:
    """The watermark, in milliseconds: the page compares them with the browser's clock."""
    if timeline is None or timeline.watermark == BEGIN_OF_TIME:
        return {"state": "none", "at": None, "newest_arrival": None}
    ended = timeline.watermark == END_OF_TIME
    return {
        "state": "ended" if ended else "moving",
        "at": None if ended else timeline.watermark // 1000,
        "newest_arrival": _millis(timeline.newest_arrival),
    }


def _partitions(timeline: Timeline | None) -> dict[str, Any]:
    marks = {} if timeline is None else timeline.marks()
    waiting = {} if timeline is None else {each.partition: each for each in timeline.holding()}
    slowest = sorted(marks.items(), key=lambda each: (each[1], each[0]))
    return {
        "count": len(marks),
        "slowest": [
            {
                "name": name,
                "at": _millis(mark),
                "silent_since": _millis(waiting[name].since) if name in waiting else None,
            }
            for name, mark in slowest[:SLOWEST]
        ],
    }


def _millis(micros: int) -> int | None:
    return None if micros in (BEGIN_OF_TIME, END_OF_TIME) else micros // 1000


def _throughput(store: Store, last: int | None) -> float | None:
    """Events received each second in the five minutes up to the last batch, counted from the first publication in them.
    None where there was only one: a single batch has no duration."""
    if last is None:
        return None
    batches = _received_by(store, "p.published_at", last - 5 * MINUTE)
    received = sum(count for _, count in batches[1:])
    if len(batches) < 2 or (batches[0][1] and not received):
        return None
    return received / ((last - batches[0][0]) / SECOND)


def _received(store: Store, last: int | None) -> dict[str, Any] | None:
    """Rows received in each minute of the last hour in which something was published."""
    if last is None or not store.ledger.exists:
        return None
    end = last // MINUTE
    by_minute = "date_bin(interval '1 minute', p.published_at)"
    counted = _received_by(store, by_minute, (end - 59) * MINUTE - 1)
    return _bars({at // MINUTE: events for at, events in counted}, end - 59, end, MINUTE)


def _received_by(store: Store, step: str, since: int) -> list[tuple[int, int]]:
    """Events received in each step of the wall clock, in order, of batches published after a moment."""
    rows = store.ledger.query_rows(
        "select at, sum(received) as received from "
        f"(select t.batch, {step} as at, max(t.received) as received from t join p on t.batch = p.batch "
        f"where t.unit = {text_literal(EVENTS)} and p.output is null "
        f"and p.published_at > {moment_literal(since)} group by 1, 2) group by 1 order by 1",
        p=store.publications,
    )
    return [(to_micros(row["at"]), int(row["received"])) for row in rows]


def _signal(each: SignalVerdict) -> dict[str, Any]:
    return {
        "alert": each.alert.name,
        "output": each.output,
        "state": each.state.value,
        "severity": each.alert.severity.value,
        "shown": None if each.value is None else each.alert.in_words(each.value),
        "limit": None if each.limit is None else each.alert.in_words(each.limit),
        "reason": each.reason,
    }


def _days(store: Store, recorded: RecordedWeeks, clock: int, history: int | None) -> dict[str, Any]:
    """The three signals day by day (UTC), up to today; for history by the arrival clock, up to the newest arrival."""
    today = (clock if history is None else history) // DAY
    days = range(today - DAYS + 1, today + 1)
    if history is None:
        by_day = daily_lag(store, days[0] * DAY)
        lags = [by_day.get(day) for day in days]
        outputs = {output: _shares(recorded, output, days) for output in recorded.outputs}
    else:
        lags = _lags(store, days)
        outputs = {output: _shares_by_arrival(store, output, days) for output in recorded.outputs}
    first, last = ((written(day * DAY, "UTC") or "")[:10] for day in (days[0], days[-1]))
    return {"first": first, "last": last, "lag": lags, "outputs": outputs}


def _shares(recorded: RecordedWeeks, output: str, days: range) -> dict[str, list[Any]]:
    sums = [recorded.history.total(output, day * DAY - 1, (day + 1) * DAY - 1) for day in days]
    return {
        "side_output": [each.side_share for each in sums],
        "corrections": [each.correction_share for each in sums],
    }


# History, data that arrived long before it was read: it goes by the arrival clock


def _history_until(store: Store) -> int | None:
    """The newest arrival, where it was read long afterwards; None where events are read as they arrive."""
    rows = store.watermarks.query_rows(
        "select max(t.at) as at, max(p.published_at) as published_at from t join p on t.batch = p.batch "
        "where p.output is null and t.batch = (select max(batch) from t where kind = 'tick')",
        p=store.publications,
    )
    if not rows or rows[0]["at"] is None:
        return None
    newest = to_micros(rows[0]["at"])
    return newest if is_history(newest, to_micros(rows[0]["published_at"])) else None


def _received_by_arrival(store: Store) -> dict[str, Any]:
    """How many events arrived in each part of the time from the first arrival to the last, and how long a part is."""
    (ends,) = store.watermarks.query_rows(
        "select min(at) as first, max(at) as last from t where kind = 'tick'"
    )
    first, last = to_micros(ends["first"]), to_micros(ends["last"])
    width = next((each for each in _WIDTHS if (last - first) // each < BARS), _WIDTHS[-1])
    rows = store.watermarks.query_rows(
        f"select floor(cast(at as bigint) / {width}) as bar, sum(p['events']) as events from {_HEADS} group by 1"
    )
    return _bars({int(row["bar"]): int(row["events"]) for row in rows}, first // width, last // width, width)


def _bars(counted: Mapping[int, int], first: int, last: int, width: int) -> dict[str, Any]:
    """The events in each part of the time; a part has this width, in microseconds, and is named by its number."""
    return {
        "bars": [counted.get(bar, 0) for bar in range(first, last + 1)],
        "since": first * width // 1000,
        "until": (last + 1) * width // 1000,
        "width": width // 1000,
    }


def _lags(store: Store, days: Sequence[int]) -> list[float | None]:
    """Seconds from the watermark to the arrival clock, on average over the ticks of each day (UTC)."""
    by_day = _by_day(
        store.watermarks,
        "at",
        days,
        "avg(cast(at as bigint) - cast(watermark as bigint))",
        "kind = 'tick' and watermark is not null",
    )
    return [None if day not in by_day else max(by_day[day], 0.0) / 1_000_000 for day in days]


def _shares_by_arrival(store: Store, output: str, days: Sequence[int]) -> dict[str, list[Any]]:
    """For each day (UTC), the share of the events that was set aside, and corrections for each event."""
    tables = store.output_tables(output, PaneLayout(store.pipeline.outputs[output], store.layout).published)
    came = _by_day(store.watermarks, "at", days, "sum(p['events'])", among=_HEADS)
    aside = _by_day(tables.late, "arrival_time", days, "count(*)")
    corrected = _by_day(tables.panes, "fired_at", days, "count(*)", CORRECTED)
    known = [day for day in days if came.get(day)]

    def share(counts: dict[int, float]) -> list[float | None]:
        return [counts.get(day, 0) / came[day] if day in known else None for day in days]

    return {"side_output": share(aside), "corrections": share(corrected)}


def _by_day(
    table: Table, column: str, days: Sequence[int], figure: str, rows: str = "true", among: str = "t"
) -> dict[int, float]:
    rows_read = table.query_rows(
        f"select date_bin(interval '1 day', {column}) as day, {figure} as figure from {among} where "
        f"{column} >= {moment_literal(days[0] * DAY)} and {column} < {moment_literal((days[-1] + 1) * DAY)} "
        f"and {rows} group by 1"
    )
    return {to_micros(row["day"]) // DAY: row["figure"] for row in rows_read}
