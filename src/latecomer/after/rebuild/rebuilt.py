"""Windows computed anew from the log, whatever the hour their events came, and what that changes.

    events of a range → windows → one aggregation  ⟗  the panes that stand  →  what differs

What differs is written as *changes*, before and after side by side. `corrected.py` makes panes of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from latecomer.after.rebuild.columns import AFTER, BEFORE, CHANGE, PRIOR, SEQUENCE
from latecomer.config.checks import PRIVATE
from latecomer.firing.output import OutputLogic
from latecomer.firing.sessions import SessionLogic
from latecomer.log.logged import Logged
from latecomer.log.repeats import repeats_in
from latecomer.model.durations import to_micros
from latecomer.model.ledger import ASSIGNMENTS
from latecomer.model.panes import Accumulation, Op
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate
from latecomer.model.windows import FIRST_MOMENT, FixedWindow, Session
from latecomer.store.columns import EVENTS, SINCE, UNSETTLED, WAITING_EVENTS, measure_column
from latecomer.store.files import Location, url
from latecomer.store.sql import quoted
from latecomer.store.table import DataFile
from latecomer.windowing.assign import with_windows
from latecomer.windowing.columns import END, FATE, PARTLY, START, WATERMARK
from latecomer.windowing.judge import CODES, as_seen, kept_sql
from latecomer.windowing.judge_in_process import Flags
from latecomer.windowing.sessions import Places, key_codes, numbered

NEW, CHANGED, WITHDRAWN = "new", "changed", "withdrawn"
_RETRACTED, _TURN = f"{PRIVATE}retracted", f"{PRIVATE}turn"
_WAS, _IS = f"{PRIVATE}was", f"{PRIVATE}is"
"""Whether a number stands, and whether one should."""
_BEFORE, _AFTER = f"{PRIVATE}before_", f"{PRIVATE}after_"
NEAR = 1e-9
"""Floating point sums depend on the order of their terms; what is as near as this is the same."""


@dataclass(frozen=True)
class Range:
    """Which windows to compute anew, and which events that takes."""

    logic: OutputLogic
    since: int
    until: int
    through: int
    """The last batch that is looked at."""
    watermark: int
    """Windows that end at or before this are closed; the others are the pipeline's."""
    redefined: bool = False
    """The output means something else from here on: windows that late events may still reach, and those
    still open, are computed anew as well."""
    whole: int = BEGIN_OF_TIME
    """The log holds every event from here on: a session that may have begun before is left as it is."""

    @property
    def session(self) -> bool:
        return self.logic.output.window.merges

    @cached_property
    def final(self) -> int:
        """Windows that end at or before this take no late event any more."""
        output = self.logic.output
        return self.watermark if self.watermark == END_OF_TIME else self.watermark - output.settles_after

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """From which event time until which, and again: what has to be read."""
        window = self.logic.output.window
        if window.merges:
            # Stretches that touch one another can reach back as far as there are events.
            return [(BEGIN_OF_TIME, END_OF_TIME)]
        reach = min(window.reach, END_OF_TIME)
        spans = [(self.since, min(self.until + reach, self.watermark))]
        if self.redefined:
            spans.append((max(self.final - reach, BEGIN_OF_TIME), END_OF_TIME))
        return [(low, high) for low, high in spans if low < high]

    def files(self, log: Sequence[DataFile]) -> list[DataFile]:
        """The files of the log that hold such events."""
        return [
            file
            for file in log
            if file.minimum["batch"] <= self.through
            and any(_meets(file, "event_time", span) for span in self.spans)
        ]

    def panes(self, files: Sequence[DataFile]) -> list[DataFile]:
        """The files that hold panes of such windows."""
        if self.session:
            return list(files)
        window = (self.since, min(self.until, END_OF_TIME))
        return [
            file
            for file in files
            if _meets(file, "window_start", window)
            or (self.redefined and _meets(file, "window_end", (self.final + 1, END_OF_TIME + 1)))
        ]

    @property
    def events_sql(self) -> str:
        """Whether an event of the log is in the spans. In words that Parquet understands."""
        return " or ".join(f"({_within(*span)})" for span in self.spans) or "false"

    @property
    def windows_sql(self) -> str:
        """Whether a window is closed and to be computed anew."""
        wanted = f"({START} >= {self.since}L and {START} < {self.until}L)"
        if self.redefined:
            wanted = f"({wanted} or {END} > {self.final}L)"
        return f"{wanted} and {END} <= {self.watermark}L"


