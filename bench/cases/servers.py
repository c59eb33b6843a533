"""Servers that are started for it: Postgres and Kafka."""

from __future__ import annotations

import argparse
import statistics

from bench.cases.streams import speed
from bench.processes import console, contend, measured
from bench.record import Found, mib, table


def postgres(_: argparse.Namespace) -> Found:
    result = measured("bench.postgres")
    made = table("the Postgres sink on loopback", "rows", "rows a batch", "s a batch", "rows/s")
    for run in result["runs"]:
        rate = run["rows"] / run["seconds"]
        made.add_row(run["way"], f"{run['rows']:,}", f"{run['seconds']:.3f}", f"{rate:,.0f}")
    return Found([made], figures=result)


def kafka_sink(asked: argparse.Namespace) -> Found:
    rows = min(asked.rows, 100_000)
    result = measured("bench.kafka_sink", "--rows", str(rows))
    result.pop("peak")
    made = table(
        f"panes to a Kafka topic, {rows:,} a batch and transaction, four partitions",
        *("", "panes/s", "slowest batch", "fastest batch"),
        *("against a producer alone", "processor time a pane"),
    )
    alone = statistics.median(seconds for seconds, _ in result["a producer alone"])
    for name, batches in result.items():
        seconds = [each for each, _ in batches]
        typical = statistics.median(seconds)
        rates = (f"{rows / each:,.0f}" for each in (typical, max(seconds), min(seconds)))
        spent = statistics.median(each for _, each in batches) / rows * 1e6
        made.add_row(name, *rates, f"{alone / typical:.2f}", f"{spent:.1f} µs")
    return Found([made], figures=result)


def kafka(asked: argparse.Namespace, rows: int = 250_000) -> Found:
    source = asked.folder / "large"
    files = contend("latecomer", source, rows)
    topic = measured("bench.kafka_source", "throughput", str(source), "--rows", str(rows))
    made = table(
        f"{asked.events:,} events from a topic of eight partitions, and from files; batches of {rows:,}",
        *("source", "rows/s", "s a batch", "topic / files", "by processor time"),
    )
    ratio, worked = files["seconds"] / topic["seconds"], sum(files["worked"]) / sum(topic["worked"])
    made.add_row("files", *speed(asked.events, files))
    made.add_row("topic", *speed(asked.events, topic), f"{ratio:.2f}", f"{worked:.2f}")
    return Found([made], {"topic / files": ratio}, {"files": files, "topic": topic})


def kafka_load(asked: argparse.Namespace) -> Found:
    seconds = asked.seconds
    result = measured("bench.kafka_source", "load", "--seconds", str(seconds))
    made = table(
        f"256 partitions, 50,000 events/s for {seconds:,.0f} s, while they are written",
        *("minute", "batches", "rows/s", "still to read", "memory"),
    )
    for minute in range(int(seconds // 60) + 1):
        found = [each for each in result["samples"] if each["at"] // 60 == minute]
        if found:
            rows = sum(each["rows"] for each in found) / 60
            most, memory = (max(each[name] for each in found) for name in ("unread", "memory"))
            made.add_row(str(minute), str(len(found)), f"{rows:,.0f}", f"{most:,}", mib(memory))
    console.print(f"{result['written']:,} events were written, and {result['received']:,} are in the ledger")
    return Found([made], figures=result)
