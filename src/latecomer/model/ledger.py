"""The ledger's rule: received equals the sum of the fates, in every unit that is counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal, localcontext

from latecomer.model.verdicts import Fate

EVENTS = "events"
ASSIGNMENTS = "assignments"
WHOLE_DIGITS = 22
"""The most digits before the point of an amount in the ledger. Its sums have 32, enough for ten billion of the largest
amounts."""
EXACT = 80
"""Enough digits for any sum of amounts with 38 digits."""


@contextmanager
def exact_amounts() -> Iterator[None]:
    """Within it, or within a function that it decorates, amounts are added up exactly. Python's own 28 digits are too
    few for a sum of large amounts."""
    with localcontext(prec=EXACT):
        yield


@exact_amounts()
def total(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))


@exact_amounts()
def difference(received: Decimal, fates: Iterable[Decimal]) -> Decimal:
    """Received less accounted for. Not zero means that something was lost or counted twice."""
    return received - sum(fates, Decimal(0))


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: a batch, an output and a unit (events, assignments or a measure)."""

    batch: int
    output: str
    unit: str
    received: Decimal
    fates: Mapping[Fate, Decimal] = field(default_factory=dict)
    partly_late: int = 0
    """Events with different fates in their windows. Not part of the balance, and counted in events only."""
    late_at_source: int = 0
    """Events behind the watermark when they arrived. Not part of the balance, and counted in events only."""

    @property
    def accounted(self) -> Decimal:
        return total(self.fates.values())

    @property
    def difference(self) -> Decimal:
        return difference(self.received, self.fates.values())

    def __str__(self) -> str:
        parts = " + ".join(f"{fate.value} {self.fates.get(fate, Decimal(0)):f}" for fate in Fate)
        return f"batch {self.batch}, output {self.output}, {self.unit}: received {self.received:f} != {parts}"


def unbalanced(entries: Iterable[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.difference != 0]
