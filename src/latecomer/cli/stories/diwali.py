"""Diwali night, 19:25 to 19:50 IST: UPI payments from eight towers, one of which goes silent.

At 19:30:14 the Lucknow tower loses its uplink and buffers what it hears: 1,824 payments stamped
19:30:14 to 19:30:44. It flushes them at 19:47:22, sixteen minutes after the 19:30 minute was closed,
published and rendered on a dashboard. The figures are drawn from a fixed seed: every run is the same.
"""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from latecomer.cli.stories.shared import batch, count, fates_table, rupees, simple_table, write_part

if TYPE_CHECKING:
    from rich.console import Console

    from latecomer.after.reading.reader import Reader
    from latecomer.spark.base import TaskTotals

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

POLICIES = {
    "dashboard": "drop",
    "warehouse": "update",
    "cfo_report": "side output",
    "alerts": "retract",
}

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
        part = payments[number * size : (number + 1) * size]
        write_part(arrivals, number, (line for *_, line in part), START)
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


# Told


def run_story(console: Console, home: Path) -> tuple[tuple[str, ...], TaskTotals]:
    """Run and show the story; returns the commands that show more, and what Spark did for it."""
    from latecomer.after.reading.reader import Reader
    from latecomer.config.load import load_pipeline
    from latecomer.engine.running import run

    with console.status("writing the payments of Diwali night …") as status:
        file, payments = write_scenario(home)
        console.print(f"{payments:,} UPI payments, 19:25 to 19:50 IST, from eight towers.")
        console.print(
            "At 19:30:14 the tower in Lucknow goes silent; at 19:47:22 it sends what it had buffered:\n"
            "1,824 payments of the minute 19:30, closed and published sixteen minutes before. (A few others of\n"
            "that minute were late, too, and came earlier.) After the last payment a drain closes every window,\n"
            "because the night is over; a warning says what a drain means for input that comes later.\n"
        )
        status.update("starting Spark …")
        done = run(
            load_pipeline(file), drain=True, watch=lambda report: status.update(batch(report)), file=file
        )
    reader = Reader(load_pipeline(file))
    _print_minute(console, reader)
    _print_ledger(console, reader)
    typed = shlex.quote(str(file))
    further = (
        f"panes {typed} warehouse --window 2026-11-08T14:00:00Z",
        f"panes {typed} alerts --window 2026-11-08T14:00:00Z --key tower=lucknow",
        f"late {typed} cfo_report --limit 5",
        f"ledger {typed} --check",
    )
    return further, done.work


def _print_minute(console: Console, reader: Reader) -> None:
    """The number of each output for the minute 19:30: as first published, and now."""
    table = simple_table("The minute 19:30 IST in the four outputs, by late policy")
    for column in ("output", "late", "first published", "stands now", "payments", "set aside"):
        table.add_column(column, justify="left" if column in ("output", "late") else "right", no_wrap=True)
    payments = {}
    for name, policy in POLICIES.items():
        published = reader.panes(name, window=CLOSED_MINUTE).to_pylist()
        standing = [row for row in reader.results(name).to_pylist() if row["window_start"] == CLOSED_MINUTE]
        aside = [row for row in reader.late(name).to_pylist() if row["window_start"] == CLOSED_MINUTE]
        payments[name] = sum(row["payments"] for row in standing)
        table.add_row(
            name,
            policy,
            rupees(sum(pane["paise"] for pane in published if pane["timing"] == "ON_TIME")),
            rupees(sum(row["paise"] for row in standing)),
            f"{payments[name]:,}",
            rupees(sum(row["paise"] for row in aside)),
        )
    console.print(table)
    console.print(_late_in_words(payments["warehouse"] - payments["dashboard"]))


def _late_in_words(late: int) -> str:
    """How many payments of the minute came late, and how many others than those of the silent tower.

    >>> _late_in_words(1_834)
    '1,834 payments of this minute came after it was closed: the 1,824 from Lucknow, and 10 others.\\n'
    """
    others = f", and {late - BUFFERED:,} others" if late > BUFFERED else ""
    return (
        f"{late:,} payments of this minute came after it was closed: the {BUFFERED:,} from Lucknow{others}.\n"
    )


def _print_ledger(console: Console, reader: Reader) -> None:
    """What was received and what became of it, by output: in payments and in rupees."""
    totals = reader.ledger_totals().to_pylist()
    for unit, title, shown in (
        ("events", "The ledger of all minutes, in payments", count),
        ("paise", "The ledger of all minutes, in rupees, to the paisa", rupees),
    ):
        lines = {row["output"]: row for row in totals if row["unit"] == unit}
        console.print(fates_table(title, {name: lines[name] for name in POLICIES}, shown))
