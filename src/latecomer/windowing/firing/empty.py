"""Empty panes: for keys of earlier windows, in windows that closed without events of these keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.names import PRIVATE
from latecomer.config.outputs import Output
from latecomer.errors import PipelineError, Problem
from latecomer.model.arrays import flat
from latecomer.model.counting import counted
from latecomer.model.durations import to_micros, to_moment
from latecomer.model.panes import Op, Timing
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FixedWindow, Window
from latecomer.store.files import Location, read_table
from latecomer.store.layout import TIMESTAMP
from latecomer.store.private_columns import EVENTS
from latecomer.store.sql import double_quoted
from latecomer.windowing.firing.clocks import Clocks
from latecomer.windowing.firing.panes import Firing, constant, numbers, places_of
from latecomer.windowing.merge import Merger, replaced
from latecomer.windowing.private_columns import END, START

if TYPE_CHECKING:
    from latecomer.store.delta.table import Table

MOST_ENDS = 1_000_000
"""The most windows that may close in one batch."""
MOST_EMPTY = 50_000_000
"""More empty panes in one batch are a mistake: a corrupt event time, or far too short a window."""
_FIRST = f"{PRIVATE}first"
_PUBLISHED = {"timing": pa.string(), "sequence": pa.int64(), EVENTS: pa.int64()}


@dataclass(frozen=True)
class KnownKeys:
    """The keys that have had a window with events on time, and the end of the first such window.

    The ON_TIME pane of such a window holds events; with `discarding`, an early pane before it may hold them instead.
    """

    table: pa.Table
    newest: int | None = None
    """The last window end that had events."""

    @classmethod
    def of(cls, merger: Merger, panes: Table) -> KnownKeys:
        """The keys of published panes."""
        keys = list(merger.layout.keys)
        kinds = pa.schema([*(merger.layout.published.field(key) for key in keys), (_FIRST, TIMESTAMP)])
        known = cls(kinds.empty_table())
        if not panes.exists:
            return known
        listed = "".join(f"{double_quoted(key)}, " for key in keys)
        return known.with_panes(
            panes.query(
                f"select {listed}window_end, timing, sequence, {double_quoted(EVENTS)} from t "
                f"where timing = '{Timing.ON_TIME}' and op = '{Op.INSERT}' "
                f"and (sequence > 0 or {double_quoted(EVENTS)} > 0)"
            )
        )

    @property
    def first(self) -> int | None:
        """The earliest window end that any key has had."""
        first = pc.min(self.table.column(_FIRST)).as_py()
        return None if first is None else to_micros(first)

    def with_files(self, fired: Iterable[Location]) -> KnownKeys:
        """With the keys of panes in files."""
        known = self
        for file in fired:
            known = known.with_panes(read_table(file, columns=[*self._keys, "window_end", *_PUBLISHED]))
        return known

    def with_panes(self, panes: pa.Table) -> KnownKeys:
        """With the keys of more panes."""
        keys, kinds = self._keys, pa.schema([*self.table.schema, *_PUBLISHED.items()])
        plain = panes.select([*keys, "window_end", *_PUBLISHED]).rename_columns(kinds.names)
        closed = plain.cast(kinds).filter(pc.field("timing") == Timing.ON_TIME.value)
        held = closed.filter((pc.field(EVENTS) > 0) | (pc.field("sequence") > 0))
        latest, newest = pc.max(held.column(_FIRST)).as_py(), self.newest
        if latest is not None:
            newest = max(to_micros(latest), BEGIN_OF_TIME if newest is None else newest)
        both = pa.concat_tables([self.table, held.select(self.table.column_names)])
        first = both.group_by(keys).aggregate([(_FIRST, "min")]).rename_columns([*keys, _FIRST])
        # Without keys there is one group, even where there was no row: then its moment is null.
        return KnownKeys(first.filter(pc.field(_FIRST).is_valid()), newest)

    @property
    def _keys(self) -> list[str]:
        return [name for name in self.table.column_names if name != _FIRST]


def windows_closed(name: str, window: FixedWindow, known: KnownKeys, before: int, now: int) -> list[Window]:
    """Every window of an output whose end the watermark passed since `before`. A drain passes all of time: then the
    last window with events is the last one published."""
    first, newest = known.first, known.newest
    if first is None or newest is None:
        return []
    after, until = max(first, before), newest if now == END_OF_TIME else now
    if until <= after:
        return []
    count = (until - after) // window.step
    if count > MOST_ENDS or count * known.table.num_rows > MOST_EMPTY:
        raise _too_many(name, count, known.table.num_rows, after)
    ends = np.array(list(window.ends(after, until)), np.int64)
    return list(map(Window, window.starts(ends).tolist(), ends.tolist()))


def _too_many(name: str, windows: int, keys: int, after: int) -> PipelineError:
    closed = f"{windows:,} windows closed in one batch since {to_moment(after):%Y-%m-%d %H:%M}"
    fix = (
        "set emit_empty: false and run again: nothing is lost; look for an event far in the past among "
        "the first, or for a window that is too short"
    )
    message = f"{closed}, to be published as empty for {counted(keys, 'key')}"
    return PipelineError([Problem(f"outputs.{name}.emit_empty", message, True, fix)])


def empty_panes(
    firing: Firing, known: pa.Table, windows: Sequence[Window], fired: pa.Table, clocks: Clocks
) -> pa.Table:
    """One ON_TIME pane without events for each known key and window that closed without it. `known` is the table of
    `KnownKeys`; `fired` are panes that fired in this batch."""
    keys = list(firing.merger.layout.keys)
    first = np.asarray(flat(known.column(_FIRST)).cast(pa.int64()))
    starts, ends = (np.array([each[side] for each in windows], np.int64) for side in (0, 1))
    nth, at = np.nonzero(first[:, None] < ends[None, :])
    columns = {START: pa.array(starts[at]), END: pa.array(ends[at])}
    columns |= {key: flat(known.column(key)).take(pa.array(nth)) for key in keys}
    places = pa.table(columns)
    on_time = fired.filter(pc.equal(fired.column("timing"), Timing.ON_TIME.value))
    closed = {END: flat(on_time.column("window_end")).cast(pa.int64())}
    held = pa.table(
        {**closed, **{key: on_time.column(key).cast(places.schema.field(key).type) for key in keys}}
    )
    codes = places_of([places.select([END, *keys]), held])
    missing = places.filter(pa.array(~np.isin(codes[: places.num_rows], codes[places.num_rows :])))
    if not missing.num_rows:
        return firing.merger.schema.empty_table()
    merged = firing.merger.merge([firing.merger.of_nothing(missing)])
    merged_ends = numbers(merged, END)
    when, mark = clocks.closings(merged_ends, clocks.closed(merged_ends))
    first_of_all = constant(0, merged.num_rows)
    is_last = firing.is_last(merged, np.asarray(mark.fill_null(0)))
    panes = firing.as_panes(merged, clocks, Timing.ON_TIME, first_of_all, when, mark, is_last)
    return zero_sums(panes, firing.output)


def zero_sums(rows: pa.Table, output: Output) -> pa.Table:
    """Rows of no events: the sum of nothing is published as 0."""
    for name, each in output.aggregates.items():
        if each.function == "sum":
            rows = replaced(rows, name, 0)
    return rows
