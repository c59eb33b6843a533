"""What sinks for side output and dead letters hold, beside what the reader has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from latecomer.after.reading.reader import Reader
from latecomer.config.models import Pipeline
from latecomer.model.written_values import json_rows
from sink.sink_kit import catalog_at, lines_of, rows_of_delta, rows_of_duckdb, rows_of_iceberg, rows_of_sqlite


def sinks_in(folder: Path, which: str) -> str:
    """A sink of each kind for side output or dead letters, as the pipeline file has them."""
    table = {"late": "totals_late", "dead": "dead_letters"}[which]
    iceberg = json.dumps({"iceberg": {**catalog_at(folder), "table": f"shop.{table}"}})
    return (
        f"[{{sqlite: both.db}}, {{duckdb: both.duckdb}}, {iceberg}, {{delta: {which}}}, "
        f"{{jsonl: {which}_lines}}, {{parquet: {which}_files}}]"
    )


def of_reader(pipeline: Pipeline, which: str) -> pa.Table:
    """What the store has of side output, or of rows that are no events: sinks get these, and not what an output cannot
    compute."""
    reader = Reader(pipeline)
    return reader.late("totals") if which == "late" else reader.dead_letters().drop_columns(["output"])


def found_in(folder: Path, which: str, kind: str) -> list[dict[str, Any]]:
    """What a sink holds, in its order; that of a table without one is by place."""
    table = {"late": "totals_late", "dead": "dead_letters"}[which]
    if kind == "sqlite":
        return rows_of_sqlite(folder / "both.db", table)
    if kind == "duckdb":
        return rows_of_duckdb(folder / "both.duckdb", table)
    if kind in ("delta", "iceberg"):
        rows = rows_of_delta(folder / which) if kind == "delta" else rows_of_iceberg(folder, table)
        return sorted(
            rows, key=lambda row: [row.get(n) for n in ("batch", "origin", "position", "window_start")]
        )
    if kind == "jsonl":
        return lines_of(folder / f"{which}_lines")
    files = sorted((folder / f"{which}_files").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def wanted_in(rows: pa.Table, kind: str) -> list[dict[str, Any]]:
    """What the reader has, as the sink writes it."""
    if kind in ("delta", "duckdb", "iceberg", "parquet"):
        return rows.to_pylist()
    written = list(json_rows(rows))
    if kind == "sqlite" and "raw_bytes" in rows.column_names:
        for row, raw in zip(written, rows["raw_bytes"].to_pylist(), strict=True):
            row["raw_bytes"] = raw
    return written
