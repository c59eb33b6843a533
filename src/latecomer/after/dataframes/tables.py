"""The tables that a DataFrame can have: the columns of each, and its slices for tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from latecomer.after.dataframes.filters import Condition
from latecomer.after.dataframes.slices import Finish, Letters, QueryRows, TableSlice
from latecomer.after.reading.questions import (
    Question,
    late_rows,
    ledger_rows,
    of_output,
    published_rows,
    standing_rows,
    starts_between,
    watermark_rows,
    with_lag,
    with_publication,
)
from latecomer.after.reading.reader import Reader
from latecomer.after.serving.correcting import corrections_of
from latecomer.after.serving.served import counting_corrections
from latecomer.spark.base import in_turn_together
from latecomer.store.coverage import LATE, removed_until
from latecomer.store.delta.data_files import DataFile, batches_of
from latecomer.store.delta.snapshots import Snapshot, snapshot
from latecomer.store.failed_events import failed_letters, letters_of
from latecomer.store.layout import DEAD_LETTERS
from latecomer.store.publications import Publications
from latecomer.store.repairs import standing_letters_in_sql
from latecomer.store.sql import listed
from latecomer.store.store import Store


class Table(StrEnum):
    """The tables that a DataFrame can have."""

    RESULTS = "results"
    PANES = "panes"
    LATE = "late"
    CORRECTIONS = "corrections"
    DEAD_LETTERS = "dead_letters"
    LEDGER = "ledger"
    WATERMARKS = "watermarks"


OF_OUTPUT = (Table.RESULTS, Table.PANES, Table.LATE, Table.CORRECTIONS)
"""Tables that each output has."""
STREAMED = (Table.PANES, Table.LATE)
"""Tables to which every batch adds rows that never change."""
AS_OF = (Table.RESULTS, Table.PANES)
"""Tables that can be read as of a moment."""
ROWS_EACH = 250_000
"""About so many rows for each task."""
_STARTS = "window_start"


@dataclass(frozen=True)
class Asked:
    """A table, of which output, and as of which moment."""

    table: Table = Table.RESULTS
    output: str = ""
    as_of: datetime | None = None
    as_of_arrival: datetime | None = None

    @property
    def at(self) -> datetime | None:
        """The moment, by either clock."""
        return self.as_of or self.as_of_arrival


class TableScan(ABC):
    """A table: its columns, and its slices for tasks."""

    schema: pa.Schema
    place: Sequence[str] = ()
    """The columns by which rows can be filtered before the query."""
    removed = -1
    """The last batch whose rows retention has removed; -1 where there is none."""

    def __init__(self, reader: Reader, asked: Asked) -> None:
        self.reader, self.asked = reader, asked

    @abstractmethod
    def slices(self, conditions: Sequence[Condition] = ()) -> Iterator[TableSlice]:
        """What tasks read, from the files of the table now. Rows that do not meet the conditions may be among them."""

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """The types of the columns by which rows can be filtered."""
        return {name: self.schema.field(name).type for name in self.place}

    @cached_property
    def store(self) -> Store:
        return self.reader.store()

    @property
    def complete(self) -> int:
        """The last complete batch."""
        return self.store.ledger.last_batch()


class OfPanes(TableScan):
    """A table made of an output's panes."""

    def __init__(self, reader: Reader, asked: Asked) -> None:
        super().__init__(reader, asked)
        self.book = reader.book(asked.output)
        self.schema, self.place = self.book.schema, self.book.place

    def _known_panes(self) -> tuple[str, Snapshot, dict[str, Snapshot]]:
        """The panes that were known at the moment, in SQL; their table; and the other tables that the SQL names."""
        rows, others = self.reader.known_panes(self.book, self.asked.as_of, self.asked.as_of_arrival)
        # The panes first: the other tables may know more than they have, never less.
        panes = snapshot(self.book.tables.panes)
        return rows, panes, {name: snapshot(table) for name, table in others.items()}


