"""The newest events of the log, as one output sees them: event time, arrival, key, and what they add to its numbers;
and the past windows that they filled, with which present ones are compared.

Only as much of the log is read as is needed for past windows. Files have their newest event time, so it is known from
which moment on every event was read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.reading.computed import computed_column, distinct, kept_by
from latecomer.after.reading.timeline import met_watermarks, micros
from latecomer.config.outputs import Output
from latecomer.model.aggregates import Aggregate
from latecomer.model.array_types import Doubles, Integers
from latecomer.model.durations import shown_duration, to_micros
from latecomer.model.nowcast.calibration import LEAST_TRIALS
from latecomer.model.nowcast.estimating import LEAST
from latecomer.model.nowcast.filling import WEEK, Fillings, Rhythm
from latecomer.model.predicates import named_columns
from latecomer.model.types import is_numeric
from latecomer.model.verdicts import OnError
from latecomer.model.windows import FIRST_MOMENT, TimedWindow, Windows, zone_of
from latecomer.observe.advise.history import numbers
from latecomer.store.coverage import covered_since
from latecomer.store.delta.data_files import DataFile
from latecomer.store.layout import PaneLayout
from latecomer.store.store import Store

LOG = logging.getLogger(__name__)

ENOUGH_EVENTS = 200_000
"""So many events are read, and more only where these do not reach back far enough."""
RHYTHM_EVENTS = 1_000_000
"""So many events are read where they show a weekly rhythm."""
MOST_EVENTS = 4_000_000

ENOUGH_WINDOWS = 4 * LEAST
"""So many past windows are needed."""
MOST_WINDOWS = 300
"""At most so many past windows are used, the newest."""
WEEKS, MOST_IN_WEEKS = 5, 1000
"""So many weeks are used, for their rhythm, where they have at most so many windows: windows of an hour or longer."""
_SHARES = (0.999, 0.99, 0.95)
"""A window counts as whole once this share of its events has arrived: the first share that leaves enough windows."""

TAKEN_IN = "*"
"""The name, among the amounts, for the number of events that the output accepts."""
_ENVELOPE = ("event_time", "arrival_time", "batch", "tick")

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Arrivals:
    """Some events, in order of event time."""

    times: Integers
    came: Integers
    met: Integers
    """The watermark that judged each event."""
    key: Integers
    """The place of each event's key in `keys`."""
    amounts: Mapping[str, Doubles]
    """What each event adds to a number, where the output accepts it."""
    columns: Mapping[str, str]
    """Aggregate → the name of its amounts."""
    keys: Sequence[Key]
    settles_after: int
    """How long after its end a window accepts events, by the watermark."""
    below_zero: frozenset[str] = frozenset()
    """Aggregates to which some event adds a negative amount."""
    since: int = FIRST_MOMENT
    """From this event time on no event is missing."""
    watched_since: int = FIRST_MOMENT
    """The first arrival in the log: events from before it were old data, and arrived all at once."""

    @property
    def whole(self) -> bool:
        """Whether this is all of the log."""
        return self.since <= FIRST_MOMENT

    @property
    def delays(self) -> Integers:
        """Arrival less event time, of the events since the first arrival."""
        watched = self.times >= self.watched_since
        return self.came[watched] - self.times[watched]

    def added(self, which: Any, ends: Any) -> dict[str, Doubles]:
        """What some of the events add to windows with these ends: nothing where they arrived too late."""
        taken_in = (self.met[which] < ends + self.settles_after).astype(np.float64)
        return {name: each[which] * taken_in for name, each in self.amounts.items()}


def estimable(output: Output, kinds: Mapping[str, str]) -> dict[str, Aggregate]:
    """The aggregates that are sums, so that the whole can be estimated from a part."""
    return {
        name: each
        for name, each in output.aggregates.items()
        if each.function == "count"
        or (each.function == "sum" and is_numeric(kinds.get(each.column or "", "")))
    }


