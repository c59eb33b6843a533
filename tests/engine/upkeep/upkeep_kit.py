"""A store of several days, made by hand and in balance, and what can be asked of it without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from cli.cli_kit import Lake, rows_of
from latecomer.model.durations import UNITS
from latecomer.store.delta.table import Table
from latecomer.store.failpoints import VARIABLE
from latecomer.store.store import Store

MINUTE, HOUR, DAY = UNITS["m"], UNITS["h"], UNITS["d"]
MIDNIGHT = 1_777_075_200_000_000
"""2026-04-25T00:00:00Z."""

PIPELINE = """
name: upi
store: ./lake
source:
  files: {path: "arrivals/*.json", order_by: arrival_time}
  schema: {event_time: timestamp, arrival_time: timestamp, txn_id: string, merchant: string, paise: bigint}
event: {time: event_time, id: txn_id}
watermark: {delay: 30s}
outputs:
  totals:
    window: {tumbling: 1h}
    by: [merchant]
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 2h
    late: side_output
ledger: [paise]
"""
RETENTION = "retention: {events: 2d, late: 1d}\n"

SCRIPT = """
import sys
from datetime import datetime, UTC
from latecomer.config.load import load_pipeline
from latecomer.engine.upkeep.compacting import compact
now = datetime.fromtimestamp(float(sys.argv[2]), UTC) if len(sys.argv) > 2 else None
compact(load_pipeline(sys.argv[1]), now=now)
"""


class Days(Lake):
    """One batch every six hours, each with its events, duplicates, dead letters, side output and panes."""

    per_day = 4

    def fill(self, days: int, since: int = 0) -> None:
        for batch in range(since * self.per_day, (since + days) * self.per_day):
            self.batch(batch)

    def batch(self, batch: int) -> None:
        """A batch of 5 events on time, one of the day before, one duplicate, one dead letter."""
        store, at = self.store, MIDNIGHT + batch * 6 * HOUR
        seen = at + 5 * HOUR
        events = [self.event(batch, nth, at + nth * HOUR) for nth in range(5)]
        late = self.event(batch, 5, at - DAY)
        for table, rows in ((store.duplicates, [events[0]]), (store.events, [*events, late])):
            table.append(batch, rows_of(table.schema, rows))
        self.dead_letters(batch, [{"reason": "no_event_time", "raw": '{"paise": 7}', "position": 9}])
        ticks = [{"tick": 2 * batch, "at": seen, "watermark": at}]
        self.watermarks(batch, [*ticks, {"tick": 2 * batch + 1, "at": seen, "watermark": at + 4 * HOUR}])
        self.publish(batch, events)
        missed = {"window_start": late["event_time"], "window_end": late["event_time"] + HOUR}
        self.late("totals", batch, [{**late, **missed, "watermark": at, "verdict": "too_late"}])
        self.settle(batch, events, late)

    def sparse(self, batch: int, day: int, count: int, spread: int) -> None:
        """A batch of few events: the first on a day, the last so many days later."""
        store, at = self.store, MIDNIGHT + day * DAY
        events = [self.event(batch, nth, at + nth * spread * DAY // count) for nth in range(count)]
        for table in (store.duplicates, store.events):
            table.append(batch, rows_of(table.schema, events))
        self.dead_letters(batch, [{"reason": "no_event_time", "raw": '{"paise": 7}', "position": 9}])
        seen = MIDNIGHT + batch * DAY
        self.watermarks(batch, [{"tick": batch, "at": seen, "watermark": seen}])
        self.publish(batch, events)
        outcome, dead = Decimal(sum(event["paise"] for event in events)), Decimal(7)
        one, rows = Decimal(1), Decimal(count)
        counted = {"output": "totals", "received": 2 * rows + one, "on_time": rows, "duplicate": rows}
        measured = {"output": "totals", "unit": "paise", "received": 2 * outcome + dead, "on_time": outcome}
        measured |= {"duplicate": outcome, "dead_letter": dead}
        self.ledger(
            batch,
            [
                {**counted, "dead_letter": one},
                {**counted, "unit": "assignments", "dead_letter": one},
                measured,
            ],
        )

    def publish(self, batch: int, events: Sequence[Mapping[str, Any]]) -> None:
        panes = [
            {
                "window_start": event["event_time"],
                "window_end": event["event_time"] + HOUR,
                "merchant": event["merchant"],
                "paise": event["paise"],
                "payments": 1,
                "sequence": 0,
                "timing": "ON_TIME",
                "op": "insert",
                "fired_at": event["arrival_time"],
                "_lc_events": 1,
                "_lc_measure_paise": event["paise"],
            }
            for event in events
        ]
        self.panes("totals", batch, panes)

    def settle(self, batch: int, events: Sequence[Mapping[str, Any]], late: Mapping[str, Any]) -> None:
        """The ledger's lines."""
        outcome = Decimal(sum(event["paise"] for event in events))
        aside, twice, dead = (Decimal(each) for each in (late["paise"], events[0]["paise"], 7))
        counted = {"output": "totals", "received": Decimal(8), "on_time": Decimal(5)}
        counted |= dict.fromkeys(("side_output", "duplicate", "dead_letter"), Decimal(1))
        measured = {"output": "totals", "unit": "paise", "received": outcome + aside + twice + dead}
        measured |= {"on_time": outcome, "side_output": aside, "duplicate": twice, "dead_letter": dead}
        notes = {"late_at_source": 1}
        self.ledger(batch, [{**counted, **notes}, {**counted, "unit": "assignments"}, measured])

    def event(self, batch: int, nth: int, at: int) -> dict[str, Any]:
        return {
            "event_time": at,
            "arrival_time": MIDNIGHT + batch * 6 * HOUR + 5 * HOUR,
            "source_partition": "",
            "origin": f"{batch}.json",
            "position": nth,
            "event_id": f"{batch}-{nth}",
            "batch": batch,
            "tick": 2 * batch,
            "merchant": ("amul", "bata", None)[nth % 3],
            "paise": 100 * batch + nth,
        }


def make_days(folder: Path, days: int = 3, retention: str = "") -> Days:
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE + retention, encoding="utf-8")
    made = Days(file)
    made.store.pin()
    made.fill(days)
    return made


def tables(store: Store, *outputs: str) -> dict[str, Table]:
    """Every table of a store by its path."""
    found = {
        log.parent.relative_to(store.root).as_posix(): log.parent for log in store.root.rglob("_delta_log")
    }
    return {name: Table(root, None) for name, root in sorted(found.items())}


def contents(store: Store) -> dict[str, Counter[str]]:
    """Every row of every table, whatever file it is in."""
    return {
        name: Counter(map(repr, table.query("select * from t").to_pylist()))
        for name, table in tables(store).items()
        if name != "removals"
    }


def on_disk(store: Store) -> set[str]:
    """Every Parquet file below the tables' data, named or not."""
    return {file.relative_to(store.root).as_posix() for file in store.root.rglob("data/**/*.parquet")}


def aged(store: Store, days: float) -> None:
    """Make everything that is there look as if it had been written some days earlier."""
    for file in store.root.rglob("*"):
        if file.is_file():
            before = file.stat().st_mtime - days * 86_400
            os.utime(file, (before, before))


def killed_at(file: Path, place: str) -> int:
    """Compact in a process of its own that dies at a failpoint; what it ended with."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(file)],
        env={**os.environ, VARIABLE: place},
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode


def named_files(store: Store) -> set[str]:
    """The files that tables are made of now."""
    return {f"{name}/{file.path}" for name, table in tables(store).items() for file in table.files()}
