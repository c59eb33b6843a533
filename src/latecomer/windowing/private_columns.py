"""The private columns of events that are judged, and of windows that are merged.

Judged events also have ARRIVAL of `log/private_columns.py`, ORIGIN and POSITION of `source/private_columns.py`; states
have the columns of `store/private_columns.py`.
"""

from __future__ import annotations

from enum import StrEnum

from latecomer.config.names import PRIVATE

# Of events

TICK = f"{PRIVATE}tick"
"""The tick of an event, by which the timeline is joined to it, bigint."""
BATCH = f"{PRIVATE}batch"
"""The batch in which an event was logged, bigint."""
START = f"{PRIVATE}start"
"""Where a window begins, or the span of an event of a session, in microseconds. In plans, too."""
END = f"{PRIVATE}end"
"""Where it ends, in microseconds. In plans, too."""
FATE = f"{PRIVATE}fate"
"""The fate of an event in a window: its code, tinyint."""

# Of what is merged

KEY = f"{PRIVATE}key_"
"""Prefix of the name of a key."""
LAST_ARRIVAL = f"{PRIVATE}last_arrival"
"""When the newest event of a window came, or its state fired, in microseconds."""
LAST_WATERMARK = f"{PRIVATE}last_watermark"
"""The watermark that its newest event met, or at which its state fired, in microseconds."""
LAST_SEQUENCE = f"{PRIVATE}last_sequence"
"""The sequence of a window's last pane, bigint; null where it has none."""


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
