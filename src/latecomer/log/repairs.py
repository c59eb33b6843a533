"""Replays dead letters: first a trial, then they are logged as events."""

from __future__ import annotations

import pyarrow as pa

from latecomer.errors import LedgerError
from latecomer.log.envelope import Given, enveloped
from latecomer.log.events import EventLog
from latecomer.log.private_columns import RAW, REASON, LogLane
from latecomer.log.readable import LoggedBatch
from latecomer.model.timeline import Timeline
from latecomer.source.base import Slice
from latecomer.source.fixes import Fix
from latecomer.source.private_columns import MISFIT, NUMBER
from latecomer.source.repaired import RepairedSource, slice_of
from latecomer.store.failpoints import failpoint
from latecomer.store.files import remove_all
from latecomer.store.repairs import Repair

TRIED = (NUMBER, REASON, RAW, MISFIT)
"""The columns of letters that stay dead in a trial: the number, the reason, the bytes, and what did not fit."""


class RepairLog(EventLog):
    """A log whose source is dead letters. Their outcome is in `repairs` before their events are in the log."""

    def __init__(self, log: EventLog, fix: Fix, source: str = "") -> None:
        store = log.store
        self.__dict__ |= log.__dict__  # the same log with other sources
        self.sources = {
            source: RepairedSource(store.pipeline.views[source], store.columns.read_from(source), fix)
        }
        self._plans = {}

    def tried(self, slice_: Slice, timeline: Timeline) -> pa.Table:
        """The letters of a slice that stay dead, with the columns TRIED. Nothing is written."""
        source, staging = self.sources[slice_.source], self._staging()
        given = Given(0, timeline.watermark, timeline.last_tick or 0, slice_.newest)
        reading = self.store.reading(slice_.source)
        try:
            chunks = source.read(source.splits(slice_, staging))
            dead = [enveloped(chunk.rows, reading, given, keep=(NUMBER, MISFIT)).letters for chunk in chunks]
        finally:
            remove_all(staging.folder)
        kinds = (pa.int64(), pa.string(), pa.binary(), pa.string())
        nothing = pa.schema(list(zip(TRIED, kinds, strict=True))).empty_table()
        return pa.concat_tables([nothing, *(each.select(TRIED).cast(nothing.schema) for each in dead)])

    def take_in(self, repair: Repair, timeline: Timeline) -> LoggedBatch:
        """Log a replay, or continue after an earlier attempt."""
        batch, slice_ = repair.batch, slice_of(repair)
        if self.store.events.holds(batch):
            return self.recount(batch)
        written = self._write(batch, slice_, timeline)
        if written.files.get(LogLane.DEAD_LETTERS):
            raise LedgerError(
                f"batch {batch}: dead letters that were found to be events when they were tried are dead letters "
                "now; nothing was taken in"
            )
        self.store.repairs.append(batch, repair.outcome())
        failpoint("repairs.committed", batch)
        return self._commit_lanes(batch, written, (LogLane.DUPLICATES, LogLane.EVENTS))
