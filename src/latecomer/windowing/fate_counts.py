"""Fates as small integers in kernels, and as counts for the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from latecomer.config.outputs import Output
from latecomer.model.ledger import exact_amounts
from latecomer.model.verdicts import Fate

CODES: dict[Fate, int] = {
    Fate.ON_TIME: 0,
    Fate.LATE_ACCEPTED: 1,
    Fate.SIDE_OUTPUT: 2,
    Fate.DROPPED: 3,
    Fate.FILTERED: 4,
    Fate.FAILED: 5,
}
"""Fates as small integers: cheaper to group by than text."""
FATES = {code: fate for fate, code in CODES.items()}
FATE_NAMES = np.array([FATES[code].value for code in sorted(FATES)], object)
"""The text of a fate, by its code."""
ENTERS = CODES[Fate.LATE_ACCEPTED]
"""Events of this fate and those below enter a window."""

Periods = Sequence[tuple[int, Output]]
"""An output under each policy it has had, and the batch since which that was in force."""


@dataclass(frozen=True)
class Counts:
    """The fates of a batch's events: how much of each unit of the ledger met which fate."""

    fates: Mapping[str, Mapping[Fate, Decimal]] = field(default_factory=dict)
    late_at_source: int = 0
    partly_late: int = 0

    @classmethod
    @exact_amounts()
    def joined(cls, parts: Iterable[Counts]) -> Counts:
        """The counts of several parts of a batch."""
        fates: dict[str, dict[Fate, Decimal]] = {}
        late = partly = 0
        for part in parts:
            late, partly = late + part.late_at_source, partly + part.partly_late
            for unit, amounts in part.fates.items():
                total = fates.setdefault(unit, {})
                for fate, amount in amounts.items():
                    total[fate] = total.get(fate, Decimal(0)) + amount
        return cls(fates, late, partly)
