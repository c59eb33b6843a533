"""Who may join a session: the rule of `model/oracle/sessions.py`, on columns.

An event at or after the watermark of its arrival (after it, where sessions that touch are one) is *prompt*: it is on
time, since every closed session ends before it.
One behind the watermark is a *suspect*. Its fate depends on the sessions that were there when it came. So the suspects
of a key are judged one at a time, in order of arrival, together with the prompt events of that key, the *witnesses*.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa

from latecomer.config.outputs import Output
from latecomer.log.private_columns import ARRIVAL
from latecomer.log.timeline.watermarks import JudgingWatermarks, micros_of
from latecomer.model.array_types import FateCodes, Flags, Integers, Micros
from latecomer.model.arrays import flat
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Session
from latecomer.source.private_columns import ORIGIN, POSITION
from latecomer.store.layout import EventLayout
from latecomer.store.private_columns import when_column
from latecomer.windowing.fate_counts import CODES, ENTERS, Periods
from latecomer.windowing.judge import JudgedEvents, fates
from latecomer.windowing.private_columns import BATCH, END, KEY, START, TICK
from latecomer.windowing.sessions import Places, firsts, in_order, key_codes, numbered, span_ends, text_ranks
from latecomer.windowing.visible_events import as_seen, entering, holds, stored_columns

ORDER = {BATCH: "batch", TICK: "tick", ARRIVAL: "arrival_time", ORIGIN: "origin", POSITION: "position"}
"""The order in which events came: its columns, and those of the log."""


def session_of(output: Output) -> Session:
    """The window of an output with sessions."""
    assert isinstance(output.window, Session)  # noqa: S101
    return output.window


@dataclass(frozen=True)
class SessionArrivals:
    """Events as an output sees them, with the watermark that each met."""

    logged: pa.Table
    """The rows of the log, with these events among them."""
    nth: Integers
    """The number of the row that each event is."""
    columns: Mapping[str, pa.Array]
    """The columns that the output needs, by the source's names and its own: the keys among them."""
    time: Micros
    arrival: Micros
    clock: Micros
    """Where the arrival clock stood."""
    watermark: Micros
    kept: Flags
    """Whether each may enter a session: the output's `where` keeps it, and it does not fail."""
    failed: Flags
    """Whether the output cannot compute it."""

    @classmethod
    def of(
        cls,
        logged: pa.Table,
        columns: Mapping[str, pa.Array],
        clock: Micros,
        watermark: Micros,
        kept: Flags,
        failed: Flags,
    ) -> SessionArrivals:
        """All events of a table."""
        time, arrival = (micros_of(logged, name) for name in ("event_time", "arrival_time"))
        return cls(logged, np.arange(logged.num_rows), columns, time, arrival, clock, watermark, kept, failed)

    def __len__(self) -> int:
        return len(self.time)

    def rows(self, names: Sequence[str] | None = None) -> pa.Table:
        """The events as they were logged; some columns of them."""
        some = self.logged if names is None else self.logged.select(list(names))
        return some if len(self) == some.num_rows else some.take(pa.array(self.nth))

    def only(self, which: Flags) -> SessionArrivals:
        """Some of them."""
        wanted = pa.array(which)
        columns = {name: column.filter(wanted) for name, column in self.columns.items()}
        rest = (getattr(self, each.name)[which] for each in fields(self)[3:])
        return SessionArrivals(self.logged, self.nth[which], columns, *rest)

    def apart(self) -> SessionArrivals:
        """The same without the rows of other events, to be kept or sent."""
        return replace(self, logged=self.rows(), nth=np.arange(len(self)))

    def suspects(self, window: Session) -> Flags:
        """Whether each can touch a session that has closed: such a session may end exactly at the watermark."""
        behind = self.time <= self.watermark if window.joins else self.time < self.watermark
        return self.kept & behind

    def places(self, by: Sequence[str], window: Session) -> Places:
        """The span of each event."""
        return Places([self.columns[key] for key in by], self.time, span_ends(self.time, window))

    def judged(self, start: Micros, end: Micros, fate: FateCodes) -> JudgedEvents:
        """With these windows and fates."""
        count = len(self)
        return JudgedEvents(
            self.columns,
            self.time,
            self.arrival,
            self.clock,
            self.watermark,
            start,
            end,
            fate,
            np.ones(count, bool),
            np.zeros(count, bool),
            np.arange(count, dtype=np.int64),
        )


