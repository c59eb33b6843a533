"""A partition that has fallen silent and holds the watermark for all others: who, since when, and what to do.

Without `watermark.idle_after` the watermark waits for every partition that was ever heard of. One row with a
new name in the partition column is enough: it is never heard of again, and no window closes any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latecomer.model.durations import format_duration, iso, shown_duration
from latecomer.model.verdicts import BEGIN_OF_TIME

PATIENCE = 5 * 60 * 1_000_000
"""Silence is worth a warning after so long by the arrival clock, and never before the partition's own delay."""
MOST_NAMED = 3
_LONGEST = 60


@dataclass(frozen=True)
class Holding:
    """One silent partition that holds the watermark back."""

    partition: str
    since: int
    """When it was last heard of, by the arrival clock."""
    silent_for: int
    watermark: int
    waiting: int
    """How many partitions have been heard of since and are further."""
    suggested: int
    """An `idle_after` that would let the others go on."""
    place: str = "watermark"
    """Where it would be written."""


def holding_in_words(holding: Sequence[Holding]) -> str:
    """The warning for partitions that hold the watermark, the one that is silent longest first."""
    first, others = holding[0], holding[1:]
    at = (
        "no watermark is known yet"
        if first.watermark == BEGIN_OF_TIME
        else f"it stays at {iso(first.watermark)}"
    )
    waits = "1 partition waits" if first.waiting == 1 else f"{first.waiting} partitions wait"
    words = (
        f"{_named(first.partition)} holds the watermark: silent for {shown_duration(first.silent_for)}, since "
        f"{iso(first.since)} of arrival time; {at}, {waits}, and no window closes beyond it"
    )
    if others:
        named = ", ".join(_named(each.partition) for each in others[: MOST_NAMED - 1])
        more = f" and {len(others) - MOST_NAMED + 1} more" if len(others) >= MOST_NAMED else ""
        words += f". So does {named}{more}"
    return (
        f"{words}. Set {first.place}.idle_after: {format_duration(first.suggested)}, and whoever is silent for so long "
        "holds nobody back"
    )


def _named(partition: str) -> str:
    if not partition:
        return "the partition without a name (its column is empty)"
    return f"partition {partition if len(partition) <= _LONGEST else partition[: _LONGEST - 1] + '…'!r}"