class Results(OfPanes):
    """The results. All panes of a window and key are in one slice, so a slice needs no other."""

    def slices(self, conditions: Sequence[Condition] = ()) -> Iterator[TableSlice]:
        rows, panes, beside = self._known_panes()
        files = _of_interest(panes.files, conditions)
        for windows in by_window(files):
            chosen = f"(select * from {rows} where {_together(conditions, windows.sql)})"
            sql = standing_rows(self.book, chosen).sql
            yield QueryRows({"t": panes.of(windows.of(files)), **beside}, sql, self.schema)


class Panes(OfPanes):
    """Every number ever published and every one taken back."""

    def __init__(self, reader: Reader, asked: Asked) -> None:
        super().__init__(reader, asked)
        self.schema = with_publication({}, self.book.layout.published.empty_table()).schema
        self.place = [*self.book.place, "batch"]

    def slices(self, conditions: Sequence[Condition] = ()) -> Iterator[TableSlice]:
        rows, panes, beside = self._known_panes()
        files = _of_interest(panes.files, conditions)
        first, last = _batches(files)
        times = Publications(self.store).times(first, last, self.book.name) if files else {}
        sql = published_rows(self.book, f"(select * from {rows} where {_together(conditions)})").sql
        for some in some_at_a_time(files):
            first, last = _batches(some)
            known = {batch: at for batch, at in times.items() if first <= batch <= last}
            finish = partial(with_publication, known)
            yield QueryRows({"t": panes.of(some), **beside}, sql, self.schema, finish)


class Corrections(TableScan):
    """Late events added up: the corrections that no rebuild includes."""

    def __init__(self, reader: Reader, asked: Asked) -> None:
        super().__init__(reader, asked)
        self.ours = corrections_of(reader, asked.output)
        self.schema, self.place = self.ours.schema, self.ours.place

    def slices(self, conditions: Sequence[Condition] = ()) -> Iterator[TableSlice]:
        corrections, panes = snapshot(self.ours.table), snapshot(self.ours.panes)
        files = _of_interest(corrections.files, conditions)
        for windows in by_window(files):
            chosen = _together(conditions, windows.sql)
            counting = counting_corrections(self.reader, self.ours, chosen=chosen)
            sql = f"select {listed(self.schema.names)} from {counting} as counting where {chosen}"
            tables = {"t": panes.of(windows.of(panes.files)), "c": corrections.of(windows.of(files))}
            yield QueryRows(tables, sql, self.schema)


class PlainRows(TableScan):
    """A table in which each row is an answer: each task reads some of its files."""

    finish: Finish | None = None

    def __init__(self, reader: Reader, asked: Asked) -> None:
        super().__init__(reader, asked)
        self.question = self._asked()
        plain = self.question.schema
        self.schema = plain if self.finish is None else self.finish(plain.empty_table()).schema

    @abstractmethod
    def _asked(self) -> Question: ...

    def slices(self, conditions: Sequence[Condition] = ()) -> Iterator[TableSlice]:
        table = snapshot(self.question.table)
        sql = f"select * from ({self.question.sql}) as rows where {_together(conditions)}"
        for some in some_at_a_time(_of_interest(table.files, conditions)):
            yield QueryRows({"t": table.of(some)}, sql, self.schema, self.finish)


class Late(PlainRows):
    """The side output."""

    def _asked(self) -> Question:
        book = self.reader.book(self.asked.output)
        keys = (book.layout.late_columns[name] for name in book.layout.keys)
        self.place = ["window_start", "window_end", *keys, "batch"]
        self.removed = removed_until(self.store, LATE, book.name)
        return late_rows(book)


class Ledger(PlainRows):
    """Every line of the ledger."""

    place = ("batch", "output", "unit")

    def _asked(self) -> Question:
        return ledger_rows(self.store.ledger)


class Watermarks(PlainRows):
    """The timeline."""

    place = ("batch", "at")
    finish = staticmethod(with_lag)

    def _asked(self) -> Question:
        return watermark_rows(self.store.watermarks, bool(self.reader.pipeline.sources))