def arrivals_of(
    events: pa.Table,
    layout: EventLayout,
    periods: Periods,
    timeline: JudgingWatermarks,
    wanted: Sequence[str],
) -> SessionArrivals:
    """Events of the log with the keys and the wanted columns. `where` is that of the policy of their batch."""
    output = periods[-1][1]
    seen = as_seen(events, layout, output)
    columns = {name: seen.column(name) for name in dict.fromkeys([*output.by, *wanted])}
    columns |= {when_column(sql): pa.array(holds(seen, output, sql)[0]) for sql in output.trigger.whens}
    clock = timeline.clock(events) if output.fires_within else micros_of(events, "arrival_time")
    watermark = timeline.over(events)
    if len(periods) == 1:
        found = entering(seen, output)
        return SessionArrivals.of(events, columns, clock, watermark, found.enters, found.failed)
    enters, failed = np.zeros(events.num_rows, bool), np.zeros(events.num_rows, bool)
    for under, rows in by_policy(micros_of(events, "batch"), periods):
        found = entering(as_seen(events.take(pa.array(rows)), layout, under), under)
        enters[rows], failed[rows] = found.enters, found.failed
    return SessionArrivals.of(events, columns, clock, watermark, enters, failed)


def event_columns(layout: EventLayout, periods: Periods, wanted: Sequence[str]) -> list[str]:
    """The columns of the log that `arrivals_of` needs."""
    output = periods[-1][1]
    used = stored_columns(layout, [under for _, under in periods], [*output.by, *wanted])
    return list(dict.fromkeys([*used, *ORDER.values()]))


def together(parts: Sequence[SessionArrivals]) -> SessionArrivals:
    """Arrivals of several splits as one."""
    if len(parts) == 1:
        return parts[0]
    columns = {
        name: flat(pa.chunked_array([part.columns[name] for part in parts])) for name in parts[0].columns
    }
    logged = pa.concat_tables([part.rows() for part in parts])
    rest = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("clock", "watermark", "kept", "failed")
    )
    return SessionArrivals.of(logged, columns, *rest)


def prompt_fates(prompt: SessionArrivals) -> FateCodes:
    """The fates of events that are no suspects: on time, filtered, or failed."""
    left_out = np.where(prompt.failed, CODES[Fate.FAILED], CODES[Fate.FILTERED])
    return np.where(prompt.kept, CODES[Fate.ON_TIME], left_out).astype(np.int8)


def divided(
    arrivals: SessionArrivals, output: Output, last: int | None
) -> tuple[SessionArrivals, SessionArrivals | None, pa.Table | None]:
    """Events as prompt ones, suspects, and what these are judged by. `last` is the highest watermark that an event of
    the batch met; None where no event came behind it: then there are no suspects."""
    if last is None:
        return arrivals, None, None
    window, prompt, late = session_of(output), arrivals, None
    suspects = arrivals.suspects(window)
    if suspects.any():
        prompt, late = arrivals.only(~suspects), arrivals.only(suspects).apart()
    return prompt, late, witnesses_of(prompt, output.by, window, last)


def witnesses_of(prompt: SessionArrivals, by: Sequence[str], window: Session, last: int) -> pa.Table:
    """What suspects are judged by: the key, the span and the order of each prompt event.

    `last` is the highest watermark that a suspect can have met. Events that begin more than a gap after it are left
    out: a session that reaches beyond the watermark is open, however long it is.
    """
    wanted = prompt.kept & (prompt.time - window.gap <= last)
    return _came(prompt if wanted.all() else prompt.only(wanted), by, window)


