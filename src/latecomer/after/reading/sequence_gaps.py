"""Numbers that a producer gave its events and that no row has: events that never arrived.

Events, duplicates and dead letters all count as seen. They are read once, part by part, and only intervals of
numbers without a gap are kept, so memory grows with the gaps and the producers, not with the log. Events that arrive
more or less in order make few intervals.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model.array_types import Flags, Integers, Micros, Unsigned
from latecomer.model.zoned import written
from latecomer.store.coverage import DEAD_LETTERS, covered_since, removed_until
from latecomer.store.delta.table import Table
from latecomer.store.layout import DEAD_LETTERS as LETTERS
from latecomer.store.layout import ENVELOPE, TIMESTAMP, arrow_type
from latecomer.store.store import Store

LOG = logging.getLogger(__name__)

GAPS = pa.schema(
    [
        ("producer", pa.string()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("missing", pa.uint64()),
        ("event_time_before", TIMESTAMP),
        ("event_time_after", TIMESTAMP),
        ("arrived_before", TIMESTAMP),
        ("arrived_after", TIMESTAMP),
        ("since", TIMESTAMP),
    ]
)
_NUMBERED = pa.schema(
    [
        (name, arrow_type(ENVELOPE[name]))
        for name in ("producer", "producer_seq", "event_time", "arrival_time", "batch")
    ]
)
_LETTERS = pa.schema(
    [LETTERS.field(name) for name in ("raw", "source_partition", "event_time", "arrival_time", "batch")]
)
_WHOLE = "^-?[0-9]{1,19}$"
UNKNOWN = np.iinfo(np.int64).min
"""The event time of a row that has none."""
PENDING = 1 << 19
"""At least so many rows are merged at once."""
_AT_ONCE = 1024
"""The number of dead letters to read at once: one may be long."""


def sequence_gaps(store: Store, producer: str | None = None) -> pa.Table:
    """The missing numbers of every producer, or of one, as ranges in order, with the events around each.

    Rows that could not be counted are a warning.
    """
    counted = _Counted(store, producer)
    # Up to the last batch of the events. They are committed last, so no batch is read in part.
    through = store.events.last_batch()
    for table, name in ((store.events, "events"), (store.duplicates, "duplicates")):
        counted.take_rows(table, name, through)
    counted.take_letters(store.dead_letters, through)
    gaps = gaps_between(counted.seen.intervals())
    # After the tables were read: what retention removes from here on has been seen.
    certain = _certain(gaps, store)
    counted.warn(bool(certain.any()))
    return _as_table(gaps, certain, list(counted.codes))


class _Counted:
    """The numbers in the tables of a store."""

    def __init__(self, store: Store, producer: str | None) -> None:
        self.store = store
        self.producer = producer
        self.seen = SeenNumbers()
        self._views = store.pipeline.views
        self.codes: dict[str, int] = {}
        """The number that stands for each producer."""
        self._unnumbered = 0
        self._unreadable = 0

    def take_rows(self, table: Table, name: str, through: int) -> None:
        wanted = pc.field("batch") <= through
        if self.producer is not None:
            wanted &= pc.field("producer") == self.producer
        for rows in table.parts(_NUMBERED, 1 << 17, wanted, name):
            self._take(rows)

    def take_letters(self, table: Table, through: int) -> None:
        """As far as they can be read, dead letters name their producer and number."""
        for rows in table.parts(_LETTERS, _AT_ONCE, pc.field("batch") <= through, "dead letters"):
            letters = rows.select(["raw", "source_partition"]).to_pylist()
            named = [self._written_in(each["raw"], each["source_partition"]) for each in letters]
            self._unreadable += named.count(None)
            kept = [each is not None and self.producer in (None, each[0]) for each in named]
            columns = {
                "producer": pa.array([each and each[0] for each in named], pa.string()),
                "producer_seq": pa.array([each and each[1] for each in named], pa.string()),
                "event_time": rows.column("event_time"),
                "arrival_time": rows.column("arrival_time"),
            }
            self._take(pa.record_batch(columns).filter(pa.array(kept, pa.bool_())))

    def _written_in(self, raw: str | None, partition: str | None) -> tuple[str, str] | None:
        """Producer and number of a dead letter; None where it does not name them."""
        view = self._views[self.store.pipeline.source_of(partition)]
        event = view.event
        try:
            row: Any = json.loads(raw or "", parse_int=str, parse_float=str)
        except (ValueError, RecursionError):
            return None
        if not isinstance(row, dict):
            return None
        producer, number = (
            _text(row.get(view.source_name(column or ""))) for column in (event.producer, event.producer_seq)
        )
        return None if producer is None or number is None else (producer, number)

    def _take(self, rows: pa.RecordBatch) -> None:
        numbered = pc.and_(
            rows.column("producer").is_valid(),
            pc.fill_null(pc.match_substring_regex(rows.column("producer_seq"), _WHOLE), False),
        )
        kept = rows.filter(numbered)
        numbers, fits = _whole(kept.column("producer_seq"))
        kept = kept.filter(pa.array(fits))
        self._unnumbered += rows.num_rows - kept.num_rows
        if kept.num_rows:
            encoded = kept.column("producer").dictionary_encode()
            codes = [self.codes.setdefault(name, len(self.codes)) for name in encoded.dictionary.to_pylist()]
            producers = np.array(codes, np.int64)[encoded.indices.to_numpy()]
            times = (_micros(kept.column(name)) for name in ("event_time", "arrival_time"))
            self.seen.add(producers, numbers, *times)

    def warn(self, any_gap: bool) -> None:
        """Warn of what the answer leaves out."""
        event = self.store.pipeline.event
        if self.producer is not None and not self.codes:
            LOG.warning("no number of a producer %s was seen; is it written as in the log?", self.producer)
        if self._unnumbered:
            LOG.warning(
                "rows without %s, or without a whole number in %s: %s; they are left out",
                event.producer,
                event.producer_seq,
                f"{self._unnumbered:,}",
            )
        if any_gap and self._unreadable:
            LOG.warning(
                "dead letters that do not show producer and number: %s; what they are may be reported as missing",
                f"{self._unreadable:,}",
            )
        removed = removed_until(self.store, DEAD_LETTERS)
        if any_gap and removed >= 0:
            LOG.warning(
                "retention has removed the dead letters of batches 0 to %d; what they were may be reported as missing",
                removed,
            )


def _text(value: object) -> str | None:
    """A value of JSON as the log has it: numbers as they are written."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else None


