"""Finds events that came before, and puts them into a lane of their own.

    ids of a split → hashes → candidates → their ids, exactly → rows to the duplicates' lane

A candidate's hash came twice in the split, or is in the index of earlier ids. Only the ids of candidates are compared.
The driver finds by hashes what came in two splits of one batch: only then files are written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.log.known_ids import KnownIds, by_hash
from latecomer.log.private_columns import UNIQUE
from latecomer.model.array_types import Flags, Integers
from latecomer.store.files import Location, new_token, read_table, remove, write_table

_ORDER = ("arrival_time", "landed", "origin", "position")
"""Of several events with one id, the first in this order counts."""
_PLACE = ["event_id", "arrival_time", "origin", "position"]

Landings = Callable[[Iterable[str]], Mapping[str, int]]
"""Origins → when each of them landed. Of events with one id and one arrival, the first to land counts."""
_NO_ROWS: Integers = np.empty(0, np.int64)


class Unlogged:
    """Events of a batch that no commit refers to yet, by their ids."""

    def __init__(self, events: pa.Table) -> None:
        self.events = events
        self._ids = _ids_of(events)
        self.hashes, self.rows = by_hash(self._ids)

    def duplicates(self, landings: Landings, known_ids: KnownIds | None) -> Flags:
        """Which rows are duplicates: another event with the same id came earlier in the batch, or is known already."""
        known = _NO_ROWS if known_ids is None else self._known(known_ids)
        duplicates = np.zeros(self.events.num_rows, bool)
        duplicates[known] = True
        repeated = self._repeated()
        repeated = repeated[~duplicates[repeated]]
        if len(repeated):
            duplicates[_all_but_firsts(self._described(repeated, landings))] = True
        return duplicates

    def _repeated(self) -> Integers:
        """The rows whose hash comes twice in the batch, in order."""
        twice = np.flatnonzero(self.hashes[1:] == self.hashes[:-1])
        return np.sort(self.rows[np.union1d(twice, twice + 1)])

    def _known(self, known_ids: KnownIds) -> Integers:
        """The rows whose id is in the log, in order."""
        found = list(known_ids.find(self.hashes))
        if not found:
            return _NO_ROWS
        known = [_NO_ROWS]
        for hits in found:
            rows = self.rows[hits.asked]
            same = _equal(self._ids.take(pa.array(rows)), hits.ids)
            known.append(rows[same & (hits.times >= known_ids.since)])
        return np.unique(np.concatenate(known))

    def _described(self, rows: Integers, landings: Landings) -> pa.Table:
        """The id and the columns of _ORDER of rows, which are in order; and `row`, the number of each."""
        events = self.events.select(_PLACE).take(pa.array(rows))
        columns = {name: events[name] for name in ("arrival_time", "position")}
        columns |= {name: events[name].cast(pa.large_binary()) for name in ("event_id", "origin")}
        return pa.table({**columns, "landed": _landings(events["origin"], landings), "row": pa.array(rows)})


def divided(files: Sequence[Location], aside: Location, landings: Landings) -> dict[Location, list[Location]]:
    """Move the duplicates of one batch from the files that tasks have written to files in another folder. No commit may
    refer to the files yet. Gives file → files in its place, for each file that had duplicates; and folder → files of
    duplicates. Only events whose hash comes twice in the batch are held in memory."""
    hashed = [by_hash(_ids_of(read_table(path, ["event_id"]))) for path in files]
    every = np.sort(np.concatenate([hashes for hashes, _ in hashed]))
    twice = np.unique(every[1:][every[1:] == every[:-1]])
    candidates = [np.sort(rows[np.isin(hashes, twice)]) for hashes, rows in hashed]
    described = [
        read_table(path, _PLACE).take(pa.array(rows))
        for path, rows in zip(files, candidates, strict=True)
        if len(rows)
    ]
    if not described:
        return {aside: []}
    duplicates = Unlogged(pa.concat_tables(described)).duplicates(landings, None)
    bounds = pairwise(np.cumsum([0, *map(len, candidates)]).tolist())
    replaced: dict[Location, list[Location]] = {aside: []}
    for path, rows, (begin, end) in zip(files, candidates, bounds, strict=True):
        moved = rows[duplicates[begin:end]]
        if len(moved):
            replaced[path] = _divide(path, moved, aside, replaced[aside])
    return replaced


def _all_but_firsts(repeated: pa.Table) -> Integers:
    """Of the rows of each id, all but the first to arrive."""
    ordered = repeated.sort_by([("event_id", "ascending"), *((name, "ascending") for name in _ORDER)])
    ids = _ids_of(ordered)
    same = np.append(np.zeros(min(len(ids), 1), bool), _equal(ids[1:], ids[:-1]))
    return np.asarray(ordered["row"].to_numpy()[same], np.int64)


def _landings(origins: pa.ChunkedArray, landings: Landings) -> pa.Array:
    """When the origin of each row landed."""
    known = landings(origins.unique().to_pylist())
    return pa.array([known[origin] for origin in origins.to_pylist()], pa.int64())


def _divide(path: Location, rows: Integers, aside: Location, duplicates: list[Location]) -> list[Location]:
    """Move rows of a file to another file; a file with the rest takes its place."""
    table, kept = read_table(path), []
    moved = np.zeros(table.num_rows, bool)
    moved[rows] = True
    if not moved.all():
        rest = path.with_name(f"kept-{new_token()}.parquet")
        kept.append(write_table(table.filter(pa.array(~moved)), rest, unique=UNIQUE))
    new = aside / f"again-{new_token()}.parquet"
    duplicates.append(write_table(table.filter(pa.array(moved)), new, unique=UNIQUE))
    remove(path)
    return kept


def _ids_of(table: pa.Table) -> pa.Array:
    return table["event_id"].cast(pa.large_binary()).combine_chunks()


def _equal(left: pa.Array, right: pa.Array) -> Flags:
    return np.asarray(pc.equal(left, right).to_numpy(zero_copy_only=False), bool)
