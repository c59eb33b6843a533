"""A store with a story, made by hand: three windows, one corrected and one rebuilt, and every fate that is listed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from cli.cli_kit import MINUTE, NOON, PIPELINE, Lake, pane, rows_of
from latecomer.model.strategies import TickSummary
from latecomer.model.timeline import Timeline
from latecomer.store.layout import LEDGER
from latecomer.store.publications import BatchCloser

HOSTILE = "<script>document.title='owned'</script>\"'&<img src=x onerror=alert(1)>"
"""A key that somebody made up."""
SECOND = 1_000_000


def new_lake(folder: Path, text: str = PIPELINE) -> Lake:
    folder.mkdir(exist_ok=True)
    file = folder / "pipeline.yaml"
    file.write_text(text, encoding="utf-8")
    return Lake(file)


def close(lake: Lake, batch: int, at: int, **fates: int) -> None:
    """Close a batch in the ledger, published at a moment, with the same fates for every output."""
    line = {name: Decimal(0) for name in LEDGER.names[3:]}
    line |= {fate: Decimal(amount) for fate, amount in fates.items()}
    line["received"] = Decimal(sum(fates.values()))
    rows = [
        {**line, "batch": batch, "output": output, "unit": unit}
        for output in lake.pipeline.outputs
        for unit in ("events", "assignments")
    ]
    BatchCloser(lake.store, lambda: at).close(batch, rows_of(LEDGER, rows))


def event(
    second: int, arrived: int, merchant: str, paise: int, batch: int, tick: int, **more: Any
) -> dict[str, Any]:
    """An event at a second after noon, that arrived at another."""
    return {
        "event_time": NOON + second * SECOND,
        "arrival_time": NOON + arrived * SECOND,
        "source_partition": "p0",
        "origin": f"file-{batch}.json",
        "position": second,
        "event_id": f"e{batch}-{second}",
        "batch": batch,
        "tick": tick,
        "merchant": merchant,
        "paise": paise,
        **more,
    }


def published_store(folder: Path, merchant: str = "amul", text: str = PIPELINE) -> Lake:
    """Three batches: two windows published, one of them corrected, then rebuilt; another still open."""
    lake = new_lake(folder, text)
    store = lake.store
    store.pin()
    events = store.events
    first = [event(second, second + 1, merchant, 10, 0, 0) for second in (5, 15, 65)]
    events.append(0, rows_of(events.schema, first))
    late = [event(25, 130, merchant, 7, 1, 1), event(125, 131, merchant, 1, 1, 1)]
    events.append(1, rows_of(events.schema, late))
    timeline = Timeline(lake.pipeline.watermark)
    for tick, (arrived, happened) in enumerate([(66, 65), (131, 125), (165, 150)]):
        newest = NOON + happened * SECOND
        timeline.extend([TickSummary(tick * 60 * SECOND, NOON + arrived * SECOND, "p0", 1, newest)])
    minutes = {0: NOON - MINUTE, 1: NOON + MINUTE + 35 * SECOND, 2: NOON + 2 * MINUTE}
    for batch, watermark in minutes.items():
        carry = timeline.carry()
        at = NOON + (66 + 65 * batch) * SECOND
        newest = NOON + (65 + 60 * batch) * SECOND
        seen = [{"partition": "p0", "events": 3 - batch, "max_event_time": newest}] if batch < 2 else []
        row = {"tick": batch, "at": at, "watermark": watermark, "carry": carry, "partitions": seen}
        lake.watermarks(batch, [row])
    one = {"merchant": merchant, "payments": 2}
    lake.panes("minute_totals", 0, [pane(0, 0, paise=20, **one)])
    lake.panes(
        "minute_totals",
        1,
        [
            pane(0, 0, op="retract", timing="LATE", paise=20, **one),
            pane(0, 1, timing="LATE", paise=27, merchant=merchant, payments=3),
            pane(1, 0, paise=10, merchant=merchant, payments=1),
        ],
    )
    lake.panes(
        "minute_totals", 2, [pane(1, 1, timing="CORRECTION", paise=2**60, merchant=merchant, payments=1)]
    )
    lake.partials("minute_totals", 2, [pane(2, 0, paise=1, merchant=merchant, payments=1)])
    aside = event(30, 140, merchant, 4, 1, 1, window_start=NOON, window_end=NOON + MINUTE, verdict="TOO_LATE")
    lake.late("minute_totals", 1, [aside])
    lake.dead_letters(
        1, [{"reason": "no_event_time", "raw": json.dumps({"merchant": merchant}), "position": 9}]
    )
    for batch, fates in enumerate(
        (
            {"on_time": 3},
            {"on_time": 1, "late_accepted": 1, "side_output": 1, "dead_letter": 1},
            {"on_time": 0},
        )
    ):
        close(lake, batch, NOON + (2 + batch) * MINUTE, **fates)
    return lake


@dataclass(frozen=True)
class Got:
    """An answer."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def get(url: str, headers: Mapping[str, str] | None = None, **asked: str) -> Got:
    """Ask for a page."""
    whole = url + ("?" + urlencode(asked) if asked else "")
    request = urllib.request.Request(whole, headers=dict(headers or {}))
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return Got(answer.status, answer.read().decode(), dict(answer.headers))
    except urllib.error.HTTPError as refused:
        with refused:
            return Got(refused.code, refused.read().decode(), dict(refused.headers))
