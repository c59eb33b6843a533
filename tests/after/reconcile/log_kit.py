"""One small store, run on Spark, with every fate in it: for what is computed from the log again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from latecomer.config.outputs import Output
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from spark_kit import Bench

SECOND = 1_000_000
BEGIN = 1_794_139_200 * SECOND
PAYLOAD = {"key": "string", "paise": "bigint", "ok": "boolean", "km": "double"}
ADDED = {
    "paise": "sum(paise)",
    "n": "count(*)",
    "filled": "count(paise)",
    "km": "sum(km)",
    "least": "min(paise)",
}
KEPT = {
    "kinds": "count(distinct paise)",
    "middle": "median(paise)",
    "ends": "last(paise)",
    "often": "top_k(paise, 2)",
}

OUTPUTS = {
    "drops": Output(window={"tumbling": "1m"}, by=["key"], aggregates=ADDED, late="drop", where="ok"),
    "aside": Output(window={"sliding": "2m", "every": "1m"}, aggregates=ADDED, late="side_output"),
    "updates": Output(
        window={"tumbling": "1m"},
        by=["key"],
        aggregates={**ADDED, **KEPT},
        allowed_lateness="90s",
        late="update",
        too_late="drop",
        trigger={"late": "every 40s"},
    ),
    "sessions": Output(
        window={"session": "7s"},
        by=["key"],
        aggregates={"paise": "sum(paise)", "n": "count(*)"},
        allowed_lateness="30s",
        late="update",
        too_late="drop",
    ),
}


def arrivals(count: int = 140) -> list[Arrival]:
    """Some minutes: on time, late and too late; sent twice; dead; keys and flags with nulls."""
    found = []
    for nth in range(count):
        seen = BEGIN + nth * 2 * SECOND
        behind = (0, 1, 0, 75, 0, 240, 2)[nth % 7] * SECOND
        payload = {
            "key": ("amul", "bata", None)[nth % 3],
            "paise": None if nth % 29 == 28 else nth % 11,
            "ok": (True, None, False, True, True)[nth % 5],
            "km": nth / 7,
        }
        again = 1 if nth % 13 == 12 else 0
        found.append(Arrival(seen - behind, seen, "part", payload, event_id=nth - again, dead=nth % 31 == 30))
    return found


def bench_of(spark: SparkSession, folder: Path) -> Bench:
    return Bench(spark, folder, Bounded("5s"), OUTPUTS, PAYLOAD)


def events_of(reading: Sequence[Arrival]) -> list[Arrival]:
    """Those that became events: not dead, and the first of each id."""
    seen: set[Any] = set()
    kept = []
    for arrival in reading:
        if not arrival.dead and arrival.event_id not in seen:
            seen.add(arrival.event_id)
            kept.append(arrival)
    return kept


def grouped(output: Output, events: Sequence[Arrival]) -> dict[tuple[Any, ...], list[Arrival]]:
    """Window start, window end and key → the events there: a plain GROUP BY, for windows of time."""
    found: dict[tuple[Any, ...], list[Arrival]] = {}
    for event in events:
        if output.where and not event.payload["ok"]:
            continue
        for window in output.window.assign_all(event.event_time):
            place = (*window, *(event.payload[key] for key in output.by))
            found.setdefault(place, []).append(event)
    return found


def in_sessions(output: Output, events: Sequence[Arrival]) -> dict[tuple[Any, ...], list[Arrival]]:
    """The same for sessions: events of a key that follow one another within the gap."""
    found: dict[tuple[Any, ...], list[Arrival]] = {}
    for key in dict.fromkeys(event.payload["key"] for event in events):
        mine = sorted((e for e in events if e.payload["key"] == key), key=lambda e: e.event_time)
        run: list[Arrival] = []
        for event in [*mine, None]:
            if run and (event is None or event.event_time >= run[-1].event_time + output.window.gap):
                found[run[0].event_time, run[-1].event_time + output.window.gap, key] = run
                run = []
            if event is not None:
                run.append(event)
    return found


VALUES: dict[str, Callable[[Sequence[Arrival]], Any]] = {
    "paise": lambda events: _sum(each.payload["paise"] for each in events),
    "n": len,
    "filled": lambda events: sum(each.payload["paise"] is not None for each in events),
    "least": lambda events: min(
        (e.payload["paise"] for e in events if e.payload["paise"] is not None), default=None
    ),
}


def _sum(values: Any) -> Decimal | None:
    present = [value for value in values if value is not None]
    return Decimal(sum(present)) if present else None
