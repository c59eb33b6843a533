"""One output with session windows: what is computed of it beside batches, from the log and the timeline.

The state of a key before a batch is in three places. `partials` holds the whole sessions that have something
left to publish, and beside each, as *published*, a copy of the panes that it will have to take back. `panes`
holds the sessions that have published everything: these are read only where an event came behind the
watermark, since only such an event can touch a session that has closed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.log.logged_events import Logged
from latecomer.log.timeline.watermarks import JudgingWatermarks, NothingLate
from latecomer.model.arrays import flat
from latecomer.model.verdicts import Fate
from latecomer.spark.base import Runner
from latecomer.store.store import Store
from latecomer.windowing.fate_counts import CODES, Counts, Periods
from latecomer.windowing.firing.output import FiringBatch, OutputLogic
from latecomer.windowing.firing.session_bucket import Bucket, FoldedSessions, fold_events, merge_sessions
from latecomer.windowing.judge import JudgedEvents
from latecomer.windowing.log_computation import counts_by_batch
from latecomer.windowing.private_columns import END, FATE, START
from latecomer.windowing.session_judge import (
    SessionArrivals,
    arrivals_of,
    divided,
    event_columns,
    prompt_fates,
    session_of,
)
from latecomer.windowing.visible_events import event_tables


class SessionLogic(OutputLogic):
    """Computes and publishes the panes of an output with session windows."""

    def judged(
        self, batch: FiringBatch, wanted: Sequence[str] = (), periods: Periods = ()
    ) -> Iterator[tuple[SessionArrivals, JudgedEvents]]:
        """The events of the whole log, a part at a time, with the wanted columns. They are judged only by the log and
        the timeline, each by the policy of its batch."""
        under = list(periods) or [(0, self.output)]
        folded, logged, marks = list[FoldedSessions](), batch.events, batch.section.watermarks
        for part in () if logged is None else self._arrivals(logged, under, marks, wanted):
            prompt, late, witnesses = divided(part, self.output, batch.section.fires_at)
            places = prompt.places(self.output.by, session_of(self.output))
            yield prompt, prompt.judged(places.start, places.end, prompt_fates(prompt))
            folded.append(FoldedSessions(None, late, witnesses))
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
        sessions = merge_sessions(Bucket(folded).rows(None, self.merger))
        entered = sessions.merged.filter(pc.field(FATE) == CODES[Fate.ON_TIME])
        return pa.table({name: entered.column(name).cast(kind) for name, kind in kinds.items()})

    def fates_by_batch(self, batch: FiringBatch, periods: Periods = ()) -> dict[int, Counts]:
        if batch.events is None:
            return {}
        measures = list(self.merger.measures)
        with_batches = (
            (judged, flat(part.rows(["batch"]).column(0)))
            for part, judged in self.judged(batch, measures, periods)
        )
        return counts_by_batch(with_batches, measures)

    def _arrivals(
        self, logged: Logged, periods: Periods, timeline: JudgingWatermarks, wanted: Sequence[str]
    ) -> Iterator[SessionArrivals]:
        """Events with the wanted columns, a part at a time."""
        layout, outputs = self.store.layout, [under for _, under in periods]
        for part in event_tables(logged, event_columns(layout, periods, wanted), outputs, layout):
            if part.num_rows:
                yield arrivals_of(part, layout, periods, timeline, wanted)


def output_logic(runner: Runner, store: Store, name: str) -> OutputLogic:
    """The logic of an output, by its kind of window."""
    kind = SessionLogic if store.pipeline.outputs[name].window.merges else OutputLogic
    return kind(runner, store, name)
