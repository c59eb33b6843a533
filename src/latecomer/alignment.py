"""The alignment of source partitions: which of them held the watermark back, read off the timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import pyarrow as pa

from latecomer.store.layout import TIMESTAMP

DURATION = pa.duration("us")
SCHEMA = pa.schema(
    [
        ("partition", pa.string()),
        ("held_for", DURATION),
        ("times", pa.int64()),
        ("longest", DURATION),
        ("behind", DURATION),
        ("since", TIMESTAMP),
        ("until", TIMESTAMP),
    ]
)


@dataclass(frozen=True)
class Stretch:
    """One partition holding the watermark back, from one tick of arrival time to another."""

    partition: str
    since: int
    until: int
    behind: int | None


def alignment_of(timeline: pa.Table) -> pa.Table:
    """One row for each partition that held the watermark back; the one that did so longest first."""
    stretches = list(_stretches(_ticks(timeline)))
    by_partition = {
        name: [each for each in stretches if each.partition == name] for name in _names(stretches)
    }
    rows = [_told(name, held) for name, held in by_partition.items()]
    rows.sort(key=lambda row: (-row["held_for"], row["partition"]))
    return pa.Table.from_pylist(rows, SCHEMA)


def _ticks(timeline: pa.Table) -> list[dict[str, Any]]:
    micros = {name: timeline[name].cast(pa.int64()) for name in ("at", "watermark", "unheld")}
    rows: list[dict[str, Any]] = pa.table({**micros, "held_by": timeline["held_by"]}).to_pylist()
    return rows


def _stretches(ticks: Sequence[dict[str, Any]]) -> Iterator[Stretch]:
    """A watermark stands from its tick until the next; the last one stands for no time yet."""
    ends = [after["at"] for _, after in pairwise(ticks)] + [tick["at"] for tick in ticks[-1:]]
    for partition, group in groupby(zip(ticks, ends, strict=True), key=lambda pair: _holder(pair[0])):
        if partition is not None:
            held = list(group)
            known = [tick["unheld"] - tick["watermark"] for tick, _ in held if tick["watermark"] is not None]
            yield Stretch(partition, held[0][0]["at"], held[-1][1], max(known, default=None))


def _holder(tick: dict[str, Any]) -> str | None:
    """The partition without which the watermark would be higher."""
    mark, others = tick["watermark"], tick["unheld"]
    return tick["held_by"] if others is not None and (mark is None or others > mark) else None


def _names(stretches: Sequence[Stretch]) -> list[str]:
    return sorted({each.partition for each in stretches})


def _told(partition: str, held: Sequence[Stretch]) -> dict[str, Any]:
    lengths = [each.until - each.since for each in held]
    return {
        "partition": partition,
        "held_for": sum(lengths),
        "times": len(held),
        "longest": max(lengths),
        "behind": max((each.behind for each in held if each.behind is not None), default=None),
        "since": held[0].since,
        "until": held[-1].until,
    }
