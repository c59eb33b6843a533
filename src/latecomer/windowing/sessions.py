"""Sessions on columns: which spans of a key make one session.

An event stands for the span `[t, t + gap)`, cut at the multiples of `max`. Spans of a key that meet, directly or
through others, are one session. Which event may join a session is decided in `session_judge.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model.array_types import Flags, Integers, Micros
from latecomer.model.arrays import flat
from latecomer.model.windows import Session
from latecomer.windowing.aggregates.base import alike
from latecomer.windowing.private_columns import END, KEY, START

_MOST_CODES = 1 << 62


def span_ends(time: Micros, window: Session) -> Micros:
    """Where the span of each event ends: `Session.span` for many events."""
    end: Micros = time + window.gap
    if window.max is not None:
        end = np.minimum(end, time - time % window.max + window.max)
    return end


@dataclass(frozen=True)
class Places:
    """Sessions or spans: the key of each, and where it begins and ends."""

    keys: Sequence[pa.Array]
    start: Micros
    end: Micros

    @classmethod
    def of_inputs(cls, rows: pa.Table, by: Sequence[str]) -> Places:
        """From inputs of a merge."""
        return cls.of_merged(rows, [KEY + key for key in by])

    @classmethod
    def of_merged(cls, rows: pa.Table, by: Sequence[str], window: Sequence[str] = (START, END)) -> Places:
        """From merged rows; `window` are the columns where each begins and ends."""
        return cls([flat(rows.column(key)) for key in by], *(_micros(rows, name) for name in window))

    @classmethod
    def of_panes(cls, rows: pa.Table, by: Sequence[str]) -> Places:
        """From stored panes and states."""
        return cls.of_merged(rows, by, ("window_start", "window_end"))

    def __len__(self) -> int:
        return len(self.start)


def _micros(rows: pa.Table, name: str) -> Micros:
    return np.asarray(flat(rows.column(name)).cast(pa.int64()).fill_null(0))


def key_codes(parts: Sequence[Places]) -> list[Integers]:
    """A number for each key, the same in all parts. Null is a key like any other."""
    counts = [len(part) for part in parts]
    codes = row_codes(zip(*(part.keys for part in parts), strict=True), sum(counts))
    return np.split(codes, np.cumsum(counts)[:-1])


def row_codes(columns: Iterable[Sequence[pa.Array]], count: int) -> Integers:
    """A number for each of so many rows: those that are equal in all columns, nulls included, have the same. A column
    comes in parts."""
    codes, size = np.zeros(count, np.int64), 1
    for parts in columns:
        encoded = flat(pa.chunked_array([alike(each) for each in parts]))
        encoded = encoded.dictionary_encode(null_encoding="encode")
        width = max(len(encoded.dictionary), 1)
        if size * width >= _MOST_CODES:
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
            size = int(codes.max(initial=0)) + 1
        codes = codes * width + np.asarray(encoded.indices)
        size *= width
    return codes


@dataclass(frozen=True)
class Numbered:
    """Spans put together into sessions."""

    session: Integers
    """For each span, the number of its session."""
    starts: Micros
    ends: Micros
    """Where each session begins and ends."""

    @property
    def start(self) -> Micros:
        """For each span, where its session begins."""
        return self.starts[self.session]

    @property
    def end(self) -> Micros:
        """For each span, where its session ends."""
        return self.ends[self.session]


def numbered(codes: Integers, start: Micros, end: Micros, window: Session) -> Numbered:
    """Number the sessions: spans of a key that meet, directly or through others, share one."""
    if not len(codes):
        return Numbered(codes, start, end)
    order = in_order(codes, start)
    begins, until = start[order], end[order]
    first = firsts(codes[order])
    met = np.zeros(len(order), bool)
    met[1:] = _meets(_running_max(first, until)[:-1], begins[1:], window)
    opens = first | ~met
    session = np.empty(len(order), np.int64)
    session[order] = np.cumsum(opens) - 1
    places = np.flatnonzero(opens)
    return Numbered(session, begins[places], np.maximum.reduceat(until, places))


def _meets(reached: Micros, start: Micros, window: Session) -> Flags:
    """Whether a span belongs to the session before it, which reaches so far."""
    met = start < reached
    if window.joins:
        touch = start == reached
        met |= touch if window.max is None else touch & (start % window.max != 0)
    return met


def in_order(*columns: Integers) -> Integers:
    """The order by these columns, the first of them first. Rows that are equal in all of them come in any order.

    Several columns are packed into one number where they fit: one sort of 64 bits costs a third of a stable one.
    """
    keys: list[Integers] = []
    room = 1
    for column in columns if len(columns[0]) else ():
        low = int(column.min())
        width = int(column.max()) - low + 1
        if keys and room * width < _MOST_CODES:
            keys[-1] = keys[-1] * width + (column - low)
            room *= width
        else:
            keys.append(column - low if width < _MOST_CODES else column)
            room = width
    return np.argsort(keys[0]) if len(keys) == 1 else np.lexsort(keys[::-1] or columns)


def firsts(codes: Integers) -> Flags:
    """Whether each row is the first of its key. The rows are in order."""
    first: Flags = np.diff(codes, prepend=codes[:1] - 1) != 0
    return first


def text_ranks(texts: pa.Array) -> Integers:
    """The place of each text in the order of all; null comes first."""
    encoded = texts.dictionary_encode()
    rank: Integers = np.full(len(encoded.dictionary) + 1, -1, np.int64)
    rank[np.asarray(pc.sort_indices(encoded.dictionary))] = np.arange(len(encoded.dictionary))
    nth: Integers = np.asarray(encoded.indices.fill_null(-1))
    return rank[nth]


def _running_max(first: Flags, ends: Micros) -> Micros:
    """How far the rows of a key reach, up to and including each row."""
    if np.all(first[1:] | (ends[1:] >= ends[:-1])):
        return ends
    known, rank = np.unique(ends, return_inverse=True)
    base = (np.cumsum(first) - 1) * len(known)
    reached: Micros = known[np.maximum.accumulate(base + rank) - base]
    return reached


def covering(sessions: Places, wanted: Places) -> Integers:
    """Which session holds each wanted place; -1 where none does. The sessions of a key do not overlap."""
    count = len(sessions)
    if not count or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    codes = np.concatenate(key_codes([sessions, wanted]))
    start, end = (
        np.concatenate(each) for each in ((sessions.start, wanted.start), (sessions.end, wanted.end))
    )
    is_wanted = np.arange(len(codes)) >= count
    order = np.lexsort((is_wanted, start, codes))
    place = np.where(is_wanted[order], -1, np.arange(len(order)))
    session = np.empty(len(codes), np.int64)
    # Before the first session the place is -1. The row taken then is no session, or one of another key.
    session[order] = order[np.maximum.accumulate(place)]
    session, rows = session[count:], slice(count, None)
    holds = (session < count) & (codes[session] == codes[rows]) & (end[session] >= end[rows])
    return np.where(holds & (start[session] <= start[rows]), session, -1)
