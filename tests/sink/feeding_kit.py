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
from latecomer.sink.waiting import Clock
from latecomer.store.layout import PaneLayout
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
"""
COLUMNS = "{event_time: timestamp, arrival_time: timestamp, merchant: string, paise: bigint}"


def write_pipeline(folder: Path, sinks: str) -> Path:
    (folder / "in").mkdir(exist_ok=True)
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE.format(columns=COLUMNS, sinks=sinks), encoding="utf-8")
    return file


class Fed:
    """A store whose batches are written here, as an engine would: panes first, then the ledger."""

    def __init__(self, folder: Path, sinks: str) -> None:
        self.file = write_pipeline(folder, sinks)
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
        ledger = self.store.ledger
        ledger.append(batch, ledger.schema.empty_table())


class HandClock(Clock):
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