def computed(range_: Range, events: DataFrame) -> DataFrame:
    """Every window of the events, aggregated as if nothing had ever been late: START, END, keys, values
    and states. `where` leaves events out as it does in the stream. What was delivered again counts once."""
    logic = range_.logic
    output, merger = logic.output, logic.merger
    kept = events.where(range_.events_sql).where(f"batch <= {range_.through}")
    logged = Logged.of(kept)
    once = repeats_in(logged, logic.store.pipeline, range_.through).left_out_of(logged)
    if isinstance(logic, SessionLogic):
        return logic.spark.createDataFrame(logic.whole(once))
    seen = as_seen(once.frame, logic.store.layout, output).where(kept_sql(output))
    window = output.window
    wanted = [range_.windows_sql] + ([f"{END} > {range_.watermark}L"] if range_.redefined else [])
    placed = with_windows(seen, cast(FixedWindow, window)).where(" or ".join(f"({each})" for each in wanted))
    columns = {FATE: f"cast({CODES[Fate.ON_TIME]} as tinyint)", WATERMARK: f"{BEGIN_OF_TIME}L"}
    columns |= {PARTLY: "false"} if window.overlaps else {}
    inputs = merger.of_events(placed.withColumns({name: F.expr(sql) for name, sql in columns.items()}))
    return merger.merge(inputs)


def write_changes(range_: Range, truth: DataFrame, panes: Sequence[str], folder: Location) -> None:
    """What computing the range anew changes, one row a window and key, into a folder.

    START, END, the keys, CHANGE, BEFORE and AFTER (values and states), PRIOR, SEQUENCE.
    """
    logic = range_.logic
    names = ((name, _AFTER + name) for name in _stated_names(logic))
    after = truth.selectExpr(
        *_place(logic), f"true as {_IS}", *(f"{quoted(a)} as {quoted(b)}" for a, b in names)
    )
    both = _beside(range_, after, panes)
    chosen = _chosen(range_, both.where(f"{_IS} or {_WAS}"))
    differing = _assembled(logic, chosen.where(F.expr(f"not ({_IS} and {_WAS})") | _differs(logic)))
    if logic.output.emit_empty:
        differing = _kept_empty(range_, differing)
    change = (
        f"case when {BEFORE} is null then '{NEW}' when {AFTER} is null then '{WITHDRAWN}' "
        f"else '{CHANGED}' end as {CHANGE}"
    )
    differing.selectExpr("*", change).write.parquet(url(folder))


def write_open(range_: Range, truth: DataFrame, panes: Sequence[str], folder: Location) -> None:
    """The windows still open, as states: for an output that means something else from here on."""
    logic = range_.logic
    open_ = truth.where(f"{END} > {range_.watermark}L")
    sequence = "cast(null as bigint)"
    if panes:
        published = logic.spark.read.schema(logic.merger.ddl()).parquet(*panes)
        published = published.where(f"batch <= {range_.through}")
        keys = [F.col(quoted(key)).alias(f"{PRIVATE}of_{key}") for key in logic.layout.keys]
        last = published.groupBy(
            F.unix_micros("window_start").alias(f"{PRIVATE}of_{START}"),
            F.unix_micros("window_end").alias(f"{PRIVATE}of_{END}"),
            *keys,
        ).agg(F.max("sequence").alias(SEQUENCE))
        same = [
            F.col(quoted(name)).eqNullSafe(F.col(quoted(f"{PRIVATE}of_{name}")))
            for name in _place_names(logic)
        ]
        open_, sequence = open_.join(last, same, "left"), SEQUENCE
    nothing = {name: f"cast(null as {kind})" for name, kind in _FIRING_TYPES.items()}
    firing = {**nothing, "sequence": sequence, "timing": f"'{Fate.ON_TIME}'", "op": f"'{Op.INSERT}'"}
    firing |= {"is_last": "false", "batch": "cast(null as bigint)"}
    published_already = {
        name: f"cast(0 as {logic.merger.state_columns[name]})" for name in logic.merger.new_columns
    }
    logic.merger.published(open_, firing, published_already).write.parquet(url(folder))


