"""Arrivals of a small shop, as files and as a log: known delays, a slow group, a clock that is ahead."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SECOND = 1_000_000
BEGIN = 1_777_118_400 * SECOND
"""2026-04-25T12:00:00Z."""


@dataclass(frozen=True)
class Row:
    event_time: int
    arrival_time: int
    shard: str
    region: str
    amount: int


def rows(count: int = 3_000) -> list[Row]:
    """One a second. Every 50th is a minute late, every 300th ten minutes; those are of the region `far`, in which few
    others are. Shard `b` has every third."""
    found = []
    for nth in range(count):
        behind = 600 if nth % 300 == 299 else 60 if nth % 50 == 49 else nth % 3
        region = "far" if behind >= 60 or nth % 40 == 0 else "near"
        happened = BEGIN + (nth - behind) * SECOND
        found.append(
            Row(happened, BEGIN + nth * SECOND + 500_000, "ab"[nth % 3 == 0], region, 1 + behind // 60)
        )
    return found


def iso(micros: int) -> str:
    return (
        (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")
    )


def written(folder: Path, form: str, given: Sequence[Row] | None = None) -> Path:
    """The rows in one file of a format."""
    outcome = [
        {**vars(row), "event_time": iso(row.event_time), "arrival_time": iso(row.arrival_time)}
        for row in given or rows()
    ]
    file = folder / f"arrivals.{form}"
    if form == "json":
        file.write_text("".join(json.dumps(each) + "\n" for each in outcome))
    elif form == "csv":
        with open(file, "w", newline="") as out:
            writer = csv.DictWriter(out, list(outcome[0]))
            writer.writeheader()
            writer.writerows(outcome)
    else:
        table = pa.Table.from_pylist([vars(row) for row in given or rows()])
        for name in ("event_time", "arrival_time"):
            moments = table[name].cast(pa.timestamp("us", "UTC"))
            table = table.set_column(table.schema.get_field_index(name), name, moments)
        pq.write_table(table, file, row_group_size=700)
    return file
