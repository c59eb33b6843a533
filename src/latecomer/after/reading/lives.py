"""The life of each window: open, published, corrected, rebuilt or withdrawn, with every number it has had. No Spark.

The newest windows come first, some at a time: an output may have a great many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

import pyarrow as pa

from latecomer.after.reading.questions import Book
from latecomer.after.reading.reader import Reader
from latecomer.after.reading.states import open_windows
from latecomer.config.names import PRIVATE
from latecomer.config.outputs import Output
from latecomer.log.timeline.keeper import reached_watermark
from latecomer.model.counting import counted
from latecomer.model.durations import to_micros
from latecomer.model.panes import Accumulation, Op, Pane, Timing, summed, surviving
from latecomer.model.written_values import csv_text, json_value
from latecomer.store.publications import Publications
from latecomer.store.sql import double_quoted, listed
from latecomer.store.standing import publication_order

MOST_PANES = 5000
"""An answer has at most so many panes, or those of one window. No window is shown with a part of its panes."""
_RANK, _PLACES = f"{PRIVATE}rank", f"{PRIVATE}places"
_PANES, _PANES_SO_FAR = f"{PRIVATE}panes_of_place", f"{PRIVATE}panes_so_far"


class Stage(StrEnum):
    """How far a window's life is."""

    OPEN = "open"
    PUBLISHED = "published"
    CORRECTED = "corrected"
    REBUILT = "rebuilt"
    WITHDRAWN = "withdrawn"
    """No number stands: all were taken back."""


@dataclass(frozen=True, kw_only=True)
class PublishedPane(Pane):
    """A pane, and when it was published."""

    batch: int
    published_at: int | None
    fired_at: int | None

    @classmethod
    def of_row(
        cls,
        row: Mapping[str, Any],
        key: Sequence[Any],
        names: Iterable[str],
        times: Mapping[int, int],
        **more: Any,
    ) -> Self:
        """A row of the table, with the values of these names. `times` says when batches were published."""
        return cls(
            to_micros(row["window_start"]),
            to_micros(row["window_end"]),
            tuple(key),
            {name: row[name] for name in names if name in row},
            row["sequence"],
            Timing(row["timing"]),
            Op(row["op"]),
            bool(row["is_last"]),
            batch=row["batch"],
            published_at=times.get(row["batch"]),
            fired_at=None if row["fired_at"] is None else to_micros(row["fired_at"]),
            **more,
        )


@dataclass(frozen=True)
class Life:
    """One window and key."""

    start: int
    end: int
    key: Mapping[str, str | None]
    """As text, in the form of a query."""
    stage: Stage
    values: Mapping[str, Any] | None
    """The values that stand, or those of an open window so far."""
    panes: Sequence[PublishedPane] = field(default_factory=list)
    final: bool = False
    """Whether nothing more can come."""


@dataclass(frozen=True)
class Lives:
    """Some windows of an output, and whether there are more."""

    windows: Sequence[Life]
    more: bool
    notes: Sequence[str] = ()
    with_panes: int = 0
    """How many of them have panes: so many more to skip for the windows that come next."""


def lives(
    reader: Reader,
    output: str,
    window: datetime | None = None,
    key: Mapping[str, str | None] | None = None,
    most: int = 50,
    skip: int = 0,
) -> Lives:
    """The newest windows of an output, or those that hold a moment or have a key."""
    book = reader.book(output)
    chosen = reader.condition(book, window, key)
    notes: list[str] = []
    complete = reader.batches() - 1  # before the panes are read: all panes of these batches are among them
    still_open = [] if skip else _still_open(book, chosen, most, notes)
    rows = _panes(book, chosen, most + 1, skip)
    shown = _by_place(reader, book, rows, complete)[:most]
    matching = rows[0][_PLACES] if rows else 0
    if len(shown) < min(matching, most):
        notes.append(
            f"{counted(len(shown), 'window')} shown: more would have over {MOST_PANES:,} panes; ask for one window "
            "or key"
        )
    return Lives([*still_open, *shown], matching > len(shown), notes, len(shown))


