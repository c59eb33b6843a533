"""What a batch of panes comes to, beside what stands: for sinks that have no rule of their own for it."""

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
    """What a batch does to one window and key: its pane in `row` is put there, or what stands goes."""

    row: int
    puts: bool
    stored: int | None
    """The sequence that stands there before."""


def settle(places: Sequence[Place], panes: pa.Table, stored: dict[Place, int]) -> list[Change]:
    """What a batch comes to, for each window and key: an insert wins only with a larger sequence, a
    retract takes back only the sequence it names."""
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
        # One and the same NaN is equal to itself inside a tuple; two of them are not.
        return [_NAN if value is not None and math.isnan(value) else value for value in values]
    return values
