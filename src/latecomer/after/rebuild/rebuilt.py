"""Windows computed anew from the log, no matter when their events came.

    events of a range → windows → one aggregation

`changes.py` compares the result with the panes that stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.log.logged_events import Logged, LogSplit
from latecomer.log.readable import ReadableLog
from latecomer.model.ledger import ASSIGNMENTS
from latecomer.model.panes import Op
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate
from latecomer.model.windows import FIRST_MOMENT
from latecomer.store.delta.data_files import DataFile
from latecomer.store.files import Location, move, remove_all
from latecomer.store.layout import TIMESTAMP
from latecomer.store.private_columns import EVENTS, SINCE, UNSETTLED, WAITING_EVENTS, measure_column
from latecomer.windowing.firing.empty import zero_sums
from latecomer.windowing.firing.output import OutputLogic
from latecomer.windowing.firing.panes import constant, last_of, places_of
from latecomer.windowing.firing.session_output import SessionLogic
from latecomer.windowing.log_computation import WindowChoice
from latecomer.windowing.merge import Merger, replaced
from latecomer.windowing.private_columns import END, START


@dataclass(frozen=True)
class RebuiltRange:
    """Which windows to compute anew, and which events that takes."""

    logic: OutputLogic
    since: int
    until: int
    through: int
    """The last batch to read."""
    watermark: int
    """Windows that end at or before this are closed. Only closed windows are rebuilt."""
    redefined: bool = False
    """The definition of the output changes: windows that late events may still reach, and open ones, are computed anew
    as well."""
    whole: int = BEGIN_OF_TIME
    """The log has every event from this moment on. A session that may have begun before it is left as it is."""

    @property
    def session(self) -> bool:
        return self.logic.output.window.merges

    @property
    def windows(self) -> WindowChoice:
        """Which windows are computed anew."""
        return WindowChoice(self.since, self.until, self.watermark, self.final if self.redefined else None)

    @cached_property
    def final(self) -> int:
        """Windows that end at or before this take no late event any more."""
        output = self.logic.output
        return self.watermark if self.watermark == END_OF_TIME else self.watermark - output.settles_after

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The ranges of event time to read."""
        window = self.logic.output.window
        if window.merges:
            # Intervals that touch one another can reach back as far as there are events.
            return [(BEGIN_OF_TIME, END_OF_TIME)]
        reach = min(window.reach, END_OF_TIME)
        spans = [(self.since, min(self.until + reach, self.watermark))]
        if self.redefined:
            spans.append((max(self.final - reach, BEGIN_OF_TIME), END_OF_TIME))
        return [(low, high) for low, high in spans if low < high]

    def files(self, log: Sequence[DataFile]) -> list[DataFile]:
        """The files of the log that may have events of the range."""
        return [
            file
            for file in log
            if file.minimum["batch"] <= self.through
            and any(file.may_hold("event_time", *span) for span in self.spans)
        ]

    def panes(self, files: Sequence[DataFile]) -> list[DataFile]:
        """The files that may have panes of these windows."""
        if self.session:
            return list(files)
        return [
            file
            for file in files
            if file.may_hold("window_start", self.since, min(self.until, END_OF_TIME))
            or (self.redefined and file.may_hold("window_end", self.final + 1, None))
        ]

    def holds_event(self) -> pc.Expression:
        """Whether an event of the log is in the spans, for a reader of files."""
        return reduce(or_, (_between("event_time", *span) for span in self.spans), pc.scalar(False))

    def holds_pane(self) -> pc.Expression:
        """Whether a pane is of a window to compute anew, for a reader of files. Sessions are all read: they are chosen
        together with all that they touch."""
        if self.session:
            return pc.scalar(True)
        wanted = _between("window_start", self.since, self.until)
        return wanted | _between("window_end", self.final + 1, END_OF_TIME) if self.redefined else wanted


def events_of(range_: RebuiltRange, log: ReadableLog, read: Sequence[DataFile]) -> Logged:
    """The events of the range in these files of the log, each once, also where it was delivered again."""
    logged = log.of_files(read, range_.through, range_.holds_event())
    return log.without_repeated(logged, range_.through)


