"""Finds the number that a question is about: one window and key of an output, from a moment and a key as people write
them. Where there is none, the error names the nearest.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from latecomer.after.reading.questions import Book, holds
from latecomer.after.reading.reader import Reader
from latecomer.config.outputs import Output
from latecomer.errors import PipelineError
from latecomer.model.durations import to_micros
from latecomer.model.windows import FIRST_MOMENT, Session, Window
from latecomer.model.words import key_in_words
from latecomer.model.written_values import bytes_of, csv_text, json_value, short_text
from latecomer.model.zoned import current_zone, moment_in_words, written
from latecomer.store.delta.table import Table
from latecomer.store.sql import listed, moment_literal
from latecomer.store.store import Store

Key = tuple[Any, ...]
FEW = 3
_MANY = 1000


@dataclass(frozen=True)
class NumberPlace:
    """One number: its window and key. The window of a session spans all windows it has had."""

    window: Window
    key: Mapping[str, Any]
    published: bool = True
    """Whether a table of the output has it; else only the log can have it."""


class Finder:
    """Finds the number that a question is about."""

    def __init__(self, reader: Reader, output: str) -> None:
        self.reader = reader
        self.name = output
        self.book: Book = reader.book(output)
        self.store: Store = reader.store()

    @property
    def output(self) -> Output:
        return self.book.output

    def find(self, moment: datetime, key: Mapping[str, str | None]) -> NumberPlace:
        """The place whose window holds the moment. Where there is none, the error names the nearest."""
        at = to_micros(moment)
        conditions = [self.reader.key_condition(self.book, column, text) for column, text in key.items()]
        places = self._places([holds(moment_literal(at)), *conditions])
        keys = list(dict.fromkeys(place_key for _, place_key in places))
        if len(keys) > 1:
            shown = "; ".join(self._options(key) for key in keys[:FEW])
            fix = f"name one: {shown}" + (f"; and {len(keys) - FEW} more" if len(keys) > FEW else "")
            raise self.reader.refused("key", f"the window has {len(keys)} keys", written(at), fix)
        window, windows = self.output.window, {each for each, _ in places}
        if places:
            named = dict(zip(self.output.by, keys[0], strict=True))
            if window.merges:  # a session that grew
                return NumberPlace(grown_from(windows, self.windows_of(named)), named)
            return NumberPlace(self._one_of(windows, at), named)
        if set(key) == set(self.output.by):
            span = (
                Window(at, at + 1) if isinstance(window, Session) else self._one_of(window.assign_all(at), at)
            )
            kinds = self.book.layout.published
            values = {
                column: None if (text := key[column]) is None else _value(text, kinds.field(column).type)
                for column in self.output.by
            }
            return NumberPlace(span, values, published=False)
        raise self.nothing(at, key)

    def windows_of(self, key: Mapping[str, Any]) -> list[Window]:
        """Every window that a key has had in panes or open states."""
        return [window for window, _ in self._places(self.conditions(key))]

    def conditions(self, key: Mapping[str, Any]) -> list[str]:
        """The key as SQL over the output's tables."""
        return [self.reader.key_condition(self.book, column, as_text(value)) for column, value in key.items()]

    def nothing(self, at: int, key: Mapping[str, str | None]) -> PipelineError:
        """The error where there is no such number: whether the key or the window is wrong, and what is nearest."""
        keys = [each for _, each in self._places([holds(moment_literal(at))], _MANY)]
        if keys and key:
            return self._unknown_key(key, keys)
        conditions = [self.reader.key_condition(self.book, column, text) for column, text in key.items()]
        of_key = self._nearest(at, conditions) if key else []
        near = of_key or self._nearest(at, [])
        fix = f"the nearest are {'; '.join(map(in_words, near))}" if near else "no window has any number yet"
        whose = f" for {key_in_words(key)}" if of_key else ""
        return self.reader.refused("window", f"no window{whose} holds this moment", written(at), fix)

    # One of several

    def _one_of(self, windows: Iterable[Window], at: int) -> Window:
        """The one window that holds a moment; of overlapping windows, the one that starts at it."""
        several = sorted(windows)
        starting = [window for window in several if window.start == at]
        if len(several) > 1 and not starting:
            shown = "; ".join(map(in_words, several[: 2 * FEW]))
            fix = f"name one by its start: {shown}" + ("; …" if len(several) > 2 * FEW else "")
            raise self.reader.refused("window", f"{len(several)} windows hold this moment", written(at), fix)
        return (starting or several)[0]

    def _unknown_key(self, key: Mapping[str, str | None], keys: Sequence[Key]) -> PipelineError:
        options = [self._options(each) for each in dict.fromkeys(keys)]
        wanted = " ".join(_option(column, text) for column, text in key.items())
        near = difflib.get_close_matches(wanted, options, n=FEW, cutoff=0.5) or options[:FEW]
        more = f", among {len(options)}" if len(options) > len(near) else ""
        fix = f"the nearest in this window{more}: {'; '.join(near)}"
        return self.reader.refused("key", "the window has no such key", key_in_words(key), fix)

    def _options(self, key: Key) -> str:
        return " ".join(
            _option(column, as_text(value)) for column, value in zip(self.output.by, key, strict=True)
        )

    # Tables

    def _tables(self) -> tuple[Table, Table]:
        return self.book.tables.panes, self.book.tables.partials

    def _places(self, conditions: Sequence[str], limit: int | None = None) -> list[tuple[Window, Key]]:
        place = listed(self.book.place)
        where = " and ".join(conditions) or "true"
        most = "" if limit is None else f" limit {limit}"
        sql = f"select {place} from t where {where} group by {place} order by {place}{most}"
        rows = [row for table in self._tables() for row in table.query_rows(sql)]
        return list(
            dict.fromkeys((_window(row), tuple(row[column] for column in self.output.by)) for row in rows)
        )

    def _nearest(self, at: int, conditions: Sequence[str]) -> list[Window]:
        where = " and ".join(conditions) or "true"
        away = f"abs(arrow_cast(window_start, 'Int64') - {at})"
        sql = (
            f"select window_start, window_end from t where {where} group by window_start, window_end "
            f"order by {away}, window_start limit {FEW}"
        )
        windows = {_window(row) for table in self._tables() for row in table.query_rows(sql)}
        return sorted(sorted(windows, key=lambda window: (abs(window.start - at), window.start))[:FEW])


