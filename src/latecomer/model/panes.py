"""Panes: every number that was ever published for a window and key, and which one stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Timing(StrEnum):
    """Why a pane fired."""

    EARLY = "EARLY"
    ON_TIME = "ON_TIME"
    LATE = "LATE"
    CORRECTION = "CORRECTION"


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


def surviving(panes: Iterable[Pane]) -> dict[tuple[int, tuple[Any, ...]], Pane]:
    """For each window and key the pane that stands: an insert wins only with a larger sequence, a
    retract takes back only the sequence it names. In order of publication."""
    standing: dict[tuple[int, tuple[Any, ...]], Pane] = {}
    for pane in panes:
        place = (pane.window_start, pane.key)
        current = standing.get(place)
        if pane.op is Op.RETRACT:
            if current is not None and current.sequence == pane.sequence:
                del standing[place]
        elif current is None or pane.sequence > current.sequence:
            standing[place] = pane
    return standing
