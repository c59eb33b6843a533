"""Panes: the numbers that were published for a window and key, and which of them stands."""

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
    """How a pane relates to the panes before it."""

    ACCUMULATING = "accumulating"
    DISCARDING = "discarding"
    RETRACTING = "retracting"


class Op(StrEnum):
    """Whether a pane publishes a number or takes one back."""

    INSERT = "insert"
    RETRACT = "retract"


@dataclass(frozen=True)
class Pane:
    """One published number, or the withdrawal of one.

    A retract has the sequence and values of the pane that it takes back. It comes before the insert that replaces it.
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
        """What identifies the number. Sessions can have the same start, so the end is part of it."""
        return self.window_start, self.window_end, self.key


def surviving(panes: Iterable[Pane]) -> dict[Place, Pane]:
    """For each window and key the pane that stands, given panes in order of publication. An insert replaces only a
    smaller sequence, and a retract takes back only its own sequence."""
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
    """For each window and key the sums of its discarding panes, without those that were taken back."""
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
            name: aggregate.add_up([pane.values[name] for pane in place_panes])
            for name, aggregate in aggregates.items()
        }
        for place, place_panes in parts.items()
    }
