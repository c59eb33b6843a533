"""Estimates numbers that are not whole yet, by comparing each with past numbers at the same age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from latecomer.after.reading.computed import OnlySpark
from latecomer.after.reading.questions import Book, standing_rows
from latecomer.after.reading.reader import Reader
from latecomer.after.reading.states import open_windows
from latecomer.model.durations import to_micros
from latecomer.model.nowcast.calibration import calibrated, drift
from latecomer.model.nowcast.estimating import LEAST, Estimate
from latecomer.model.nowcast.filling import EVENTS, PastNumbers
from latecomer.model.panes import Accumulation
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT, TimedWindow, Windows
from latecomer.model.written_values import in_percent
from latecomer.model.zoned import written
from latecomer.observe.nowcast.arrivals import (
    TAKEN_IN,
    Arrivals,
    Key,
    WholeWindows,
    estimable,
    needed_span,
    newest_arrivals,
    rhythm_span,
)
from latecomer.observe.nowcast.report import Names, Nowcast
from latecomer.store.private_columns import EVENTS as HELD
from latecomer.store.private_columns import free_name
from latecomer.store.sql import double_quoted, listed, moment_literal
from latecomer.store.standing import not_taken_back, standing

MOST_ROWS = 2000
"""So many numbers are estimated, the newest."""
PROBES = 4
"""Calibration is measured at so many ages."""
_LEAST_OPEN = 0.02
"""Calibration is measured at an age only if more than this share of events has arrived by then, and more than this
share is still to come."""


def nowcast(
    reader: Reader,
    output: str,
    window: datetime | None = None,
    key: Mapping[str, str | None] | None = None,
    most: int = MOST_ROWS,
) -> Nowcast:
    """What the numbers of open and recently closed windows of an output will probably be: of one window or key where it
    is given, and of at most `most` numbers."""
    book, store = reader.book(output), reader.store()
    last = store.ledger.last_batch()
    timeline = reader.timeline(last)
    now = BEGIN_OF_TIME if timeline is None else timeline.last_at
    watermark = BEGIN_OF_TIME if timeline is None else timeline.watermark
    present = Present(reader, book, reader.condition(book, window, key), watermark, most)
    windows = book.output.window
    if not isinstance(windows, TimedWindow):
        return present.refused(_never(windows), now)
    if last < 0 or now <= FIRST_MOMENT:
        return present.refused("no batch is complete yet; run the pipeline first", now)
    back, since = needed_span(windows), now
    while True:
        try:
            arrivals = newest_arrivals(store, book.layout, last, now - back, now - rhythm_span(windows))
        except OnlySpark as error:
            return present.refused(str(error), now)
        history = WholeWindows.of(windows, arrivals, now)
        exhausted = arrivals.whole or arrivals.since >= since
        if isinstance(history, WholeWindows) and (history.ample or exhausted):
            return _estimated(present, history, arrivals)
        if isinstance(history, str) and exhausted:
            return present.refused(history, now)
        back, since = 4 * back, arrivals.since  # events are so late that few windows are whole: read more


def _never(window: Windows) -> str:
    """Why an output can never be estimated."""
    if window.merges:
        return "a session ends when its events do, so past ones say nothing of the length that this one will have"
    return "its window never ends, so there is no past window to go by"


def _estimated(present: Present, history: WholeWindows, arrivals: Arrivals) -> Nowcast:
    book, now = present.book, history.now
    rows = present.rows(now - history.whole_after)
    listed_rows, counts_held = rows.to_pylist(), present.held(rows)
    seen = _Seen(arrivals)
    by_age: dict[int, list[int]] = {}
    for nth, row in enumerate(listed_rows):
        by_age.setdefault(now - to_micros(row["window_start"]), []).append(nth)
    wanted = {
        name: arrivals.columns[name] for name in present.names.estimates if name not in arrivals.below_zero
    }
    probes = _probes([*by_age], history)
    nowcasts: dict[int, RowNowcast] = {}
    probed: list[PastNumbers] = []
    for filled in history.fillings.at(sorted({*by_age, *probes})):
        if filled.age in probes:
            probed.append(filled)
        for nth in by_age.get(filled.age, []):
            row = listed_rows[nth]
            place = tuple(row[name] for name in book.place)
            nowcasts[nth] = _one(
                filled, len(history.starts), seen, place, wanted, counts_held.get(place), present.watermark
            )
    measured = {
        column: calibrated(probed, [column], history.starts, history.whole_age)
        for column in dict.fromkeys(wanted.values() or [EVENTS])
    }
    calibration = {
        name: measured[column] for name, column in (wanted or {"the number of events": EVENTS}).items()
    }
    return Nowcast(
        book.name,
        present.beside(now, rows, [nowcasts[nth] for nth in range(rows.num_rows)]),
        present.names,
        now,
        None,
        history.fillings.windows,
        history.whole_after,
        history.share,
        calibration,
        drift(probed),
        tuple(probes),
        (*present.remarks, *_remarks(present, arrivals, now, rows)),
    )


def _one(
    filled: PastNumbers,
    before: int,
    seen: _Seen,
    place: tuple[Any, ...],
    wanted: Mapping[str, str],
    count_held: int | None,
    watermark: int,
) -> RowNowcast:
    """The nowcast of one number."""
    key = seen.codes.get(place[2:])
    start, end = to_micros(place[0]), to_micros(place[1])
    so_far = None if key is None else seen.of(start, end, key)
    if key is None or so_far is None:
        return RowNowcast(reason="no event of it is in the part of the log that was read")
    events = filled.chosen(EVENTS, key, before, start)
    count = events.estimate(so_far[EVENTS])
    if count is None:
        reason = f"{len(events)} past numbers had an event at this age, and {LEAST} are needed"
        return RowNowcast(past=len(events), reason=reason)
    number = so_far[EVENTS] if count_held is None else float(count_held)
    complete = min(number / count.value, 1.0) if count.value > 0 else None
    of = ("key" if events.alike else "all") + (f", same {events.like}" if events.like else "")
    if watermark >= end + seen.arrivals.settles_after:
        return RowNowcast(complete, {}, count.past, of, settled=True)
    columns = {
        column: count
        if column == TAKEN_IN and filled.alike(EVENTS, TAKEN_IN) and so_far[EVENTS] == so_far[TAKEN_IN]
        else filled.chosen(column, key, before, start).estimate(so_far[column])
        for column in dict.fromkeys(wanted.values())
    }
    estimates = {name: each for name, column in wanted.items() if (each := columns[column]) is not None}
    unlike = f"far beyond all {count.past} past numbers at this age" if count.unlike else None
    return RowNowcast(complete, estimates, count.past, of, unlike)


def _probes(ages: Sequence[int], history: WholeWindows) -> list[int]:
    """The ages at which calibration is measured: some of the ages that numbers have now, where they are not whole."""
    usual = [history.length // 2, history.length, history.length + history.whole_after // 2]
    for among in (ages, usual):
        unfilled = [
            age for age in sorted(set(among)) if _LEAST_OPEN < history.fillings.share(age) < 1 - _LEAST_OPEN
        ]
        if len(unfilled) > PROBES:
            unfilled = [unfilled[round(nth * (len(unfilled) - 1) / (PROBES - 1))] for nth in range(PROBES)]
        if unfilled:
            return unfilled
    return usual


class _Seen:
    """What has arrived for each window and key."""

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        self.codes: dict[Key, int] = {key: code for code, key in enumerate(arrivals.keys)}
        self._known: dict[tuple[int, int], dict[str, Any]] = {}

    def of(self, start: int, end: int, key: int) -> dict[str, float] | None:
        """The sums of a number's events so far; None where not all of its events were read."""
        if start < self.arrivals.since:
            return None
        if (start, end) not in self._known:
            self._known[start, end] = self._summed(start, end)
        sums_of_key = {name: float(sums[key]) for name, sums in self._known[start, end].items()}
        return sums_of_key if sums_of_key[EVENTS] else None

    def _summed(self, start: int, end: int) -> dict[str, Any]:
        each, count = self.arrivals, len(self.arrivals.keys)
        first, last = np.searchsorted(each.times, [start, end], "left")
        codes = each.key[first:last]
        added = each.added(slice(first, last), end)
        sums = {name: np.bincount(codes, amounts, count) for name, amounts in added.items()}
        return {EVENTS: np.bincount(codes, minlength=count), **sums}


