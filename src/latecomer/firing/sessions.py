"""One output with session windows, batch by batch.

What is known of a key before a batch comes from three places: `partials` holds the sessions that have
something left to publish, whole; beside each, as *published*, a copy of the panes that it will have to take
back; and `panes` holds the sessions that have published everything. The last are read only where an event
came behind the watermark, for only such an event can touch a session that has closed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, reduce
from types import MappingProxyType
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from latecomer.config.checks import PRIVATE
from latecomer.fast import LeftToSpark
from latecomer.firing.batch import Batch
from latecomer.firing.closing import places_in
from latecomer.firing.columns import PANES, Lane
from latecomer.firing.lanes import Lanes, _sum
from latecomer.firing.output import OutputLogic, Prepared
from latecomer.firing.session_lanes import with_lanes
from latecomer.firing.side_output import missed
from latecomer.model.durations import to_micros
from latecomer.model.ledger import ASSIGNMENTS
from latecomer.model.ledger import EVENTS as EVENT_UNIT
from latecomer.model.panes import Accumulation
from latecomer.model.triggers import Count, Every
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Session
from latecomer.store.columns import (
    EVENTS,
    HELD,
    LANE,
    NEW_BEHIND,
    NTH,
    SINCE,
    UNSETTLED,
    WAITING_EVENTS,
    late_column,
    measure_column,
    new_column,
)
from latecomer.store.files import Location, footer, parquet_files, read_table, scratch, url
from latecomer.store.sql import quoted
from latecomer.store.standing import STANDS, newest_first
from latecomer.store.table import DataFile, batch_of, kind_of
from latecomer.timeline.keeper import Stretch
from latecomer.windowing.columns import CELL, END, FATE, JUDGED_END, JUDGED_START, SESSION, START, WATERMARK
from latecomer.windowing.judge import CODES, Periods, as_seen, whole_event
from latecomer.windowing.merge import Counts
from latecomer.windowing.sessions import (
    cell_sql,
    judged,
    judged_suspects,
    numbered,
    suspects,
    suspects_ddl,
    with_verdicts,
)
from latecomer.windowing.tally import counts_by_batch

SUSPECTS, VERDICTS = "suspects", "verdicts"
_PUBLISHED = f"{PRIVATE}published"


@dataclass(frozen=True)
class Known:
    """What there was before a batch: files of `partials`, and closed sessions that suspects may touch."""

    states: Sequence[DataFile] = ()
    published: Sequence[DataFile] = ()
    closed: DataFrame | None = None

    @property
    def files(self) -> list[DataFile]:
        return [*self.states, *self.published]


@dataclass(frozen=True)
class PreparedSessions(Prepared):
    """With the suspects of the batch, judged."""

    verdicts: Sequence[Location] = field(default_factory=list)


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
        assert isinstance(self.output.window, Session)  # noqa: S101
        return self.output.window

    @property
    def discards(self) -> bool:
        return self.output.accumulation is Accumulation.DISCARDING

    def prepare(self, batch: Batch) -> PreparedSessions:
        """Judge the suspects, if there are any; then one pass over events and the sessions they meet."""
        known = self._known(batch)
        scratch = self.tables.panes.new_folder(batch.number, SUSPECTS)
        found = self._find_suspects(batch, scratch)
        if found and not batch.history:
            known = Known(known.states, known.published, self._closed(batch, found, known))
        verdicts = self._judge(batch, found, known, [(0, self.output)], scratch) if found else []
        inputs = self._inputs(batch, verdicts, known)
        if not inputs:
            return PreparedSessions()
        folder = self.tables.panes.new_folder(batch.number)
        publishes = bool(known.published) or known.closed is not None
        rows = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), inputs)
        rows = numbered(rows, [*self.merger.input_keys, FATE], self.window)
        if publishes and self.discards:
            rows = self._without_published(rows)
        merged = self.merger.merge(rows, within=SESSION, gather=PANES if publishes else None)
        laned = with_lanes(self.spark, self.merger, merged, batch.stretch, self._params(batch))
        laned.write.partitionBy(LANE).parquet(url(folder))
        lanes = SessionLanes(folder, self.merger)
        return PreparedSessions(lanes, known.files, lanes.counts, verdicts)

    def judged(
        self, batch: Batch, scratch: Location, periods: Periods = (), more: Sequence[str] = ()
    ) -> DataFrame:
        """The events of the whole log, judged by the log and the timeline alone; `scratch` is for what has
        to be written down on the way."""
        under = periods or [(0, self.output)]
        found = self._find_suspects(batch, scratch)
        verdicts = self._judge(batch, found, Known(), under, scratch) if found else []
        return self._with_verdicts(batch, verdicts, under, *more)

    def fates_by_batch(self, batch: Batch, periods: Periods = ()) -> dict[int, Counts]:
        if batch.events is None:
            return {}
        self.choice.leave("fates", LeftToSpark("sessions"))
        with scratch() as folder:
            return counts_by_batch(self.merger, self.judged(batch, folder, periods))

    # What a batch meets

    def _known(self, batch: Batch) -> Known:
        """The sessions that had something left to publish before this batch."""
        if batch.history:
            return Known()
        if self.tables.partials.holds(batch.number):  # the batch was interrupted after its last commit
            return Known(*_apart(self.tables.partials.files_before(batch.number)))
        return Known(self.open_states, self.published)

    def _find_suspects(self, batch: Batch, scratch: Location) -> list[Location]:
        """The events behind the watermark, in files of their own; none if there are none."""
        if batch.events is None or (not batch.history and batch.earliest > batch.stretch.fires_at):
            return []
        folder = scratch / SUSPECTS
        timeline = batch.timeline(self.spark)
        found = suspects(batch.events, timeline, self.output, self.store.layout)
        found.write.parquet(url(folder))
        return [file for file in parquet_files(folder) if footer(file).num_rows]

    def _judge(
        self, batch: Batch, found: Sequence[Location], known: Known, periods: Periods, scratch: Location
    ) -> list[Location]:
        """Every suspect with the session that judges it, in files of their own."""
        assert batch.events is not None  # noqa: S101
        folder = scratch / VERDICTS
        timeline = batch.timeline(self.spark)
        suspected = self._files(found, suspects_ddl(self.store.layout))
        standing = [self._read(known.states)] if known.states else []
        standing += [known.closed] if known.closed is not None else []
        places = [self._places(rows) for rows in standing]
        there = reduce(lambda left, right: left.unionByName(right), places) if places else None
        layout = self.store.layout
        with_verdicts(suspected, batch.events, timeline, periods, layout, there).write.parquet(url(folder))
        return parquet_files(folder)

    def _closed(self, batch: Batch, found: Sequence[Location], known: Known) -> DataFrame | None:
        """The panes that stand for closed sessions which a suspect may touch, by file and by key.

        A session that is in `partials` as well, because it has more to publish, is left to that.
        """
        # What an interrupted attempt at this batch published is no past.
        earlier = [file for file in self.recent_panes if batch_of(file) < batch.number]
        files = _touching(earlier, self._cells(found), self.window.gap)
        if not files:
            return None
        panes = self.spark.read.schema(self.merger.ddl()).parquet(*self.tables.panes.paths(files))
        layout = self.store.layout
        wanted = as_seen(self._files(found, suspects_ddl(layout)), layout, self.output).select(
            *map(quoted, self.output.by)
        )
        panes = _same_key(panes, wanted, self.output.by, "left_semi")
        place = ["window_start", "window_end", *map(quoted, self.output.by)]
        one = ", ".join([*place, *(["sequence"] if self.discards else [])])
        stands = panes.withColumn(NTH, F.expr(newest_first(one))).where(STANDS).drop(NTH)
        if not known.states:
            return stands
        inside = F.expr(f"{START} <= unix_micros(window_start) and unix_micros(window_end) <= {END}")
        return _same_key(stands, self._places(self._read(known.states)), self.output.by, "left_anti", inside)

    def _cells(self, found: Sequence[Location]) -> list[int]:
        """Where the suspects are, in cells of the gap's length."""
        times = [read_table(file, columns=["event_time"]).column(0) for file in found]
        gap = self.window.gap
        return sorted({time // gap for each in times for time in each.cast(pa.int64()).to_pylist()})

    # One pass

    def _inputs(self, batch: Batch, verdicts: Sequence[Location], known: Known) -> list[DataFrame]:
        """Events, first folded cell by cell, the sessions they meet, and the panes that those published."""
        inputs = []
        if batch.events is not None:
            events = self.merger.of_events(self._with_verdicts(batch, verdicts, [(0, self.output)]))
            cells = self.merger.merge(events.withColumn(CELL, F.expr(cell_sql(self.window))), within=CELL)
            one = f"cast(if({FATE} <= {CODES[Fate.LATE_ACCEPTED]}, {CODES[Fate.ON_TIME]}, {FATE}) as tinyint)"
            inputs.append(self.merger.again(cells).withColumn(FATE, F.expr(one)))
        if known.states:
            inputs.append(self.merger.of_states(self._read(known.states), Fate.ON_TIME))
        if known.published:
            inputs += self._of_published(self._read(known.published), self._read(known.states))
        if known.closed is not None:
            held = {HELD: F.col(EVENTS)} if self.discards else {}
            whole = [self._whole_pane()]
            inputs.append(self.merger.of_states(known.closed.withColumns(held), Fate.ON_TIME, more=whole))
        return inputs

    def _with_verdicts(
        self, batch: Batch, verdicts: Sequence[Location], periods: Periods, *more: str
    ) -> DataFrame:
        assert batch.events is not None  # noqa: S101
        layout = self.store.layout
        timeline = batch.timeline(self.spark)
        prompt = judged(as_seen(batch.events, layout, self.output, *more), timeline, self.output)
        if not verdicts:
            return prompt
        logged = self._files(verdicts, suspects_ddl(layout, judged=True))
        seen = as_seen(logged, layout, self.output, *more, WATERMARK, JUDGED_START, JUDGED_END)
        return prompt.unionByName(judged_suspects(seen, periods))

    def _of_published(self, panes: DataFrame, states: DataFrame) -> list[DataFrame]:
        """Panes that have to be taken back, as inputs that say nothing: their session has what they hold.

        One that discards does not have what the panes of the very same window published.
        """
        if not self.discards:
            return [self._of_nothing(panes)]
        places = self._places(states)
        same = F.expr(f"unix_micros(window_start) = {START} and unix_micros(window_end) = {END}")
        others, of_same = (
            _same_key(panes, places, self.output.by, how, same) for how in ("left_anti", "left_semi")
        )
        none = dict.fromkeys((HELD, SINCE, UNSETTLED, WAITING_EVENTS), F.lit(0).cast("bigint"))
        zeroed = of_same.selectExpr("*", self._whole_pane()).withColumns(none)
        return [self._of_nothing(others), self.merger.of_states(zeroed, Fate.ON_TIME, more=[PANES])]

    def _of_nothing(self, panes: DataFrame) -> DataFrame:
        return self.merger.of_nothing(self._places(panes, self._whole_pane()), more=[PANES])

    def _places(self, rows: DataFrame, *more: str) -> DataFrame:
        """The window and key of stored sessions."""
        return rows.selectExpr(
            f"unix_micros(window_start) as {START}",
            f"unix_micros(window_end) as {END}",
            *map(quoted, self.output.by),
            *more,
        )

    def _without_published(self, rows: DataFrame) -> DataFrame:
        """Where the window is still the same, a discarding pane does not publish again what others published."""
        session = Window.partitionBy(*self.merger.input_keys, FATE, SESSION)
        same = (F.min(START).over(session) == F.col(START)) & (F.max(END).over(session) == F.col(END))
        after = rows.withColumn(_PUBLISHED, F.col(PANES).isNotNull() & same)
        emptied = {
            name: F.expr(f"if({_PUBLISHED}, {sql}, {quoted(name)})")
            for name, sql in self.merger.emptied_inputs.items()
        }
        return after.withColumns(emptied).drop(_PUBLISHED)

    def _whole_pane(self) -> str:
        return f"struct({', '.join(quoted(field.name) for field in self.merger.schema)}) as {PANES}"

    def _files(self, files: Sequence[Location], schema: str) -> DataFrame:
        return self.spark.read.schema(schema).parquet(*map(url, files))

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

    def _side_output(self, batch: Batch, prepared: Prepared) -> Sequence[Location]:
        aside = prepared.counts.fates[ASSIGNMENTS].get(Fate.SIDE_OUTPUT, Decimal(0))
        if not aside or batch.logged is None:
            return []
        folder = self.tables.late.new_folder(batch.number)
        self._late(batch, prepared).coalesce(1).write.parquet(url(folder))
        return parquet_files(folder)

    def _late(self, batch: Batch, prepared: Prepared) -> DataFrame:
        assert isinstance(prepared, PreparedSessions)  # noqa: S101
        layout = self.store.layout
        events = self._with_verdicts(batch, prepared.verdicts, [(0, self.output)], whole_event(layout))
        return missed(events, self.output, layout)

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


def _same_key(
    rows: DataFrame, others: DataFrame, by: Sequence[str], how: str, also: Column | None = None
) -> DataFrame:
    """The rows whose key is, or with `left_anti` is not, among the others'."""
    names = {key: f"{PRIVATE}other_{key}" for key in by}
    renamed = others.withColumnsRenamed(names)
    same = [F.col(quoted(key)).eqNullSafe(F.col(quoted(name))) for key, name in names.items()]
    conditions = [*same, *([] if also is None else [also])]
    return rows.join(renamed, conditions, how) if conditions else rows
