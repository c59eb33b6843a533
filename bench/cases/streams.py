"""Runs of a pipeline: how fast, how much memory, and what makes them slower."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rich.table import Table

from bench.contenders import WINDOWS
from bench.processes import Failed, console, contend, measured
from bench.record import Found, mib, table
from bench.usage import gain_of_two

PARTITIONS = (8, 256, 10_000)
SMALL = {100: 0.35, 10_000: 0.40}
"""Rows a batch, and the seconds that they may take."""
NATIVE = "native + archive"
AGAINST_NATIVE = "latecomer / native"
LARGE = {5_000_000: 2.0, 1_000_000: 2.0, 250_000: 2.0}
"""Rows a batch, and how much faster than the native pair they should be."""

OBJECT_ROWS = 1_000_000
"""In a batch of the case `object-store`."""


def throughput(asked: argparse.Namespace) -> Found:
    """Against what one would otherwise run."""
    columns = ("rows a batch", "contender", "rows/s", "s a batch", "peak memory", "its driver", "in Spark")
    made = table(
        f"{asked.events:,} events, 1-minute windows, 10k keys, 0.5 % very late",
        *columns,
        AGAINST_NATIVE,
        "goal",
    )
    found = Found([made], figures=[])
    for rows, goal in LARGE.items():
        if rows > asked.events:
            continue
        native, late = (contend(name, asked.folder / "large", rows) for name in ("native", "latecomer"))
        ratio = native["seconds"] / late["seconds"]
        for name, result, shown in ((NATIVE, native, ("", "")), ("latecomer", late, (f"{ratio:.2f}", goal))):
            memory = (mib(result["peak"]), mib(result["driver"]))
            made.add_row(
                f"{rows:,}", name, *speed(asked.events, result), *memory, result["in_spark"], *map(str, shown)
            )
            found.figures.append({"rows": rows, "contender": name, **result})
        found.ratios[f"latecomer / native, batches of {rows:,}"] = ratio
    return found


def frames(asked: argparse.Namespace) -> Found:
    """DataFrames that a query of Spark's own hands in, against the same rows read as files."""
    made = table(
        f"{asked.events:,} events, read as files and handed in by a streaming query",
        *(
            "rows a batch",
            "rows come",
            "rows/s",
            "s a batch",
            "the query alone",
            "speed against files",
            "goal",
        ),
    )
    found = Found([made], figures=[])
    for rows in (1_000_000, 250_000):
        if rows > asked.events:
            continue
        files = contend("latecomer", asked.folder / "large", rows)
        made.add_row(f"{rows:,}", "as files", *speed(asked.events, files), "", "", "")
        found.figures.append({"rows": rows, "files": files})
        for origin, goal in (("rate", "0.7"), ("files", "")):
            options = {"events": asked.events, "rows_from": origin}
            by = {
                name: contend(name, asked.folder / "large", rows, **options)
                for name in ("handed_in", "unread")
            }
            ratio = files["seconds"] / by["handed_in"]["seconds"]
            name = f"as DataFrames of {'the rate source' if origin == 'rate' else 'JSON files'}"
            alone = f"{by['unread']['seconds'] * rows / asked.events:.2f} s"
            made.add_row(
                f"{rows:,}", name, *speed(asked.events, by["handed_in"]), alone, f"{ratio:.2f}", goal
            )
            found.ratios[f"handed in from {origin} / files, batches of {rows:,}"] = ratio
            found.figures[-1][origin] = by
    return found


def cores(asked: argparse.Namespace) -> Found:
    """The same on one core of Spark's, and on two."""
    return _against_one(asked, "cores", (1, 2))


def executors(asked: argparse.Namespace) -> Found:
    """The same on one executor, and on more: processes with one core each."""
    return _against_one(asked, "executors", (1, 2, 4, 8))


def _against_one(asked: argparse.Namespace, what: str, counts: Sequence[int]) -> Found:
    rows, possible = min(asked.events, 1_000_000), gain_of_two()
    made = table(
        f"{asked.events:,} events, batches of {rows:,}; two plain processes do {possible:.2f} × the work of one",
        *(what, "rows/s", "s a batch", "peak memory", "speed against one", "once warm", "goal"),
    )
    found = Found([made], figures={"two plain processes": possible})
    for count in counts:
        result = contend("latecomer", asked.folder / "large", rows, **{what: count})
        found.figures[count] = result
        one = found.figures[1]
        ratio, warm = one["seconds"] / result["seconds"], _warm(one) / _warm(result)
        against = ("", "", "") if count == 1 else (f"{ratio:.2f}", f"{warm:.2f}", "1.6" if count == 2 else "")
        made.add_row(str(count), *speed(asked.events, result), mib(result["peak"]), *against)
        if count == 2:
            found.ratios[f"two {what} / one"] = ratio
    return found


