"""A small shop: a pipeline of one output over a folder of payments."""

from __future__ import annotations

import json
from pathlib import Path

from latecomer import Pipeline, load_pipeline

FILE = """
name: shop
store: ./lake
source:
  files: {path: "in/*.json"}
  schema: {t: timestamp, k: string, v: bigint}
event: {time: t}
watermark: {delay: 30s}
outputs:
  totals: {window: {tumbling: 1m}, by: [k], aggregates: {n: count(*), v: sum(v)}}
"""


def shop(folder: Path, more: str = "") -> Pipeline:
    """The pipeline in a folder, with `more` outputs."""
    file = folder / "pipeline.yaml"
    file.write_text(FILE + more, encoding="utf-8")
    return load_pipeline(file)


def arrive(folder: Path, name: str, minutes: range) -> None:
    """A file with a payment in each minute."""
    (folder / "in").mkdir(exist_ok=True)
    rows = [{"t": f"2026-01-01T00:{minute:02d}:00Z", "k": "a", "v": minute} for minute in minutes]
    (folder / "in" / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