def _remarks(present: Present, arrivals: Arrivals, now: int, rows: pa.Table) -> list[str]:
    """Notes on what the estimates leave out."""
    book, remarks = present.book, []
    left_out = [name for name in book.output.aggregates if name not in present.names.estimates]
    if left_out:
        remarks.append(
            f"{', '.join(left_out)}: not estimated, for only counts and sums grow with what comes; "
            "column complete says what share of their events has arrived"
        )
    if arrivals.below_zero:
        remarks.append(
            f"{', '.join(sorted(arrivals.below_zero))}: not estimated; some amounts are negative, so the sum so "
            "far does not predict the final sum"
        )
    if present.watermark >= END_OF_TIME:
        remarks.append("the input was drained: if it has ended, these numbers are what they will be")
    share = _set_aside(present.reader, book.name)
    if share:
        remarks.append(
            f"{in_percent(share, 2)} of all events came too late for this output: column complete counts them as "
            "missing, estimates leave them out"
        )
    if not rows.num_rows:
        remarks.append("no window is open or has closed recently: there is nothing to estimate")
    else:
        remarks += _nothing_yet(present, now, rows)
    return remarks


def _nothing_yet(present: Present, now: int, rows: pa.Table) -> list[str]:
    """A note on the window that runs now, if none of its events has arrived."""
    window = present.book.output.window
    if present.chosen != "true" or not isinstance(window, TimedWindow):
        return []
    running = window.assign_all(now)[-1]
    if any(to_micros(start) == running.start for start in rows["window_start"].unique().to_pylist()):
        return []
    return [
        f"nothing has come yet for the window that starts at {written(running.start)}: it is not estimated"
    ]


