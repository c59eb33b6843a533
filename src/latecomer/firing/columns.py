"""The private columns of panes that are made.

What a batch is told is one row, joined to each of theirs: THIS_BATCH and WATERMARK_BEFORE of `log/columns.py`, and the
first of these.
"""

from __future__ import annotations

from enum import StrEnum

from latecomer.config.checks import PRIVATE


class Lane(StrEnum):
    """What one pass over a batch yields for an output, in `LANE`. Files of `partials` are known by it."""

    OPEN = "open"
    """States of windows still open → partials."""
    FIRED = "fired"
    """ON_TIME panes of windows that closed, and EARLY ones of windows that did not → panes."""
    LATE = "late"
    """What late events add to closed windows, to be merged with their last pane."""
    WAITING = "waiting"
    """The same, where the trigger has it wait → partials."""
    TO_RETRACT = "told"
    """Of sessions: panes that will be taken back → partials."""
    REST = "rest"
    """One row for each other fate, for the ledger alone."""


NOW = f"{PRIVATE}now"
"""The watermark after the batch, in microseconds."""
CLOCK = f"{PRIVATE}clock"
"""The arrival clock at the end of the batch, in microseconds."""
BEGAN = f"{PRIVATE}began"
"""Where the watermark began, in microseconds: before the batch, or where it was first known."""
EARLY_DUE = f"{PRIVATE}early_due"
"""Whether the arrival clock lets early panes fire, 1 or 0."""
LATE_DUE = f"{PRIVATE}late_due"
"""Whether the arrival clock lets waiting panes fire, 1 or 0."""
PRIOR = f"{PRIVATE}prior_pane"
"""The pane that is taken back, as one struct; null where there is none."""
