"""Looks up ids in the index, in tasks. The files are mapped; `log/ids.py` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa

from latecomer.config.outputs import Output
from latecomer.errors import StoreError
from latecomer.log.hashes import Filter, filter_bits, hash_ids
from latecomer.model.array_types import Integers, Unsigned
from latecomer.model.durations import EARLIEST
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.store.files import Location, open_arrow

OF, FLOOR = b"latecomer.events", b"latecomer.floor"
"""Metadata of a file: the log that it belongs to, and since when it has all ids."""
TO = "to"
"""Stands between the first and the last batch in a file's name."""


def remembered_since(timeline: Timeline | None, outputs: Iterable[Output]) -> int:
    """The moment since which a batch after this timeline knows ids: those of earlier events are forgotten, since no
    output could accept their events any more."""
    if timeline is None:
        return EARLIEST
    reach = max(output.allowed_lateness + output.window.reach for output in outputs)
    return max(min(timeline.watermark, timeline.newest_event_time) - reach, EARLIEST)


@dataclass(frozen=True)
class Hits:
    """Hashes that were found: which of the wanted ones, and the ids and times stored for them."""

    asked: Integers
    ids: pa.Array
    times: Integers


class Run:
    """Ids sorted by hash, in a mapped file."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self.hashes: Unsigned = rows.column("hash").to_numpy()
        self.times: Integers = rows.column("time").to_numpy()
        self.ids: pa.Array = rows.column("id")
        self.newest = int(self.times.max()) if len(self.times) else BEGIN_OF_TIME

    @cached_property
    def filter(self) -> Filter:
        return Filter(self.hashes)

    def find(self, ordered: Unsigned, bits: Unsigned) -> Iterator[Hits]:
        """Find hashes, which are in order."""
        maybe = np.flatnonzero(self.filter.may_hold(ordered, bits))
        place = np.searchsorted(self.hashes, ordered[maybe])
        while len(maybe):
            inside = place < len(self.hashes)
            inside[inside] = self.hashes[place[inside]] == ordered[maybe[inside]]
            maybe, place = maybe[inside], place[inside]
            if len(maybe):
                yield Hits(maybe, self.ids.take(pa.array(place)), self.times[place])
            place = place + 1  # another id may have the same hash


@dataclass(frozen=True)
class Segment:
    """The ids of the batches from `first` to `last`."""

    path: Location
    first: int
    last: int
    floor: int
    """Ids of events before this moment may be missing."""
    batches: Sequence[pa.RecordBatch]
    log: bytes
    """Identifies the log that it belongs to."""

    @cached_property
    def rows(self) -> int:
        return sum(each.num_rows for each in self.batches)

    @cached_property
    def runs(self) -> list[Run]:
        return [Run(each) for each in self.batches if each.num_rows]

    @property
    def newest(self) -> int:
        """The latest event time of all."""
        return max((run.newest for run in self.runs), default=BEGIN_OF_TIME)


@dataclass(frozen=True)
class KnownIds:
    """The ids in the log before a batch, for the tasks of the batch. It holds only the names of files."""

    segments: Sequence[Location]
    since: int
    """Ids of events before this moment are forgotten."""

    def find(self, ordered: Unsigned) -> Iterator[Hits]:
        """Find hashes, which are in order, among the ids."""
        bits = filter_bits(ordered)
        for path in self.segments:
            segment = _kept_open(path)
            if segment is None:
                raise StoreError(f"{path} cannot be read; remove it, and run again: it is made from the log")
            for run in segment.runs:
                if run.newest >= self.since:
                    yield from run.find(ordered, bits)


def opened(path: Location) -> Segment | None:
    """A segment; None if it is not a whole one."""
    try:
        first, _, last = path.stem.split("-")[0].partition(TO)
        reader = open_arrow(path)
        metadata = reader.schema.metadata
        batches = [reader.get_batch(nth) for nth in range(reader.num_record_batches)]
        return Segment(path, int(first), int(last), int(metadata[FLOOR]), batches, metadata[OF])
    except (pa.ArrowInvalid, OSError, ValueError, KeyError, TypeError):
        return None


_kept_open = lru_cache(maxsize=256)(opened)
"""In a worker: the file of a segment never changes."""


def by_hash(ids: pa.Array) -> tuple[Unsigned, Integers]:
    """The hashes of ids in order, and the row of each. Nulls have no hash."""
    hashes = hash_ids(ids.drop_null())
    order = np.argsort(hashes)
    return hashes[order], np.flatnonzero(ids.is_valid().to_numpy(zero_copy_only=False))[order]