def _warm(result: dict[str, Any]) -> float:
    """The mean of its batches but the first."""
    return float(statistics.mean(result["batches"][1:] or result["batches"]))


def bad_lines(asked: argparse.Namespace) -> Found:
    """One line in a hundred breaks off, against none."""
    rows = min(asked.events, 250_000)
    results = {name: contend("latecomer", asked.folder / name, rows) for name in ("large", "bad")}
    ratio = results["large"]["seconds"] / results["bad"]["seconds"]
    made = table(
        f"{asked.events:,} events, one line in a hundred bad, batches of {rows:,}",
        *("lines", "rows/s", "s a batch", "speed against none", "goal"),
    )
    made.add_row("all good", *speed(asked.events, results["large"]), "", "")
    made.add_row("1 % bad", *speed(asked.events, results["bad"]), f"{ratio:.2f}", "0.8")
    return Found([made], {"1 % bad lines / none": ratio}, results)


def identified(asked: argparse.Namespace) -> Found:
    """With `event.id`, against what has no ids at all."""
    source, sizes = asked.folder / "ids", {"rows_a_file": asked.rows // 2}
    native = contend("native", source, asked.rows, **sizes)
    late = contend("latecomer", source, asked.rows, identified_by="retried", **sizes)
    ratio = native["seconds"] / late["seconds"]
    made = table(
        f"{asked.events:,} events with ids, one in a hundred sent again, batches of {asked.rows:,}",
        *("contender", "rows/s", "s a batch", AGAINST_NATIVE, "goal"),
    )
    made.add_row(NATIVE, *speed(asked.events, native), "", "")
    made.add_row("latecomer, event.id", *speed(asked.events, late), f"{ratio:.2f}", "1.5")
    ratios = {f"latecomer with event.id / native, batches of {asked.rows:,}": ratio}
    return Found([made], ratios, {"native": native, "latecomer": late})


def partitions(asked: argparse.Namespace) -> Found:
    """The same events from more and more source partitions."""
    rows = min(asked.events, 1_000_000)
    results = {count: contend("latecomer", asked.folder / f"towers-{count}", rows) for count in PARTITIONS}
    few = PARTITIONS[0]
    made = table(
        f"{asked.events:,} events from many source partitions, batches of {rows:,}",
        *("partitions", "rows/s", "s a batch", "peak memory", f"speed against {few}"),
    )
    ratios = {}
    for count, result in results.items():
        ratio = results[few]["seconds"] / result["seconds"]
        made.add_row(f"{count:,}", *speed(asked.events, result), mib(result["peak"]), f"{ratio:.2f}")
        if count != few:
            ratios[f"{count:,} partitions / {few}"] = ratio
    return Found([made], ratios, results)


def outputs(asked: argparse.Namespace) -> Found:
    """Eight outputs of one pipeline, against one."""
    rows = min(asked.events, 250_000)
    results = {count: contend("latecomer", asked.folder / "large", rows, outputs=count) for count in (1, 8)}
    made = table(
        f"{asked.events:,} events into several outputs, batches of {rows:,}",
        *("outputs", "rows/s", "s a batch", "peak memory", "time against one"),
    )
    for count, result in results.items():
        times = result["seconds"] / results[1]["seconds"]
        made.add_row(str(count), *speed(asked.events, result), mib(result["peak"]), f"{times:.2f}")
    return Found([made], {"1 output / 8": results[1]["seconds"] / results[8]["seconds"]}, results)


def latency(asked: argparse.Namespace) -> Found:
    """Small batches, one after the other: the median of those that come when all is warm."""
    columns = ("rows a batch", NATIVE, "latecomer", "goal", "slowest", AGAINST_NATIVE)
    made = table("seconds of a small batch, from file to pane, warm", *columns)
    found = Found([made], figures={})
    for rows, goal in SMALL.items():
        results = {
            name: contend(name, asked.folder / f"files-{rows}", rows, rows_a_file=rows)
            for name in ("native", "latecomer")
        }
        warm = {name: result["batches"][len(result["batches"]) // 2 :] for name, result in results.items()}
        native, late = (statistics.median(warm[name]) for name in ("native", "latecomer"))
        slowest = f"{max(warm['latecomer']):.2f}"
        made.add_row(
            f"{rows:,}", f"{native:.2f}", f"{late:.2f}", f"{goal:.2f}", slowest, f"{native / late:.2f}"
        )
        found.ratios[f"latecomer / native, batches of {rows:,}"] = native / late
        found.figures[rows] = results
    return found


def object_store(asked: argparse.Namespace) -> Found:
    """A million rows a batch into a bucket, against the same into a folder of this machine, in turn."""
    result = measured(
        "bench.object_store", str(asked.folder / f"files-{OBJECT_ROWS}"), "--rows", str(OBJECT_ROWS)
    )
    middles = {  # the first warms up
        name: statistics.median(result[name][1:]) for name in ("disk", "bucket", "server", "copy")
    }
    made = table(
        f"a store in a bucket: batches of {OBJECT_ROWS:,} rows", "store", "seconds a batch", "rows/s"
    )
    for name in ("disk", "bucket"):
        made.add_row(name, f"{middles[name]:.2f}", f"{OBJECT_ROWS / middles[name]:,.0f}")
    console.print(
        f"of a batch the server itself took {middles['server']:.2f} s of processor time; "
        f"a plain client puts and gets the same bytes in {middles['copy']:.2f} s"
    )
    return Found([made], {"bucket / disk": middles["disk"] / middles["bucket"]}, result)


def open_keys(asked: argparse.Namespace) -> Found:
    """As many keys as events in a window that stays open, a million in a batch; then batches of a hundred; then one
    that closes the window."""
    result = measured("bench.scale", "keys", "--events", str(asked.events))
    large, small, closing = (result[name]["batches"] for name in ("large", "small", "closing"))
    made = table(
        f"{asked.events:,} open keys, like hashes",
        *("first batch warm", "last batch", "a small batch then", "on the disk", "peak memory", "its driver"),
        *("all of them close", "peak memory then"),
    )
    made.add_row(
        *(f"{each:.2f} s" for each in (*(large[1:2] or large), large[-1], statistics.median(small[5:]))),
        f"{result['bytes a key']:.0f} bytes a key",
        mib(result["peak"]),
        mib(result["driver"]),
        f"{max(closing):.2f} s",
        mib(result["closing"]["peak"]),
    )
    return Found([made], figures=result)


def long_log(asked: argparse.Namespace) -> Found:
    """A log of ten times and fifty times as many events as asked, in merged files, against an empty one."""
    made = table(
        "small batches over a long log",
        *("events", "files", "start and all batches", "a batch", "against an empty log", "its driver"),
    )
    found = Found([made], figures={})
    for events in (10 * asked.events, 50 * asked.events):
        result = measured("bench.scale", "log", "--events", str(events))
        empty, full = (statistics.median(result[name]["batches"][5:]) for name in ("empty", "full"))
        whole = f"{result['full']['seconds']:.1f} s"
        made.add_row(
            f"{events:,}",
            str(result["files"]),
            whole,
            f"{full:.2f} s",
            f"{full / empty:.2f}",
            mib(result["driver"]),
        )
        found.figures[events] = result
    return found


def lateness(asked: argparse.Namespace) -> Found:
    """Memory against allowed lateness."""
    made = table(
        "memory against allowed lateness (batches of 1M)",
        *("allowed lateness", "peak memory", "heap after collection", "s a batch"),
    )
    results = {}
    for allowed in ("10m", "24h"):
        result = contend("latecomer", asked.folder / "large", 1_000_000, lateness=allowed)
        results[allowed] = result
        made.add_row(allowed, mib(result["peak"]), mib(result["heap"]), middle(result))
    return Found([made], figures=results)


def windows(asked: argparse.Namespace) -> Found:
    """Kinds of windows against tumbling ones."""
    rows = min(asked.events // 4, 1_000_000)
    made = table(
        f"kinds of windows: {asked.events:,} events in batches of {rows:,}",
        *("window", "rows/s", "s a batch", "peak memory", "time against tumbling", "goal"),
    )
    growth = table(
        "cost against the events read so far: seconds per million, quarter by quarter",
        *("window", "first", "second", "third", "fourth", "fourth / second"),
    )
    results = {name: contend("latecomer", asked.folder / "large", rows, window=name) for name in WINDOWS}
    for name, result in results.items():
        title = " ".join(f"{key} {length}" for key, length in WINDOWS[name].items())
        times = result["seconds"] / results["tumbling"]["seconds"]
        made.add_row(title, *speed(asked.events, result), mib(result["peak"]), f"{times:.2f}", "3")
        costs = [cost / (rows / 1e6) for cost in quarters(result["batches"])]
        growth.add_row(name, *(f"{each:.2f}" for each in costs), f"{costs[3] / costs[1]:.2f}")
    return Found([made, growth], figures=results)


def quarters(batches: list[float]) -> list[float]:
    """The mean of each quarter of the batches, of which there are four at least."""
    cuts = [len(batches) * quarter // 4 for quarter in range(5)]
    return [statistics.mean(batches[start:end]) for start, end in pairwise(cuts)]


def endurance(asked: argparse.Namespace, rows: int = 10_000) -> Found:
    """The time of a batch against the length of the run."""
    require_batches("endurance", asked.events, rows, 26)
    result = contend("latecomer", asked.folder / f"files-{rows}", rows, rows_a_file=rows)
    batches = result["batches"]
    made = table(
        f"time of a batch against the length of the run ({len(batches)} batches of {rows:,})",
        *("around batch", "median seconds", "against batch 20"),
    )
    early = statistics.median(batches[15:26])
    for batch in (each for each in (20, 60, 100, 150, 200) if each + 6 <= len(batches)):
        around = statistics.median(batches[batch - 5 : batch + 6])
        made.add_row(str(batch), f"{around:.2f}", f"{around / early:.2f}")
    return Found([made], figures=result)


def ids(asked: argparse.Namespace) -> Found:
    """The same events, once without ids and once with each kind of ids, and that several times over."""
    require_batches("ids", asked.events, asked.rows, 4)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in ("nothing", *asked.kinds)}
    sizes = {"rows_a_file": asked.rows // 2, "lateness": "24h"}
    for _ in range(asked.rounds):
        for name, runs in results.items():
            runs.append(contend("latecomer", asked.folder / "ids", asked.rows, identified_by=name, **sizes))
            console.print(f"{name}: {' '.join(f'{each:.2f}' for each in runs[-1]['batches'])}")
    tables = []
    for measure, unit in (("batches", "seconds"), ("worked", "processor seconds")):
        sides = {name: [run[measure] for run in runs] for name, runs in results.items()}
        title = f"ids, {unit}: batches of {asked.rows:,}, 24 h of lateness, {asked.rounds} rounds"
        tables.append(against_none(sides, title))
    return Found(tables, figures=results)


def require_batches(case: str, events: int, rows: int, least: int) -> None:
    """Refuse a run that would be too short to say anything: the first batches are left out."""
    if events < least * rows:
        raise Failed(
            f"{case} needs {least} batches of {rows:,} events at least: give --events {least * rows}"
        )


def against_none(sides: dict[str, list[list[float]]], title: str) -> Table:
    """What each kind of ids costs a batch, as a ratio to the run without ids of the same round."""
    count = min(len(batches) for runs in sides.values() for batches in runs)
    around = [batch for batch in (5, 10, 15, 20, 60, 100, 150, 200) if batch + 3 < count]
    made = table(title, "identified by", "a batch", "against none", *(f"around {each}" for each in around))
    plain = sides["nothing"]
    for name, runs in sides.items():
        pairs = list(zip(runs, plain, strict=True))
        ratios = [
            statistics.median(mean_of(run, each) / mean_of(other, each) for run, other in pairs)
            for each in around
        ]
        whole = statistics.median(sum(run[3:]) / sum(other[3:]) for run, other in pairs)
        typical = statistics.median(each for run in runs for each in run[3:])
        made.add_row(name, f"{typical:.2f}", f"{whole:.2f}", *(f"{each:.2f}" for each in ratios))
    return made


def mean_of(batches: list[float], around: int) -> float:
    """What a batch takes, from it and its neighbours: a whole cycle of four, where some are resent."""
    return statistics.mean(batches[around - 2 : around + 2])


def speed(events: int, result: dict[str, Any]) -> tuple[str, str]:
    """Rows a second, and the seconds of a batch in the middle."""
    return f"{events / result['seconds']:,.0f}", middle(result)


def middle(result: dict[str, Any]) -> str:
    return f"{statistics.median(result['batches']):.2f}"
