"""Small stores with dead letters of every kind, and what is left of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.config.models import Pipeline
from latecomer.store.store import open_store
from source.source_kit import pipeline_in, run_once, write_text

OUTPUTS = {
    "totals": {
        "window": {"tumbling": "1m"},
        "by": ["shop"],
        "aggregates": {"n": "count(*)", "paise": "sum(paise)"},
        "allowed_lateness": "1h",
        "late": "update",
    },
    "strict": {"window": {"sliding": "2m", "every": "1m"}, "aggregates": {"n": "count(*)"}, "late": "drop"},
}
SCHEMA = {"at": "string", "arrived": "string", "id": "string", "shop": "string", "paise": "bigint"}


def row(
    nth: int, minute: int, at: str | None = None, paise: object = 100, shop: str = "amul"
) -> dict[str, object]:
    """A row that happened in a minute after 14:00, and arrived a second later."""
    written = at or f"2026-11-08T14:{minute:02d}:00Z"
    arrived = f"2026-11-08T14:{minute:02d}:01Z"
    return {"at": written, "arrived": arrived, "id": f"t{nth}", "shop": shop, "paise": paise}


def json_store(folder: Path, spark: SparkSession, files: Mapping[str, list[Any]], **more: Any) -> Pipeline:
    """A pipeline that has read files of JSON lines, one a batch; a text is a line as it is."""
    pipeline = pipeline_in(
        folder,
        files={"order_by": "arrived", "max_files_per_batch": 1},
        schema=SCHEMA,
        event={"id": "id"},
        outputs=OUTPUTS,
        ledger=["paise"],
        **more,
    )
    for nth, (name, rows) in enumerate(files.items()):
        lines = [each if isinstance(each, str) else json.dumps(each) for each in rows]
        write_text(folder, name, "".join(f"{line}\n" for line in lines), nth)
    run_once(pipeline, spark)
    return pipeline


def letters(pipeline: Pipeline) -> list[tuple[str, str | None]]:
    """Reason and detail of the dead letters there are."""
    return [(each["reason"], each["detail"]) for each in Reader(pipeline).dead_letters().to_pylist()]


def totals(pipeline: Pipeline) -> dict[str, dict[str, int]]:
    """Output → received and each fate of events that is not nought, over all batches."""
    found: dict[str, dict[str, int]] = {}
    ledger = open_store(pipeline).ledger.query("select * from t where unit = 'events'")
    for each in ledger.to_pylist():
        known = found.setdefault(each["output"], {})
        for name, amount in each.items():
            if name not in ("batch", "output", "unit", "partly_late", "late_at_source"):
                known[name] = known.get(name, 0) + int(amount)
    return {output: {name: count for name, count in sums.items() if count} for output, sums in found.items()}


def events(pipeline: Pipeline, sql: str = "select * from t order by batch, position") -> list[dict[str, Any]]:
    return open_store(pipeline).events.query(sql).to_pylist()


def open_and_closed(pipeline: Pipeline) -> dict[str, int]:
    """Shop and window → how many payments, of windows still open too."""
    rows = Reader(pipeline).results("totals", include_open=True).to_pylist()
    return {f"{each['shop']} {each['window_start']:%H:%M}": each["n"] for each in rows}
