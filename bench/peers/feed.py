"""What the jobs of all peers share. A peer's environment has Python and the peer: no more is used here."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

CORES = 2
WINDOW = timedelta(minutes=1)
DELAY = timedelta(seconds=30)
LATENESS = timedelta(minutes=10)


def files(folder: Path) -> list[Path]:
    """The files of a folder in the order in which they came."""
    return sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime)


def lanes(folder: Path, target: Path, count: int = CORES) -> Path:
    """The same events in one long file a core, for peers that read the files of a folder in any order."""
    target.mkdir(parents=True)
    for nth in range(count):
        with open(target / f"lane-{nth}.json", "wb") as lane:
            for file in files(folder)[nth::count]:
                lane.write(file.read_bytes())
    return target


def parsed(line: str | bytes) -> tuple[str, datetime, int]:
    """Key, time and amount of an event."""
    row = json.loads(line)
    return row["merchant"], datetime.fromisoformat(row["event_time"]), row["paise"]


def micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def total(start: int, merchant: str, payments: int, paise: int) -> str:
    """A number as it is written by a peer: one line of JSON. `start` is in microseconds."""
    return json.dumps({"window_start": start, "merchant": merchant, "payments": payments, "paise": paise})


class Finished(Exception):
    """Raised by a job that has no other way to end."""


def run_job(job: Callable[..., Any]) -> None:
    """Call `job` with the folder of events and a folder to work in, and print how long it took.

    Numbers go to the folder `totals` below the latter. More arguments are handed on as text.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("more", nargs="*")
    asked = parser.parse_args()
    (asked.work / "totals").mkdir()
    began = time.monotonic()
    with contextlib.suppress(Finished):
        job(asked.source, asked.work, *asked.more)
    print(json.dumps({"seconds": time.monotonic() - began}), flush=True)
    sys.stderr.flush()
    os._exit(0)  # some keep threads that would go on
