"""Diwali night, 19:25 to 19:50 IST: UPI payments from eight towers, one of which goes silent.

At 19:30:14 the Lucknow tower loses its uplink and buffers what it hears: 1,824 payments stamped
19:30:14 to 19:30:44. It flushes them at 19:47:22, sixteen minutes after the 19:30 minute was closed,
published and rendered on a dashboard. The figures are drawn from a fixed seed: every run is the same.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 11, 8, 13, 55, tzinfo=UTC)  # 19:25 IST
MINUTES = 25
PAYMENTS_A_SECOND = 200
TOWERS = ("delhi", "mumbai", "pune", "jaipur", "kolkata", "chennai", "kochi")
SILENT = "lucknow"
SILENT_FROM = START + timedelta(minutes=5, seconds=14)
SILENT_UNTIL = START + timedelta(minutes=22, seconds=22)
BUFFERED = 1_824
BUFFERED_SECONDS = 30
CLOSED_MINUTE = START + timedelta(minutes=5)
FILES = 5

PIPELINE = """\
name: diwali
store: ./store
source:
  files: {path: arrivals, format: json, order_by: arrival_time, max_files_per_batch: 1}
event: {time: event_time, id: txn_id, partition: tower}
watermark: {strategy: bounded, delay: 30s, idle_after: 2m, max_future: 5m}
ledger: [paise]
outputs:
  dashboard:                 # an internal health check: a rounding error may be lost
    window: {tumbling: 1m}
    aggregates: {paise: sum(paise), payments: count(*)}
    late: drop
  warehouse:                 # upserts are welcome: the number is put right
    window: {tumbling: 1m}
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 20m
    late: update
    sinks: [{sqlite: warehouse.db}]
  cfo_report:                # a published number must not move: stragglers are kept aside
    window: {tumbling: 1m}
    aggregates: {paise: sum(paise), payments: count(*)}
    late: side_output
  alerts:                    # a wrong alert is withdrawn before the right one is raised
    window: {tumbling: 1m}
    by: [tower]
    aggregates: {paise: sum(paise), payments: count(*), largest: max(paise)}
    allowed_lateness: 20m
    late: retract
    sinks: [{jsonl: alerts}]
"""


def write_scenario(folder: Path) -> tuple[Path, int]:
    """Write the pipeline file and the arrivals; returns the file and the number of payments."""
    arrivals = folder / "arrivals"
    arrivals.mkdir(parents=True)
    file = folder / "diwali.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    payments = sorted(_payments(random.Random(2026)))  # noqa: S311 - a scenario, not a secret
    size = -(-len(payments) // FILES)
    for number in range(FILES):
        part = arrivals / f"{number:02d}.json"
        with open(part, "w", encoding="utf-8") as lines:
            lines.writelines(line + "\n" for _, _, line in payments[number * size : (number + 1) * size])
        landed = START.timestamp() + number  # one after the other, whatever the clock's resolution
        os.utime(part, (landed, landed))
    return file, len(payments)


def _payments(rng: random.Random) -> Iterator[tuple[float, int, str]]:
    """Arrival second, number and JSON line of each payment; a few of them are sent twice."""
    number = 0
    for second in range(MINUTES * 60):
        for _ in range(PAYMENTS_A_SECOND):
            number += 1
            tower = rng.choice((*TOWERS, SILENT))
            happened = second + rng.random()
            delay = rng.expovariate(1 / 2) if rng.random() < 0.999 else rng.uniform(40, 300)
            if tower == SILENT and SILENT_FROM <= _at(happened) < SILENT_UNTIL:
                tower = rng.choice(TOWERS)
            line = _line(number, tower, happened, happened + delay, rng)
            yield happened + delay, number, line
            if rng.random() < 0.0005:
                yield (
                    happened + delay + 3,
                    number,
                    line.replace(_iso(happened + delay), _iso(happened + delay + 3)),
                )
    silence = (SILENT_FROM - START).total_seconds()
    flush = (SILENT_UNTIL - START).total_seconds()
    for _ in range(BUFFERED):
        number += 1
        happened, arrived = silence + rng.random() * BUFFERED_SECONDS, flush + rng.random()
        yield arrived, number, _line(number, SILENT, happened, arrived, rng)


def _line(number: int, tower: str, happened: float, arrived: float, rng: random.Random) -> str:
    return json.dumps(
        {
            "txn_id": f"upi{number:07d}",
            "tower": tower,
            "paise": rng.randint(100, 50_000),
            "event_time": _iso(happened),
            "arrival_time": _iso(arrived),
        }
    )


def _at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def _iso(second: float) -> str:
    return _at(second).isoformat(timespec="milliseconds").replace("+00:00", "Z")