def grown_from(chosen: Collection[Window], windows: Iterable[Window], touching: bool = False) -> Window:
    """The session that these windows belong to: all windows that overlap, directly or through others. With `touching`,
    also those that only touch.

    >>> grown_from([Window(12, 20)], [Window(0, 10), Window(0, 20), Window(12, 20), Window(30, 40)])
    Window(start=0, end=20)
    """
    wanted = Window(min(each.start for each in chosen), max(each.end for each in chosen))
    low, high = FIRST_MOMENT, FIRST_MOMENT
    for start, end in sorted([wanted, *windows]):
        if start > high or (start == high and not touching):
            if low <= wanted.start < high:
                break
            low, high = start, end
        high = max(high, end)
    return Window(low, high)


def in_words(window: Window) -> str:
    return " to ".join(map(moment_in_words, window))


def as_text(value: Any) -> str | None:
    """A key's value as results show it, and as --key takes it.

    >>> from decimal import Decimal
    >>> as_text(Decimal("1.50")), as_text(True), as_text(b"a"), as_text(None)
    ('1.50', 'true', 'YQ==', None)
    """
    return csv_text(json_value(value, zone=current_zone()))


def shown_value(value: Any) -> str:
    """A value in a sentence or a picture."""
    return "null" if value is None else short_text(value, current_zone())


def _value(text: str, kind: pa.DataType) -> Any:
    """A key's value from a text that the reader has been able to read."""
    if pa.types.is_string(kind):
        return text
    if pa.types.is_binary(kind):
        return bytes_of(text.strip())
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(text.strip())
    return pa.scalar(text.strip()).cast(kind).as_py()


def _option(column: str, text: str | None) -> str:
    option = f"{column}={text or ''}"
    return f"--key {shlex.quote(option)}"


def _window(row: Mapping[str, Any]) -> Window:
    return Window(to_micros(row["window_start"]), to_micros(row["window_end"]))
