"""An index of the ids in the log, so that a batch need not read the ids of all other batches.

    ids/FIRSTtoLAST-RANDOM.arrow    the ids of some batches, sorted by hash

A *segment* holds the ids that some batches logged, each with its hash and event time, in *runs* sorted by hash. Files
are mapped, not read. A filter in memory has two bytes an id; of the ids that pass it, those with the same 64 bits of
hash are looked at, and then the ids themselves are compared. So neither a filter nor a hash decides anything.

The index follows from the log. It is made again where it is missing, cannot be read, or has forgotten too much.
Segments are of batches, not of files, so upkeep may change the files of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.log.known_ids import FLOOR, OF, TO, KnownIds, Segment, by_hash, opened
from latecomer.log.logged_events import IDS
from latecomer.model.array_types import Integers, Unsigned
from latecomer.model.arrays import flat
from latecomer.model.durations import to_micros
from latecomer.model.verdicts import END_OF_TIME
from latecomer.spark.base import in_turn_together
from latecomer.store.delta.data_files import DataFile, batches_of
from latecomer.store.delta.table import Table
from latecomer.store.files import Location, names, new_arrow, new_token, remove
from latecomer.store.holding.fences import confirm_held

RUN_ROWS = 2 << 20
"""The most ids in a run: they are sorted at once."""
FULL = 1 << 20
"""A segment of so many ids is not merged with others any more."""
TOGETHER = 8
"""So many segments of about the same size become one."""
_SCHEMA = pa.schema([("hash", pa.uint64()), ("time", pa.int64()), ("id", pa.large_binary())])


class IdIndex:
    """The ids of an event log whose duplicates could still be counted."""

    def __init__(self, folder: Location, events: Table) -> None:
        self.folder = folder
        self.events = events
        self._segments: list[Segment] | None = None

    def catch_up(self, since: int) -> None:
        """Add the batches that the index lacks. Ids of events before `since` may be forgotten."""
        self.events.refresh()
        if self._segments is None:
            self._segments = self._stored()
        usable = [each for each in self._segments if each.floor <= since]
        self._drop([each for each in self._segments if each.floor > since])
        for first, last in _gaps(usable, self.events.last_batch()):
            usable.append(self._write(first, last, self._logged(first, last, since), since))
        self._segments = sorted(usable, key=lambda each: each.first)
        self._forget(since)
        self._merge(since)

    def known(self, since: int) -> KnownIds:
        """The ids of events at or after a moment."""
        return KnownIds([each.path for each in self._segments or [] if each.newest >= since], since)

    @property
    def segments(self) -> Sequence[Segment]:
        return self._segments or []

    # Made from the log

    def _stored(self) -> list[Segment]:
        """The stored segments that belong to this log; the others are deleted."""
        listed = [self.folder / name for name in names(self.folder)]
        found = [each for each in map(opened, listed) if each is not None]
        last, own = self.events.last_batch(), self._log_id()
        kept: list[Segment] = []
        for segment in sorted(found, key=lambda each: (each.first, -each.last)):
            # An interrupted merge leaves the segments that it merged beside the new one.
            if segment.log == own and segment.last <= last and (not kept or segment.first > kept[-1].last):
                kept.append(segment)
        whole = {segment.path for segment in kept}
        self._remove([path for path in listed if path not in whole])
        return kept

    def _files(self, first: int, last: int) -> list[DataFile]:
        """The files of the log that hold events of some batches."""
        if first > last:
            return []
        return [
            file
            for file in self.events.files()
            if batches_of(file)[0] <= last and batches_of(file)[-1] >= first
        ]

    def _logged(self, first: int, last: int, since: int) -> Iterator[pa.Table]:
        """The ids of some batches in the log, a run at a time."""
        files = [file for file in self._files(first, last) if _newest(file) >= since]
        if not files:
            return
        rows = self.events.dataset(files, IDS)
        wanted = (pc.field("batch") >= first) & (pc.field("batch") <= last) & pc.field("event_id").is_valid()
        parts = rows.to_batches(columns=["event_id", "event_time"], filter=wanted)
        yield from map(_hashed, in_turn_together(parts, len, RUN_ROWS))

    def _write(self, first: int, last: int, runs: Iterator[pa.Table], floor: int) -> Segment:
        path = self.folder / f"{first:010d}{TO}{last:010d}-{new_token()}.arrow"
        schema = _SCHEMA.with_metadata({OF: self._log_id(), FLOOR: str(floor).encode()})
        with new_arrow(path, schema) as writer:  # a file that is lost in a power cut is made again
            for run in runs:
                writer.write_table(run.cast(schema), max_chunksize=max(run.num_rows, 1))
        written = opened(path)
        assert written is not None  # noqa: S101
        return written

    def _log_id(self) -> bytes:
        """Identifies this log: another one may have been in the same place before."""
        return self.events.identity.encode()

    # Forgotten, merged

    def _forget(self, since: int) -> None:
        """Put one empty segment in the place of successive segments that have no event since then."""
        kept: list[Segment] = []
        for forgotten, group in groupby(self._segments or [], key=lambda each: each.newest < since):
            old = list(group)
            if forgotten and (len(old) > 1 or old[0].rows):
                kept.append(self._write(old[0].first, old[-1].last, iter(()), since))
                self._drop(old)
            else:
                kept += old
        self._segments = kept

    def _merge(self, since: int) -> None:
        """Keep segments few: where the last TOGETHER are of one size, or smaller, they become one."""
        segments = self._segments or []
        for most in range(_size(FULL) + 1):
            tail = len(segments)
            while tail and segments[tail - 1].rows < FULL and _size(segments[tail - 1].rows) <= most:
                tail -= 1
            if len(segments) - tail >= TOGETHER:
                small = segments[tail:]
                merged = self._write(small[0].first, small[-1].last, iter([_merged(small, since)]), since)
                self._segments = segments = [*segments[:tail], merged]
                self._drop(small)

    def _drop(self, segments: Sequence[Segment]) -> None:
        self._remove([each.path for each in segments])

    def _remove(self, paths: Sequence[Location]) -> None:
        if paths:
            confirm_held(self.folder)  # another engine may be reading them
        for each in paths:
            remove(each)


def _hashed(parts: Sequence[pa.RecordBatch]) -> pa.Table:
    """Ids of the log as a run."""
    rows = pa.Table.from_batches(parts)
    ids = rows["event_id"].cast(pa.large_binary()).combine_chunks()
    return run_of(*by_hash(ids), ids, rows["event_time"])


def run_of(ordered: Unsigned, rows: Integers, ids: pa.Array, times: pa.ChunkedArray) -> pa.Table:
    """A run: hashes in order, each with the id and the event time of its row."""
    places = pa.array(rows)
    columns = [pa.array(ordered), flat(times).cast(pa.int64()).take(places), ids.take(places)]
    return pa.table(columns, schema=_SCHEMA)


def _merged(segments: Sequence[Segment], since: int) -> pa.Table:
    """The ids of several segments as one run, without those of events before `since`."""
    rows = pa.Table.from_batches([each for segment in segments for each in segment.batches], None)
    rows = rows.replace_schema_metadata(None)
    rows = rows.filter(pc.greater_equal(rows["time"], since))
    return rows.take(pa.array(np.argsort(rows["hash"].to_numpy(), kind="stable"))).combine_chunks()


def _gaps(segments: Sequence[Segment], last: int) -> list[tuple[int, int]]:
    """The batches up to `last` that no segment holds."""
    gaps, next_one = [], 0
    for segment in sorted(segments, key=lambda each: each.first):
        if segment.first > next_one:
            gaps.append((next_one, segment.first - 1))
        next_one = segment.last + 1
    return [*gaps, (next_one, last)] if next_one <= last else gaps


def _newest(file: DataFile) -> int:
    """The latest event time of a file; the very first moments are in no statistics."""
    newest = file.maximum.get("event_time")
    return END_OF_TIME if newest is None else to_micros(newest)


def _size(rows: int) -> int:
    """A size to compare by: 0 below 8 ids, 1 below 64, and so on.

    >>> [_size(0), _size(7), _size(8), _size(64)]
    [0, 0, 1, 2]
    """
    return max(rows.bit_length() - 1, 0) // 3
