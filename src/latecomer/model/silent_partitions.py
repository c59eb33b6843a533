"""Silent partitions that hold the watermark for all others: their names, since when, and the fix.

Without `watermark.idle_after` the watermark waits for every partition that ever had a row. One row with a new name in
the partition column is enough: that partition never gets another row, and no window closes any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latecomer.errors import shortened
from latecomer.model.durations import MINUTE, format_duration, iso, shown_duration
from latecomer.model.verdicts import BEGIN_OF_TIME

PATIENCE = 5 * MINUTE
"""A partition is reported after this long a silence by the arrival clock, and never before its own delay."""
MOST_NAMED = 3
_LONGEST = 60


@dataclass(frozen=True)
class SilentPartition:
    """One silent partition that holds the watermark back."""

    partition: str
    since: int
    """The end of its last tick with rows, by the arrival clock."""
    silent_for: int
    watermark: int
    waiting: int
    """How many partitions are not silent and further ahead."""
    suggested: int
    """An `idle_after` that would let the watermark go on."""
    place: str = "watermark"
    """The section of the pipeline file for `idle_after`."""


def holding_in_words(holding: Sequence[SilentPartition]) -> str:
    """The warning for partitions that hold the watermark, the one with the longest silence first."""
    first, others = holding[0], holding[1:]
    unknown = first.watermark == BEGIN_OF_TIME
    at = "no watermark is known yet" if unknown else f"it stays at {iso(first.watermark)}"
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
    return f"partition {shortened(partition, _LONGEST)!r}"