def _whole(texts: pa.Array) -> tuple[Integers, Flags]:
    """Texts of digits as 64-bit numbers, without those that do not fit; and which of them fit."""
    try:
        numbers = texts.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return np.asarray(numbers, np.int64), np.ones(len(texts), bool)
    except pa.ArrowInvalid:
        exact = [int(text) for text in texts.to_pylist()]
        fits = np.array([-(2**63) <= number < 2**63 for number in exact], bool)
        return np.array([n for n, fit in zip(exact, fits, strict=True) if fit], np.int64), fits


def _micros(moments: pa.Array) -> Micros:
    whole = pc.fill_null(moments.cast(pa.int64()), UNKNOWN)
    return np.asarray(whole.to_numpy(zero_copy_only=False), np.int64)


def _certain(gaps: Gaps, store: Store) -> Flags:
    """Which gaps retention has not made: those after an event from which on it has removed nothing."""
    since = covered_since(store)
    if since is None:
        return np.ones(len(gaps.producer), bool)
    certain = gaps.happened_before >= since
    if left_out := int((~certain).sum()):
        LOG.warning(
            "ranges left out: %s; they follow events before %s, and retention has removed such events from the log",
            f"{left_out:,}",
            written(since),
        )
    return np.asarray(certain, bool)


def _as_table(gaps: Gaps, shown: Flags, names: list[str]) -> pa.Table:
    around = [gaps.happened_before, gaps.happened_after, gaps.arrived_before, gaps.arrived_after]
    moments = (each[shown] for each in [*around, gaps.since])
    columns = [
        pa.array(names, pa.string()).take(pa.array(gaps.producer[shown])),
        pa.array(gaps.first[shown]),
        pa.array(gaps.last[shown]),
        pa.array(gaps.missing[shown]),
        *(pa.array(each, pa.int64(), mask=each == UNKNOWN).cast(TIMESTAMP) for each in moments),
    ]
    return pa.table(columns, schema=GAPS).sort_by([("producer", "ascending"), ("first", "ascending")])


# The numbers that were seen, as intervals without a gap


@dataclass(frozen=True)
class Intervals:
    """Numbers without a gap, by producer, with when the first and the last of them happened and arrived.

    In order of producer and number; no two of a producer touch.
    """

    producer: Integers
    first: Integers
    last: Integers
    first_happened: Micros
    first_arrived: Micros
    last_happened: Micros
    last_arrived: Micros
    arrived: Micros
    """When the earliest of them arrived."""

    @classmethod
    def of_rows(cls, producer: Integers, number: Integers, happened: Micros, arrived: Micros) -> Self:
        """Rows in any order, each an interval of its own."""
        return cls(producer, number, number, happened, arrived, happened, arrived, arrived)

    def __len__(self) -> int:
        return len(self.producer)

    @property
    def columns(self) -> tuple[Integers, ...]:
        return tuple(getattr(self, name) for name in self.__dataclass_fields__)