def newest_arrivals(store: Store, layout: PaneLayout, last: int, back_to: int, hoped: int) -> Arrivals:
    """The newest events of complete batches: enough of them, and all since `back_to` unless they are too many; and all
    since `hoped`, an earlier moment, if they are not many."""
    table = store.events
    every_file = table.files()
    files, since = _newest_files(every_file, back_to, hoped)
    needed = _needed(layout)
    view, kinds = store.layout.view, store.layout.schema
    stored = dict.fromkeys([*_ENVELOPE, *(view[each] for each in needed)])
    schema = pa.schema([kinds.field(name) for name in stored])
    LOG.info("reading the newest %s events", f"{sum(file.rows for file in files):,}")
    with table.explained():
        chosen = pc.field("batch") <= last
        read = table.dataset(files, schema).to_table(schema.names, chosen) if files else schema.empty_table()
    values = {name: read[view[name]].combine_chunks() for name in needed}
    covered = covered_since(store)
    times, came, batch, tick = (micros(read[name]) for name in _ENVELOPE)
    arrivals_read = _arrivals(layout, times, came, met_watermarks(store, batch, tick), values)
    began = [at for file in every_file if (at := file.minimum.get("arrival_time")) is not None]
    known = began and len(began) == len(every_file)
    watched_since = to_micros(min(began)) if known else int(came.min(initial=0))
    return replace(
        arrivals_read,
        since=since if covered is None else max(since, covered),
        watched_since=watched_since,
    )


def _newest_files(files: Iterable[DataFile], back_to: int, hoped: int) -> tuple[list[DataFile], int]:
    """The files with the newest events, and the event time from which on no event is missing."""
    ordered = sorted(((_newest(file), file) for file in files), key=lambda each: (-each[0], each[1].path))
    taken: list[DataFile] = []
    rows = 0
    for newest, file in ordered:
        enough = newest < back_to and rows >= (ENOUGH_EVENTS if newest < hoped else RHYTHM_EVENTS)
        if enough or (rows >= MOST_EVENTS and newest < 1 << 62):
            return taken, newest + 1
        taken.append(file)
        rows += file.rows
    return taken, FIRST_MOMENT


def _newest(file: DataFile) -> int:
    """The newest event time in a file; a file without that statistic may hold any."""
    newest = file.last("event_time")
    return 1 << 62 if newest is None else to_micros(newest)


def _needed(layout: PaneLayout) -> list[str]:
    """The columns of the source that an output needs of each event."""
    output = layout.output
    named = {*output.by, *(each.column for each in output.aggregates.values() if each.column)}
    if output.where is not None:
        named |= set(named_columns(output.where, layout.types))
    for derived in output.columns.values():
        named |= set(named_columns(derived.sql, layout.events.types))
    return [name for name in layout.events.types if name in named]


def _arrivals(
    layout: PaneLayout, times: Integers, came: Integers, met: Integers, values: dict[str, pa.Array]
) -> Arrivals:
    """The events that an output keeps, from the columns that it needs."""
    output = layout.output
    kinds, count = layout.events.types, len(times)
    fails = np.zeros(count, bool)
    for name, derived in output.columns.items():
        values[name], failed = computed_column(name, derived.sql, kinds, values, count)
        used = (*output.columns_in_where, *output.columns_in_numbers)
        if output.on_error is not OnError.NULL and name in used:
            fails |= failed
    kept = kept_by(output.where, layout.types, values, count) & ~fails
    order = np.argsort(times, kind="stable")
    order = order[kept[order]]
    first, code = distinct([values[name] for name in output.by], count)
    chosen = [values[name].take(pa.array(first)).to_pylist() for name in output.by]
    keys: list[Key] = list(zip(*chosen, strict=True)) if chosen else [()]
    amounts: dict[str, Doubles] = {TAKEN_IN: np.ones(len(order))}
    below: set[str] = set()
    columns: dict[str, str] = {}
    for name, each in estimable(output, layout.types).items():
        columns[name] = TAKEN_IN if each.column is None else str(each)
        if each.column is not None and columns[name] not in amounts:
            amounts[columns[name]] = _added(each, values[each.column])[order]
        if len(order) and amounts[columns[name]].min() < 0:
            below.add(name)
    return Arrivals(
        times[order],
        came[order],
        met[order],
        code[order],
        amounts,
        columns,
        keys,
        output.settles_after,
        frozenset(below),
    )


