"""Panes: every number that was ever published for a window and key, and which one stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from latecomer.model.aggregates import Aggregate

Place = tuple[int, int, tuple[Any, ...]]
"""Window start, window end, key."""


class Timing(StrEnum):
    """Why a pane fired."""

    EARLY = "EARLY"
    ON_TIME = "ON_TIME"
    LATE = "LATE"
    CLOSING = "CLOSING"
    CORRECTION = "CORRECTION"


class Accumulation(StrEnum):
    """What a pane holds of the panes before it."""

    ACCUMULATING = "accumulating"
    DISCARDING = "discarding"
    RETRACTING = "retracting"


class Op(StrEnum):
    """Whether a pane states a number or takes one back."""

    INSERT = "insert"
    RETRACT = "retract"


@dataclass(frozen=True)
class Pane:
    """One published number, or the withdrawal of one.

    A retract carries the sequence and values it undoes and comes before the insert that replaces it.
    """

    window_start: int
    window_end: int
    key: tuple[Any, ...]
    values: Mapping[str, Any]
    sequence: int
    timing: Timing
    op: Op = Op.INSERT
    is_last: bool = False
    """Nothing more can come for this window and key."""

    @property
    def place(self) -> Place:
        """Which number this is. Sessions can share their start, so the end is part of it."""
        return self.window_start, self.window_end, self.key


def surviving(panes: Iterable[Pane]) -> dict[Place, Pane]:
    """For each window and key the pane that stands: an insert wins only with a larger sequence, a
    retract takes back only the sequence it names. In order of publication."""
    standing: dict[Place, Pane] = {}
    for pane in panes:
        place = pane.place
        current = standing.get(place)
        if pane.op is Op.RETRACT:
            if current is not None and current.sequence == pane.sequence:
                del standing[place]
        elif current is None or pane.sequence > current.sequence:
            standing[place] = pane
    return standing


def summed(panes: Iterable[Pane], aggregates: Mapping[str, Aggregate]) -> dict[Place, dict[str, Any]]:
    """For each window and key what its discarding panes add up to, those taken back left out."""
    standing: dict[tuple[Place, int], Pane] = {}
    for pane in panes:
        if pane.op is Op.RETRACT:
            standing.pop((pane.place, pane.sequence), None)
        else:
            standing.setdefault((pane.place, pane.sequence), pane)
    parts: dict[Place, list[Pane]] = {}
    for (place, _), pane in standing.items():
        parts.setdefault(place, []).append(pane)
    return {
        place: {
            name: aggregate.add_up([pane.values[name] for pane in stated])
            for name, aggregate in aggregates.items()
        }
        for place, stated in parts.items()
    }
