"""A pipeline that declares no columns, and a file that arrives for it."""

from __future__ import annotations

import json
from pathlib import Path

UNDECLARED = """
name: upi
store: ./lake
source: {files: {path: "arrivals/*.json", order_by: arrived}}
event: {time: at, partition: tower}
watermark: {delay: 30s, idle_after: 2m, max_future: off}
outputs:
  totals:
    window: {tumbling: 1d, zone: Asia/Kolkata}
    by: [merchant]
    where: "paise > 0"
    aggregates: {paise: sum(paise)}
    allowed_lateness: 5m
    late: update
  counts:
    window: {tumbling: 1m}
    aggregates: {n: count(*)}
    late: drop
"""


def arrive(folder: Path, **row: object) -> None:
    (folder / "arrivals").mkdir(exist_ok=True)
    (folder / "arrivals" / "1.json").write_text(json.dumps(row) + "\n", encoding="utf-8")