def _set_aside(reader: Reader, output: str) -> float:
    """The share of the events that were set aside or dropped."""
    totals = reader.ledger_totals().to_pylist()
    row = next((row for row in totals if row["output"] == output and row["unit"] == "assignments"), None)
    if row is None:
        return 0.0
    lost = row["side_output"] + row["dropped"]
    counted = row["on_time"] + row["late_accepted"] + lost
    return float(Decimal(lost) / Decimal(counted)) if counted else 0.0


# The numbers of windows that are open or have closed recently, and the columns that a nowcast adds to them


class Present:
    """The numbers of windows that are open or have closed recently."""

    def __init__(self, reader: Reader, book: Book, chosen: str, watermark: int, most: int) -> None:
        self.reader, self.book, self.chosen, self.watermark = reader, book, chosen, watermark
        self.most = most
        self.remarks: list[str] = []
        self.names = _names(book)

    def rows(self, since: int) -> pa.Table:
        """The numbers whose window ends after a moment, or is open; the newest first."""
        book = self.book
        # The open states are read first: a window that closes in between is then seen twice, and never missed.
        still_open = open_windows(book, self.remarks, self.chosen)
        first = min(since, self.watermark)
        condition = "true" if first <= FIRST_MOMENT else f"window_end > {moment_literal(first)}"
        stand = standing_rows(book, f"(select * from t where {self.chosen} and {condition})").answer()
        order = [("window_end", "descending"), *((name, "ascending") for name in book.layout.keys)]
        numbers = pa.concat_tables([stand, still_open]).sort_by(order)
        if numbers.num_rows > self.most:
            self.remarks.append(
                f"{numbers.num_rows:,} numbers are not whole yet; the newest {self.most:,} are estimated"
            )
        return numbers.slice(0, self.most)

    def held(self, rows: pa.Table) -> dict[tuple[Any, ...], int]:
        """How many events are in the number that stands, for each window and key."""
        book, panes = self.book, self.book.tables.panes
        if not rows.num_rows or HELD not in panes.columns:
            return {}
        place = listed(book.place)
        first = to_micros(min(rows["window_end"].to_pylist()))
        among = f"(select * from t where {self.chosen} and window_end >= {moment_literal(first)})"
        if book.output.accumulation is Accumulation.DISCARDING:
            summed = f"sum({double_quoted(HELD)}) as {double_quoted(HELD)}"
            sql = f"select {place}, {summed} from ({not_taken_back(among, place)}) group by {place}"
        else:
            sql = standing(among, place, f"{place}, {double_quoted(HELD)}")
        counts = panes.query_rows(sql)
        return {tuple(row[name] for name in book.place): row[HELD] for row in counts if row[HELD]}

    def beside(self, now: int, rows: pa.Table, nowcasts: Sequence[RowNowcast]) -> pa.Table:
        """Results, and beside them the columns of their nowcasts."""
        names = self.names
        shares = [None if each.complete is None else round(each.complete, 4) for each in nowcasts]
        starts = rows["window_start"].to_pylist()
        ages = [None if now <= FIRST_MOMENT else now - to_micros(start) for start in starts]
        added = {names.age: pa.array(ages, pa.duration("us")), names.complete: pa.array(shares, pa.float64())}
        for name, columns in names.estimates.items():
            kind = self.book.schema.field(name).type
            values = [
                [number] * 3 if each.settled else _written(kind, each.estimates.get(name))
                for number, each in zip(rows[name].to_pylist(), nowcasts, strict=True)
            ]
            for nth, column in enumerate(columns):
                added[column] = pa.array([each[nth] for each in values], kind)
        added[names.past] = pa.array([each.past for each in nowcasts], pa.int64())
        added[names.of] = pa.array([each.of for each in nowcasts], pa.string())
        added[names.reason] = pa.array([each.reason for each in nowcasts], pa.string())
        for name, column in added.items():
            rows = rows.append_column(name, column)
        return rows

    def refused(self, reason: str, now: int) -> Nowcast:
        """The numbers as they are, with the reason why they are not estimated."""
        rows = self.rows(min(self.watermark, now) - self.book.output.settles_after)
        clock = None if now <= FIRST_MOMENT else now
        shown = self.beside(now, rows, [RowNowcast(reason=reason)] * rows.num_rows)
        return Nowcast(self.book.name, shown, self.names, clock, reason, remarks=tuple(self.remarks))


