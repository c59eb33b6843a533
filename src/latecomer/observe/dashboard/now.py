"""What a pipeline does now, and its three signals day by day: lag, side output, corrections."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from latecomer.after.reading.reader import Reader
from latecomer.model.durations import to_micros
from latecomer.model.ledger import EVENTS
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.written_values import json_rows, short_text
from latecomer.model.zoned import current_zone, written
from latecomer.observe.alerts import Recorded, Verdict, judge
from latecomer.observe.check import recorded_by
from latecomer.observe.dashboard import by_arrival
from latecomer.observe.history import DAY, MINUTE, SECOND
from latecomer.observe.recorded import daily_lag
from latecomer.sink.keeper import sink_status
from latecomer.store.lock import is_leased, lease_of, running_on
from latecomer.store.sql import moment_literal, text_literal
from latecomer.store.store import Store

DAYS = 30
SLOWEST = 20
"""So many partitions are listed."""


def now(reader: Reader, clock: int) -> dict[str, Any]:
    """The state of a pipeline at a moment of the wall clock."""
    store = reader.store()
    timeline, recorded = reader.timeline(), recorded_by(store, clock, (DAYS + 1) * DAY)
    verdicts = judge(recorded, clock)
    running = running_on(store.root)
    last, history = _last_publication(store), by_arrival.history_until(store)
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
        "received": _received(store, last) if history is None else by_arrival.received(store),
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
    return by_arrival.bars({at // MINUTE: events for at, events in counted}, end - 59, end, MINUTE)


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


def _signal(each: Verdict) -> dict[str, Any]:
    return {
        "alert": each.alert.name,
        "output": each.output,
        "state": each.state.value,
        "severity": each.alert.severity.value,
        "shown": None if each.value is None else each.alert.in_words(each.value),
        "limit": None if each.limit is None else each.alert.in_words(each.limit),
        "reason": each.reason,
    }


def _days(store: Store, recorded: Recorded, clock: int, history: int | None) -> dict[str, Any]:
    """The three signals day by day (UTC), up to today; for history by the arrival clock, up to the newest arrival."""
    today = (clock if history is None else history) // DAY
    days = range(today - DAYS + 1, today + 1)
    if history is None:
        by_day = daily_lag(store, days[0] * DAY)
        lags = [by_day.get(day) for day in days]
        outputs = {output: _shares(recorded, output, days) for output in recorded.outputs}
    else:
        lags = by_arrival.lags(store, days)
        outputs = {output: by_arrival.shares(store, output, days) for output in recorded.outputs}
    first, last = ((written(day * DAY, "UTC") or "")[:10] for day in (days[0], days[-1]))
    return {"first": first, "last": last, "lag": lags, "outputs": outputs}


def _shares(recorded: Recorded, output: str, days: range) -> dict[str, list[Any]]:
    sums = [recorded.history.total(output, day * DAY - 1, (day + 1) * DAY - 1) for day in days]
    return {
        "side_output": [each.side_share for each in sums],
        "corrections": [each.correction_share for each in sums],
    }
