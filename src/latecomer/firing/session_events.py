"""Events of the log as an output with sessions sees them: with its derived columns, and whether `where` keeps each.

What only Spark computes is computed by Spark, and then read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from latecomer.config.checks import PRIVATE
from latecomer.config.models import Output
from latecomer.fast import Declined, flat
from latecomer.log.columns import WHOLE_EVENT
from latecomer.log.logged import Logged
from latecomer.source.columns import ORIGIN, POSITION
from latecomer.store.layout import EventLayout
from latecomer.store.sql import quoted
from latecomer.windowing import judge
from latecomer.windowing.columns import BATCH
from latecomer.windowing.derived_in_process import as_seen
from latecomer.windowing.judge import Periods
from latecomer.windowing.judge_in_process import Flags, Timeline, _kept, micros_of
from latecomer.windowing.session_judge import ORDER, Arrivals
from latecomer.windowing.tally_in_process import stored_columns

_KEPT, _DERIVED = f"{PRIVATE}is_kept", f"{PRIVATE}made_"
_PLACE = {name: ORDER[name] for name in (ORIGIN, POSITION)}
"""Where events are in the log, for aggregates that go by their order."""


@dataclass(frozen=True)
class SessionEvents:
    """Some events of the log, for one output under each policy it has had."""

    logged: Logged
    layout: EventLayout
    periods: Periods
    timeline: Timeline

    @property
    def output(self) -> Output:
        return self.periods[-1][1]

    def parts(self, wanted: Sequence[str], whole: bool = False) -> Iterator[Arrivals]:
        """The events with the columns that are wanted, and the `whole` rows of the log, a part at a time."""
        outputs = [under for _, under in self.periods]
        stored = stored_columns(self.layout, outputs, [*wanted, *self.output.by])
        names = list(self.layout.schema.names) if whole else list(dict.fromkeys([*stored, *ORDER.values()]))
        try:
            parts = [self._arrivals(part, wanted) for part in self._tables(names)]
        except Declined:
            parts = [self._from_spark(names, wanted)]
        yield from parts

    def _tables(self, names: Sequence[str]) -> Iterator[pa.Table]:
        try:
            yield from self.logged.parts(names)
        except Declined:
            yield self.logged.table

    def _arrivals(self, events: pa.Table, wanted: Sequence[str]) -> Arrivals:
        seen = as_seen(events, self.layout, self.output)
        columns = {
            name: flat(events.column(_PLACE[name])) if name in _PLACE else seen.column(name)
            for name in dict.fromkeys([*wanted, *self.output.by])
        }
        return Arrivals.of(events, columns, self.timeline.over(events), self._kept(events))

    def _kept(self, events: pa.Table) -> Flags:
        """Whether the `where` of its period keeps each event."""
        if len(self.periods) == 1:
            return _kept(as_seen(events, self.layout, self.output), self.output)
        kept, batch = np.zeros(events.num_rows, bool), micros_of(events, "batch")
        nth = np.searchsorted(np.array([since for since, _ in self.periods[1:]]), batch, side="right")
        for period, (_, under) in enumerate(self.periods):
            rows = nth == period
            kept[rows] = _kept(as_seen(events.filter(pa.array(rows)), self.layout, under), under)
        return kept

    def _from_spark(self, names: Sequence[str], wanted: Sequence[str]) -> Arrivals:
        """The same where Spark computes a column or a condition, or alone has the events."""
        derived = list(self.output.columns)
        seen = judge.as_seen(self.logged.frame, self.layout, self.output, judge.whole_event(self.layout))
        rows = seen.selectExpr(
            *(f"{WHOLE_EVENT}.{quoted(name)} as {quoted(name)}" for name in names),
            *(f"{quoted(name)} as {quoted(_DERIVED + name)}" for name in derived),
            f"{self._kept_sql()} as {_KEPT}",
        ).toArrow()
        events = rows.select(list(names)).cast(pa.schema([self.layout.schema.field(name) for name in names]))
        view = {**self.layout.view, **_PLACE, **{name: _DERIVED + name for name in derived}}
        columns = {name: flat(rows.column(view[name])) for name in dict.fromkeys([*wanted, *self.output.by])}
        kept = np.asarray(flat(rows.column(_KEPT)).fill_null(False))
        return Arrivals.of(events, columns, self.timeline.over(events), kept)

    def _kept_sql(self) -> str:
        *earlier, (_, last) = self.periods
        untils = [since for since, _ in self.periods[1:]]
        cases = [
            f"when {BATCH} < {until} then {judge.kept_sql(under)}"
            for until, (_, under) in zip(untils, earlier, strict=True)
        ]
        return f"case {' '.join(cases)} else {judge.kept_sql(last)} end" if cases else judge.kept_sql(last)