def merged(parts: list[Intervals]) -> Intervals:
    """Joins intervals that touch or overlap. Of several rows with one number, the first to arrive counts."""
    every = Intervals(*map(np.concatenate, zip(*(part.columns for part in parts), strict=True)))
    if not len(every):
        return every
    order = np.lexsort((every.first_arrived, every.first, every.producer))
    every = Intervals(*(column[order] for column in every.columns))
    furthest = _furthest(every)
    begins = np.flatnonzero(_begins(every, furthest[:-1]))
    last = furthest[np.append(begins[1:], len(every)) - 1]
    return Intervals(
        every.producer[begins],
        every.first[begins],
        every.last[last],
        every.first_happened[begins],
        every.first_arrived[begins],
        every.last_happened[last],
        every.last_arrived[last],
        np.minimum.reduceat(every.arrived, begins),
    )


def _furthest(ordered: Intervals) -> Integers:
    """For each interval, in order, the one with its producer's largest number so far."""
    ranked = np.lexsort((-ordered.last_arrived, ordered.last, ordered.producer))
    rank = np.empty(len(ordered), np.int64)
    rank[ranked] = np.arange(len(ordered))
    # A producer ranks above all before it, so each begins anew.
    return np.asarray(ranked[np.maximum.accumulate(rank)], np.int64)


def _begins(ordered: Intervals, furthest: Integers) -> Flags:
    """Where an interval touches none before it, given how far those reach."""
    reached, first = ordered.last[furthest], ordered.first[1:]
    apart = (first > reached) & (_between(reached, first) > 0)
    return np.concatenate([[True], apart | (ordered.producer[1:] != ordered.producer[furthest])])


def _between(lower: Integers, upper: Integers) -> Unsigned:
    """How many numbers lie between two, the smaller first. Unsigned, so that it cannot overflow."""
    difference: Unsigned = upper.view(np.uint64) - lower.view(np.uint64) - np.uint64(1)
    return difference


class SeenNumbers:
    """The numbers seen so far, of every producer."""

    def __init__(self) -> None:
        nothing = np.empty(0, np.int64)
        self._intervals = Intervals(*[nothing] * 8)
        self._pending: list[Intervals] = []
        self._waiting = 0

    def add(self, producer: Integers, number: Integers, happened: Micros, arrived: Micros) -> None:
        """Add rows: the producer of each, its number, and when it happened and arrived."""
        self._pending.append(Intervals.of_rows(producer, number, happened, arrived))
        self._waiting += len(producer)
        # As many rows wait as there are intervals: else all intervals would be sorted for a few rows.
        if self._waiting >= max(PENDING, len(self._intervals)):
            self.intervals()

    def intervals(self) -> Intervals:
        """All numbers seen so far."""
        if self._pending:
            self._intervals = merged([self._intervals, *self._pending])
            self._pending, self._waiting = [], 0
        return self._intervals


@dataclass(frozen=True)
class Gaps:
    """Numbers that were not seen, between two of the same producer that were."""

    producer: Integers
    first: Integers
    last: Integers
    missing: Unsigned
    happened_before: Micros
    happened_after: Micros
    arrived_before: Micros
    arrived_after: Micros
    since: Micros
    """When the first event with a larger number arrived."""


def gaps_between(seen: Intervals) -> Gaps:
    """What lies between the intervals of each producer, in their order."""
    same = np.flatnonzero(seen.producer[1:] == seen.producer[:-1])
    after = same + 1
    return Gaps(
        seen.producer[same],
        seen.last[same] + 1,
        seen.first[after] - 1,
        _between(seen.last[same], seen.first[after]),
        seen.last_happened[same],
        seen.first_happened[after],
        seen.last_arrived[same],
        seen.first_arrived[after],
        _earliest_from(seen)[after],
    )


def _earliest_from(seen: Intervals) -> Micros:
    """For each interval, when the first of its numbers or of larger ones of its producer arrived."""
    # From the last producer on, the latest arrival first.
    ranked = np.lexsort((-seen.arrived, -seen.producer))
    rank = np.empty(len(seen), np.int64)
    rank[ranked] = np.arange(len(seen))
    return np.asarray(seen.arrived[ranked[np.maximum.accumulate(rank[::-1])]][::-1], np.int64)