def units(logic: OutputLogic) -> dict[str, str]:
    """What the ledger counts, and the column of a pane that holds it."""
    return {ASSIGNMENTS: EVENTS, **{name: measure_column(name) for name in logic.store.measures()}}


# What stands


def _beside(range_: Range, after: DataFrame, paths: Sequence[str]) -> DataFrame:
    """What should stand beside what does. Flat, so that Spark can group by hashing: a struct has to be sorted."""
    logic = range_.logic
    kinds = stated_kinds(logic)
    if not paths:
        nothing = {_BEFORE + name: F.lit(None).cast(kind) for name, kind in kinds.items()}
        return after.withColumns({**nothing, _WAS: F.lit(False), SEQUENCE: F.lit(0).cast("bigint")})
    panes = logic.spark.read.schema(logic.merger.ddl()).parquet(*paths)
    panes = panes.where(f"batch <= {range_.through}").selectExpr(
        "*", f"unix_micros(window_start) as {START}", f"unix_micros(window_end) as {END}"
    )
    if not range_.session:
        panes = panes.where(range_.windows_sql)
    firsts = [_IS, *(_AFTER + name for name in kinds)]
    if logic.output.accumulation is Accumulation.DISCARDING:
        both = after.unionByName(_added_up(logic, panes), allowMissingColumns=True)
        firsts += [_WAS, SEQUENCE, PRIOR, *(_BEFORE + name for name in kinds)]
        kept = [F.first(quoted(name), ignorenulls=True).alias(name) for name in firsts]
        return _known(both.groupBy(*_place(logic)).agg(*kept))
    # A retract comes after the insert of its sequence.
    turn = f"sequence * 2 + if(op = '{Op.RETRACT}', 1, 0)"
    stated = (f"{quoted(name)} as {quoted(_BEFORE + name)}" for name in kinds)
    both = after.unionByName(
        panes.selectExpr(*_place(logic), f"{turn} as {_TURN}", *stated), allowMissingColumns=True
    )
    found = both.groupBy(*_place(logic)).agg(
        *(F.first(quoted(name), ignorenulls=True).alias(name) for name in firsts),
        F.max(_TURN).alias(_TURN),
        *(F.max_by(quoted(_BEFORE + name), _TURN).alias(_BEFORE + name) for name in kinds),
    )
    stands = {_WAS: F.expr(f"{_TURN} % 2 = 0"), SEQUENCE: F.expr(f"{_TURN} div 2 + 1")}
    return _known(found.withColumns(stands).drop(_TURN))


def _known(both: DataFrame) -> DataFrame:
    return both.withColumns({name: F.coalesce(F.col(name), F.lit(False)) for name in (_IS, _WAS)})