def _names(book: Book) -> Names:
    taken = set(book.schema.names)

    def free(name: str) -> str:
        name = free_name(name, taken)
        taken.add(name)
        return name

    estimates = {
        each: (free(f"{each}_estimate"), free(f"{each}_low"), free(f"{each}_high"))
        for each in estimable(book.output, book.layout.types)
    }
    return Names(
        free("age"), free("complete"), free("past_numbers"), free("past_of"), free("reason"), estimates
    )


@dataclass(frozen=True)
class RowNowcast:
    """The nowcast of one number."""

    complete: float | None = None
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    past: int | None = None
    of: str | None = None
    reason: str | None = None
    settled: bool = False
    """Whether the output accepts no more events for it: the number is final."""


def _written(kind: pa.DataType, estimate: Estimate | None) -> Sequence[Any]:
    """Whole numbers for a count; as many digits as the column has for a sum."""
    if estimate is None:
        return [None] * 3
    ends = estimate.value, estimate.low, estimate.high
    if pa.types.is_integer(kind):
        return [round(each) for each in ends]
    if not pa.types.is_decimal(kind):
        return [float(f"{each:.10g}") for each in ends]
    if max(map(abs, ends)) >= 10 ** (kind.precision - kind.scale - 1):
        return [None] * 3
    return [Decimal(f"{each:.{kind.scale}f}") for each in ends]
