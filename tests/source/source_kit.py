"""Small pipelines over a folder of files, run once, and their tables read back."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from latecomer.config.models import Pipeline
from latecomer.engine import running
from latecomer.engine.running import run
from latecomer.spark.base import InProcess
from latecomer.store.delta.table import Table
from latecomer.store.store import Store, open_store

COUNTED = {"totals": {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}}
LANDED = 1_794_146_400  # 2026-11-08T14:00:00Z


def pipeline_in(
    folder: Path,
    *,
    files: Mapping[str, Any] | None = None,
    schema: Mapping[str, str] | None = None,
    event: Mapping[str, Any] | None = None,
    watermark: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    ledger: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    numbers: Mapping[str, Any] | None = None,
    made: bool = True,
) -> Pipeline:
    """A pipeline over `folder`/in, which is `made`, with a store beside it; what is not said is as plain as
    can be."""
    if made:
        (folder / "in").mkdir(parents=True, exist_ok=True)
    return Pipeline.model_validate(
        {
            "name": "sourced",
            "store": "store",
            "base": folder,
            "source": {
                "files": {"path": "in", **(files or {})},
                "schema": schema,
                "numbers": dict(numbers or {}),
            },
            "event": {"time": "at", **(event or {})},
            "watermark": {"delay": "10s", **(watermark or {})},
            "outputs": outputs or COUNTED,
            "ledger": list(ledger),
            "columns": dict(columns or {}),
        }
    )


def landed(file: Path, nth: int = 0) -> Path:
    """Give a file a time of landing, so that files are found in a known order."""
    os.utime(file, (LANDED + nth, LANDED + nth))
    return file


def write_text(folder: Path, name: str, text: str | bytes, nth: int = 0) -> Path:
    file = folder / "in" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return landed(file, nth)


def write_json(folder: Path, name: str, rows: Iterable[Mapping[str, Any]], nth: int = 0) -> Path:
    return write_text(folder, name, "".join(json.dumps(row) + "\n" for row in rows), nth)


def parquet_bytes(**columns: pa.Array) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def run_once(pipeline: Pipeline, spark: SparkSession, drain: bool = False) -> Store:
    """Everything that is there, and the store as it then is."""
    run(pipeline, once=True, drain=drain, spark=spark)
    return open_store(pipeline)


class HereRunner(InProcess):
    """Runs the kernels of a run in this process, where a test can put other functions in their place."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)

    def warm_up(self) -> None:
        """There are no workers to start."""


def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runs do the work of tasks in this process."""
    monkeypatch.setattr(running, "SparkRunner", HereRunner)


def rows_of(table: Table, sql: str) -> list[dict[str, Any]]:
    """The answer to a query; nothing where the table was never needed."""
    found: list[dict[str, Any]] = table.query(sql).to_pylist() if table.exists else []
    return found


def dead_letters(store: Store) -> list[tuple[str, str, str, int]]:
    """Reason, raw text, file name and position of each dead letter, in reading order."""
    found = rows_of(store.dead_letters, "select * from t order by batch, origin, position")
    return [(row["reason"], row["raw"], row["origin"].rsplit("/", 1)[-1], row["position"]) for row in found]


def ledger_lines(store: Store, output: str) -> dict[tuple[int, str], dict[str, int | float]]:
    """Batch and unit → what was received and each fate that is not nought."""
    found = rows_of(store.ledger, f"select * from t where output = '{output}'")
    return {
        (row["batch"], row["unit"]): {
            name: float(amount) if amount % 1 else int(amount)
            for name, amount in row.items()
            if name not in ("batch", "output", "unit") and amount
        }
        for row in found
    }
