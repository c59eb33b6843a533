"""Are a peer's numbers right? They are held against a plain count of the same events.

A peer may leave out what it judges late, or publish no window that is still open: that is its nature, and the table
shows it. It may not count anything twice, leave out anything else, or sum wrongly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

WINDOW, DELAY = timedelta(minutes=1), timedelta(seconds=30)
KEYS = ["window_start", "merchant"]
NUMBERS = ["payments", "paise"]


@dataclass(frozen=True)
class Truth:
    """What is in the files: every window with its numbers, and how much of it can be late."""

    totals: pl.DataFrame
    late: int
    """So many events are behind a watermark that follows every event at once; a slower one judges fewer late."""
    closed: Any
    """Windows that end until then are closed when all is read."""


def truth(files: Iterable[Path]) -> Truth:
    """Count the events of files, which are in the order of their arrival."""
    events = pl.concat([pl.read_ndjson(file).select("event_time", "merchant", "paise") for file in files])
    times = events.with_columns(pl.col("event_time").str.to_datetime(time_unit="us", time_zone="UTC"))
    judged = times.with_columns(
        window_start=pl.col("event_time").dt.truncate("1m"),
        watermark=pl.col("event_time").cum_max().shift(1) - DELAY,
    )
    last: Any = judged["event_time"].max()
    return Truth(
        judged.group_by(KEYS).agg(payments=pl.len().cast(pl.Int64), paise=pl.col("paise").sum()),
        judged.filter(pl.col("window_start") + WINDOW <= pl.col("watermark")).height,
        last - 2 * DELAY,
    )


def verdict(found: pl.DataFrame, true: Truth) -> str:
    """What can be said of a peer's numbers, in a few words: `right`, what is left out, or WRONG."""
    both = true.totals.join(found, on=KEYS, how="full", suffix="_found", coalesce=True)
    columns = {
        name: both[name].fill_null(0).to_numpy() for name in (*NUMBERS, *(f"{n}_found" for n in NUMBERS))
    }
    more = columns["payments_found"] > columns["payments"]
    same = columns["payments_found"] == columns["payments"]
    if more.any():
        return f"WRONG: {more.sum():,} windows have events that are not there"
    if (columns["paise_found"] != columns["paise"])[same].any():
        return "WRONG: sums do not fit their counts"
    closed = (both["window_start"] + WINDOW <= true.closed).to_numpy()
    unpublished = int(columns["payments"][~closed & (columns["payments_found"] == 0)].sum())
    missing = int((columns["payments"] - columns["payments_found"]).sum()) - unpublished
    if missing > true.late:
        return f"WRONG: {missing:,} events are missing, and {true.late:,} can be late"
    left_out = f"; {unpublished:,} events are in windows still open" if unpublished else ""
    return (f"right, without {missing:,} late events" if missing else "right") + left_out


def standing(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """The last row of each window and key stands. Its `window_start` is in microseconds, or text in UTC."""
    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    start = pl.col("window_start")
    if frame.schema["window_start"] == pl.String:
        moment = start.str.to_datetime(time_unit="us", time_zone="UTC")
    else:
        moment = pl.from_epoch(start, time_unit="us").dt.replace_time_zone("UTC")
    return frame.select(moment, "merchant", *(pl.col(name).cast(pl.Int64) for name in NUMBERS)).unique(
        KEYS, keep="last", maintain_order=True
    )


def json_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Rows as JSON lines, plain ones or Debezium's changes, of which those that delete say nothing here."""
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if "op" not in row:
                yield row
            elif row["op"] != "d":
                yield row["after"]
