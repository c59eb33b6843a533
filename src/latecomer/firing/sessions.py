"""One output with session windows, batch by batch.

What is known of a key before a batch comes from three places: `partials` holds the sessions that have
something left to publish, whole; beside each, as *published*, a copy of the panes that it will have to take
back; and `panes` holds the sessions that have published everything. The last are read only where an event
came behind the watermark, for only such an event can touch a session that has closed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.fast import flat
from latecomer.firing import folding
from latecomer.firing.batch import Batch
from latecomer.firing.clocks import Clocks
from latecomer.firing.closing import places_in
from latecomer.firing.columns import Lane
from latecomer.firing.lanes import Lanes, _sum
from latecomer.firing.output import OutputLogic, Prepared, timeline
from latecomer.firing.session_bucket import Bucket, Folded, fold_events, merge_sessions, standing_panes
from latecomer.firing.session_lanes import session_lanes
from latecomer.log.logged import Logged
from latecomer.model.durations import to_micros
from latecomer.model.ledger import ASSIGNMENTS
from latecomer.model.ledger import EVENTS as EVENT_UNIT
from latecomer.model.triggers import Count, Every
from latecomer.model.verdicts import END_OF_TIME, Fate
from latecomer.model.windows import FIRST_MOMENT, Session
from latecomer.store.columns import (
    EVENTS,
    LANE,
    NEW_BEHIND,
    SINCE,
    WAITING_EVENTS,
    late_column,
    measure_column,
    new_column,
)
from latecomer.store.files import Location, dataset, parquet_files, read_table, write_table
from latecomer.store.layout import TIMESTAMP
from latecomer.store.table import DataFile, batch_of, kind_of
from latecomer.timeline.keeper import Stretch
from latecomer.windowing.columns import END, FATE, START
from latecomer.windowing.fates import CODES, Counts, Periods
from latecomer.windowing.judge_in_process import Judged, NothingLate, Timeline
from latecomer.windowing.session_judge import (
    Arrivals,
    arrivals_of,
    event_columns,
    prompt_fates,
    session_of,
    witnesses_of,
)
from latecomer.windowing.spark_columns import event_tables
from latecomer.windowing.tally_in_process import counts_of

_FILE = "part.parquet"


@dataclass(frozen=True)
class Known:
    """What there was before a batch: files of `partials`."""

    states: Sequence[DataFile] = ()
    published: Sequence[DataFile] = ()

    @property
    def files(self) -> list[DataFile]:
        return [*self.states, *self.published]


@dataclass(frozen=True)
class SessionLanes(Lanes):
    """The files of one pass. A session holds on-time and late events together, counted apart."""

    @cached_property
    def files(self) -> dict[str, list[Location]]:
        lanes = (Lane.OPEN, Lane.FIRED, Lane.WAITING, Lane.TO_RETRACT, Lane.REST)
        return {lane: parquet_files(self.folder / f"{LANE}={lane}") for lane in lanes}

    @cached_property
    def counts(self) -> Counts:
        sums = {EVENT_UNIT: EVENTS, **{name: measure_column(name) for name in self.merger.measures}}
        news = [new_column(column) for column in sums.values()]
        lates = [late_column(column) for column in sums.values()]
        fates: dict[str, dict[Fate, Decimal]] = {unit: {} for unit in sums}
        behind = 0

        def add(unit: str, fate: Fate, amount: Decimal) -> None:
            fates[unit][fate] = fates[unit].get(fate, Decimal(0)) + amount

        for lane in (Lane.OPEN, Lane.FIRED, Lane.WAITING, Lane.REST):
            for file in self.files[lane]:
                summed = [each for column in (*news, *lates) for each in self.merger.exact_columns(column)]
                table = read_table(file, columns=["timing", NEW_BEHIND, *summed])
                behind += int(_sum(table.column(NEW_BEHIND)))
                parts = _by_fate(table) if lane == Lane.REST else {Fate.ON_TIME: table}
                for fate, rows in parts.items():
                    for unit, new, late in zip(sums, news, lates, strict=True):
                        came_late = self._amount(rows, late)
                        add(unit, fate, self._amount(rows, new) - came_late)
                        if lane != Lane.REST:
                            add(unit, Fate.LATE_ACCEPTED, came_late)
        return Counts({**fates, ASSIGNMENTS: fates[EVENT_UNIT]}, late_at_source=behind)

    def _amount(self, rows: pa.Table, column: str) -> Decimal:
        return sum((_sum(rows.column(each)) for each in self.merger.exact_columns(column)), Decimal(0))


def _by_fate(table: pa.Table) -> dict[Fate, pa.Table]:
    named = pc.unique(table.column("timing")).to_pylist()
    return {Fate(fate): table.filter(pc.equal(table.column("timing"), fate)) for fate in named}


class SessionLogic(OutputLogic):
    """Computes and publishes the panes of an output with session windows."""

    kept: ClassVar[Mapping[str, str]] = MappingProxyType(
        {Lane.OPEN: "", Lane.WAITING: Lane.WAITING, Lane.TO_RETRACT: Lane.TO_RETRACT}
    )

    def remember(self) -> None:
        self.open_states, self.published = _apart(self.tables.partials.files())
        self.recent_panes = _bounded(self.tables.panes.files())

    @property
    def window(self) -> Session:
        return session_of(self.output)

    def prepare(self, batch: Batch) -> Prepared:
        """Fold the events, judge the suspects among them, and merge all with the sessions that they meet."""
        known = self._known(batch)
        bucket = Bucket(self._fold(batch), self._read_all(known.states), self._read_all(known.published))
        if not batch.history:
            bucket = replace(bucket, closed=self._closed(batch, bucket))
        judged = bucket.judged([(0, self.output)])
        sessions = merge_sessions(bucket, judged, self.kernel)
        if sessions is None:
            return Prepared()
        folder = self.tables.panes.new_folder(batch.number)
        for lane, rows in session_lanes(
            sessions, Clocks.of(batch.number, batch.stretch, self.output), self.kernel
        ).items():
            write_table(rows, folder / f"{LANE}={lane}" / _FILE)
        lanes = SessionLanes(folder, self.merger)
        late = (
            [] if bucket.suspects is None or judged is None else self._aside(batch, bucket.suspects, judged)
        )
        return Prepared(lanes, known.files, lanes.counts, late=late)

    def _aside(self, batch: Batch, suspects: Arrivals, judged: Judged) -> list[Location]:
        """The side output of a batch: it comes of suspects alone."""
        rows = folding.set_aside(suspects.rows(), judged, self.layout)
        if not rows.num_rows or self.tables.late.holds(batch.number):
            return []
        return [write_table(rows, self.tables.late.new_folder(batch.number) / _FILE)]

    def judged(
        self, batch: Batch, wanted: Sequence[str] = (), periods: Periods = ()
    ) -> Iterator[tuple[Arrivals, Judged]]:
        """The events of the whole log, a part at a time, judged by the log and the timeline alone, under each policy
        that the output has had; with the columns that are wanted."""
        under = list(periods) or [(0, self.output)]
        folded = []
        last = batch.stretch.fires_at
        logged = batch.logged
        for part in () if logged is None else self._arrivals(logged, under, timeline(batch), wanted):
            suspects = part.suspects(self.window)
            prompt = part.only(~suspects) if suspects.any() else part
            places = prompt.places(self.output.by, self.window)
            yield prompt, prompt.judged(places.start, places.end, prompt_fates(prompt))
            late = part.only(suspects).apart() if suspects.any() else None
            folded.append(Folded(None, late, witnesses_of(prompt, self.output.by, self.window, last)))
        bucket = Bucket(folded)
        judged = bucket.judged(under)
        if bucket.suspects is not None and judged is not None:
            yield bucket.suspects, judged

    def whole(self, logged: Logged) -> pa.Table:
        """Every session of these events, as if nothing had ever been late: START, END, keys, values and states."""
        names = [*self.layout.keys, *self.layout.values, *self.merger.state_columns]
        kinds = {START: pa.int64(), END: pa.int64()}
        kinds |= {name: self.merger.schema.field(name).type for name in names}
        parts = self._arrivals(logged, [(0, self.output)], NothingLate(), self.kernel.columns)
        folded = [fold_events(part, self.kernel, None) for part in parts]
        found = merge_sessions(Bucket(folded), None, self.kernel)
        if found is None:
            return pa.schema(list(kinds.items())).empty_table()
        entered = found.merged.filter(pc.field(FATE) == CODES[Fate.ON_TIME])
        return pa.table({name: entered.column(name).cast(kind) for name, kind in kinds.items()})

    def fates_by_batch(self, batch: Batch, periods: Periods = ()) -> dict[int, Counts]:
        if batch.logged is None:
            return {}
        measures = list(self.merger.measures)
        found = (
            (judged, flat(part.rows(["batch"]).column(0)))
            for part, judged in self.judged(batch, measures, periods)
        )
        return counts_of(found, measures)

    # What a batch meets

    def _known(self, batch: Batch) -> Known:
        """The sessions that had something left to publish before this batch."""
        if batch.history:
            return Known()
        if self.tables.partials.holds(batch.number):  # the batch was interrupted after its last commit
            return Known(*_apart(self.tables.partials.files_before(batch.number)))
        return Known(self.open_states, self.published)

    def _read_all(self, files: Sequence[DataFile]) -> pa.Table | None:
        """Stored states, or panes to be taken back; None where there are none."""
        if not files:
            return None
        return dataset(map(self.tables.partials.location, files), self.merger.schema).to_table()

    def _arrivals(
        self,
        logged: Logged,
        periods: Periods,
        timeline: Timeline,
        wanted: Sequence[str],
        more: Sequence[str] = (),
    ) -> Iterator[Arrivals]:
        """Events with the columns that are wanted, a part at a time; `more` are columns of the log, for their rows."""
        layout, outputs = self.store.layout, [under for _, under in periods]
        columns = list(dict.fromkeys([*event_columns(layout, periods, wanted), *more]))
        for part in event_tables(logged, columns, outputs, layout):
            if part.num_rows:
                yield arrivals_of(part, layout, periods, timeline, wanted)

    def _fold(self, batch: Batch) -> list[Folded]:
        """The events of a batch, folded a part at a time."""
        if batch.logged is None:
            return []
        wanted = [*self.kernel.columns, *self.output.counted]
        rows = folding.event_columns(self.layout, self.kernel)
        parts: Iterable[Arrivals] = self._arrivals(
            batch.logged, [(0, self.output)], timeline(batch), wanted, rows
        )
        last: int | None = batch.stretch.fires_at
        if not batch.history:
            parts = list(parts)
            last = last if any(part.suspects(self.window).any() for part in parts) else None
        return [fold_events(part, self.kernel, last) for part in parts]

    def _closed(self, batch: Batch, bucket: Bucket) -> pa.Table | None:
        """The panes that stand for closed sessions which a suspect may touch, by file and by key."""
        suspects = bucket.suspects
        if suspects is None:
            return None
        # What an interrupted attempt at this batch published is no past.
        earlier = [file for file in self.recent_panes if batch_of(file) < batch.number]
        gap = self.window.gap
        files = _touching(earlier, np.unique(suspects.time // gap).tolist(), gap)
        if not files:
            return None
        low, high = int(suspects.time.min()), int(suspects.time.max()) + gap
        wanted = (pc.field("window_end") >= _moment(low)) & (pc.field("window_start") <= _moment(high))
        for key in self.output.by:
            values = pc.unique(suspects.columns[key])
            if not pa.types.is_floating(values.type):  # equal ones may have different bits
                wanted &= pc.field(key).isin(values)
        panes = dataset(map(self.tables.panes.location, files), self.merger.schema).to_table(filter=wanted)
        return standing_panes(panes, bucket, self.kernel)

    def _to_retract(self) -> set[tuple[Any, ...]]:
        return places_in(map(self.tables.partials.location, self.published), self.output)

    def has_news(self, closed: pa.Table, stretch: Stretch) -> bool:
        """Whether sessions that closed have events that were not published yet, or late ones that waited enough."""
        late, passed = self.output.trigger.late, False
        if isinstance(late, Every):
            passed = stretch.passed(late.every)
        for state in closed.select(["window_end", SINCE, WAITING_EVENTS]).to_pylist():
            waiting = state[WAITING_EVENTS]
            over = to_micros(state["window_end"]) + self.output.settles_after <= stretch.fires_at
            due = late == "batch" or passed or (isinstance(late, Count) and waiting >= late.count)
            if state[SINCE] > waiting or (waiting and (due or over)):
                return True
        return False

    # Published: the same steps, with what is kept of sessions

    def _panes(self, batch: Batch, lanes: Lanes | None) -> tuple[list[Location], list[DataFile]]:
        files = list(lanes.files[Lane.FIRED]) if lanes else []
        if self.closes:
            partials = self.tables.partials
            published = (
                lanes.files[Lane.TO_RETRACT]
                if lanes
                else [partials.location(file) for file in self.published]
            )
            files += self._closing_panes(batch, files, published)
        return files, []

    def _remember_panes(self, _batch: Batch, added: Sequence[DataFile], _folded: Sequence[DataFile]) -> None:
        self.recent_panes += _bounded(added)

    def _remember_states(self, added: Sequence[DataFile], _consumed: Sequence[DataFile]) -> None:
        self.open_states, self.published = _apart(added)


def _apart(files: Sequence[DataFile]) -> tuple[list[DataFile], list[DataFile]]:
    """The sessions that have something left to publish, and the panes that they will take back."""
    published = [file for file in files if kind_of(file) == Lane.TO_RETRACT]
    return [file for file in files if kind_of(file) != Lane.TO_RETRACT], published


def _bounded(files: Sequence[DataFile]) -> list[DataFile]:
    """Files with no more than the bounds of their windows: all of them are kept in mind."""
    return [
        DataFile(
            file.path,
            file.size,
            file.rows,
            {"window_start": file.minimum.get("window_start")},
            {"window_end": file.maximum.get("window_end")},
        )
        for file in files
    ]


def _touching(files: Sequence[DataFile], cells: Sequence[int], gap: int) -> list[DataFile]:
    """The pane files that can hold a session which an event in one of these cells touches."""
    found = []
    for file in files:
        low, high = file.windows
        place = 0 if low is None else bisect_left(cells, low // gap - 1)
        if place < len(cells) and (high is None or cells[place] * gap <= high):
            found.append(file)
    return found


def _moment(micros: int) -> pa.Scalar:
    return pa.scalar(min(max(micros, FIRST_MOMENT), END_OF_TIME), pa.int64()).cast(TIMESTAMP)
