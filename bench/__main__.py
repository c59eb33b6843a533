"""`make bench`: writes the events, runs both contenders on them, and says how they compare.

Machines are noisy, so figures are ratios within one run: above 1, latecomer is faster.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.contenders import WINDOWS
from bench.workload import DAY, IDS, in_order, write_events
from latecomer.spark.session import build_session

console = Console(width=110)


def contend(name: str, source: Path, rows: int, **more: Any) -> dict[str, Any]:
    """One contender, in a process of its own, on a fresh store."""
    options = [text for key, value in more.items() for text in (f"--{key.replace('_', '-')}", str(value))]
    return measured("bench.contenders", name, str(source), "--rows", str(rows), *options)


def measured(module: str, *options: str) -> dict[str, Any]:
    """What a process of its own measured, in a folder of its own. What it says before its last line is told at once."""
    work = Path(tempfile.mkdtemp(prefix="latecomer-bench-"))
    command = [sys.executable, "-m", module, *options, "--work", str(work)]
    with open(work / "errors", "w+", encoding="utf-8") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        said = ""
        for line in process.stdout or ():
            if said:
                console.print(said)
            said = line.rstrip()
        if process.wait():
            errors.seek(0)
            raise SystemExit(f"{module} failed:\n{errors.read()[-3000:]}")
    shutil.rmtree(work, ignore_errors=True)
    result: dict[str, Any] = json.loads(said)
    return result


def throughput(source: Path, events: int) -> None:
    table = Table(title=f"{events:,} events, 1-minute windows, 10k keys, 0.5 % very late")
    for column in ("rows a batch", "contender", "rows/s", "s a batch", "peak memory", "latecomer / native"):
        table.add_column(column, justify="right")
    for rows in (1_000_000, 250_000):
        found = {name: contend(name, source, rows) for name in ("native", "latecomer")}
        ratio = found["native"]["seconds"] / found["latecomer"]["seconds"]
        for name, result in found.items():
            table.add_row(
                f"{rows:,}",
                "native + archive" if name == "native" else name,
                f"{events / result['seconds']:,.0f}",
                f"{statistics.median(result['batches']):.2f}",
                f"{result['peak'] / 2**20:,.0f} MiB",
                f"{ratio:.2f}" if name == "latecomer" else "",
            )
    console.print(table)


def lateness(source: Path) -> None:
    table = Table(title="memory against allowed lateness (batches of 1M)")
    for column in ("allowed lateness", "peak memory", "heap after collection", "s a batch"):
        table.add_column(column, justify="right")
    for allowed in ("10m", "24h"):
        result = contend("latecomer", source, 1_000_000, lateness=allowed)
        table.add_row(
            allowed,
            f"{result['peak'] / 2**20:,.0f} MiB",
            f"{result['heap'] / 2**20:,.0f} MiB",
            f"{statistics.median(result['batches']):.2f}",
        )
    console.print(table)


def windows(source: Path, events: int, rows: int) -> None:
    table = Table(title=f"kinds of windows: {events:,} events in batches of {rows:,}")
    for column in ("window", "rows/s", "s a batch", "peak memory", "time against tumbling"):
        table.add_column(column, justify="right")
    found = {name: contend("latecomer", source, rows, window=name) for name in WINDOWS}
    for name, result in found.items():
        table.add_row(
            " ".join(f"{key} {length}" for key, length in WINDOWS[name].items()),
            f"{events / result['seconds']:,.0f}",
            f"{statistics.median(result['batches']):.2f}",
            f"{result['peak'] / 2**20:,.0f} MiB",
            f"{result['seconds'] / found['tumbling']['seconds']:.2f}",
        )
    console.print(table)
    growth = Table(title="cost against the events read so far: seconds per million, quarter by quarter")
    for column in ("window", "first", "second", "third", "fourth", "fourth / second"):
        growth.add_column(column, justify="right")
    for name, result in found.items():
        first, second, third, fourth = (cost / (rows / 1e6) for cost in quarters(result["batches"]))
        growth.add_row(
            name, *(f"{each:.2f}" for each in (first, second, third, fourth)), f"{fourth / second:.2f}"
        )
    console.print(growth)


def quarters(batches: list[float]) -> list[float]:
    """The mean of each quarter of the batches, of which there are four at least."""
    cuts = [len(batches) * quarter // 4 for quarter in range(5)]
    return [statistics.mean(batches[start:end]) for start, end in pairwise(cuts)]


def endurance(source: Path, rows: int) -> None:
    result = contend("latecomer", source, rows, rows_a_file=rows)
    batches = result["batches"]
    table = Table(title=f"time of a batch against the length of the run ({len(batches)} batches of {rows:,})")
    for column in ("around batch", "median seconds", "against batch 20"):
        table.add_column(column, justify="right")
    early = statistics.median(batches[15:26])
    for batch in (20, 60, 100, 150, 200):
        around = statistics.median(batches[batch - 5 : batch + 6])
        table.add_row(str(batch), f"{around:.2f}", f"{around / early:.2f}")
    console.print(table)


def ids(source: Path, rows: int, rows_a_file: int, rounds: int, kinds: Sequence[str]) -> None:
    """The same events, once without ids and once with each kind of ids, and that several times over."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ("nothing", *kinds)}
    for _ in range(rounds):
        for name, runs in found.items():
            runs.append(
                contend(
                    "latecomer", source, rows, rows_a_file=rows_a_file, lateness="24h", identified_by=name
                )
            )
            console.print(f"{name}: {' '.join(f'{each:.2f}' for each in runs[-1]['batches'])}")
    for measure, unit in (("batches", "seconds"), ("worked", "processor seconds")):
        sides = {name: [run[measure] for run in runs] for name, runs in found.items()}
        console.print(
            against_none(sides, f"ids, {unit}: batches of {rows:,}, 24 h of lateness, {rounds} rounds")
        )


