"""What an output is given for a batch."""

from __future__ import annotations

from dataclasses import dataclass

from latecomer.log.logged import Logged
from latecomer.timeline.keeper import Stretch


@dataclass(frozen=True)
class Batch:
    """What an output needs to know of a batch. `logged` is None where the batch brought no data."""

    number: int
    stretch: Stretch
    logged: Logged | None = None
    earliest: int = 0
    latest: int = 0
    history: bool = False
    """The events are the whole log, of many batches: an output that was added later catches up."""