def _added(aggregate: Aggregate, values: pa.Array) -> Doubles:
    """What each event adds."""
    if aggregate.function == "count":
        return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.float64)
    return np.asarray(numbers(values)[0], np.float64)


# Past windows


def needed_span(window: TimedWindow) -> int:
    """How long an interval of windows is asked for."""
    return ENOUGH_WINDOWS * max(window.step, window.reach)


def rhythm_span(window: TimedWindow) -> int:
    """How long an interval shows their rhythm, where windows are so long that weeks can show it."""
    in_weeks, most = most_windows(window)
    return most * max(window.step, window.reach) if in_weeks <= MOST_IN_WEEKS else needed_span(window)


def most_windows(window: TimedWindow) -> tuple[int, int]:
    """How many windows there are in the weeks of a rhythm, and how many past windows are looked at."""
    in_weeks = WEEKS * WEEK // max(window.step, window.reach)
    return in_weeks, MOST_WINDOWS if in_weeks > MOST_IN_WEEKS else max(MOST_WINDOWS, in_weeks)


@dataclass(frozen=True)
class WholeWindows:
    """Windows that are whole, and how they filled."""

    now: int
    starts: Integers
    whole_after: int
    """How long after its end a window counts as whole."""
    length: int
    """How long a window is; of calendar windows, the longest."""
    share: float
    fillings: Fillings

    @classmethod
    def of(cls, window: Windows, arrivals: Arrivals, now: int) -> WholeWindows | str:
        """The past windows, or in words why there are too few."""
        if not len(arrivals.times):
            return "no event is in the log yet"
        # Events from before the first arrival arrived all at once: that is not how windows fill.
        begin, delays = max(arrivals.since, arrivals.watched_since), arrivals.delays
        history: WholeWindows | None = None
        for share in _SHARES:
            after = max(int(np.quantile(delays, share)), 0) if len(delays) else 0
            history = cls._after(window, arrivals, now, begin, after, share)
            if history.fillings.windows >= LEAST:
                return history
        assert history is not None  # noqa: S101
        return (
            f"{history.fillings.windows} past windows are whole and were watched from their start, and {LEAST} are "
            f"needed; a window counts as whole {shown_duration(history.whole_after)} after its end"
        )

    @classmethod
    def _after(
        cls, window: Windows, arrivals: Arrivals, now: int, begin: int, after: int, share: float
    ) -> WholeWindows:
        starts, ends = _windows(window, begin, now - after)
        nth = np.searchsorted(starts, arrivals.times, "right") - 1
        inside = nth >= 0
        inside[inside] = arrivals.times[inside] < ends[nth[inside]]
        number = nth[inside]
        amounts = arrivals.added(inside, ends[number])
        age = arrivals.came[inside] - starts[number]
        rhythm = Rhythm(starts, zone_of(window))
        fillings = Fillings(number, arrivals.key[inside], age, ends - starts + after, amounts, rhythm)
        length = int((ends - starts).max()) if len(starts) else 0
        return cls(now, starts, after, length, share, fillings)

    @property
    def ample(self) -> bool:
        """Whether there are enough windows, also to test the estimates with: then no more of the log is read."""
        return self.share == _SHARES[0] and self.fillings.windows >= LEAST + LEAST_TRIALS

    @property
    def whole_age(self) -> int:
        return self.length + self.whole_after


def _windows(window: Windows, begin: int, until: int) -> tuple[Integers, Integers]:
    """The newest windows that start at or after `begin` and end by `until`; of overlapping windows, some that do not
    overlap."""
    assert isinstance(window, TimedWindow)  # noqa: S101
    _, most = most_windows(window)
    begin = max(begin, until - (most + 1) * window.most_each * window.step - window.reach)
    ends = np.array([*window.ends(begin, until)][:: -window.most_each][::-1], np.int64)
    starts = window.starts(ends)
    newest = starts >= begin
    return starts[newest][-most:], ends[newest][-most:]
