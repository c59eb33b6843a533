"""A store made by hand whose events came with known delays, as it stands at a moment of the arrival clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cli.cli_kit import MINUTE, NOON, PIPELINE, Lake
from latecomer.model.array_types import Integers
from latecomer.model.strategies import TickSummary
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.store.layout import LEDGER, WATERMARKS

SECOND = 1_000_000
Pace = Callable[[float], float]
"""Minutes since noon → the mean delay in seconds."""


@dataclass(frozen=True)
class Story:
    """Events of a source: minutes of them, so many a minute for each merchant, each with a delay."""

    minutes: int = 120
    rate: float = 40.0
    merchants: Sequence[str] = ("amul", "bata")
    delay: Pace = lambda _: 20.0
    seed: int = 7
    text: str = PIPELINE
    shares: Sequence[float] | None = None
    """How much of the rate each merchant has."""
    length: int = MINUTE
    """How long the windows of `minute_totals` are, as its text says."""

    def events(self) -> dict[str, np.ndarray[Any, Any]]:
        """When each happened and came, by whom and how much; in order of arrival."""
        rng = np.random.default_rng(self.seed)
        shares = self.shares or [1.0] * len(self.merchants)
        counts = rng.poisson(self.rate * self.minutes * np.array(shares))
        merchant = np.repeat(np.arange(len(counts)), counts)
        time = rng.integers(0, self.minutes * MINUTE, len(merchant))
        mean = np.array([self.delay(each / MINUTE) for each in time]) * SECOND
        came = time + (rng.exponential(1.0, len(time)) * mean).astype(np.int64)
        paise = rng.integers(1, 1000, len(time))
        order = np.argsort(came, kind="stable")
        found = {"merchant": merchant, "time": time, "came": came, "paise": paise}
        return {name: values[order] for name, values in found.items()}


def tell(folder: Path, story: Story, minute: float | None = None, files: int = 4) -> Lake:
    """The store once the arrival clock has come to a minute after noon, the end of the story unless said."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pipeline.yaml"
    file.write_text(story.text, encoding="utf-8")
    lake = Lake(file)
    lake.store.pin()
    now = round((story.minutes if minute is None else minute) * MINUTE)
    events = story.events()
    there = events["came"] <= now
    events = {name: values[there] for name, values in events.items()}
    recent = int(np.searchsorted(events["came"], now - 15 * SECOND))  # the last batch is a small one
    recent = min(recent, len(events["came"]) - 1)
    cuts = [*np.array_split(np.arange(recent), files), np.arange(recent, len(events["time"]))]
    timeline = Timeline(lake.pipeline.watermark)
    met = np.zeros(len(events["time"]), np.int64)
    for batch, rows in enumerate(cuts):
        met[rows] = timeline.watermark
        _log(lake, batch, {name: values[rows] for name, values in events.items()}, story.merchants)
        _tick(lake, timeline, batch, events, rows, now if batch == len(cuts) - 1 else None)
    grace = lake.pipeline.outputs["minute_totals"].settles_after
    taken_in = met < NOON + (events["time"] // story.length + 1) * story.length + grace
    counted = {name: values[taken_in] for name, values in events.items()}
    _publish(lake, len(cuts) - 1, counted, story, timeline.watermark)
    return lake


def _log(lake: Lake, batch: int, events: dict[str, np.ndarray[Any, Any]], merchants: Sequence[str]) -> None:
    table, count = lake.store.events, len(events["time"])
    known = {
        "event_time": NOON + events["time"],
        "arrival_time": NOON + events["came"],
        "source_partition": ["p0"] * count,
        "origin": [f"file-{batch}.json"] * count,
        "position": np.arange(count),
        "event_id": [f"e{batch}-{nth}" for nth in range(count)],
        "batch": np.full(count, batch),
        "tick": np.full(count, batch),
        "merchant": np.array(merchants, object)[events["merchant"]],
        "paise": events["paise"],
        "km": events["paise"] - 500.0,
        "shop": events["paise"] % 3,
    }
    columns = {
        field.name: pa.array(known[field.name], field.type)
        if field.name in known
        else pa.nulls(count, field.type)
        for field in table.schema
    }
    table.append(batch, pa.table(columns, schema=table.schema))


def _tick(
    lake: Lake, timeline: Timeline, batch: int, events: dict[str, Any], rows: Integers, now: int | None
) -> None:
    at = NOON + (int(events["came"][rows].max()) if now is None else now)
    newest = NOON + int(events["time"][: rows[-1] + 1].max())
    met = timeline.watermark
    timeline.extend([TickSummary(at // SECOND, at, "p0", len(rows), newest)])
    row = {
        "batch": batch,
        "tick": batch,
        "at": at,
        "watermark": None if met == BEGIN_OF_TIME else met,
        "kind": "tick",
        "partitions": [{"partition": "p0", "events": len(rows), "max_event_time": newest}],
        "carry": timeline.carry(),
    }
    columns = {field.name: pa.array([row.get(field.name)], field.type) for field in WATERMARKS}
    lake.store.watermarks.append(batch, pa.table(columns, schema=WATERMARKS))
    nothing = {name: Decimal(0) for name in LEDGER.names[3:]}
    lines = [
        {**nothing, "batch": batch, "output": output, "unit": unit, "received": Decimal(len(rows))}
        | {"on_time": Decimal(len(rows))}
        for output in lake.pipeline.outputs
        for unit in ("events", "assignments")
    ]
    lake.ledger(batch, lines)


def _publish(lake: Lake, batch: int, events: dict[str, Any], story: Story, watermark: int) -> None:
    """Every event that has come is in a number: published where the window has closed, else open."""
    merchants, length = story.merchants, story.length
    width = len(merchants)
    places, place = np.unique(events["time"] // length * width + events["merchant"], return_inverse=True)
    counts = np.bincount(place)
    sums = np.bincount(place, events["paise"])
    closed, still_open = [], []
    for each, count, total in zip(places.tolist(), counts.tolist(), sums.tolist(), strict=True):
        start = NOON + each // width * length
        row = {
            "window_start": start,
            "window_end": start + length,
            "merchant": merchants[each % width],
            "paise": Decimal(int(total)),
            "payments": count,
            "op": "insert",
            "_lc_events": count,
        }
        done = start + length <= watermark
        named = {
            "sequence": 0,
            "timing": "ON_TIME",
            "fired_at": start + 2 * length,
            "watermark": start + length,
        }
        (closed if done else still_open).append({**row, **(named if done else {})})
    lake.panes("minute_totals", batch, closed)
    lake.partials("minute_totals", batch, still_open)
