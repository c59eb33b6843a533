"""Pipelines over a topic of the tests' broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kafka_kit import Client
from latecomer.after.reading.reader import Reader
from latecomer.config.models import Pipeline
from latecomer.store.sql import double_quoted
from latecomer.store.store import open_store

SCHEMA = {"at": "string", "txn": "string", "paise": "bigint"}
NOON = datetime(2026, 4, 25, 12, tzinfo=UTC)


MINUTES = {
    "window": {"tumbling": "1m"},
    "aggregates": {"payments": "count(*)", "paise": "sum(paise)"},
    "allowed_lateness": "1h",
    "late": "update",
}


def payments_from(folder: Path, source: Mapping[str, Any], **changes: Any) -> Pipeline:
    """Payments a minute, from any source."""
    return Pipeline.model_validate(
        {
            "name": "payments",
            "base": folder,
            "store": str(folder / "store"),
            "source": source,
            "event": {"time": "at", "id": "txn"},
            "watermark": {"delay": "1m", "max_future": None},
            "outputs": {"minutes": MINUTES},
            **changes,
        }
    )


def pipeline_on(folder: Path, broker: Client, *topics: str, **changes: Any) -> Pipeline:
    """Payments a minute, from topics; `changes` to the section kafka, and `watermark`, `schema`, `event`."""
    others = {
        name: changes.pop(name) for name in ("schema", "event", "watermark", "outputs") if name in changes
    }
    kafka = {"servers": broker.servers, **({"topics": topics} if topics else {}), **changes}
    source = {"kafka": kafka, "schema": others.pop("schema", SCHEMA)}
    return payments_from(folder, source, **others)


def payments(first: int, count: int, behind: int = 0) -> list[dict[str, Any]]:
    """Payments a second from noon on, numbered; each `behind` seconds earlier than its number says."""
    return [
        {"at": iso(NOON + timedelta(seconds=nth - behind)), "txn": f"t{nth}", "paise": nth}
        for nth in range(first, first + count)
    ]


def iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def logged(pipeline: Pipeline, *columns: str) -> list[Any]:
    """What the log has, in the order of positions: tuples, or the values of a single column."""
    store = open_store(pipeline)
    view = store.layout.view
    names = ", ".join(double_quoted(view.get(column, column)) for column in columns)
    rows = store.events.query(f"select {names} from t order by origin, position").to_pylist()
    return [tuple(row.values()) if len(columns) > 1 else next(iter(row.values())) for row in rows]


def totals(pipeline: Pipeline) -> tuple[int, int]:
    """How many payments stand, and what they come to."""
    rows = Reader(pipeline).results("minutes").to_pylist()
    return sum(row["payments"] for row in rows), sum(row["paise"] for row in rows)


def awaited(true: Callable[[], bool]) -> None:
    """Wait for what a run beside this does."""
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
