"""Events that came before: taken out of a batch's files before anything is committed.

    files of a batch → hashes of their ids → candidates → their ids, exactly → rows to the duplicates' lane

A candidate's hash came twice in the batch, or is in the index of what came before. Only candidates are looked
at any further, and only files that hold a duplicate are written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.log.hashes import Hashes, hash_ids
from latecomer.log.ids import IdIndex, Rows
from latecomer.source.base import Slice
from latecomer.store.files import Location, open_parquet, remove, write_table
from latecomer.store.table import new_token

_ORDER = ("arrival_time", "landed", "origin", "position")
"""Of several events with one id, the first in this order counts."""

Chosen = npt.NDArray[np.bool_]
_NO_ROWS: Rows = np.empty(0, np.int64)


def set_aside(lanes: Sequence[Location], aside: Location, piece: Slice, index: IdIndex, since: int) -> None:
    """Move the duplicates among the events in the files of some lanes to files in another folder.

    An event is a duplicate if one with its id came earlier in the batch, or is in the log with an event time
    at or after `since`. `piece` is what the batch was read from. Nothing may refer to the lanes yet.
    """
    batch = _Ids(lanes)
    known = batch.known(index, since)
    repeated = np.setdiff1d(batch.repeated(), known, assume_unique=True)
    if not len(known) and not len(repeated):
        return
    again = np.union1d(known, _all_but_firsts(batch.described(repeated, piece)))
    parts = [(path, again[(again >= start) & (again < end)] - start) for path, start, end in batch.files]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda part: _divide(part[0], part[1], aside), parts))


class _Ids:
    """The ids in some files, as hashes; rows are counted through all of them."""

    def __init__(self, paths: Sequence[Location]) -> None:
        found: list[Hashes] = []
        rows: list[Rows] = []
        ends = [0]
        for path in paths:
            ids = _ids_of(_read(path, ["event_id"]))
            there = np.flatnonzero(ids.is_valid().to_numpy(zero_copy_only=False))
            found.append(hash_ids(ids.drop_null()))
            rows.append(there + ends[-1])
            ends.append(ends[-1] + len(ids))
        hashes = np.concatenate([np.empty(0, np.uint64), *found])
        order = np.argsort(hashes)
        self.hashes: Hashes = hashes[order]
        self.rows: Rows = np.concatenate([_NO_ROWS, *rows])[order]
        self.files = [(path, *within) for path, within in zip(paths, pairwise(ends), strict=True)]

    def repeated(self) -> Rows:
        """The rows whose hash comes twice in the batch, in order."""
        twice = np.flatnonzero(self.hashes[1:] == self.hashes[:-1])
        return np.sort(self.rows[np.union1d(twice, twice + 1)])

    def known(self, index: IdIndex, since: int) -> Rows:
        """The rows whose id is in the log, in order."""
        found = list(index.find(self.hashes, since))
        asked = np.unique(np.concatenate([self.rows[hits.asked] for hits in found])) if found else _NO_ROWS
        ids = _ids_of(self._of(asked, ["event_id"]))
        known = [_NO_ROWS]
        for hits in found:
            rows = self.rows[hits.asked]
            same = _equal(ids.take(pa.array(np.searchsorted(asked, rows))), hits.ids)
            known.append(rows[same & (hits.times >= since)])
        return np.unique(np.concatenate(known))

    def described(self, rows: Rows, piece: Slice) -> pa.Table:
        """What rows, which are in order, are told apart by; and `row`, which row each is."""
        found = self._of(rows, ["event_id", "arrival_time", "origin", "position"])
        columns = {name: found[name] for name in ("arrival_time", "position")}
        columns |= {name: found[name].cast(pa.large_binary()) for name in ("event_id", "origin")}
        return pa.table({**columns, "landed": _landings(found["origin"], piece), "row": pa.array(rows)})

    def _of(self, rows: Rows, columns: Sequence[str]) -> pa.Table:
        parts = []
        for path, start, end in self.files:
            within = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)]
            if len(within):
                parts.append(_read(path, columns).take(pa.array(within - start)))
        return (
            pa.concat_tables(parts)
            if parts
            else pa.table({name: pa.array([], pa.string()) for name in columns})
        )


def _all_but_firsts(repeated: pa.Table) -> Rows:
    """Of the rows of each id, all but the first to arrive."""
    ordered = repeated.sort_by([("event_id", "ascending"), *((name, "ascending") for name in _ORDER)])
    ids = _ids_of(ordered)
    same = np.append(np.zeros(min(len(ids), 1), bool), _equal(ids[1:], ids[:-1]))
    return np.asarray(ordered["row"].to_numpy()[same], np.int64)


def _landings(origins: pa.ChunkedArray, piece: Slice) -> pa.Array:
    """When what each row comes from has landed."""
    known = piece.landings(origins.unique().to_pylist())
    return pa.array([known[origin] for origin in origins.to_pylist()], pa.int64())


def _divide(path: Location, rows: Rows, aside: Location) -> None:
    """Move rows of a file, if any, to a file of their own; the rest takes the file's place."""
    if not len(rows):
        return
    # The files of two lanes may have one name.
    table, again = _read(path), aside / f"again-{new_token()}.parquet"
    moved = np.zeros(table.num_rows, bool)
    moved[rows] = True
    if len(rows) < table.num_rows:
        write_table(table.filter(pa.array(~moved)), path.with_name(f"kept-{new_token()}.parquet"))
    write_table(table.filter(pa.array(moved)), again)
    remove(path)
    remove(path.with_name(f".{path.name}.crc"))


def _read(path: Location, columns: Sequence[str] | None = None) -> pa.Table:
    with open_parquet(path) as file:
        return file.read(columns=columns and list(columns))


def _ids_of(table: pa.Table) -> pa.Array:
    return table["event_id"].cast(pa.large_binary()).combine_chunks()


def _equal(left: pa.Array, right: pa.Array) -> Chosen:
    return np.asarray(pc.equal(left, right).to_numpy(zero_copy_only=False), bool)
