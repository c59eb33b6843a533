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


def settle(places: Sequence[Place], panes: pa.Table, stored: dict[Place, int]) -> list[Change]:
    """The change of each window and key: an insert replaces only a smaller sequence, and a retract removes only the
    sequence that it names."""
    rows = {place: row for row, place in enumerate(places)}
    before = (_pane(place, sequence, Op.INSERT, None) for place, sequence in stored.items())
    batch = (
        _pane(place, sequence, Op(op), row)
        for row, (place, sequence, op) in enumerate(
            zip(places, panes["sequence"].to_pylist(), panes["op"].to_pylist(), strict=True)
        )
    )
    standing = surviving(chain(before, batch))
    changes = []
    for place, last_row in rows.items():
        stands = standing.get(place)
        if stands is None:
            if place in stored:
                changes.append(Change(last_row, False, stored[place]))
        elif stands.values["row"] is not None:
            changes.append(Change(stands.values["row"], True, stored.get(place)))
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
