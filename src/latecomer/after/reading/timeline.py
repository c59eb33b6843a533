"""The timeline: the watermark that each event met, for many events at once; and which source partitions held the
watermark back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model.array_types import Integers
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.store.layout import TIMESTAMP
from latecomer.store.store import Store

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


def micros(moments: pa.Array) -> Integers:
    """Moments as microseconds; none may be missing."""
    return np.asarray(moments.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)


def met_watermarks(store: Store, batch: Integers, tick: Integers) -> Integers:
    """The watermark that judged each event, from the timeline."""
    if not len(batch):
        return batch
    first, last = int(batch.min()), int(batch.max())
    marks = store.watermarks.query(
        f"select batch, tick, watermark from t where batch between {first} and {last}"
    )
    batches, ticks = (
        np.concatenate([micros(marks[name]), own]) for name, own in (("batch", batch), ("tick", tick))
    )
    place = (batches - first) * (int(np.ptp(ticks)) + 1) + ticks - ticks.min()
    known, wanted = (pa.array(each) for each in np.split(place, [marks.num_rows]))
    met = marks["watermark"].cast(TIMESTAMP).cast(pa.int64()).take(pc.index_in(wanted, value_set=known))
    return micros(pc.fill_null(met, BEGIN_OF_TIME))


@dataclass(frozen=True)
class HeldBack:
    """One partition holding the watermark back, from one tick of arrival time to another."""

    partition: str
    since: int
    until: int
    behind: int | None


def alignment_of(timeline: pa.Table) -> pa.Table:
    """One row for each partition that held the watermark back; the one that did so longest first."""
    by_partition: dict[str, list[HeldBack]] = {}
    micros = {name: timeline[name].cast(pa.int64()) for name in ("at", "watermark", "unheld")}
    ticks = pa.table({**micros, **{name: timeline[name] for name in ("held_by", "held_with")}}).to_pylist()
    for interval in _intervals(ticks):
        by_partition.setdefault(interval.partition, []).append(interval)
    rows = [_of_partition(name, intervals) for name, intervals in by_partition.items()]
    rows.sort(key=lambda row: (-row["held_for"], row["partition"]))
    return pa.Table.from_pylist(rows, SCHEMA)


def _intervals(ticks: Sequence[dict[str, Any]]) -> Iterator[HeldBack]:
    """A watermark is in force from its tick until the next; the last one for no time yet."""
    ends = [after["at"] for _, after in pairwise(ticks)] + [tick["at"] for tick in ticks[-1:]]
    under_way: dict[str, HeldBack] = {}
    for tick, end in zip(ticks, ends, strict=True):
        holders, mark, furthest = _holders(tick), tick["watermark"], tick["unheld"]
        behind = None if mark is None or furthest is None else furthest - mark
        for name in under_way.keys() - holders:
            yield under_way.pop(name)
        for name in holders:
            before = under_way.get(name, HeldBack(name, tick["at"], end, None))
            most = max((each for each in (before.behind, behind) if each is not None), default=None)
            under_way[name] = replace(before, until=end, behind=most)
    yield from under_way.values()


def _holders(tick: dict[str, Any]) -> set[str]:
    """The partitions that hold the watermark back from where the furthest partition is."""
    mark, furthest = tick["watermark"], tick["unheld"]
    if furthest is None or (mark is not None and furthest <= mark):
        return set()
    return {tick["held_by"], *(tick["held_with"] or ())}


def _of_partition(partition: str, intervals: Sequence[HeldBack]) -> dict[str, Any]:
    lengths = [each.until - each.since for each in intervals]
    return {
        "partition": partition,
        "held_for": sum(lengths),
        "times": len(intervals),
        "longest": max(lengths),
        "behind": max((each.behind for each in intervals if each.behind is not None), default=None),
        "since": intervals[0].since,
        "until": intervals[-1].until,
    }
