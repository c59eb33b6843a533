"""`make bench`: writes the events, runs the contenders on them, says how they compare, and keeps that as JSON.

Machines are noisy, so figures are ratios within one run: above 1, latecomer is faster.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.cases import CASES
from bench.processes import Failed, console
from bench.record import KEPT, Found, checked, fallen, load, ratios_of, record, save
from bench.workload import IDS, in_order, write_events
from latecomer.spark.session import build_session

SHORT = 2_000_000
"""So many events are enough for the ratios that are kept."""


def measure(names: Sequence[str], asked: argparse.Namespace) -> dict[str, Found]:
    """Each case's events are written, and it is measured and shown."""
    asked.folder = Path(tempfile.mkdtemp(prefix="latecomer-events-"))
    try:
        _write(names, asked)
        found = {}
        for name in names:
            console.print(f"{name} …")
            found[name] = CASES[name].measure(asked)
            for table in found[name].tables:
                console.print(table)
        return found
    finally:
        shutil.rmtree(asked.folder, ignore_errors=True)


def _write(names: Sequence[str], asked: argparse.Namespace) -> None:
    feeds = {folder: how for name in names for folder, how in sorted(CASES[name].feeds(asked).items())}
    if not feeds:
        return
    spark = build_session("bench events")
    for folder, how in feeds.items():
        console.print(f"writing {how['events']:,} events, {folder} …")
        write_events(spark, asked.folder / folder, **how)
        in_order(asked.folder / folder)
    spark.stop()


def check(asked: argparse.Namespace) -> None:
    """Measure what is kept, and fail with the cases that have fallen."""
    kept = load()
    asked.events = kept["events"]
    found = checked(kept["ratios"], lambda names: measure(names, asked))
    console.print(f"written to {save(record(asked.events, found))}")
    reasons = fallen(kept["ratios"], ratios_of(found))
    if reasons:
        lines = [f"{case}: {reason}" for case, listed in reasons.items() for reason in listed]
        raise SystemExit("fallen:\n" + "\n".join(lines))
    console.print("no ratio has fallen")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--events", type=int, help="(10,000,000; 2,000,000 for --keep)")
    parser.add_argument("--only", choices=CASES, nargs="+")
    parser.add_argument(
        "--rows", type=int, default=250_000, help="rows a batch, for ids, identified and kafka-sink"
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="how often each side is run, for ids and startup"
    )
    parser.add_argument("--seconds", type=float, default=600, help="how long, for kafka-load")
    parser.add_argument("--kinds", nargs="+", choices=IDS, default=IDS, help="kinds of ids, for ids")
    parser.add_argument("--flights", type=int, default=336_776, help="rows of the year, for flights")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--keep", action="store_true", help=f"measure what is checked, and keep it in {KEPT.name}"
    )
    what.add_argument("--check", action="store_true", help="fail if a ratio has fallen against the kept one")
    return parser


def main() -> None:
    asked = arguments().parse_args()
    try:
        if asked.check:
            check(asked)
            return
        every = [name for name, case in CASES.items() if case.checked or not asked.keep]
        asked.events = asked.events or (SHORT if asked.keep else 10_000_000)
        made = record(asked.events, measure(asked.only or every, asked))
    except Failed as error:
        raise SystemExit(str(error)) from None
    console.print(f"written to {save(made)}")
    if asked.keep:
        save({name: value for name, value in made.items() if name != "figures"}, KEPT)


if __name__ == "__main__":
    main()