def against_none(sides: dict[str, list[list[float]]], title: str) -> Table:
    """What each kind of ids costs a batch, as a ratio to the run without ids of the same round."""
    count = min(len(batches) for runs in sides.values() for batches in runs)
    around = [batch for batch in (5, 10, 15, 20, 60, 100, 150, 200) if batch + 3 < count]
    table = Table(title=title)
    for column in ("identified by", "a batch", "against none", *(f"around {each}" for each in around)):
        table.add_column(column, justify="right")
    plain = sides["nothing"]
    for name, runs in sides.items():
        pairs = list(zip(runs, plain, strict=True))
        ratios = [
            statistics.median(mean_of(run, each) / mean_of(other, each) for run, other in pairs)
            for each in around
        ]
        whole = statistics.median(sum(run[3:]) / sum(other[3:]) for run, other in pairs)
        typical = statistics.median(each for run in runs for each in run[3:])
        table.add_row(name, f"{typical:.2f}", f"{whole:.2f}", *(f"{each:.2f}" for each in ratios))
    return table


def mean_of(batches: list[float], around: int) -> float:
    """What a batch takes, from it and its neighbours: a whole cycle of four, where some are resent."""
    return statistics.mean(batches[around - 2 : around + 2])


def rebuild(source: Path, events: int) -> None:
    result = measured("bench.rebuild", str(source))
    table = Table(title=f"a day of ten rebuilt: {events:,} events, 1-hour windows, 10k keys")
    for column in ("", "plain Spark", "latecomer", "latecomer / plain", "files read", "rows changed"):
        table.add_column(column, justify="right")
    for run in result["runs"]:
        table.add_row(
            run["day"],
            f"{run['plain']:.2f} s",
            f"{run['rebuild']:.2f} s",
            f"{run['rebuild'] / run['plain']:.2f}",
            f"{run['files']} of {result['files']}",
            f"{run['changed']:,}",
        )
    console.print(table)


def postgres() -> None:
    result = measured("bench.postgres")
    table = Table(title="the Postgres sink on loopback")
    for column in ("rows", "rows a batch", "s a batch", "rows/s"):
        table.add_column(column, justify="right")
    for run in result["runs"]:
        table.add_row(
            run["way"], f"{run['rows']:,}", f"{run['seconds']:.3f}", f"{run['rows'] / run['seconds']:,.0f}"
        )
    console.print(table)


def kafka_sink(rows: int = 100_000) -> None:
    result = measured("bench.kafka_sink", "--rows", str(rows))
    table = Table(title=f"panes to a Kafka topic, {rows:,} a batch and transaction, four partitions")
    columns = (
        "",
        "panes/s",
        "slowest batch",
        "fastest batch",
        "against a producer alone",
        "processor time a pane",
    )
    for column in columns:
        table.add_column(column, justify="right")
    alone = statistics.median(seconds for seconds, _ in result["a producer alone"])
    for name, batches in result.items():
        seconds = [each for each, _ in batches]
        middle = statistics.median(seconds)
        rates = (f"{rows / each:,.0f}" for each in (middle, max(seconds), min(seconds)))
        spent = statistics.median(each for _, each in batches) / rows * 1e6
        table.add_row(name, *rates, f"{alone / middle:.2f}", f"{spent:.1f} µs")
    console.print(table)


