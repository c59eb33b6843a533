"""Events of the log, as splits that tasks read, a part of the rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.names import PRIVATE
from latecomer.log.moments import event_numbers
from latecomer.log.private_columns import CAME, FIRST_BATCH
from latecomer.model.array_types import Flags, Micros
from latecomer.model.arrays import flat
from latecomer.spark.base import Shared, in_turn_together
from latecomer.store.files import Location, dataset

MOST_AT_ONCE = 250_000
"""So many rows are held at a time."""
IDS = pa.schema([("event_id", pa.string()), ("event_time", pa.timestamp("us", "UTC")), ("batch", pa.int64())])
"""What has to be known about events to find those that came before."""
COLUMNS = tuple(IDS.names)
_ROW = f"{PRIVATE}row"


@dataclass(frozen=True)
class OtherTicks:
    """Ticks of another length than those in the log: events get new ones."""

    every: int | Literal["event"]
    before: Mapping[int, int] = field(default_factory=dict)
    """With `every: event`: the last tick before each batch."""

    def counted(self, events: pa.Table) -> pa.Table:
        """Events with these ticks. `every: event` needs all events of a batch at once."""
        arrival = np.asarray(flat(events.column("arrival_time")).cast(pa.int64()))
        ticks = self._event_numbers(events, arrival) if self.every == "event" else arrival // self.every
        place = events.schema.get_field_index("tick")
        return events.set_column(place, "tick", pa.array(np.asarray(ticks, np.int64)))

    def _event_numbers(self, events: pa.Table, arrival: Micros) -> Micros:
        batch = np.asarray(flat(events.column("batch")))
        ticks = np.empty(len(batch), np.int64)
        for number in np.unique(batch).tolist():
            rows = np.flatnonzero(batch == number)
            some = events.select(["origin", "position"]).take(pa.array(rows))
            ticks[rows] = event_numbers(arrival[rows], *some.columns) + self.before[number]
        return ticks


@dataclass(frozen=True)
class Repeated:
    """The events of a log that came before, in batches up to `through`."""

    firsts: pa.Table
    """Each id and event time that came in several batches, with the first of these batches and their number."""
    through: int
    """The last batch that was looked at."""

    @property
    def count(self) -> int:
        """How many events came before."""
        return int(pc.sum(self.firsts.column(CAME)).as_py() - self.firsts.num_rows)

    def left_out_of(self, events: pa.Table) -> pa.Table:
        """The events without those that came before."""
        return events.filter(pa.array(~self.which(events)))

    def among(self, events: pa.Table) -> pa.Table:
        """The events that came before."""
        return events.filter(pa.array(self.which(events)))

    def which(self, events: pa.Table) -> Flags:
        """Which of the events came before."""
        came_before = np.zeros(events.num_rows, bool)
        if not self.firsts.num_rows or not events.num_rows:
            return came_before
        rows = events.select(COLUMNS).append_column(_ROW, pa.array(np.arange(events.num_rows)))
        rows = rows.filter(has_id(self.through))
        joined = rows.join(self.firsts, ["event_id", "event_time"], join_type="inner", use_threads=False)
        again = joined.filter(pc.field("batch") > pc.field(FIRST_BATCH))
        came_before[again.column(_ROW).to_numpy()] = True
        return came_before


def has_id(through: int) -> pc.Expression:
    """Which events have an id, and are of a batch up to `through`."""
    return pc.field("event_id").is_valid() & (pc.field("batch") <= through)


@dataclass(frozen=True)
class LogSplit:
    """Some files of the log, and which of their events to read. It is small, and can be sent to another process."""

    files: Sequence[Location]
    rows: int
    schema: pa.Schema
    after: int = -1
    last: int | None = None
    """Events of the batches in (after, last]; None: of all batches after `after`."""
    ticks: OtherTicks | None = None
    repeated: Shared[Repeated] | None = None
    """Events that came before, which are left out."""
    where: pc.Expression | None = None
    """A further condition on events."""

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Some columns of the events, at most MOST_AT_ONCE rows at a time; with new ticks of `every: event`, all at
        once."""
        wanted = list(columns) if columns is not None else self.schema.names
        for events in self._read(self._needed(wanted)):
            kept = self.repeated.value.left_out_of(events) if self.repeated is not None else events
            if kept.num_rows:
                yield (kept if self.ticks is None else self.ticks.counted(kept)).select(wanted)

    def _needed(self, wanted: Sequence[str]) -> list[str]:
        more = ["batch", "event_id", "event_time"] if self.repeated is not None else []
        more += ["batch", "arrival_time", "origin", "position", "tick"] if self.ticks is not None else []
        return list(dict.fromkeys([*wanted, *more]))

    def _read(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Files are read one after the other, and only the next one ahead."""
        if not self.files:
            return
        chosen = self.where
        if self.after >= 0 or self.last is not None:
            within = pc.field("batch") > self.after
            within &= pc.field("batch") <= (self.last if self.last is not None else np.iinfo(np.int64).max)
            chosen = within if chosen is None else chosen & within
        scanner = dataset(self.files, self.schema).scanner(
            columns=columns, filter=chosen, batch_size=MOST_AT_ONCE, batch_readahead=1, fragment_readahead=1
        )
        if self.ticks is not None and self.ticks.every == "event":
            yield scanner.to_table()
            return
        some = (each for each in scanner.to_batches() if len(each))
        yield from map(pa.Table.from_batches, in_turn_together(some, len, MOST_AT_ONCE))


class Logged:
    """Some events of the log."""

    def __init__(self, splits: Sequence[LogSplit], on_read: Callable[[int], None] | None = None) -> None:
        self.splits = splits
        self.on_read = on_read
        """Counts the rows that were read, part by part."""

    def __reduce__(self) -> tuple[type[Logged], tuple[Sequence[LogSplit]]]:
        return Logged, (self.splits,)  # in another process nothing counts the rows

    def by_split(self) -> list[Logged]:
        """The events of each split that has files, to be read by one task each."""
        return [Logged([split], self.on_read) for split in self.splits if split.files]

    @property
    def rows(self) -> int:
        """How many rows its files have; it may have fewer events."""
        return sum(split.rows for split in self.splits)

    @property
    def files(self) -> list[Location]:
        return [file for split in self.splits for file in split.files]

    @cached_property
    def table(self) -> pa.Table:
        """All of the events."""
        tables = list(self.parts())
        return pa.concat_tables(tables) if tables else self.splits[0].schema.empty_table()

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Some columns of the events, a part of the rows at a time."""
        for split in self.splits:
            for part in split.tables(columns):
                yield part
                if self.on_read is not None:
                    self.on_read(part.num_rows)

    def without(self, repeated: Repeated) -> Logged:
        """The events without those that came before."""
        shared = Shared(repeated)
        return Logged([replace(split, repeated=shared) for split in self.splits], self.on_read)

    def span(self) -> tuple[int, int] | None:
        """The earliest and the latest event time; None where there is no event."""
        bounds = [
            pc.min_max(part.column("event_time").cast(pa.int64())) for part in self.parts(["event_time"])
        ]
        found = [(each["min"].as_py(), each["max"].as_py()) for each in bounds]
        return (min(low for low, _ in found), max(high for _, high in found)) if found else None
