"""The numbers of windows that are open or have closed recently, and the columns that a nowcast adds to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from latecomer.after.reading.open_windows import open_windows
from latecomer.after.reading.questions import Book, standing_rows
from latecomer.after.reading.reader import Reader
from latecomer.model.durations import to_micros
from latecomer.model.nowcast.estimating import Estimate
from latecomer.model.panes import Accumulation
from latecomer.model.windows import FIRST_MOMENT
from latecomer.observe.nowcast.arrivals import estimable
from latecomer.observe.nowcast.report import Names, Nowcast
from latecomer.store.columns import EVENTS
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
        if not panes.exists or not rows.num_rows or EVENTS not in panes.columns:
            return {}
        place = listed(book.place)
        first = to_micros(min(rows["window_end"].to_pylist()))
        among = f"(select * from t where {self.chosen} and window_end >= {moment_literal(first)})"
        if book.output.accumulation is Accumulation.DISCARDING:
            summed = f"sum({double_quoted(EVENTS)}) as {double_quoted(EVENTS)}"
            sql = f"select {place}, {summed} from ({not_taken_back(among, place)}) group by {place}"
        else:
            sql = standing(among, place, f"{place}, {double_quoted(EVENTS)}")
        counts = panes.query(sql).to_pylist()
        return {tuple(row[name] for name in book.place): row[EVENTS] for row in counts if row[EVENTS]}

    def refused(self, reason: str, now: int) -> Nowcast:
        """The numbers as they are, with the reason why they are not estimated."""
        rows = self.rows(min(self.watermark, now) - self.book.output.settles_after)
        nothing = Columns(self.book, self.names, now)
        for row in rows.to_pylist():
            nothing.add(row, RowNowcast(reason=reason))
        clock = None if now <= FIRST_MOMENT else now
        return Nowcast(
            self.book.name, nothing.beside(rows), self.names, clock, reason, remarks=tuple(self.remarks)
        )


def _names(book: Book) -> Names:
    taken = set(book.schema.names)

    def free(name: str) -> str:
        while name in taken:
            name += "_"
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


class Columns:
    """The columns beside the results, row by row."""

    def __init__(self, book: Book, names: Names, now: int) -> None:
        self.book, self.names, self.now = book, names, now
        self.columns: dict[str, list[Any]] = {name: [] for name in self.types()}

    def types(self) -> dict[str, pa.DataType]:
        names = self.names
        numbers: dict[str, pa.DataType] = {
            column: self._kind(name) for name, columns in names.estimates.items() for column in columns
        }
        return {
            names.age: pa.duration("us"),
            names.complete: pa.float64(),
            **numbers,
            names.past: pa.int64(),
            names.of: pa.string(),
            names.reason: pa.string(),
        }

    def add(self, row: Mapping[str, Any], nowcast: RowNowcast) -> None:
        names, columns = self.names, self.columns
        start = to_micros(row["window_start"])
        columns[names.age].append(None if self.now <= FIRST_MOMENT else self.now - start)
        columns[names.complete].append(None if nowcast.complete is None else round(nowcast.complete, 4))
        for name, three in names.estimates.items():
            estimate = nowcast.estimates.get(name)
            values = [None] * 3 if estimate is None else self._written(name, estimate)
            for column, value in zip(three, [row[name]] * 3 if nowcast.settled else values, strict=True):
                columns[column].append(value)
        columns[names.past].append(nowcast.past)
        columns[names.of].append(nowcast.of)
        columns[names.reason].append(nowcast.reason)

    def _written(self, name: str, estimate: Estimate) -> Sequence[Any]:
        """Whole numbers for a count; as many digits as the column has for a sum."""
        kind = self._kind(name)
        ends = estimate.value, estimate.low, estimate.high
        if pa.types.is_integer(kind):
            return [round(each) for each in ends]
        if not pa.types.is_decimal(kind):
            return [float(f"{each:.10g}") for each in ends]
        if max(map(abs, ends)) >= 10 ** (kind.precision - kind.scale - 1):
            return [None] * 3
        return [Decimal(f"{each:.{kind.scale}f}") for each in ends]

    def _kind(self, name: str) -> pa.DataType:
        return self.book.schema.field(name).type

    def beside(self, rows: pa.Table) -> pa.Table:
        for name, kind in self.types().items():
            rows = rows.append_column(name, pa.array(self.columns[name], kind))
        return rows