def _added_up(logic: OutputLogic, panes: DataFrame) -> DataFrame:
    """Discarding panes tell what is new, and what stands is their sum."""
    whole = F.struct(*map(quoted, (field.name for field in logic.merger.schema)))
    inserts = F.collect_list(F.when(F.col("op") == Op.INSERT.value, whole)).alias(PRIOR)
    back = F.collect_set(F.when(F.col("op") == Op.RETRACT.value, F.col("sequence"))).alias(_RETRACTED)
    published = panes.groupBy(*_place(logic)).agg(inserts, back, (F.max("sequence") + 1).alias(SEQUENCE))
    published = published.withColumn(
        PRIOR, F.expr(f"filter({PRIOR}, p -> not array_contains({_RETRACTED}, p.sequence))")
    ).drop(_RETRACTED)
    parts = published.selectExpr(f"explode({PRIOR}) as {PRIOR}").select(f"{PRIOR}.*")
    added = logic.merger.merge(logic.merger.of_states(parts, Fate.ON_TIME))
    stated = (f"{quoted(name)} as {quoted(_BEFORE + name)}" for name in _stated_names(logic))
    return published.unionByName(
        added.selectExpr(*_place(logic), f"true as {_WAS}", *stated), allowMissingColumns=True
    )


def _assembled(logic: OutputLogic, differing: DataFrame) -> DataFrame:
    """Before and after as one column each, and the panes that stand."""
    names = _stated_names(logic)

    def stated(prefix: str) -> Column:
        return F.struct(*(F.col(quoted(prefix + name)).alias(name) for name in names))

    prior = F.col(PRIOR) if PRIOR in differing.columns else F.when(F.col(_WAS), F.array(_last_pane(logic)))
    return differing.select(
        *_place(logic),
        F.when(F.col(_WAS), stated(_BEFORE)).alias(BEFORE),
        F.when(F.col(_IS), stated(_AFTER)).alias(AFTER),
        prior.alias(PRIOR),
        SEQUENCE,
    )


def _last_pane(logic: OutputLogic) -> Column:
    """The pane that stands, from its values and states; the rest is filled in when it is taken back."""
    states = logic.merger.state_columns
    known = {"window_start": F.timestamp_micros(START), "window_end": F.timestamp_micros(END)}
    known |= {key: F.col(quoted(key)) for key in logic.layout.keys}
    known |= {name: F.col(quoted(_BEFORE + name)) for name in _stated_names(logic)}
    known |= {name: F.lit(0).cast(states[name]) for name in counters(logic)}
    known["sequence"] = F.col(SEQUENCE) - 1
    nothing = F.lit(None).cast("string")
    return F.struct(*(known.get(field.name, nothing).alias(field.name) for field in logic.merger.schema))


def _chosen(range_: Range, both: DataFrame) -> DataFrame:
    """The windows to compute anew. Sessions are chosen together with all that they touch."""
    window = range_.logic.output.window
    if not isinstance(window, Session):
        return both.where(range_.windows_sql)
    places = both.select(*_place(range_.logic)).toArrow()
    chosen = places.filter(pa.array(_chosen_sessions(range_, places, window)))
    names = {name: f"{PRIVATE}chosen_{name}" for name in _place_names(range_.logic)}
    wanted = range_.logic.spark.createDataFrame(chosen.rename_columns(names))
    same = [F.col(quoted(name)).eqNullSafe(F.col(quoted(other))) for name, other in names.items()]
    return both.join(F.broadcast(wanted), same, "left_semi")


def _chosen_sessions(range_: Range, rows: pa.Table, window: Session) -> Flags:
    """Whether each session, with all that it touches, has closed and reaches into the range."""
    places = Places.of_merged(rows, list(range_.logic.layout.keys))
    (codes,) = key_codes([places])
    found = numbered(codes, places.start, places.end, window)
    within = np.zeros(len(found.starts), bool)
    within[found.session[(places.start < range_.until) & (places.end > range_.since)]] = True
    gap = window.gap if range_.whole > BEGIN_OF_TIME else 0
    closed = (found.ends <= range_.watermark) & (found.starts >= range_.whole + gap)
    return np.asarray((within & closed)[found.session], bool)


