"""A store without Spark that sinks can be fed from, and a clock that goes when it is told to."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa

from latecomer.config.load import load_pipeline
from latecomer.config.models import Pipeline
from latecomer.model.durations import to_moment
from latecomer.sink.worker import SinkClock
from latecomer.store.layout import PaneLayout
from latecomer.store.publications import BatchCloser
from latecomer.store.store import Store

START = 1_777_125_600_000_000
MINUTE = 60_000_000
PIPELINE = """\
name: fed
store: store
source: {{files: {{path: in, order_by: arrival_time}}, columns: {columns}}}
event: {{time: event_time}}
watermark: {{delay: 10s}}
outputs:
  totals:
    window: {{tumbling: 1m}}
    by: [merchant]
    aggregates: {{paise: sum(paise)}}
    late: retract
    sinks: {sinks}
    late_to: {late_to}
dead_letters_to: {dead_letters_to}
"""
COLUMNS = "{event_time: timestamp, arrival_time: timestamp, merchant: string, paise: bigint}"


def write_pipeline(
    folder: Path, sinks: str, late_to: str = "[]", dead_letters_to: str = "[]", columns: str = COLUMNS
) -> Path:
    (folder / "in").mkdir(exist_ok=True)
    file = folder / "pipeline.yaml"
    written = {"sinks": sinks, "late_to": late_to, "dead_letters_to": dead_letters_to}
    file.write_text(PIPELINE.format(columns=columns, **written), encoding="utf-8")
    return file


class Fed:
    """A store whose batches are written here, as an engine would: the log, panes and side output, then the ledger."""

    def __init__(self, folder: Path, sinks: str = "[]", **others: str) -> None:
        self.file = write_pipeline(folder, sinks, **others)
        self.pipeline: Pipeline = load_pipeline(self.file)
        self.store = Store(self.pipeline, dict(self.pipeline.source.columns or {}))
        self.store.pin()

    def publish(self, batch: int, *merchants: str | None) -> None:
        """A batch with one pane for each merchant, in a window of its own."""
        layout = PaneLayout(self.pipeline.outputs["totals"], self.store.layout)
        start = START + batch * MINUTE
        rows: list[dict[str, Any]] = [
            {
                "window_start": to_moment(start),
                "window_end": to_moment(start + MINUTE),
                "merchant": merchant,
                "paise": 100 * batch,
                "sequence": 0,
                "timing": "ON_TIME",
                "op": "insert",
                "is_last": False,
                "batch": batch,
                "fired_at": to_moment(start + MINUTE),
                "watermark": to_moment(start + MINUTE),
            }
            for merchant in merchants
        ]
        panes = self.store.output_tables("totals", layout.published).panes
        panes.append(batch, pa.Table.from_pylist(rows, layout.published))
        self.complete(batch)

    def set_aside(self, batch: int, late: int = 0, dead: int = 0, **more: Any) -> None:
        """A batch with so many late rows, each late for two windows, and so many dead letters; not in order."""
        at = START + batch * MINUTE
        events = [
            {
                "window_start": to_moment(at - window * MINUTE),
                "window_end": to_moment(at - (window - 1) * MINUTE),
                "watermark": to_moment(at),
                "verdict": "late",
                "event_time": to_moment(at - MINUTE),
                "arrival_time": to_moment(at),
                "origin": f"in/{batch}.json",
                "position": nth,
                "batch": batch,
                "tick": batch,
                "merchant": None if nth % 2 else 'it\'s "chai"',
                "paise": nth,
                **more,
            }
            for nth in reversed(range(late))
            for window in (1, 2)
        ]
        letters = [
            {
                "batch": batch,
                "reason": "unreadable",
                "raw": "{\ufffd",
                "origin": f"in/{batch}.json",
                "position": 100 + nth,
                "arrival_time": to_moment(at),
                "detail": "not JSON",
                "raw_bytes": b"{\xff",
            }
            for nth in reversed(range(dead))
        ]
        layout = PaneLayout(self.pipeline.outputs["totals"], self.store.layout)
        aside = self.store.output_tables("totals", layout.published).late
        for table, rows in ((self.store.dead_letters, letters), (aside, events)):
            if rows:
                table.append(batch, pa.Table.from_pylist(rows, table.schema))
        self.complete(batch)

    def complete(self, batch: int) -> None:
        clock = BatchCloser(self.store, lambda: published(batch))
        clock.close(batch, self.store.ledger.schema.empty_table())


def published(batch: int) -> int:
    """When a batch was published here."""
    return START + 60 * MINUTE + batch * MINUTE


class HandClock(SinkClock):
    """Time stands still until it is moved by hand; whoever waits looks at it again soon."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def moment(self) -> datetime:
        return datetime(2026, 11, 16, 3, 0, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def wait(self, changed: threading.Condition, seconds: float | None) -> None:
        changed.wait(0.002)


def eventually(condition: Any, seconds: float = 20.0) -> None:
    """Wait for what another thread will do."""
    until = monotonic() + seconds
    while not condition():
        assert monotonic() < until, "it did not happen"
        sleep(0.002)
