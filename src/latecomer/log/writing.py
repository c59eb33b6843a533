"""A task of the log: some splits of a source, written as files under names of this attempt.

Only the files that a task returns are ever committed. An attempt that failed, or that ran beside another, leaves files
that nobody names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from latecomer.log.columns import UNIQUE, Lane
from latecomer.log.envelope import Given
from latecomer.log.split import LogPlan, SplitSummary, log_split
from latecomer.runner import Shared
from latecomer.source.base import Split
from latecomer.store.columns import LANE
from latecomer.store.files import Location, sync, write_table
from latecomer.store.table import new_token

FLUSH_BYTES = 256 << 20
"""So many bytes of a lane are held before they are written."""


@dataclass(frozen=True)
class LogTask:
    """What one task reads, and where it writes."""

    nth: int
    splits: Sequence[Split]
    given: Given
    events: Location
    """The folder of events, with a folder for each lane."""
    letters: Location
    """The folder of dead letters."""


@dataclass(frozen=True)
class Written:
    """What a task has written."""

    summary: SplitSummary
    files: Mapping[Lane, Sequence[Location]]


def write_split(plan: Shared[LogPlan], task: LogTask) -> Written:
    """Log some splits of a source."""
    lanes = _LaneFiles(task)
    summary = log_split(task.splits, plan.value, task.given, lanes)
    return Written(summary, lanes.closed())


class _LaneFiles:
    """The files of one attempt at a task."""

    def __init__(self, task: LogTask) -> None:
        self._task = task
        self._token = new_token()
        self._held: dict[Lane, list[pa.Table]] = {}
        self._files: dict[Lane, list[Location]] = {}

    def write(self, lane: Lane, rows: pa.Table) -> None:
        held = self._held.setdefault(lane, [])
        held.append(rows)
        if sum(each.nbytes for each in held) > FLUSH_BYTES:
            self._flush(lane)

    def closed(self) -> dict[Lane, list[Location]]:
        """Every file, on the disk."""
        for lane in list(self._held):
            self._flush(lane)
        return self._files

    def _flush(self, lane: Lane) -> None:
        held = self._held.pop(lane)
        files = self._files.setdefault(lane, [])
        folder = self._task.letters if lane is Lane.DEAD_LETTERS else self._task.events / f"{LANE}={lane}"
        name = f"part-{self._task.nth:05d}-{self._token}-{len(files)}.parquet"
        # A column such as the unknown fields may be in some chunks only.
        rows = pa.concat_tables(held, promote_options="default")
        files.append(write_table(rows, folder / name, unique=UNIQUE))
        sync(files[-1])
