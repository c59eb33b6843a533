"""How long readers wait: the reading verbs and the dashboard, on a store of many events and panes that is written here
by hand, batch by batch, as a run leaves it. Nothing is compacted.

    python -m bench.reading --work FOLDER [--events 10000000] [--batches 200]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from latecomer.config.load import load_pipeline
from latecomer.model.strategies import TickSummary
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.observe.dashboard.answers import Answers
from latecomer.store.layout import LEDGER, WATERMARKS, PaneLayout, arrow_type
from latecomer.store.publications import PublicationClock, wall_clock
from latecomer.store.store import Store
from latecomer.windowing.aggregates import states_of

MINUTE = 60_000_000
KEYS = 500
CLOSED_AFTER = 2
"""A window is published so many batches after its own."""
LATE_AFTER = 4
"""A late event comes so many minutes after its window."""
PIPELINE = """
name: payments
store: ./lake
source:
  files: {path: "arrivals/*.json", order_by: arrival_time}
  schema: {event_time: timestamp, arrival_time: timestamp, txn_id: string, merchant: string, paise: bigint}
event: {time: event_time, id: txn_id}
watermark: {delay: 30s}
alerts: {lag: 5m}
outputs:
  minute_totals:
    window: {tumbling: 1m}
    by: [merchant]
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 10m
    late: retract
