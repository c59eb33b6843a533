"""A log of rides and users with both shapes, made row by row, so that reading it needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from latecomer.config.load import load_pipeline
from latecomer.store.store import Store

NOON = 1_777_118_400_000_000
"""2026-04-25T12:00:00Z."""
PIPELINE = """
name: rides
store: ./lake
source:
  files: {path: "in/*.json", order_by: arrived}
  schema:
    at: timestamp
    arrived: timestamp
    ride_id: string
    app: string
    fare_cents: bigint
    pricing: {base: bigint, surge: bigint, tax: bigint}
    signup_date: string
    created_at: string
    day: date
    moment: timestamp
event: {time: at, id: ride_id, producer: app}
watermark: {delay: 30s}
outputs:
  totals: {window: {tumbling: 1m}, aggregates: {rides: count(*)}}
"""


def rides(folder: Path) -> Store:
    """An empty store in a folder."""
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    pipeline = load_pipeline(file)
    assert pipeline.source.columns is not None
    store = Store(pipeline, pipeline.source.columns)
    store.pin()
    return store


def log(store: Store, batch: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append events; `second` is when each arrived, after noon."""
    view, schema = store.layout.view, store.layout.schema
    filled = []
    for position, row in enumerate(rows):
        at = NOON + int(row.get("second", 0)) * 1_000_000
        payload = {view[name]: value for name, value in row.items() if name in view}
        filled.append(
            {
                "event_time": at,
                "arrival_time": at,
                "origin": f"in/{batch}.json",
                "position": position,
                "producer": row.get("app"),
                "schema_id": row.get("schema_id", 1),
                "batch": batch,
                "tick": 0,
                **payload,
            }
        )
    columns = {each.name: pa.array([row.get(each.name) for row in filled], each.type) for each in schema}
    store.events.append(batch, pa.table(columns, schema=schema))


def ride(second: int, app: str, fare: int | None, *pricing: int | None, **more: Any) -> dict[str, Any]:
    """A ride with both shapes; without the new one where no pricing is given."""
    base, surge, tax = pricing or (None, None, None)
    new = {"pricing.base": base, "pricing.surge": surge, "pricing.tax": tax}
    return {"second": second, "app": app, "ride_id": f"{app}-{second}", "fare_cents": fare, **new, **more}


MIXED = [
    ride(0, "android", 1250, 1000, 150, 100),
    ride(1, "ios", 1250, 1000, 150, 100),
    ride(2, "ios", 1250, 1000, 150, 99),
    ride(3, "ios", 900),
    ride(4, "web", None, 1, 2, 3),
    ride(5, "web", None),
]
"""Six events, of which three drift."""
