"""Dead letters on their way into the log: tried, and taken in as events."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import functions as F

from latecomer.errors import LedgerError
from latecomer.log.columns import RAW, REASON, Lane
from latecomer.log.envelope import decoded
from latecomer.log.events import EventLog, Received
from latecomer.log.measures import measures_in_raw
from latecomer.model.timeline import Timeline
from latecomer.source.base import Rows, Slice
from latecomer.source.columns import MISFIT, NUMBER
from latecomer.source.fixes import Fix
from latecomer.source.repaired import RepairedSource, slice_of
from latecomer.store.columns import LANE
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location, parquet_files, url
from latecomer.store.repairs import Repair

TRIED = (NUMBER, REASON, RAW, MISFIT)
"""What a trial tells of a letter: which one it is, why it is dead still, its bytes, and what did not fit."""


class RepairLog(EventLog):
    """A log that is fed with dead letters. What becomes of them is in `repairs` before their events are there."""

    def __init__(self, log: EventLog, fix: Fix, source: str = "") -> None:
        store = log.store
        self.__dict__ |= log.__dict__  # the same log, with all it knows, and other sources
        repaired = RepairedSource(store.pipeline.views[source], store.columns.read_from(source), fix)
        self.sources = {source: repaired}
        for name, value in repaired.settings.items():
            self._reading.conf.set(name, value)

    def tried(self, piece: Slice, timeline: Timeline) -> pa.Table:
        """What would become of the letters of a slice: TRIED. Nothing is written."""

        def collect(rows: Rows) -> pa.Table:
            params = self._params(0, piece, timeline)
            reading = self.store.reading(piece.source)
            return decoded(rows.frame, reading, params, keep=(NUMBER, MISFIT)).select(*TRIED).toArrow()

        return self.sources[piece.source].read(self._reading, piece, collect)

    def measured(self, letters: Location) -> pa.Table:
        """What the ledger has read out of dead letters, by their NUMBER; `letters` has that, `raw` and
        `source_partition`."""
        sums = measures_in_raw(self.store.pipeline, self.store.measures())
        rows = self._reading.read.parquet(url(letters))
        return rows.select(
            NUMBER,
            *(
                F.coalesce(F.expr(sql).cast("decimal(38,6)"), F.lit(0).cast("decimal(38,6)")).alias(measure)
                for measure, sql in sums.items()
            ),
        ).toArrow()

    def take_in(self, repair: Repair, timeline: Timeline) -> Received:
        """Log a replay, or what an earlier attempt has left of it."""
        batch, piece = repair.batch, slice_of(repair)
        if self.store.events.holds(batch):
            return self.recount(batch)
        folder, read = self._written(batch, piece, timeline)
        if parquet_files(folder / f"{LANE}={Lane.DEAD_LETTERS}"):
            raise LedgerError(
                f"batch {batch}: dead letters that were found to be events when they were tried are dead letters "
                "now; nothing was taken in"
            )
        outcome = repair.outcome()
        self.store.repairs.append(batch, outcome)
        failpoint("repairs.committed", batch)
        duplicates = self._commit_lane(batch, folder, Lane.DUPLICATES, piece, read)
        events = self._commit_lane(batch, folder, Lane.EVENTS, piece, read)
        return Received(read.counted(), events, duplicates, 0)
