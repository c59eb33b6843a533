"""Fates as small numbers, and the policies that an output has had."""

from __future__ import annotations

from collections.abc import Sequence

from latecomer.config.models import Output
from latecomer.model.verdicts import Fate

CODES: dict[Fate, int] = {
    Fate.ON_TIME: 0,
    Fate.LATE_ACCEPTED: 1,
    Fate.SIDE_OUTPUT: 2,
    Fate.DROPPED: 3,
    Fate.FILTERED: 4,
}
"""Fates as small integers: cheaper to group by than text."""
FATES = {code: fate for fate, code in CODES.items()}

Periods = Sequence[tuple[int, Output]]
"""An output under each policy it has had, and the batch since which that was in force."""