ledger: [paise]
"""


class Written:
    """A store that grows by a minute of events a batch: each window is published a little later, and some are
    corrected by a late event."""

    def __init__(self, folder: Path, events: int, batches: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "pipeline.yaml"
        self.file.write_text(PIPELINE, encoding="utf-8")
        self.pipeline = load_pipeline(self.file)
        self.store = Store(self.pipeline, self.pipeline.source.columns or {})
        self.each = events // batches // KEYS
        self.last = self.store.ledger.last_batch()
        self.start = (wall_clock() // MINUTE - batches - 60) * MINUTE
        layout = PaneLayout(self.pipeline.outputs["minute_totals"], self.store.layout)
        states = states_of(layout, self.store.measures())
        private = [(name, arrow_type(kind)) for state in states for name, kind in state.columns.items()]
        self.panes = self.store.output_tables("minute_totals", pa.schema([*layout.published, *private])).panes
        self.store.pin()
        self.timeline = Timeline(self.pipeline.watermark)
        found = folder / "began"
        if found.exists():
            self.start = int(found.read_text())
        found.write_text(str(self.start))
        for batch in range(self.last + 1):
            self._tick(batch)
        self.names = pa.array([f"merchant-{key:04d}" for key in range(KEYS)])

    def grow(self) -> None:
        """One batch more."""
        self.last += 1
        batch, late = self.last, self._late(self.last)
        at = self.start + (batch + 1) * MINUTE
        count = KEYS * self.each
        keys = np.concatenate([np.arange(count) % KEYS, late])
        times = np.concatenate(
            [
                self.start + batch * MINUTE + np.arange(count) * (MINUTE - 1) // count,
                np.full(len(late), self.start + (batch - LATE_AFTER) * MINUTE + 7),
            ]
        )
        rows = len(keys)
        arrivals = np.maximum(times, self.start + batch * MINUTE) + 1_000_000
        self._append(
            self.store.events,
            rows,
            event_time=times,
            arrival_time=arrivals,
            source_partition="p0",
            origin=f"part-{batch}.json",
            position=np.arange(rows),
            event_id=[f"{batch:x}-{nth:x}" for nth in range(rows)],
            batch=np.full(rows, batch),
            tick=np.full(rows, batch),
            merchant=self.names.take(pa.array(keys)),
            paise=np.full(rows, 100),
        )
        judge = self._tick(batch)
        watermark = {
            "batch": batch,
            "tick": batch,
            "at": at,
            "watermark": judge,
            "kind": "tick",
            "arrival_by": "column",
            "partitions": [{"partition": "p0", "events": rows, "max_event_time": at - 1}],
            "carry": self.timeline.carry(),
        }
        self.store.watermarks.append(batch, _rows(WATERMARKS, [watermark]))
        if batch >= CLOSED_AFTER:
            self._publish(batch, late, at)
        self._close(batch, rows, len(late))

    def _late(self, batch: int) -> Any:
        return np.arange(batch % 50, KEYS, 50) if batch >= LATE_AFTER + 1 else np.arange(0)

    def _tick(self, batch: int) -> int | None:
        """The watermark that judges a batch."""
        at, count = self.start + (batch + 1) * MINUTE, KEYS * self.each
        row = self.timeline.extend([TickSummary(batch, at, "p0", count, at - 1)])[-1]
        return None if row.watermark == BEGIN_OF_TIME else row.watermark

    def _publish(self, batch: int, late: Any, at: int) -> None:
        """The window that has closed, and those that a late event corrects."""
        paise, plain = 100 * self.each, np.arange(KEYS)
        keys = np.concatenate([plain, np.repeat(late, 2)])
        rows, corrected = len(keys), len(late)
        start = (
            self.start
            + np.concatenate(
                [np.full(KEYS, batch - CLOSED_AFTER), np.full(2 * corrected, batch - LATE_AFTER)]
            )
            * MINUTE
        )
        more = np.concatenate([np.zeros(KEYS, int), np.tile([0, 1], corrected)])
        ops = ["insert"] * KEYS + ["retract", "insert"] * corrected
        timings = ["ON_TIME"] * KEYS + ["LATE"] * 2 * corrected
        values = [Decimal(paise + 100 * int(each)) for each in more]
        self._append(
            self.panes,
            rows,
            window_start=start,
            window_end=start + MINUTE,
            merchant=self.names.take(pa.array(keys)),
            paise=values,
            payments=self.each + more,
            sequence=more,
            timing=timings,
            op=ops,
            is_last=[False] * rows,
            batch=np.full(rows, batch),
            fired_at=np.full(rows, at),
            watermark=np.full(rows, self.timeline.watermark),
            _lc_events=self.each + more,
            _lc_measure_paise=values,
        )

    def _close(self, batch: int, events: int, late: int) -> None:
        lines = []
        for unit, each in (("events", 1), ("assignments", 1), ("paise", 100)):
            fates = {"received": events, "on_time": events - late, "late_accepted": late}
            amounts = {name: Decimal(fates.get(name, 0) * each) for name in LEDGER.names[3:]}
            lines.append({"batch": batch, "output": "minute_totals", "unit": unit, **amounts})
        clock = PublicationClock(self.store, lambda: self.start + (batch + 1) * MINUTE + 2_000_000)
        clock.close(batch, _rows(LEDGER, lines))

    def _append(self, table: Any, rows: int, **given: Any) -> None:
        columns = {}
        for field in table.schema:
            found = given.get(field.name)
            if found is None:
                columns[field.name] = pa.nulls(rows, field.type)
            elif isinstance(found, str):
                columns[field.name] = pa.array([found] * rows, field.type)
            else:
                columns[field.name] = pa.array(found).cast(field.type)
        table.append(self.last, pa.table(columns, schema=table.schema))


def _rows(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
    columns = {field.name: pa.array([row.get(field.name) for row in rows], field.type) for field in schema}
    return pa.table(columns, schema=schema)


def verbs(written: Written) -> Iterator[tuple[str, list[str]]]:
    """What is asked of the store, as a user writes it."""
    file, window = str(written.file), _iso(written.start + written.last // 2 * MINUTE)
    key = ["--window", window, "--key", "merchant=merchant-0042"]
    yield "--help", ["--help"]
    yield "results", ["results", file, "minute_totals"]
    yield "results, one window", ["results", file, "minute_totals", "--window", window]
    yield "panes", ["panes", file, "minute_totals"]
    yield "ledger", ["ledger", file]
    yield "status", ["status", file]
    yield "explain", ["explain", file, "minute_totals", *key]
    yield "check", ["check", file]


ROUTES = {"now": "", "windows": "", "ledger": "", "sinks": ""}
PROGRAM = "from latecomer.cli import main; main()"


def verb_times(written: Written, times: int) -> dict[str, dict[str, float]]:
    """Seconds of the wall clock and of the processor, for each verb in a process of its own.

    An installed program has its bytecode beside it; so has this one, after the first of the runs.
    """
    found = {}
    surroundings = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    surroundings["PYTHONPYCACHEPREFIX"] = str(written.file.parent / "bytecode")
    for name, arguments in verbs(written):
        walls, works = [], []
        for _ in range(times):
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            command = [sys.executable, "-c", PROGRAM, "--quiet", *arguments]
            ended = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
            walls.append(time.monotonic() - began)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            works.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            if ended.returncode not in (0, 3):
                raise SystemExit(f"{name}: {ended.stderr}")
        found[name] = {"wall": min(walls), "processor": min(works)}
    return found


def answer_times(written: Written, times: int) -> dict[str, dict[str, float]]:
    """Seconds until a page has its answer: at first, after a batch (the median, and of the
    processor), and where nothing has changed."""
    answers = Answers([written.pipeline])
    found: dict[str, list[float]] = {route: [] for route in ROUTES}
    works: dict[str, list[float]] = {route: [] for route in ROUTES}
    for _ in range(times + 1):
        for route, seconds in found.items():
            before = time.process_time()
            seconds.append(_took(lambda route=route: answers.answer(0, route, ROUTES[route])))
            works[route].append(time.process_time() - before)
        written.grow()
        time.sleep(2)  # sinks are asked no more often
    quiet = Answers([written.pipeline])
    for route in ROUTES:
        quiet.answer(0, route, "")
    return {
        route: {
            "first": seconds[0],
            "after a batch": median(seconds[1:]),
            "processor": median(works[route][1:]),
            "unchanged": _took(lambda route=route: quiet.answer(0, route, "")),
        }
        for route, seconds in found.items()
    }


def _took(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def _iso(micros: int) -> str:
    return str(np.datetime64(micros, "us")) + "Z"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="where the store is, or is made")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", choices=["verbs", "dashboard"])
    asked = parser.parse_args()
    written = Written(asked.work, asked.events, asked.batches)
    while written.last < asked.batches:
        written.grow()
    found: dict[str, Any] = {"batches": written.last + 1}
    if asked.only != "dashboard":
        found["verbs"] = verb_times(written, asked.times)
    if asked.only != "verbs":
        found["dashboard"] = answer_times(written, asked.times)
    for part in ("verbs", "dashboard"):
        for name, figures in found.get(part, {}).items():
            print(f"{name:22}" + "  ".join(f"{label} {value:6.3f} s" for label, value in figures.items()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
