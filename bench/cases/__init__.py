"""What is measured, a function a case. Ratios are within one run, for machines are noisy."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.cases import servers, streams, verbs
from bench.record import Found
from bench.workload import DAY

Asked = argparse.Namespace
"""What the command line asks for, and `folder`, where the events are."""


@dataclass(frozen=True)
class Case:
    measure: Callable[[Asked], Found]
    feeds: Callable[[Asked], Mapping[str, Mapping[str, Any]]] = lambda _: {}
    """The folders of events that it reads, with the arguments of `write_events`."""
    checked: bool = False
    """Its ratios are kept, and `make bench-check` measures them again."""


def _large(asked: Asked) -> dict[str, dict[str, Any]]:
    return {"large": {"events": asked.events}}


def _bad(asked: Asked) -> dict[str, dict[str, Any]]:
    return {**_large(asked), "bad": {"events": asked.events, "bad": 0.01}}


def _days(asked: Asked) -> dict[str, dict[str, Any]]:
    return {"days": {"events": asked.events, "apart": 10 * DAY // asked.events}}


def _ids(asked: Asked) -> dict[str, dict[str, Any]]:
    made = {"events": asked.events, "rows_a_file": asked.rows // 2, "rows_a_batch": asked.rows}
    return {"ids": made}


def _endurance(asked: Asked) -> dict[str, dict[str, Any]]:
    """A long run, unless fewer events are asked for."""
    return _batches_of(10_000, count=min(asked.events // 10_000, 206))(asked)


def _partitions(asked: Asked) -> dict[str, dict[str, Any]]:
    return {f"towers-{count}": {"events": asked.events, "partitions": count} for count in streams.PARTITIONS}


def _batches_of(*sizes: int, count: int) -> Callable[[Asked], dict[str, dict[str, Any]]]:
    return lambda _: {f"files-{rows}": {"events": rows * count, "rows_a_file": rows} for rows in sizes}


CASES: dict[str, Case] = {
    "postgres": Case(servers.postgres),
    "kafka-sink": Case(servers.kafka_sink),
    "kafka-load": Case(servers.kafka_load),
    "throughput": Case(streams.throughput, _large, checked=True),
    "frames": Case(streams.frames, _large, checked=True),
    "cores": Case(streams.cores, _large, checked=True),
    "executors": Case(streams.executors, _large),
    "bad-lines": Case(streams.bad_lines, _bad, checked=True),
    "identified": Case(streams.identified, _ids, checked=True),
    "partitions": Case(streams.partitions, _partitions, checked=True),
    "outputs": Case(streams.outputs, _large, checked=True),
    "latency": Case(streams.latency, _batches_of(*streams.SMALL, count=40), checked=True),
    "windows": Case(streams.windows, _large),
    "lateness": Case(streams.lateness, _large),
    "open-keys": Case(streams.open_keys),
    "long-log": Case(streams.long_log),
    "endurance": Case(streams.endurance, _endurance),
    "ids": Case(streams.ids, _ids),
    "object-store": Case(streams.object_store, _batches_of(streams.OBJECT_ROWS, count=7)),
    "kafka": Case(servers.kafka, _large),
    "rebuild": Case(verbs.rebuild, _days, checked=True),
    "flights": Case(verbs.flights),
    "startup": Case(verbs.startup, _batches_of(600, count=1), checked=True),
}
