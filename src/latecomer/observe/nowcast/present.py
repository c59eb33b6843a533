"""The numbers of windows that are open or have closed recently, and the columns that a nowcast adds to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from latecomer.after.reading.questions import Book, standing_rows
from latecomer.after.reading.reader import Reader
from latecomer.after.reading.states import open_windows
from latecomer.model.durations import to_micros
from latecomer.model.nowcast.estimating import Estimate
from latecomer.model.panes import Accumulation
from latecomer.model.windows import FIRST_MOMENT
from latecomer.observe.nowcast.arrivals import estimable
from latecomer.observe.nowcast.report import Names, Nowcast
from latecomer.store.private_columns import EVENTS, free_name
from latecomer.store.sql import double_quoted, listed, moment_literal
from latecomer.store.standing import not_taken_back, standing

MOST_ROWS = 2000
"""So many numbers are estimated, the newest."""


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
        if not rows.num_rows or EVENTS not in panes.columns:
            return {}
        place = listed(book.place)
        first = to_micros(min(rows["window_end"].to_pylist()))
        among = f"(select * from t where {self.chosen} and window_end >= {moment_literal(first)})"
        if book.output.accumulation is Accumulation.DISCARDING:
            summed = f"sum({double_quoted(EVENTS)}) as {double_quoted(EVENTS)}"
            sql = f"select {place}, {summed} from ({not_taken_back(among, place)}) group by {place}"
        else:
            sql = standing(among, place, f"{place}, {double_quoted(EVENTS)}")
        counts = panes.query_rows(sql)
        return {tuple(row[name] for name in book.place): row[EVENTS] for row in counts if row[EVENTS]}

    def refused(self, reason: str, now: int) -> Nowcast:
        """The numbers as they are, with the reason why they are not estimated."""
        rows = self.rows(min(self.watermark, now) - self.book.output.settles_after)
        clock = None if now <= FIRST_MOMENT else now
        shown = beside(self.book, self.names, now, rows, [RowNowcast(reason=reason)] * rows.num_rows)
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


def beside(book: Book, names: Names, now: int, rows: pa.Table, nowcasts: Sequence[RowNowcast]) -> pa.Table:
    """Results, and beside them the columns of their nowcasts."""
    shares = [None if each.complete is None else round(each.complete, 4) for each in nowcasts]
    starts = rows["window_start"].to_pylist()
    ages = [None if now <= FIRST_MOMENT else now - to_micros(start) for start in starts]
    added = {names.age: pa.array(ages, pa.duration("us")), names.complete: pa.array(shares, pa.float64())}
    for name, columns in names.estimates.items():
        kind = book.schema.field(name).type
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