def _kept_empty(range_: Range, differing: DataFrame) -> DataFrame:
    """A key that has been published keeps its windows: without events, they say so."""
    logic = range_.logic
    place = _place(logic)
    gone = differing.where(f"{AFTER} is null and {BEFORE}.{EVENTS} > 0")
    merged = logic.merger.merge(logic.merger.of_nothing(gone.select(*place)))
    sums = [name for name, each in logic.output.aggregates.items() if each.function == "sum"]
    merged = merged.withColumns({name: F.lit(0).cast(logic.layout.values[name]) for name in sums})
    stated = F.struct(*(F.col(quoted(name)) for name in _stated_names(logic)))
    nothing = merged.select(*place, stated.alias(AFTER))
    others = [name for name in differing.columns if name not in (START, END, *logic.layout.keys, AFTER)]
    both = gone.drop(AFTER).unionByName(nothing, allowMissingColumns=True)
    emptied = both.groupBy(*place).agg(
        *(F.first(name, ignorenulls=True).alias(name) for name in (*others, AFTER))
    )
    return differing.where(f"{AFTER} is not null").unionByName(
        emptied.select(*map(quoted, differing.columns))
    )


def _differs(logic: OutputLogic) -> Column:
    """Whether what stands is not what it should be: a value, or what it rests on."""
    sketched = {
        name for name, each in logic.output.aggregates.items() if each.function == "approx_percentile"
    }
    # A percentile's sketch is drawn by lot: with the same events it may say a little more or less.
    compared = {
        name: kind for name, kind in stated_kinds(logic).items() if name not in sketched and kind != "binary"
    }
    # It is there or not, whatever the lot: an aggregate that is new is in no pane yet.
    nullness = [
        F.col(quoted(_BEFORE + name)).isNull() != F.col(quoted(_AFTER + name)).isNull() for name in sketched
    ]
    return reduce(or_, [*(~_same(name, kind) for name, kind in compared.items()), *nullness])


def _same(name: str, kind: str) -> Column:
    before, after = F.col(quoted(_BEFORE + name)), F.col(quoted(_AFTER + name))
    if kind not in ("double", "float"):
        return before.eqNullSafe(after)
    near = F.abs(before - after) <= F.greatest(F.abs(before), F.abs(after)) * NEAR
    return before.eqNullSafe(after) | F.coalesce(near, F.lit(False))


def counters(logic: OutputLogic) -> list[str]:
    """The private columns that say what is new: in a rebuilt window, nothing is."""
    some = (SINCE, UNSETTLED, WAITING_EVENTS)
    return [*logic.merger.new_columns, *(name for name in some if name in logic.merger.state_columns)]


def stated_kinds(logic: OutputLogic) -> dict[str, str]:
    """The values and states of a pane, but for what only says what is new, and their types."""
    kinds, leave = {**logic.layout.values, **logic.merger.state_columns}, counters(logic)
    return {name: kind for name, kind in kinds.items() if name not in leave}


def _stated_names(logic: OutputLogic) -> list[str]:
    return list(stated_kinds(logic))


def _place(logic: OutputLogic) -> list[str]:
    return [START, END, *map(quoted, logic.layout.keys)]


def _place_names(logic: OutputLogic) -> list[str]:
    return [START, END, *logic.layout.keys]


def _within(low: int, high: int) -> str:
    bounds = [f"event_time >= timestamp_micros({low}L)"] if low > FIRST_MOMENT else []
    bounds += [f"event_time < timestamp_micros({high}L)"] if high < END_OF_TIME else []
    return " and ".join(bounds) or "true"


def _meets(file: DataFile, column: str, span: tuple[int, int]) -> bool:
    least, most = file.minimum.get(column), file.maximum.get(column)
    if least is None or most is None:  # the very first moments are in no statistics
        return True
    low, high = span
    return to_micros(most) >= low and to_micros(least) < high


_FIRING_TYPES = {"fired_at": "timestamp", "watermark": "timestamp"}
