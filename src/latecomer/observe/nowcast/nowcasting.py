"""The numbers that are not whole yet, each held against past ones at the same age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from latecomer.after.reading.computed import OnlySpark
from latecomer.after.reading.reader import Reader
from latecomer.model.durations import to_micros
from latecomer.model.nowcast.calibration import calibrated, drift
from latecomer.model.nowcast.estimating import LEAST
from latecomer.model.nowcast.filling import EVENTS, Filled
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT, TimedWindow, Windows
from latecomer.model.written_values import in_percent
from latecomer.model.zoned import written
from latecomer.observe.nowcast.arrivals import TAKEN_IN, Arrivals, Key, newest_arrivals
from latecomer.observe.nowcast.history import History, hoped_for, looked_for
from latecomer.observe.nowcast.present import MOST_ROWS, Columns, Present, RowNowcast
from latecomer.observe.nowcast.report import Nowcast

PROBES = 4
"""At so many ages calibration is measured."""
_LEAST_OPEN = 0.02
"""Where less than this share has come, or is to come, there is hardly anything to be right or wrong about."""


def nowcast(
    reader: Reader,
    output: str,
    window: datetime | None = None,
    key: Mapping[str, str | None] | None = None,
    most: int = MOST_ROWS,
) -> Nowcast:
    """What the open and recently closed windows of an output will probably be: of a window or a key where that is
    asked for, and of so many numbers at most."""
    book, store = reader._book(output), reader._store()
    last = store.ledger.last_batch()
    timeline = reader.timeline(last)
    now = BEGIN_OF_TIME if timeline is None else timeline.last_at
    watermark = BEGIN_OF_TIME if timeline is None else timeline.watermark
    present = Present(reader, book, reader._chosen(book, window, key), watermark, most)
    windows = book.output.window
    if not isinstance(windows, TimedWindow):
        return present.refused(_never(windows), now)
    if last < 0 or now <= FIRST_MOMENT:
        return present.refused("no batch is complete yet; run the pipeline first", now)
    back, since = looked_for(windows), now
    while True:
        try:
            arrivals = newest_arrivals(store, book.layout, last, now - back, now - hoped_for(windows))
        except OnlySpark as error:
            return present.refused(str(error), now)
        history = History.of(windows, arrivals, now)
        exhausted = arrivals.whole or arrivals.since >= since
        if isinstance(history, History) and (history.ample or exhausted):
            return _estimated(present, history, arrivals)
        if isinstance(history, str) and exhausted:
            return present.refused(history, now)
        back, since = 4 * back, arrivals.since  # events come so late that few windows are whole: further back


def _never(window: Windows) -> str:
    """Why an output can never be estimated."""
    if window.merges:
        return "a session ends when its events do, so past ones say nothing of the length that this one will have"
    return "its window never ends, so there is no past window to go by"


def _estimated(present: Present, history: History, arrivals: Arrivals) -> Nowcast:
    book, now = present.book, history.now
    rows = present.rows(now - history.whole_after)
    listed_rows, held = rows.to_pylist(), present.held(rows)
    seen = _Seen(arrivals)
    ages = sorted({now - to_micros(row["window_start"]) for row in listed_rows})
    wanted = {
        name: arrivals.columns[name] for name in present.names.estimates if name not in arrivals.below_zero
    }
    probes = _probes(ages, history)
    nowcasts: dict[int, RowNowcast] = {}
    probed: list[Filled] = []
    by_age: dict[int, list[int]] = {}
    for nth, row in enumerate(listed_rows):
        by_age.setdefault(now - to_micros(row["window_start"]), []).append(nth)
    for filled in history.fillings.at(sorted({*ages, *probes})):
        if filled.age in probes:
            probed.append(filled)
        for nth in by_age.get(filled.age, []):
            row = listed_rows[nth]
            place = tuple(row[name] for name in book.place)
            nowcasts[nth] = _one(
                filled, len(history.starts), seen, place, wanted, held.get(place), present.watermark
            )
    columns = Columns(book, present.names, now)
    for nth, row in enumerate(listed_rows):
        columns.add(row, nowcasts[nth])
    measured = {
        column: calibrated(probed, [column], history.starts, history.whole_age)
        for column in dict.fromkeys(wanted.values() or [EVENTS])
    }
    calibration = {
        name: measured[column] for name, column in (wanted or {"the number of events": EVENTS}).items()
    }
    return Nowcast(
        book.name,
        columns.beside(rows),
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
    filled: Filled,
    before: int,
    seen: _Seen,
    place: tuple[Any, ...],
    wanted: Mapping[str, str],
    held: int | None,
    watermark: int,
) -> RowNowcast:
    """What one number will probably be."""
    key = seen.codes.get(place[2:])
    start, end = to_micros(place[0]), to_micros(place[1])
    come = None if key is None else seen.of(start, end, key)
    if key is None or come is None:
        return RowNowcast(reason="no event of it is in the part of the log that was read")
    events = filled.chosen(EVENTS, key, before, start)
    found = events.estimate(come[EVENTS])
    if found is None:
        reason = f"{len(events)} past numbers had an event at this age, and {LEAST} are needed"
        return RowNowcast(past=len(events), reason=reason)
    number = come[EVENTS] if held is None else float(held)
    complete = min(number / found.value, 1.0) if found.value > 0 else None
    of = ("key" if events.alike else "all") + (f", same {events.like}" if events.like else "")
    if watermark >= end + seen.arrivals.settles_after:
        return RowNowcast(complete, {}, found.past, of, settled=True)
    columns = {
        column: found
        if column == TAKEN_IN and filled.alike(EVENTS, TAKEN_IN) and come[EVENTS] == come[TAKEN_IN]
        else filled.chosen(column, key, before, start).estimate(come[column])
        for column in dict.fromkeys(wanted.values())
    }
    estimates = {name: each for name, column in wanted.items() if (each := columns[column]) is not None}
    unlike = f"far beyond all {found.past} past numbers at this age" if found.unlike else None
    return RowNowcast(complete, estimates, found.past, of, unlike)


def _probes(ages: Sequence[int], history: History) -> list[int]:
    """The ages at which calibration is measured: some of those that numbers have now and that leave something open."""
    usual = [history.length // 2, history.length, history.length + history.whole_after // 2]
    for among in (ages, usual):
        left = [
            age for age in sorted(set(among)) if _LEAST_OPEN < history.fillings.share(age) < 1 - _LEAST_OPEN
        ]
        if len(left) > PROBES:
            left = [left[round(nth * (len(left) - 1) / (PROBES - 1))] for nth in range(PROBES)]
        if left:
            return left
    return usual


class _Seen:
    """What has come for each window and key."""

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        self.codes: dict[Key, int] = {key: code for code, key in enumerate(arrivals.keys)}
        self._known: dict[tuple[int, int], dict[str, Any]] = {}

    def of(self, start: int, end: int, key: int) -> dict[str, float] | None:
        """What a number's events add up to so far; None where they were not all read."""
        if start < self.arrivals.since:
            return None
        if (start, end) not in self._known:
            self._known[start, end] = self._summed(start, end)
        found = {name: float(sums[key]) for name, sums in self._known[start, end].items()}
        return found if found[EVENTS] else None

    def _summed(self, start: int, end: int) -> dict[str, Any]:
        each, count = self.arrivals, len(self.arrivals.keys)
        first, last = np.searchsorted(each.times, [start, end], "left")
        codes = each.key[first:last]
        added = each.added(slice(first, last), end)
        found = {name: np.bincount(codes, amounts, count) for name, amounts in added.items()}
        return {EVENTS: np.bincount(codes, minlength=count), **found}


def _remarks(present: Present, arrivals: Arrivals, now: int, rows: pa.Table) -> list[str]:
    """What the estimates leave out, in words."""
    book, found = present.book, []
    left_out = [name for name in book.output.aggregates if name not in present.names.estimates]
    if left_out:
        found.append(
            f"{', '.join(left_out)}: not estimated, for only counts and sums grow with what comes; "
            "complete says how much of the events they are made of"
        )
    if arrivals.below_zero:
        found.append(
            f"{', '.join(sorted(arrivals.below_zero))}: not estimated; amounts are below zero, so what has come says "
            "nothing of what is to come"
        )
    if present.watermark >= END_OF_TIME:
        found.append("the input was drained: if it has ended, these numbers are what they will be")
    share = _set_aside(present.reader, book.name)
    if share:
        found.append(
            f"{in_percent(share, 2)} of all events came too late for this output: complete counts them as missing, "
            "estimates leave them out"
        )
    if not rows.num_rows:
        found.append("no window is open or has closed recently: there is nothing to estimate")
    else:
        found += _nothing_yet(present, now, rows)
    return found


def _nothing_yet(present: Present, now: int, rows: pa.Table) -> list[str]:
    """The window that runs now, where no event of it has come."""
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
