"""The ledger's algebra: received = the sum of the fates, in every unit that is counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, localcontext

from latecomer.model.verdicts import Fate

EVENTS = "events"
ASSIGNMENTS = "assignments"
WHOLE_DIGITS = 22
"""An amount with more digits than these before the point does not enter the ledger: its sums have 32, so that ten
billion of the largest amounts add up."""
EXACT = 80
"""Digits enough for any sum of amounts of 38 digits."""


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: a batch, an output and a unit (events, assignments or a measure)."""

    batch: int
    output: str
    unit: str
    received: Decimal
    fates: Mapping[Fate, Decimal] = field(default_factory=dict)
    partly_late: int = 0
    """Events with windows of different fates. Not part of the balance, and counted in events only."""
    late_at_source: int = 0
    """Events behind the watermark when they arrived. Likewise."""

    @property
    def accounted(self) -> Decimal:
        with localcontext(prec=EXACT):
            return sum(self.fates.values(), Decimal(0))

    @property
    def difference(self) -> Decimal:
        """Received less accounted for: zero, or something was lost or counted twice."""
        with localcontext(prec=EXACT):
            return self.received - self.accounted

    def __str__(self) -> str:
        parts = " + ".join(f"{fate.value} {self.fates.get(fate, Decimal(0)):f}" for fate in Fate)
        return f"batch {self.batch}, output {self.output}, {self.unit}: received {self.received:f} != {parts}"


def unbalanced(entries: Iterable[Entry]) -> list[Entry]:
    """The entries that do not balance."""
    return [entry for entry in entries if entry.difference != 0]
