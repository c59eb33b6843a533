"""A task of the log: writes some splits of a source to files with names of this attempt.

Only the files that a task returns are ever committed. The files of an attempt that failed, or ran beside another one,
are in no commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from latecomer.log.duplicates import EventsOfSplit
from latecomer.log.envelope import Given
from latecomer.log.known_ids import KnownIds
from latecomer.log.private_columns import UNIQUE, LogLane
from latecomer.log.split import LogPlan, SplitSummary, log_split
from latecomer.model.array_types import Flags, Unsigned
from latecomer.source.base import Split
from latecomer.spark.base import Shared
from latecomer.store.files import Location, new_token, sync, write_table
from latecomer.store.private_columns import LANE

FLUSH_BYTES = 256 << 20
"""If more bytes of a lane are held, they are written."""


@dataclass(frozen=True)
class Folders:
    """Where the files of one attempt at a batch are written."""

    events: Location
    """With a folder for each lane."""
    duplicates: Location
    letters: Location

    def of(self, lane: LogLane) -> Location:
        match lane:
            case LogLane.DUPLICATES:
                return self.duplicates
            case LogLane.DEAD_LETTERS:
                return self.letters
        return self.events / f"{LANE}={lane}"


@dataclass(frozen=True)
class LogTask:
    """What one task reads, and where it writes."""

    nth: int
    splits: Sequence[Split]
    given: Given
    folders: Folders
    known: KnownIds | None = None
    """The ids that the log holds, where events have ids."""


@dataclass(frozen=True)
class Written:
    """What a task has written."""

    summary: SplitSummary
    files: Mapping[LogLane, Sequence[Location]]


def write_split(plan: Shared[LogPlan], task: LogTask) -> Written:
    """Log some splits of a source."""
    lanes = _LaneFiles(task)
    find = None if task.known is None else partial(_duplicates, task.known)
    summary = log_split(task.splits, plan.value, task.given, lanes, find)
    return Written(summary, lanes.closed())


def _duplicates(known: KnownIds, events: pa.Table, landed: Mapping[str, int]) -> tuple[Flags, Unsigned]:
    split = EventsOfSplit(events)
    is_duplicate = split.duplicates(lambda _: landed, known)
    return is_duplicate, split.hashes[~is_duplicate[split.rows]]


class _LaneFiles:
    """The files of one attempt at a task."""

    def __init__(self, task: LogTask) -> None:
        self._task = task
        self._token = new_token()
        self._held: dict[LogLane, list[pa.Table]] = {}
        self._size: dict[LogLane, int] = {}
        self._files: dict[LogLane, list[Location]] = {}

    def write(self, lane: LogLane, rows: pa.Table) -> None:
        self._held.setdefault(lane, []).append(rows)
        self._size[lane] = self._size.get(lane, 0) + rows.nbytes
        if self._size[lane] > FLUSH_BYTES:
            self._flush(lane)

    def closed(self) -> dict[LogLane, list[Location]]:
        """Every file, on the disk."""
        for lane in list(self._held):
            self._flush(lane)
        return self._files

    def _flush(self, lane: LogLane) -> None:
        held, self._size[lane] = self._held.pop(lane), 0
        files = self._files.setdefault(lane, [])
        name = f"part-{self._task.nth:05d}-{self._token}-{len(files)}.parquet"
        # A column such as the unknown fields may be in some chunks only.
        rows = pa.concat_tables(held, promote_options="default")
        files.append(write_table(rows, self._task.folders.of(lane) / name, unique=UNIQUE))
        sync(files[-1])
