"""Puts together what the tasks of a batch have written, before any of it is committed: each event once.

A batch is of one source, or of several that are read together. Each source has its own ticks, summed up for its
strategy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from latecomer.log.duplicates import Landings, divided
from latecomer.log.log_task import Folders, LogPlan, WrittenSplits, summed_up
from latecomer.log.logged_events import LogSplit
from latecomer.log.moments import counted_by
from latecomer.log.private_columns import UNIQUE, LogLane
from latecomer.log.summaries import added, sums_of
from latecomer.model.arrays import flat
from latecomer.store.files import Location, new_token, read_table, remove, write_table

_EVENTS = (LogLane.EVENTS, LogLane.BEHIND)


@dataclass(frozen=True)
class Attempt:
    """What the tasks of one slice have written."""

    source: str
    plan: LogPlan
    folders: Folders
    written: Sequence[WrittenSplits]

    @property
    def events(self) -> list[Location]:
        return [file for each in self.written for lane in _EVENTS for file in each.files.get(lane, ())]

    def replaced(self, moved: Mapping[Location, Sequence[Location]], new: list[Location]) -> Attempt:
        """With other files in the place of some, which are summed up again. The first task that changes also gets the
        `new` duplicates, and `new` is emptied."""
        written = []
        for each in self.written:
            if not any(file in moved for files in each.files.values() for file in files):
                written.append(each)
                continue
            files = {
                lane: [new_file for file in before for new_file in moved.get(file, [file])]
                for lane, before in each.files.items()
            }
            files[LogLane.DUPLICATES] = [*files.get(LogLane.DUPLICATES, ()), *new]
            new.clear()
            written.append(_summed_up_again(replace(each, files=files), self.plan))
        return replace(self, written=written)


def without_repeated(attempts: Sequence[Attempt], landings: Landings) -> list[Attempt]:
    """An event that came in two splits counts once. Files are read only where two splits have the same hash."""
    written = (each for attempt in attempts for each in attempt.written)
    hashes = [each.hashes for each in written if each.hashes is not None]
    every = np.sort(np.concatenate(hashes)) if len(hashes) > 1 else np.empty(0, np.uint64)
    if not (every[1:] == every[:-1]).any():
        return list(attempts)
    aside = attempts[0].folders[LogLane.DUPLICATES]
    moved = divided([file for each in attempts for file in each.events], aside, landings)
    new = list(moved.pop(aside))
    return [each.replaced(moved, new) for each in attempts]


def numbered(attempts: Sequence[Attempt], before: int) -> list[Attempt]:
    """With `every: event`: the ticks of several slices, counted through all of them in the order of arrival."""
    files = [(nth, file) for nth, each in enumerate(attempts) for file in each.events]
    if len({nth for nth, _ in files}) < 2:
        return list(attempts)
    tables = [read_table(file) for _, file in files]
    of_slice = np.repeat([nth for nth, _ in files], [each.num_rows for each in tables])
    came, tick = (
        np.concatenate([np.asarray(flat(each.column(name)).cast(pa.int64())) for each in tables])
        for name in ("arrival_time", "tick")
    )
    ticks = counted_by(came, of_slice, tick) + before
    moved, begin = dict[Location, list[Location]](), 0
    for (_, file), rows in zip(files, tables, strict=True):
        place, end = rows.schema.get_field_index("tick"), begin + rows.num_rows
        counted = rows.set_column(place, rows.schema.field("tick"), pa.array(ticks[begin:end]))
        moved[file] = [write_table(counted, file.with_name(f"numbered-{new_token()}.parquet"), unique=UNIQUE)]
        remove(file)
        begin = end
    return [each.replaced(moved, []) for each in attempts]


def _summed_up_again(before: WrittenSplits, plan: LogPlan) -> WrittenSplits:
    schema, files = plan.reading.log.schema, before.files
    logged = LogSplit([file for lane in _EVENTS for file in files.get(lane, ())], 1, schema)
    duplicates = LogSplit(files.get(LogLane.DUPLICATES, ()), 1, schema)
    now = WrittenSplits.joined([summed_up(events, plan) for events in logged.tables()], plan.measures)
    sums = added(
        (sums_of(part, plan.reading.log.view, plan.measures) for part in duplicates.tables()), plan.measures
    )
    return replace(before, ticks=now.ticks, sums=now.sums, duplicate_sums=sums)