def _panes(book: Book, chosen: str, most: int, skip: int) -> list[dict[str, Any]]:
    """The panes of the newest places, all panes of each; and how many places there are, up to `most`."""
    panes, place = book.tables.panes, listed(book.place)
    names = [f"t.{double_quoted(name)}" for name in book.layout.published.names]
    same = " and ".join(
        f"(t.{double_quoted(name)} is not distinct from c.{double_quoted(name)})" for name in book.place
    )
    newest = ", ".join(["window_end desc", "window_start desc", *map(double_quoted, book.layout.keys)])
    places = (
        f"select {place}, count(*) as {_PANES} from t where {chosen} group by {place} "
        f"order by {newest} limit {most} offset {skip}"
    )
    ranked = (
        f"select *, row_number() over (order by {newest}) as {_RANK}, count(*) over () as {_PLACES}, "
        f"sum({_PANES}) over (order by {newest}) as {_PANES_SO_FAR} from ({places})"
    )
    return panes.query_rows(
        f"select * from (select {', '.join(names)}, c.{_RANK}, c.{_PLACES} from t join ({ranked}) as c on {same} "
        f"where c.{_RANK} = 1 or c.{_PANES_SO_FAR} <= {MOST_PANES}) order by {publication_order(book.output)}"
    )


def _by_place(reader: Reader, book: Book, rows: Sequence[Mapping[str, Any]], complete: int) -> list[Life]:
    """The windows of these panes; `complete` is the last batch that was complete before they were read."""
    if not rows:
        return []
    batches = [row["batch"] for row in rows]
    times = Publications(reader.store()).times(min(batches), max(batches), book.name)
    places: dict[tuple[Any, ...], list[PublishedPane]] = {}
    ranks: dict[tuple[Any, ...], int] = {}
    for row in rows:
        place = tuple(row[name] for name in book.place)
        ranks[place] = row[_RANK]
        pane = PublishedPane.of_row(row, place[2:], book.layout.values, times)
        places.setdefault(place, []).append(pane)
    reached = reached_watermark(reader.store().watermarks, complete)
    return [_life(book, places[place], reached) for place in sorted(places, key=ranks.__getitem__)]


def _life(book: Book, panes: Sequence[PublishedPane], reached: int | None) -> Life:
    start, end, key = panes[0].place
    standing = standing_of(book.output, panes)
    timings = {each.timing for each in panes if each.op is Op.INSERT}
    # A window may close without a pane, where the last early one has published everything.
    has_closed = reached is not None and end <= reached
    if standing is None:
        stage = Stage.WITHDRAWN
    elif timings <= {Timing.EARLY} and not has_closed:
        stage = Stage.OPEN
    elif Timing.CORRECTION in timings:
        stage = Stage.REBUILT
    else:
        stage = Stage.CORRECTED if Timing.LATE in timings else Stage.PUBLISHED
    return Life(
        start, end, _key(book, key), stage, standing, panes, final=any(each.is_last for each in panes)
    )


def standing_of(output: Output, panes: Iterable[Pane]) -> Mapping[str, Any] | None:
    """The number that stands after some panes of one window and key, in order of publication; None where none does."""
    if output.accumulation is Accumulation.DISCARDING:
        return next(iter(summed(panes, output.aggregates).values()), None)
    return next((pane.values for pane in surviving(panes).values()), None)


def _still_open(book: Book, chosen: str, most: int, notes: list[str]) -> list[Life]:
    rows = open_windows(book, notes, chosen)
    order = [("window_end", "descending"), ("window_start", "descending")]
    newest = rows.sort_by([*order, *((name, "ascending") for name in book.layout.keys)]).slice(0, most)
    if rows.num_rows > most:
        notes.append(f"{rows.num_rows:,} windows are open; the newest {most} are shown")
    return [
        Life(
            to_micros(row["window_start"]),
            to_micros(row["window_end"]),
            _key(book, [row[name] for name in book.layout.keys]),
            Stage.OPEN,
            {name: row[name] for name in book.layout.values},
        )
        for row in newest.to_pylist()
    ]


def _key(book: Book, values: Sequence[Any]) -> dict[str, str | None]:
    return key_texts(book.layout.published, dict(zip(book.layout.keys, values, strict=True)))


def key_texts(schema: pa.Schema, key: Mapping[str, Any]) -> dict[str, str | None]:
    """A key in the form of a query: each column's value as text."""
    return {
        name: None if value is None else csv_text(json_value(value, schema.field(name).type))
        for name, value in key.items()
    }
