"""Numbers that a producer gave its events and that no row has: events that never arrived.

Events, duplicates and dead letters all count as seen. They are read once, part by part, and only intervals of
numbers are kept (`numbers.py`), so memory grows with the gaps and the producers, not with the log.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.reading.numbers import UNKNOWN, Gaps, Seen, gaps_between
from latecomer.model.array_types import Flags, Integers, Micros
from latecomer.model.zoned import written
from latecomer.store.coverage import DEAD_LETTERS, covered_since, removed_until
from latecomer.store.layout import DEAD_LETTERS as LETTERS
from latecomer.store.layout import ENVELOPE, TIMESTAMP, arrow_type
from latecomer.store.store import Store
from latecomer.store.table import Table

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
        self.seen = Seen()
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
