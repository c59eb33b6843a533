"""Fields that are no columns, as kept in the log: how many events have any, and the names of the fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model.unknown_fields import MOST_NAMES, known_fields, unknown_names
from latecomer.store.delta.data_files import DataFile, batches_of, column_chunks
from latecomer.store.files import footer
from latecomer.store.store import Store

SAMPLE = 500
"""How many events are read for the names of their fields."""
LAST_BATCHES = 10


@dataclass(frozen=True)
class UnknownSeen:
    """Events with fields that are no columns."""

    events: int = 0
    names: tuple[str, ...] = ()
    """The fields of some of the events, at most twenty."""

    def __add__(self, other: UnknownSeen) -> UnknownSeen:
        names = dict.fromkeys((*self.names, *other.names))
        return UnknownSeen(self.events + other.events, tuple(islice(names, MOST_NAMES)))

    @property
    def in_words(self) -> str:
        """The number of events, and the names of the fields.

        >>> UnknownSeen(2, ("tip", "fee")).in_words
        '2 events have fields that are no columns (tip, fee)'
        """
        more = ", …" if len(self.names) == MOST_NAMES else ""
        named = f" ({', '.join(self.names)}{more})" if self.names else ""
        return (
            f"{self.events} event{' has' if self.events == 1 else 's have'} fields that are no columns{named}"
        )


NONE_SEEN = UnknownSeen()


def unknown_seen(store: Store, files: Sequence[DataFile]) -> UnknownSeen:
    """The unknown fields in some files of the log; a field that is a column by now is not named."""
    column, events = store.layout.unknown_fields, 0
    texts: list[str] = []
    for file in files:
        with store.events.explained():
            count = _count_values(store, file, column)
            events += count
            if count and len(texts) < SAMPLE:
                rows = store.events.dataset([file], pa.schema([(column, pa.string())]))
                texts += rows.head(SAMPLE, filter=pc.field(column).is_valid())[column].to_pylist()
    return UnknownSeen(events, _names(store, texts[:SAMPLE]))


def unknown_in_last(store: Store) -> UnknownSeen:
    """The unknown fields in the last batches of the log."""
    files = store.events.files()
    since = max((max(batches_of(file)) for file in files), default=0) - LAST_BATCHES + 1
    newest = [file for file in files if max(batches_of(file)) >= since]
    if not newest:
        return NONE_SEEN
    column = store.layout.unknown_fields
    with store.events.explained():
        rows = store.events.dataset(newest, pa.schema([(column, pa.string()), ("batch", pa.int64())]))
        wanted = pc.field(column).is_valid() & (pc.field("batch") >= since)
        events = rows.count_rows(filter=wanted)
        texts = rows.head(SAMPLE, filter=wanted)[column].to_pylist() if events else []
    return UnknownSeen(events, _names(store, texts))


def _names(store: Store, texts: Sequence[str]) -> tuple[str, ...]:
    """The names of the fields in some texts, at most twenty, without those that are columns by now."""
    known = known_fields(
        {
            view.source_name(name): kind
            for source, view in store.pipeline.views.items()
            for name, kind in store.columns.read_from(source).items()
        }
    )
    names = dict.fromkeys(name for text in texts for name in unknown_names(text, known))
    return tuple(islice(names, MOST_NAMES))


def _count_values(store: Store, file: DataFile, column: str) -> int:
    """How many rows of a file have a value in a column, from its footer."""
    chunks = column_chunks(footer(store.events.location(file)))
    found = [(each.num_values, each.statistics) for each in chunks if each.path_in_schema == column]
    return sum(values - (0 if statistics is None else statistics.null_count) for values, statistics in found)