def kafka(source: Path, events: int, rows: int = 250_000) -> None:
    files = contend("latecomer", source, rows)
    topic = measured("bench.kafka_source", "throughput", str(source), "--rows", str(rows))
    table = Table(
        title=f"{events:,} events from a topic of eight partitions, and from files; batches of {rows:,}"
    )
    for column in ("source", "rows/s", "s a batch", "topic / files", "by processor time"):
        table.add_column(column, justify="right")
    ratio, worked = files["seconds"] / topic["seconds"], sum(files["worked"]) / sum(topic["worked"])
    for name, found, ratios in (("files", files, ()), ("topic", topic, (f"{ratio:.2f}", f"{worked:.2f}"))):
        speed, batch = f"{events / found['seconds']:,.0f}", statistics.median(found["batches"])
        table.add_row(name, speed, f"{batch:.2f}", *ratios)
    console.print(table)


def kafka_load(seconds: float) -> None:
    result = measured("bench.kafka_source", "load", "--seconds", str(seconds))
    samples = result["samples"]
    table = Table(title=f"256 partitions, 50,000 events/s for {seconds:,.0f} s, while they are written")
    for column in ("minute", "batches", "rows/s", "still to read", "memory"):
        table.add_column(column, justify="right")
    for minute in range(int(seconds // 60) + 1):
        found = [each for each in samples if each["at"] // 60 == minute]
        if found:
            rows = sum(each["rows"] for each in found) / 60
            most = max(each["unread"] for each in found)
            memory = max(each["memory"] for each in found) / 2**20
            table.add_row(str(minute), str(len(found)), f"{rows:,.0f}", f"{most:,}", f"{memory:,.0f} MiB")
    console.print(table)
    console.print(f"{result['written']:,} events were written, and {result['received']:,} are in the ledger")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument(
        "--only",
        choices=[
            *("throughput", "windows", "lateness", "endurance", "ids", "rebuild"),
            *("postgres", "kafka-sink", "kafka", "kafka-load"),
        ],
    )
    parser.add_argument("--rows", type=int, default=250_000, help="rows a batch, for ids")
    parser.add_argument("--rounds", type=int, default=1, help="how often each side is run, for ids")
    parser.add_argument("--seconds", type=float, default=600, help="how long, for kafka-load")
    parser.add_argument("--kinds", nargs="+", choices=IDS, default=IDS, help="kinds of ids, for ids")
    asked = parser.parse_args()
    if asked.only in (None, "postgres"):
        postgres()
    if asked.only in (None, "kafka-sink"):
        kafka_sink()
    if asked.only in (None, "kafka-load"):
        kafka_load(asked.seconds)
    if asked.only in ("postgres", "kafka-sink", "kafka-load"):  # no event is read from a folder
        return
    folder = Path(tempfile.mkdtemp(prefix="latecomer-events-"))
    try:
        spark = build_session("bench events")
        console.print(f"writing {asked.events:,} events …")
        if asked.only not in ("rebuild", "ids"):
            write_events(spark, folder / "large", asked.events)
        if asked.only in (None, "rebuild"):
            write_events(spark, folder / "days", asked.events, apart=10 * DAY // asked.events)
        if asked.only in (None, "endurance"):
            write_events(spark, folder / "small", 2_060_000, rows_a_file=10_000)
        if asked.only in (None, "ids"):
            write_events(spark, folder / "ids", asked.events, asked.rows // 2, rows_a_batch=asked.rows)
        spark.stop()
        for each in folder.iterdir():
            in_order(each)
        parts = {
            "throughput": lambda: throughput(folder / "large", asked.events),
            "windows": lambda: windows(folder / "large", asked.events, min(asked.events // 4, 1_000_000)),
            "lateness": lambda: lateness(folder / "large"),
            "endurance": lambda: endurance(folder / "small", 10_000),
            "ids": lambda: ids(folder / "ids", asked.rows, asked.rows // 2, asked.rounds, asked.kinds),
            "rebuild": lambda: rebuild(folder / "days", asked.events),
            "kafka": lambda: kafka(folder / "large", asked.events),
        }
        for name, part in parts.items():
            if asked.only in (None, name):
                part()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
