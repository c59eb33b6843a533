"""A store with panes and a side output made by hand, and what a plain GROUP BY would say of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from cli.cli_kit import MINUTE, NOON, Lake, pane
from latecomer.after.reading import states as folding
from latecomer.after.reading.reader import Reader
from latecomer.model.durations import to_moment
from latecomer.store.state_types import state_parts

PIPELINE = """
name: upi
store: ./lake
source:
  files: {path: "arrivals/*.json", order_by: arrival_time}
  schema:
    event_time: timestamp
    arrival_time: timestamp
    merchant: string
    paise: bigint
    fee: decimal(18,2)
    km: double
    verdict: bigint
    ok: boolean
    payer: string
    token: binary
event: {time: event_time}
watermark: {delay: 30s}
outputs:
  totals:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates:
      paise: sum(paise)
      payments: count(*)
      fees: sum(fee)
      filled: count(fee)
      least: min(paise)
      largest: max(fee)
      first: min(payer)
      mean: avg(fee)
  everything:
    window: {tumbling: 1m}
    aggregates:
      total: sum(paise)
      known: count(paise)
      mean: avg(paise)
      mean_fee: avg(fee)
      spread: variance(paise)
      tokens: approx_count_distinct(token)
      judged: sum(verdict)
      any_ok: max(ok)
      distance: sum(km)
  stated:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates:
      mean: avg(paise)
      mean_fee: avg(fee)
      mean_km: avg(km)
      spread: variance(paise)
      spread_fee: stddev_pop(fee)
      spread_km: stddev(km)
      kinds: count(distinct payer)
      middle: median(paise)
      middle_km: median(km)
      often: top_k(payer, 2)
      begins: first(payer)
      ends: last(fee)
      some: collect(payer, 3)
      payers: approx_count_distinct(payer)
      upper: approx_percentile(paise, 0.9)
      upper_km: approx_percentile(km, 0.9)
  clashing:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates: {events: count(*), late_events: sum(paise), events_base: max(paise), origin: min(paise)}
  sliding:
    window: {sliding: 2m, every: 1m}
    aggregates: {payments: count(*)}
  half_hours:
    window: {tumbling: 30m, zone: Asia/Kolkata}
    aggregates: {paise: sum(paise)}
  days:
    window: {calendar: day}
    aggregates: {paise: sum(paise)}
  sessions:
    window: {session: 30m}
    aggregates: {paise: sum(paise)}
  parts:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates: {paise: sum(paise), least: min(paise)}
    allowed_lateness: 1h
    late: update
    accumulation: discarding
"""


def make_lake(folder: Path) -> Lake:
    """A pipeline that has a store, with nothing in it yet."""
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    lake = Lake(file)
    lake.store.pin()
    return lake


def late(minute: int, merchant: str | None = None, **payload: Any) -> dict[str, Any]:
    """An event of the side output that missed the window starting `minute` minutes after noon."""
    start = NOON + minute * MINUTE
    return {
        "window_start": start,
        "window_end": start + MINUTE,
        "event_time": start + 1,
        "verdict": "too_late",
        "merchant": merchant,
        **payload,
    }


def served(rows: Iterable[Mapping[str, Any]], *columns: str) -> dict[tuple[int, Any], tuple[Any, ...]]:
    """Minute after noon and merchant → these columns."""
    return {
        (
            (row["window_start"] - to_moment(NOON)).total_seconds() // 60,
            row.get("merchant"),
        ): tuple(row[column] for column in columns)
        for row in rows
    }


def grouped(
    lake: Lake, output: str, events: Iterable[Mapping[str, Any]]
) -> dict[tuple[int, Any], dict[str, Any]]:
    """What a plain GROUP BY says: window start and merchant → each aggregate over all of its events."""
    groups: dict[tuple[int, Any], list[Mapping[str, Any]]] = {}
    for event in events:
        groups.setdefault((event["window_start"], event["merchant"]), []).append(event)
    aggregates = lake.pipeline.outputs[output].aggregates
    return {
        place: {
            name: each.evaluate([event.get(each.column or "") for event in group])
            for name, each in aggregates.items()
        }
        for place, group in groups.items()
    }


def publish(
    lake: Lake, output: str, batch: int, events: Sequence[Mapping[str, Any]], timing: str = "ON_TIME"
) -> None:
    """The panes of a batch: each window and key that has events anew, with all of them."""
    rows = []
    for (start, merchant), values in grouped(lake, output, events).items():
        values = as_published(values)
        ours = [event for event in events if (event["window_start"], event["merchant"]) == (start, merchant)]
        states = states_of(lake, output, ours)
        rows.append(
            pane((start - NOON) // MINUTE, batch, timing=timing, merchant=merchant, **values, **states)
        )
    lake.panes(output, batch, rows)


def as_published(values: Mapping[str, Any]) -> dict[str, Any]:
    """Averages of fees are published with six digits after the point."""
    return {
        name: rounded(value) if name.startswith("mean") and isinstance(value, Decimal) else value
        for name, value in values.items()
    }


def states_of(lake: Lake, output: str, events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The private columns of a pane that holds these events."""
    store, placed = lake.store, list(events)
    found = {}
    for name, each in store.pipeline.outputs[output].aggregates.items():
        kind = store.layout.types.get(each.column or "", "bigint")
        if not state_parts(each, kind):
            continue
        given = [
            {
                "t": event["event_time"],
                "a": event.get("arrival_time"),
                "o": event.get("origin"),
                "p": event.get("position"),
                "v": event.get(each.column or ""),
            }
            for event in placed
        ]
        states = folding.states_of(each, [given], kind)
        found |= {f"_lc_{name}_{part}": column[0].as_py() for part, column in states.items()}
    return found


def rounded(mean: Decimal) -> Decimal:
    """An average of fees as it is published."""
    return mean.quantize(Decimal("1.000000"), "ROUND_HALF_UP")


def reader(lake: Lake) -> Reader:
    """A reader that has seen nothing yet, as each call of the command line has."""
    return Reader(lake.pipeline)
