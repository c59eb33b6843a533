"""The ledger: whether it balances, day by day and batch by batch, down to the events of a fate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import islice
from typing import Any

import pyarrow as pa

from latecomer.after.explain.evidence import Evidence
from latecomer.after.explain.fates import Event, fates_in_windows
from latecomer.after.reading.reader import Reader
from latecomer.config.names import PRIVATE
from latecomer.model.durations import to_micros
from latecomer.model.ledger import EVENTS
from latecomer.model.verdicts import Fate
from latecomer.model.written_values import json_rows
from latecomer.model.zoned import current_zone, read, written
from latecomer.observe.dashboard.now import in_order, unbalanced
from latecomer.observe.dashboard.parameters import FURTHEST, MOST_ROWS, Query
from latecomer.observe.recorded import differences, publication_times
from latecomer.store.coverage import removal_totals
from latecomer.store.delta.table import Table
from latecomer.store.failed_events import letters_of
from latecomer.store.layout import FATE_COLUMNS, PaneLayout
from latecomer.store.sql import moment_literal, text_literal
from latecomer.store.standing import DEAD_LETTER_ORDER, LATE_ORDER
from latecomer.store.store import Store

MOST_DAYS = 60
MOST_QUARTERS = 100
"""A day has 96 quarters of an hour, and four more when the clocks go back."""
MOST_BATCHES = 100
MOST_EVENTS = 100
"""So many events of a fate are listed."""
MOST_JUDGED = 20_000
"""So many events of the log are judged to find them."""
AMOUNTS = ("received", *FATE_COLUMNS)


def ledger(reader: Reader, query: Query) -> dict[str, Any]:
    """Totals, days and batches of an output, and what does not balance."""
    store, output = reader.store(), query.output(reader.pipeline.outputs)
    skip = query.number("skip", 0, FURTHEST)
    return {
        "output": output,
        "totals": in_order(json_rows(reader.ledger_totals(), current_zone()), list(reader.pipeline.outputs)),
        "differences": unbalanced(differences(store)),
        "days": _days(store, output),
        "batches": _batches(store, output, skip),
        "skip": skip,
        "removals": list(json_rows(removal_totals(store), current_zone())),
    }


def _days(store: Store, output: str) -> list[dict[str, Any]]:
    """What each day of publication brought, newest first: days of the zone in which the batches are shown."""
    sums = ", ".join(f"sum(t.{name}) as {name}" for name in AMOUNTS)
    # In every zone a day begins with a quarter of an hour.
    rows = store.ledger.query_rows(
        f"select date_bin(interval '15 minutes', p.published_at) as quarter, count(*) as batches, {sums} "
        f"from t join p on t.batch = p.batch where p.output is null and {_of(output)} group by 1 order by 1 desc "
        f"limit {(MOST_DAYS + 1) * MOST_QUARTERS}",
        p=store.publications,
    )
    days: dict[str, Counter[str]] = {}
    for row in rows:
        day = days.setdefault((written(to_micros(row["quarter"])) or "")[:10], Counter())
        day.update({**_amounts(row), "batches": row["batches"]})
    return [{"day": day, **sums} for day, sums in islice(days.items(), MOST_DAYS)]


def _batches(store: Store, output: str, skip: int) -> list[dict[str, Any]]:
    rows = store.ledger.query_rows(
        f"select batch, {', '.join(AMOUNTS)} from t where {_of(output)} order by batch desc "
        f"limit {MOST_BATCHES} offset {skip}"
    )
    times = _times(store, [row["batch"] for row in rows])
    return [
        {"batch": row["batch"], "published_at": written(times.get(row["batch"])), **_amounts(row)}
        for row in rows
    ]


def _of(output: str) -> str:
    return f"t.output = {text_literal(output)} and t.unit = {text_literal(EVENTS)}"


def _amounts(row: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(row[name]) for name in AMOUNTS}


def _times(store: Store, batches: Sequence[int]) -> dict[int, int]:
    if not batches:
        return {}
    among = f"p.output is null and p.batch between {min(batches)} and {max(batches)}"
    return publication_times(store.publications, among)


# The events of a fate


def of_fate(reader: Reader, query: Query) -> dict[str, Any]:
    """Some events that had a fate: of a batch, of a day, or the newest."""
    store, output = reader.store(), query.output(reader.pipeline.outputs)
    fate, most = query.fate(), query.number("most", MOST_EVENTS, MOST_ROWS)
    chosen, batches = _chosen(store, query.batch(), query.day())
    notes: list[str] = []
    if batches is not None and not batches:
        rows: list[dict[str, Any]] = []
    elif fate is Fate.SIDE_OUTPUT:
        layout = PaneLayout(reader.pipeline.outputs[output], store.layout)
        rows = _rows(store.output_tables(output, layout.published).late, chosen, LATE_ORDER, most)
    elif fate is Fate.DUPLICATE:
        rows = _rows(store.duplicates, chosen, DEAD_LETTER_ORDER, most)
    elif fate is Fate.FAILED:
        rows = _rows(letters_of(store, output), chosen, DEAD_LETTER_ORDER, most)
    elif fate is Fate.DEAD_LETTER:
        rows = _rows(store.dead_letters, chosen, DEAD_LETTER_ORDER, most)
    else:
        rows = _judged(store, output, fate, chosen, most, notes)
    return {
        "output": output,
        "fate": fate.value,
        "events": rows[:most],
        "more": len(rows) > most,
        "notes": notes,
    }


def _chosen(store: Store, batch: int | None, day: date | None) -> tuple[str, list[int] | None]:
    """A condition on `batch`, and the first and last batch of the day where one was asked for."""
    if batch is not None:
        return f"batch = {batch}", None
    if day is None:
        return "true", None
    start, end = (read(f"{each}") for each in (day, day + timedelta(days=1)))
    rows = store.publications.query_rows(
        f"select min(batch) as first, max(batch) as last from t where output is null and published_at >= "
        f"{moment_literal(start)} and published_at < {moment_literal(end)}"
    )
    if not rows or rows[0]["first"] is None:
        return "false", []
    first, last = int(rows[0]["first"]), int(rows[0]["last"])
    return f"batch between {first} and {last}", [first, last]


def _rows(table: Table, chosen: str, order: str, most: int) -> list[dict[str, Any]]:
    if not table.exists:
        return []
    newest = order.replace("batch", "batch desc", 1)
    rows = table.query(f"select * from t where {chosen} order by {newest} limit {most + 1}")
    public = [name for name in rows.schema.names if not name.startswith(PRIVATE) and name != "raw_bytes"]
    return list(json_rows(rows.select(public), current_zone()))


def _judged(
    store: Store, output: str, fate: Fate, chosen: str, most: int, notes: list[str]
) -> list[dict[str, Any]]:
    """Events of the log with a fate. They are judged again by their watermark, for no table lists these fates."""
    rules = store.pipeline.outputs[output]
    if rules.window.merges:
        notes.append("events of sessions are judged one session at a time: open a window to see its events")
        return []
    rows = store.events.query_rows(
        f"select * from t where {chosen} order by batch desc, origin, position limit {MOST_JUDGED}"
    )
    if len(rows) == MOST_JUDGED:
        notes.append(f"only the newest {MOST_JUDGED:,} events were judged")
    view = store.layout.view
    columns = [column for column in store.columns if column in view]
    evidence = Evidence(store, rules, {}, columns)
    failed = _rows(letters_of(store, output), chosen, DEAD_LETTER_ORDER, MOST_JUDGED)
    aside = {(row["batch"], row["origin"], row["position"]) for row in failed}
    events = [event for event in evidence.judgeable(rows) if event.place not in aside]
    fates, needs_spark = fates_in_windows(store, output, events)
    if needs_spark:
        notes.append("`where` needs Spark: events that it excludes are listed all the same")
    found = [event for event, has in zip(events, fates, strict=True) if fate in has]
    return [_event(each, columns) for each in found[: most + 1]]


def _event(event: Event, columns: Sequence[str]) -> dict[str, Any]:
    values = pa.table({name: pa.array([event.payload.get(name)]) for name in columns})
    return {
        "batch": event.batch,
        "event_time": written(event.event_time),
        "arrival_time": written(event.arrival_time),
        "partition": event.partition,
        "behind": None if event.behind is None else event.behind / 1_000_000,
        "event_id": event.event_id,
        "origin": event.file,
        "position": event.position,
        **next(iter(json_rows(values, current_zone())), {}),
    }
