"""The changes that a batch of panes makes to the stored panes, for sinks that cannot compute them in SQL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from latecomer.model.panes import Op, Pane, Place, Timing, surviving
from latecomer.sink.base import micros

_NAN = float("nan")


class Change(NamedTuple):
    """The change of one window and key: the pane in `row` is written, or the stored one is removed."""

    row: int
    puts: bool
    stored: int | None
    """The stored sequence before the batch."""


def settle(panes: pa.Table, existing: pa.Table, place: Sequence[str]) -> list[Change]:
    """The change of each window and key: an insert replaces only a smaller sequence, and a retract removes only the
    sequence that it names. `existing` has the places and sequences of the stored panes."""
    places = places_of(panes, place)
    stored = dict(zip(places_of(existing, place), existing["sequence"].to_pylist(), strict=True))
    rows = {where: row for row, where in enumerate(places)}
    before = (_pane(where, sequence, Op.INSERT, None) for where, sequence in stored.items())
    batch = (
        _pane(where, sequence, Op(op), row)
        for row, (where, sequence, op) in enumerate(
            zip(places, panes["sequence"].to_pylist(), panes["op"].to_pylist(), strict=True)
        )
    )
    standing = surviving(chain(before, batch))
    changes = []
    for where, last_row in rows.items():
        stands = standing.get(where)
        if stands is None:
            if where in stored:
                changes.append(Change(last_row, False, stored[where]))
        elif stands.values["row"] is not None:
            changes.append(Change(stands.values["row"], True, stored.get(where)))
    return changes


def _pane(place: Place, sequence: int, op: Op, row: int | None) -> Pane:
    return Pane(*place, {"row": row}, sequence, Timing.ON_TIME, op)


def places_of(rows: pa.Table, place: Sequence[str]) -> list[Place]:
    start, end, *keys = place
    of_keys = [_comparable(rows[key]) for key in keys]
    of_rows = zip(*of_keys, strict=True) if of_keys else ((),) * rows.num_rows
    return list(zip(micros(rows[start]), micros(rows[end]), of_rows, strict=True))


def _comparable(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return micros(column)
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type):
        # Inside a tuple, the same NaN object equals itself; two NaN objects differ.
        return [_NAN if value is not None and math.isnan(value) else value for value in values]
    return values
