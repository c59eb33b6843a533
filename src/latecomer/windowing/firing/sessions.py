"""One output with session windows, batch by batch.

The state of a key before a batch is in three places. `partials` holds the whole sessions that have something
left to publish, and beside each, as *published*, a copy of the panes that it will have to take back. `panes`
holds the sessions that have published everything: these are read only where an event came behind the
watermark, since only such an event can touch a session that has closed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.log.logged import Logged
from latecomer.log.timeline.keeper import Section
from latecomer.log.timeline.watermarks import JudgingWatermarks, NothingLate
from latecomer.model.arrays import flat
from latecomer.model.durations import to_micros
from latecomer.model.triggers import Count, Every
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Session
from latecomer.store.data_files import DataFile, kind_of
from latecomer.store.private_columns import SINCE, WAITING_EVENTS
from latecomer.windowing.fates import CODES, Counts, Periods
from latecomer.windowing.firing.batch import Batch
from latecomer.windowing.firing.clocks import settled_by
from latecomer.windowing.firing.closing import places_in
from latecomer.windowing.firing.output import Met, OutputLogic, may_overlap, timeline
from latecomer.windowing.firing.private_columns import PaneLane
from latecomer.windowing.firing.session_bucket import Bucket, FoldedSessions, fold_events, merge_sessions
from latecomer.windowing.judge import Judged
from latecomer.windowing.private_columns import END, FATE, START
from latecomer.windowing.seen import event_tables
from latecomer.windowing.session_judge import (
    Arrivals,
    arrivals_of,
    event_columns,
    prompt_fates,
    session_of,
    witnesses_of,
)
from latecomer.windowing.tally import Sums


class SessionLogic(OutputLogic):
    """Computes and publishes the panes of an output with session windows."""

    def remember(self) -> None:
        self.open_states, self.published = _apart(self.tables.partials.files())
        self.recent_panes = _bounded(self.tables.panes.files())

    @property
    def window(self) -> Session:
        return session_of(self.output)

    def judged(
        self, batch: Batch, wanted: Sequence[str] = (), periods: Periods = ()
    ) -> Iterator[tuple[Arrivals, Judged]]:
        """The events of the whole log, a part at a time, with the wanted columns. They are judged only by the log and
        the timeline, each by the policy of its batch."""
        under = list(periods) or [(0, self.output)]
        folded = []
        last = batch.section.fires_at
        logged = batch.logged
        for part in () if logged is None else self._arrivals(logged, under, timeline(batch), wanted):
            suspects = part.suspects(self.window)
            prompt = part.only(~suspects) if suspects.any() else part
            places = prompt.places(self.output.by, self.window)
            yield prompt, prompt.judged(places.start, places.end, prompt_fates(prompt))
            late = part.only(suspects).apart() if suspects.any() else None
            folded.append(FoldedSessions(None, late, witnesses_of(prompt, self.output.by, self.window, last)))
        bucket = Bucket(folded)
        judged = bucket.judged(under)
        if bucket.suspects is not None and judged is not None:
            yield bucket.suspects, judged

    def whole(self, logged: Logged) -> pa.Table:
        """Every session of these events, as if nothing had been late: START, END, keys, values and states."""
        names = [*self.layout.keys, *self.layout.values, *self.merger.state_columns]
        kinds = {START: pa.int64(), END: pa.int64()}
        kinds |= {name: self.merger.schema.field(name).type for name in names}
        parts = self._arrivals(logged, [(0, self.output)], NothingLate(), self.merger.columns)
        folded = [fold_events(part, self.merger, None) for part in parts]
        sessions = merge_sessions(Bucket(folded), None, self.merger)
        entered = sessions.merged.filter(pc.field(FATE) == CODES[Fate.ON_TIME])
        return pa.table({name: entered.column(name).cast(kind) for name, kind in kinds.items()})

    def fates_by_batch(self, batch: Batch, periods: Periods = ()) -> dict[int, Counts]:
        if batch.logged is None:
            return {}
        measures = list(self.merger.measures)
        with_batches = (
            (judged, flat(part.rows(["batch"]).column(0)))
            for part, judged in self.judged(batch, measures, periods)
        )
        return Sums.of(with_batches, measures).counts()

    # What a batch meets

    def met(self, batch: Batch) -> Met:
        """The sessions that had something left to publish before this batch."""
        if batch.history:
            return Met()
        if self.tables.partials.holds(batch.number):  # the batch was interrupted after its last commit
            return Met(*_apart(self.tables.partials.files_before(batch.number)))
        return Met(self.open_states, self.published)

    def _to_replace(self, batch: Batch, met: Met) -> list[DataFile]:
        """The panes of closed sessions that an event may touch: only an event behind the watermark does."""
        if not batch.behind or batch.history:
            return []
        gap = self.window.gap
        return [
            file for file in self._earlier(batch) if may_overlap(file, batch.earliest, batch.latest + gap)
        ]

    def _arrivals(
        self, logged: Logged, periods: Periods, timeline: JudgingWatermarks, wanted: Sequence[str]
    ) -> Iterator[Arrivals]:
        """Events with the wanted columns, a part at a time."""
        layout, outputs = self.store.layout, [under for _, under in periods]
        for part in event_tables(logged, event_columns(layout, periods, wanted), outputs, layout):
            if part.num_rows:
                yield arrivals_of(part, layout, periods, timeline, wanted)

    def _to_retract(self) -> set[tuple[Any, ...]]:
        return places_in(map(self.tables.partials.location, self.published), self.output)

    def has_news(self, closed: pa.RecordBatch, section: Section) -> bool:
        """Whether closed sessions have events that were not published yet, or late ones that are due."""
        late, passed = self.output.trigger.late, False
        if isinstance(late, Every):
            passed = section.passed(late.every)
        for state in closed.select(["window_end", SINCE, WAITING_EVENTS]).to_pylist():
            waiting = state[WAITING_EVENTS]
            over = to_micros(state["window_end"]) <= settled_by(self.output, section.fires_at)
            due = late == "batch" or passed or (isinstance(late, Count) and waiting >= late.count)
            if state[SINCE] > waiting or (waiting and (due or over)):
                return True
        return False

    # Published

    def _remember_panes(self, batch: Batch, added: Sequence[DataFile], folded: Sequence[DataFile]) -> None:
        self.recent_panes += _bounded(added)

    def _remember_states(self, added: Sequence[DataFile], _consumed: Sequence[DataFile]) -> None:
        self.open_states, self.published = _apart(added)


def _apart(files: Sequence[DataFile]) -> tuple[list[DataFile], list[DataFile]]:
    """The sessions that have something left to publish, and the panes that they will take back."""
    published = [file for file in files if kind_of(file) == PaneLane.TO_RETRACT]
    return [file for file in files if kind_of(file) != PaneLane.TO_RETRACT], published


def _bounded(files: Sequence[DataFile]) -> list[DataFile]:
    """Files with only the bounds of their windows, since all files are kept in memory."""
    return [
        replace(
            file,
            minimum={"window_start": file.minimum.get("window_start")},
            maximum={"window_end": file.maximum.get("window_end")},
        )
        for file in files
    ]