def _came(arrivals: SessionArrivals, by: Sequence[str], window: Session) -> pa.Table:
    """The key and the span of each event, and the columns of ORDER."""
    places, rows = arrivals.places(by, window), arrivals.rows(list(ORDER.values()))
    return pa.table(
        {
            **{KEY + key: column for key, column in zip(by, places.keys, strict=True)},
            **{name: rows.column(stored) for name, stored in ORDER.items()},
            START: pa.array(places.start),
            END: pa.array(places.end),
        }
    )


def judged_suspects(
    suspects: SessionArrivals, witnesses: Sequence[pa.Table], standing: Sequence[Places], periods: Periods
) -> JudgedEvents:
    """Suspects with their fates, by the policy of their batch.

    The START and END of an accepted suspect are its own span; those of any other are the session that judged it.
    `standing` are the sessions from before; those of a key do not overlap.
    """
    output = periods[-1][1]
    by, window = output.by, session_of(output)
    policies = list(by_policy(micros_of(suspects.rows(["batch"]), "batch"), periods))
    bound = np.zeros(len(suspects), np.int64)
    for under, rows in policies:
        bound[rows] = bound_of(under, suspects.watermark[rows])
    came = pa.concat_tables([_came(suspects, by, window), *witnesses])
    start, end = _in_turn(came, bound, standing, by, window)
    fate = np.zeros(len(suspects), np.int8)
    for under, rows in policies:
        fate[rows] = fates(under, suspects.kept[rows], end[rows], suspects.watermark[rows])
    own, accepted = suspects.places(by, window), fate <= ENTERS
    return suspects.judged(np.where(accepted, own.start, start), np.where(accepted, own.end, end), fate)


def by_policy(batch: Integers, periods: Periods) -> Iterator[tuple[Output, Integers]]:
    """Each policy, and the rows of the events that came under it, by the batch of each."""
    since = np.array([since for since, _ in periods[1:]], np.int64)
    nth = np.searchsorted(since, batch, side="right")
    for period, (_, under) in enumerate(periods):
        yield under, np.flatnonzero(nth == period)


def bound_of(output: Output, watermark: Micros) -> Micros:
    """An event is accepted in a session that ends after this."""
    return watermark - output.allowed_lateness if output.late.accepts else watermark


def _in_turn(
    came: pa.Table, bound: Micros, standing: Sequence[Places], by: Sequence[str], window: Session
) -> tuple[Micros, Micros]:
    """Where the session that judges each suspect begins and ends. The first rows that came are the suspects; each has a
    bound."""
    suspects = len(bound)
    codes, *known = key_codes([Places.of_inputs(came, by), *standing])
    keys = np.unique(codes[:suspects])
    rows = np.flatnonzero(np.isin(codes, keys))
    codes, came = codes[rows], came.select([*ORDER, START, END]).take(pa.array(rows))
    start, end = (np.asarray(flat(came.column(name))) for name in (START, END))
    epoch = _epochs(codes, came, suspects)
    runs = numbered(epoch[suspects:], start[suspects:], end[suspects:], window)
    first = suspects + np.unique(runs.session, return_index=True)[1]
    before = [
        (code[mask], place.start[mask], place.end[mask])
        for code, place in zip(known, standing, strict=True)
        for mask in [np.isin(code, keys)]
    ]
    return _one_by_one(
        np.concatenate([codes[:suspects], codes[first], *(each[0] for each in before)]),
        np.concatenate([start[:suspects], runs.starts, *(each[1] for each in before)]),
        np.concatenate([end[:suspects], runs.ends, *(each[2] for each in before)]),
        np.concatenate([epoch[:suspects], epoch[first], *(np.full(len(each[0]), -1) for each in before)]),
        bound,
        window,
    )


