"""What a user waits for at the command line."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from bench.processes import Failed, measured, work_folder
from bench.record import Found, table
from bench.workload import COLUMNS

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights"
PIPELINE = "pipeline.yaml"
LATECOMER = (sys.executable, "-m", "latecomer")
MORE_OUTPUTS: Mapping[str, Any] = {
    "hours": {
        "window": {"tumbling": "1h"},
        "by": ["dest"],
        "aggregates": {"flights": "count(*)", "distance": "sum(distance)"},
        "allowed_lateness": "6h",
    },
    "weeks": {
        "window": {"calendar": "week", "zone": "America/New_York"},
        "by": ["carrier", "origin"],
        "aggregates": {"flights": "count(*)", "dep_delay": "avg(dep_delay)"},
        "allowed_lateness": "12h",
    },
}
"""Beside the two of the example."""
A_SESSION = "from latecomer.spark.session import build_session; build_session('bare').range(1).count()"


def rebuild(asked: argparse.Namespace) -> Found:
    """A day of ten, against a plain Spark job that reads the same log."""
    result = measured("bench.rebuild", str(asked.folder / "days"))
    made = table(
        f"a day of ten rebuilt: {asked.events:,} events, 1-hour windows, 10k keys",
        *("", "plain Spark", "latecomer", "latecomer / plain", "files read", "rows changed"),
    )
    for run in result["runs"]:
        times = f"{run['rebuild'] / run['plain']:.2f}"
        read = f"{run['files']} of {result['files']}"
        made.add_row(
            run["day"], f"{run['plain']:.2f} s", f"{run['rebuild']:.2f} s", times, read, f"{run['changed']:,}"
        )
    ratios = {f"plain Spark / rebuild, {run['day']}": run["plain"] / run["rebuild"] for run in result["runs"]}
    return Found([made], ratios, result)


def flights(asked: argparse.Namespace) -> Found:
    """A year of flights with four outputs, and the checks of its store."""
    made = table(f"a year of flights, {asked.flights:,} rows, four outputs", "command", "seconds", "goal")
    found = Found([made], figures={})
    with work_folder() as work:
        settings = _year(work, asked.flights)
        settings["outputs"] |= MORE_OUTPUTS
        _write(work, settings)
        commands = {
            "run --drain": (("run", PIPELINE, "--drain"), 25),
            "ledger --check": (("ledger", PIPELINE, "--check"), 10),
            "certify": (("certify", PIPELINE, "days", "--to", "days.cert"), None),
            "certify --check": (("certify", PIPELINE, "days", "--check", "days.cert"), 10),
        }
        for name, (command, goal) in commands.items():
            seconds = _timed(work, *LATECOMER, *command)
            found.figures[name] = seconds
            made.add_row(name, f"{seconds:.1f}", f"{goal} s" if goal else "")
    return found


def startup(asked: argparse.Namespace, rows: int = 600) -> Found:
    """Small commands, three times or as often as asked for: the median. A Spark session alone is what they are held
    against."""
    with work_folder() as work:
        rounds: dict[str, list[float]] = {"a Spark session": [], "run --once": [], "--help": []}
        for nth in range(max(3, asked.rounds) + 1):
            _write(work, _small(asked.folder / f"files-{rows}", f"./store-{nth}"))
            rounds["a Spark session"].append(_timed(work, sys.executable, "-c", A_SESSION))
            rounds["run --once"].append(_timed(work, *LATECOMER, "run", PIPELINE, "--once"))
            rounds["--help"].append(_timed(work, *LATECOMER, "--help"))
    rounds = {name: seconds[1:] for name, seconds in rounds.items()}  # the first makes what later starts use
    goals = {"run --once": "the session + 4 s", "--help": "0.3 s"}
    middle = {name: statistics.median(seconds) for name, seconds in rounds.items()}
    made = table(f"start-up, {rows} rows", "command", "seconds", "goal", "session / command")
    for name, seconds in middle.items():
        ratio = middle["a Spark session"] / seconds
        made.add_row(name, f"{seconds:.2f}", goals.get(name, ""), f"{ratio:.2f}" if name in goals else "")
    ratios = {f"a Spark session / {name}": middle["a Spark session"] / middle[name] for name in goals}
    return Found([made], ratios, rounds)


def _small(source: Path, store: str) -> dict[str, Any]:
    """The pipeline of the other cases, as a file."""
    return {
        "name": "small",
        "store": store,
        "source": {"files": {"path": str(source), "order_by": "arrival_time"}, "schema": dict(COLUMNS)},
        "event": {"time": "event_time", "partition": "tower"},
        "watermark": {"delay": "30s"},
        "outputs": {
            "minute": {
                "window": {"tumbling": "1m"},
                "by": ["merchant"],
                "aggregates": {"paise": "sum(paise)", "payments": "count(*)"},
                "allowed_lateness": "10m",
                "late": "update",
            }
        },
    }


def _year(work: Path, rows: int) -> dict[str, Any]:
    """So many flights in a folder, and the pipeline of the example."""
    if not (work / "data").exists():
        _timed(work, sys.executable, str(FLIGHTS / "generate.py"), "--to", "data", "--rows", str(rows))
    settings: dict[str, Any] = yaml.safe_load((FLIGHTS / "flights.yaml").read_text(encoding="utf-8"))
    return settings


def _write(work: Path, settings: Mapping[str, Any]) -> None:
    (work / PIPELINE).write_text(yaml.safe_dump(dict(settings), sort_keys=False), encoding="utf-8")


def _timed(work: Path, *command: str) -> float:
    """The seconds of a process, which must not fail."""
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=work, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True
    )
    seconds = time.monotonic() - began
    if done.returncode:
        raise Failed(
            f"{' '.join(command[:6])} failed ({done.returncode}):\n{(done.stdout + done.stderr)[-3000:]}"
        )
    return seconds
