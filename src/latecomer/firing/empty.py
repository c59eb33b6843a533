"""Empty panes: the keys that earlier windows had, for the windows that closed without them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.errors import PipelineError, Problem
from latecomer.firing.ends import MOST_ENDS
from latecomer.firing.lanes import is_last
from latecomer.log.columns import THIS_BATCH
from latecomer.model.durations import to_micros, to_moment
from latecomer.model.panes import Op, Timing
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FixedWindow
from latecomer.store.columns import EVENTS
from latecomer.store.files import Location, read_table, url
from latecomer.store.layout import TIMESTAMP
from latecomer.store.sql import double_quoted, quoted
from latecomer.store.table import Table
from latecomer.timeline.columns import FIRED_AT, FIRED_WATERMARK
from latecomer.timeline.keeper import Stretch
from latecomer.windowing.columns import END, START
from latecomer.windowing.merge import Merger

MOST_EMPTY = 50_000_000
"""So many empty panes in one batch are a mistake: a corrupt event time, or far too short a window."""
_FIRST = f"{PRIVATE}first"
_CLOSED = f"{PRIVATE}closed_end"
_PUBLISHED = {"timing": pa.string(), "sequence": pa.int64(), EVENTS: pa.int64()}


class KnownKeys:
    """The keys that have had a window with events on time, and the end of the first such window.

    Its ON_TIME pane holds events, or comes after an early pane that held them: discarding, it holds none.
    """

    def __init__(self, merger: Merger, panes: Table) -> None:
        self.merger = merger
        self.keys = list(merger.layout.keys)
        self.table = self._empty().append_column(_FIRST, pa.array([], TIMESTAMP))
        self.newest: int | None = None
        """The last window end that had events."""
        if panes.exists:
            listed = "".join(f"{double_quoted(key)}, " for key in self.keys)
            found = panes.query(
                f"select {listed}window_end, timing, sequence, {double_quoted(EVENTS)} from t "
                f"where timing = '{Timing.ON_TIME}' and op = '{Op.INSERT}' "
                f"and (sequence > 0 or {double_quoted(EVENTS)} > 0)"
            )
            self._add(found)

    @property
    def first(self) -> int | None:
        """The earliest window end that any key has had."""
        first = pc.min(self.table.column(_FIRST)).as_py()
        return None if first is None else to_micros(first)

    def learn(self, fired: Iterable[Location]) -> None:
        """Take in the panes of a batch."""
        for file in fired:
            self._add(read_table(file, columns=[*self.keys, "window_end", *_PUBLISHED]))

    def _add(self, panes: pa.Table) -> None:
        kinds = pa.schema([*self.table.schema, *_PUBLISHED.items()])
        plain = panes.select([*self.keys, "window_end", *_PUBLISHED]).rename_columns(kinds.names)
        closed = plain.cast(kinds).filter(pc.field("timing") == Timing.ON_TIME.value)
        held = closed.filter((pc.field(EVENTS) > 0) | (pc.field("sequence") > 0))
        latest = pc.max(held.column(_FIRST)).as_py()
        if latest is not None:
            self.newest = max(to_micros(latest), self.newest or BEGIN_OF_TIME)
        both = pa.concat_tables([self.table, held.select(self.table.column_names)])
        first = both.group_by(self.keys).aggregate([(_FIRST, "min")])
        self.table = first.rename_columns([*self.keys, _FIRST]) if self.keys else _whole(first)

    def _empty(self) -> pa.Table:
        published = self.merger.layout.published
        return pa.schema([published.field(key) for key in self.keys]).empty_table()


def _whole(first: pa.Table) -> pa.Table:
    """Without keys there is one group, empty where nothing was there."""
    return first.rename_columns([_FIRST]).filter(pc.field(_FIRST).is_valid())


def ends_closed(name: str, window: FixedWindow, known: KnownKeys, stretch: Stretch) -> list[int]:
    """Every window end of an output that the watermark passed in a stretch. A drain passes all of time, and
    publishes no window after the last one with events."""
    first, newest = known.first, known.newest
    if first is None or newest is None:
        return []
    after = max(first, stretch.watermark_before)
    until = newest if stretch.fires_at == END_OF_TIME else stretch.fires_at
    if until <= after:
        return []
    count = (until - after) // window.step
    if count > MOST_ENDS or count * known.table.num_rows > MOST_EMPTY:
        raise _too_many(name, count, known.table.num_rows, after)
    return list(window.ends(after, until))


def _too_many(name: str, windows: int, keys: int, after: int) -> PipelineError:
    closed = f"{windows:,} windows closed in one batch since {to_moment(after):%Y-%m-%d %H:%M}"
    fix = (
        "set emit_empty: false and run again: nothing is lost; look for an event far in the past among "
        "the first, or for a window that is too short"
    )
    message = f"{closed}, to be published as empty for {keys:,} key{'s' if keys > 1 else ''}"
    return PipelineError([Problem(f"outputs.{name}.emit_empty", message, True, fix)])


def write_empty_panes(
    spark: SparkSession,
    known: KnownKeys,
    window: FixedWindow,
    firings: DataFrame,
    ends: Sequence[int],
    fired: Sequence[Location],
    params: DataFrame,
    folder: Location,
) -> None:
    """One ON_TIME pane of no events for each key and window that closed without it."""
    merger = known.merger
    starts = [next(each.start for each in window.assign_all(end - 1) if each.end == end) for end in ends]
    closed = pa.table({START: pa.array(starts, pa.int64()), END: pa.array(ends, pa.int64())})
    keys = spark.createDataFrame(known.table)
    places = keys.join(F.broadcast(spark.createDataFrame(closed)), F.expr(f"unix_micros({_FIRST}) < {END}"))
    if fired:
        there = (
            spark.read.schema(merger.ddl()).parquet(*map(url, fired)).where(f"timing = '{Timing.ON_TIME}'")
        )
        names = {f"{PRIVATE}there_{key}": key for key in known.keys}
        there = there.selectExpr(
            f"unix_micros(window_end) as {_CLOSED}",
            *(f"{quoted(key)} as {quoted(name)}" for name, key in names.items()),
        )
        same = [F.col(quoted(key)).eqNullSafe(F.col(quoted(name))) for name, key in names.items()]
        places = places.join(there, [F.col(END) == F.col(_CLOSED), *same], "left_anti")
    merged = merger.merge(merger.of_nothing(places))
    placed = merged.join(F.broadcast(firings), END, "left").crossJoin(F.broadcast(params))
    firing = {
        "sequence": "0L",
        "timing": f"'{Timing.ON_TIME}'",
        "op": f"'{Op.INSERT}'",
        "is_last": is_last(merger.output, Timing.ON_TIME),
        "batch": THIS_BATCH,
        "fired_at": f"timestamp_micros({FIRED_AT})",
        "watermark": f"timestamp_micros({FIRED_WATERMARK})",
    }
    sums = {name for name, each in merger.output.aggregates.items() if each.function == "sum"}
    zeros = {name: f"cast(0 as {merger.layout.values[name]})" for name in sums}
    merger.published(placed, firing, zeros).coalesce(1).write.parquet(url(folder))