def computed(range_: RebuiltRange, events: Logged, letters: Location) -> pa.Table:
    """Every window of the events, aggregated as if nothing had ever been late: START, END, keys, values and states.
    `where` leaves events out as it does in the stream; those that fail are written into the folder of `letters`."""
    logic = range_.logic
    names = (*logic.layout.keys, *logic.layout.values, *logic.merger.state_columns)
    kinds = {START: pa.int64(), END: pa.int64()}
    kinds |= {name: logic.merger.schema.field(name).type for name in names}
    if isinstance(logic, SessionLogic):
        merged: pa.Table | None = logic.whole(events)
    else:
        drafts = letters / "drafts"
        computation = logic.computation(range_.through, windows=range_.windows, letters=drafts)
        merged, files = computation.with_letters(logic.runner, f"rebuild of {logic.name}", events)
        for file in files:  # of the attempts that count
            move(file, letters / file.name)
        remove_all(drafts)
    if merged is None:
        return pa.schema(list(kinds.items())).empty_table()
    return pa.table({name: merged.column(name).cast(kind) for name, kind in kinds.items()})


def published_panes(range_: RebuiltRange, files: Sequence[DataFile]) -> pa.Table:
    """Every pane of these windows that was published so far, with START and END."""
    schema, table = range_.logic.merger.schema, range_.logic.tables.panes
    places = [table.location(file) for file in files]
    stored = LogSplit(places, 1, schema, last=range_.through, where=range_.holds_pane())
    panes = pa.concat_tables([schema.empty_table(), *stored.tables()])
    for name, column in ((START, "window_start"), (END, "window_end")):
        panes = panes.append_column(name, panes.column(column).cast(pa.int64()))
    return panes


def open_states(range_: RebuiltRange, truth: pa.Table, panes: pa.Table, merger: Merger) -> pa.Table:
    """The windows still open, as states, for an output whose definition changes."""
    logic, place = range_.logic, place_names(range_.logic)
    rows = truth.filter(pc.greater(truth.column(END), range_.watermark))
    codes = places_of([rows.select(place), panes.select(place)])
    of_rows, of_panes = codes[: rows.num_rows], codes[rows.num_rows :]
    sequences = np.asarray(panes.column("sequence").combine_chunks())
    newest = last_of(of_panes, sequences)
    last = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
    last[of_panes[newest]] = sequences[newest]
    firing = {
        "sequence": pa.array(last[of_rows], mask=last[of_rows] < 0),
        "timing": pa.repeat(pa.scalar(Fate.ON_TIME.value, pa.string()), rows.num_rows),
        "op": pa.repeat(pa.scalar(Op.INSERT.value, pa.string()), rows.num_rows),
        "is_last": pa.repeat(pa.scalar(False), rows.num_rows),
        **{name: constant(None, rows.num_rows) for name in ("batch", "fired_at", "watermark")},
    }
    states = merger.published(rows, firing)
    for name in logic.merger.new_columns:
        states = replaced(states, name, 0)
    return states


def of_no_events(range_: RebuiltRange, places: pa.Table, merger: Merger) -> pa.Table:
    """Windows and keys without events, with their values and states. `places` has START, END and keys."""
    merged = merger.merge([merger.of_nothing(places)])
    return zero_sums(merged, range_.logic.output)


def units(logic: OutputLogic) -> dict[str, str]:
    """The units of the ledger, and the column of a pane for each."""
    return {ASSIGNMENTS: EVENTS, **{name: measure_column(name) for name in logic.store.measures()}}


def counters(logic: OutputLogic) -> list[str]:
    """The private columns that count what is new: 0 in a rebuilt window."""
    some = (SINCE, UNSETTLED, WAITING_EVENTS)
    return [*logic.merger.new_columns, *(name for name in some if name in logic.merger.state_columns)]


def stated_kinds(logic: OutputLogic) -> dict[str, str]:
    """The values and states of a pane and their types, without the columns that count what is new."""
    kinds, excluded = {**logic.layout.values, **logic.merger.state_columns}, counters(logic)
    return {name: kind for name, kind in kinds.items() if name not in excluded}


def place_names(logic: OutputLogic) -> list[str]:
    """The columns of window and key."""
    return [START, END, *logic.layout.keys]


def _between(column: str, low: int, high: int) -> pc.Expression:
    """Whether a moment is in [low, high), as a filter on files."""
    within = pc.scalar(True)
    if low > FIRST_MOMENT:
        within &= pc.field(column) >= pa.scalar(low, TIMESTAMP)
    if high < END_OF_TIME:
        within &= pc.field(column) < pa.scalar(high, TIMESTAMP)
    return within
