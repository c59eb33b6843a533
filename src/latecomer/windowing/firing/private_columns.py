"""The lanes into which the rows of an output are sorted."""

from __future__ import annotations

from enum import StrEnum


class PaneLane(StrEnum):
    """What one pass over a batch yields for an output, in `LANE`. Files of `partials` are known by it."""

    OPEN = "open"
    """States of windows still open → partials."""
    FIRED = "fired"
    """ON_TIME panes of windows that closed, and EARLY ones of windows that did not → panes."""
    LATE = "late"
    """What late events add to closed windows, to be merged with their last pane."""
    WAITING = "waiting"
    """The same, until the trigger fires → partials."""
    TO_RETRACT = "told"
    """Of sessions: panes that will be taken back → partials."""
    REST = "rest"
    """One row for each other fate, for the ledger alone."""