class DeadLetters(TableScan):
    """Every row that is no event, and every event that an output cannot compute."""

    schema = of_output(None, DEAD_LETTERS.empty_table()).schema

    def slices(self, conditions: Sequence[Condition] = ()) -> Iterator[TableSlice]:
        standing, others = standing_letters_in_sql(self.store)
        letters = snapshot(self.store.dead_letters)
        beside = {name: snapshot(table) for name, table in others.items()}
        sql = f"select {listed(DEAD_LETTERS.names)} from ({standing}) as standing"
        for some in some_at_a_time(letters.files):
            yield QueryRows({"t": letters.of(some), **beside}, sql, self.schema, partial(of_output, None))
        for output in self.reader.pipeline.outputs:
            failed = snapshot(letters_of(self.store, output))
            stands = failed_letters(self.store, output)
            for some in some_at_a_time(failed.files):
                yield Letters(failed.of(some), stands, partial(of_output, output))


PLANS: Mapping[Table, type[TableScan]] = {
    Table.RESULTS: Results,
    Table.PANES: Panes,
    Table.LATE: Late,
    Table.CORRECTIONS: Corrections,
    Table.DEAD_LETTERS: DeadLetters,
    Table.LEDGER: Ledger,
    Table.WATERMARKS: Watermarks,
}


def plan_of(reader: Reader, asked: Asked) -> TableScan:
    """The plan of a table."""
    return PLANS[asked.table](reader, asked)


def _of_interest(files: Iterable[DataFile], conditions: Sequence[Condition]) -> list[DataFile]:
    """The files that may have rows that meet all conditions."""
    return [file for file in files if all(each.may_hold(file) for each in conditions)]


def _together(conditions: Sequence[Condition], *chosen: str) -> str:
    return " and ".join([*chosen, *(each.sql for each in conditions)]) or "true"


def _batches(files: Sequence[DataFile]) -> tuple[int, int]:
    """The first and the last batch that files may have rows of."""
    ranges = [batches_of(file) for file in files]
    return min((each[0] for each in ranges), default=0), max((each[-1] for each in ranges), default=-1)


# Files shared out to tasks


def some_at_a_time(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Files in their order, in groups of about ROWS_EACH rows."""
    return in_turn_together(files, lambda file: file.rows, ROWS_EACH)


@dataclass(frozen=True)
class Starts:
    """A range of where windows start, in microseconds."""

    low: int | None
    high: int | None

    @property
    def sql(self) -> str:
        return starts_between(self.low, self.high)

    def of(self, files: Iterable[DataFile]) -> list[DataFile]:
        """The files that may have rows of the range."""
        return [file for file in files if file.may_hold(_STARTS, self.low, self.high)]


def by_window(files: Sequence[DataFile]) -> list[Starts]:
    """Ranges of about equally many rows. All rows of a window are in one range, whichever files they are in."""
    ranges = [Starts(low, high) for low, high in pairwise([None, *_cuts(files), None])]
    return [each for each in ranges if each.of(files)]


def _cuts(files: Sequence[DataFile]) -> list[int]:
    """Where to cut, so that ranges have about equally many rows. The rows of a file are assumed to be evenly spread."""
    known = [(*bounds, file.rows) for file in files if (bounds := file.bounds(_STARTS)) is not None]
    parts = -(-sum(rows for *_, rows in known) // ROWS_EACH)
    if parts < 2:
        return []
    low, high, rows = np.array(known, np.int64).T
    rate = rows / (high - low + 1)
    at = np.concatenate([low, high + 1])
    order = np.argsort(at, kind="stable")
    at, change = at[order], np.concatenate([rate, -rate])[order]
    counted = np.concatenate([[0.0], np.cumsum(np.cumsum(change)[:-1] * np.diff(at))])
    wanted = counted[-1] * np.arange(1, parts) / parts
    return sorted({int(each) for each in np.interp(wanted, counted, at.astype(float))})