def _epochs(codes: Integers, came: pa.Table, suspects: int) -> Integers:
    """How many suspects of its key came before each event, plus an offset by which no two keys share a number."""
    order = order_of_arrival(codes, came)
    is_suspect = (order < suspects).astype(np.int64)
    of_key = np.cumsum(firsts(codes[order]))
    epoch = np.empty(len(codes), np.int64)
    epoch[order] = np.cumsum(is_suspect) - is_suspect + of_key
    return epoch


def order_of_arrival(codes: Integers, came: pa.Table) -> Integers:
    """Events of a key in the order in which they came, key after key."""
    columns = {name: flat(came.column(name)) for name in ORDER}
    places = [
        text_ranks(column) if name == ORIGIN else np.asarray(column.cast(pa.int64()).fill_null(-1))
        for name, column in columns.items()
    ]
    return in_order(codes, *places)


def _one_by_one(
    key: Integers, start: Micros, end: Micros, epoch: Integers, bound: Micros, window: Session
) -> tuple[Micros, Micros]:
    """Where the session that judges each suspect begins and ends. The suspects come first among the spans, then runs of
    witnesses, then the sessions from before. Only spans that may meet a suspect are looked at, in order."""
    suspects = len(bound)
    group = numbered(key, start, end, window).session
    among = np.zeros(int(group.max()) + 1, bool)
    among[group[:suspects]] = True
    rows = np.flatnonzero(among[group])
    # In order of arrival: witnesses first, then the suspect that came after them.
    rows = rows[np.lexsort((rows < suspects, epoch[rows], group[rows]))]
    begins, ends = np.zeros(suspects, np.int64), np.zeros(suspects, np.int64)
    sessions, current = KeySessions(window), -1
    columns = (each.tolist() for each in (rows, group[rows], start[rows], end[rows]))
    for nth, nth_group, low, high in zip(*columns, strict=True):
        if nth_group != current:
            sessions, current = KeySessions(window), nth_group
        if nth < suspects:
            begins[nth], ends[nth] = sessions.judge(low, high, int(bound[nth]))
        else:
            sessions.join(low, high)
    return begins, ends


class KeySessions:
    """The sessions of a key, in order, none overlapping another."""

    def __init__(self, window: Session) -> None:
        self.window = window
        self.starts: list[int] = []
        self.ends: list[int] = []

    def join(self, start: int, end: int) -> None:
        """Put a span and all sessions that it meets together."""
        self.put(start, end, *self.met(start, end))

    def judge(self, start: int, end: int, bound: int) -> tuple[int, int]:
        """The session that judges a suspect: the first final one that it meets, or else the one that it makes.

        The one that it makes is kept if it ends after the bound.
        """
        low, high = self.met(start, end)
        if low < high and self.ends[low] <= bound - self.window.joinable_after:
            return self.starts[low], self.ends[low]
        made = self._made(start, end, low, high)
        if made[1] > bound:
            self.put(start, end, low, high)
        return made

    def met(self, start: int, end: int) -> tuple[int, int]:
        """The range of sessions that a span meets: from `low` up to, not including, `high`."""
        low, high = bisect_right(self.ends, start), bisect_left(self.starts, end)
        if self.window.joins:
            low -= low > 0 and self.ends[low - 1] == start and self._may_touch_at(start)
            high += high < len(self.starts) and self.starts[high] == end and self._may_touch_at(end)
        return low, high

    def _may_touch_at(self, moment: int) -> bool:
        return self.window.max is None or moment % self.window.max != 0

    def _made(self, start: int, end: int, low: int, high: int) -> tuple[int, int]:
        return (min(start, self.starts[low]), max(end, self.ends[high - 1])) if low < high else (start, end)

    def put(self, start: int, end: int, low: int, high: int) -> None:
        """Put a span and the sessions of a range together."""
        made = self._made(start, end, low, high)
        self.starts[low:high], self.ends[low:high] = [made[0]], [made[1]]
