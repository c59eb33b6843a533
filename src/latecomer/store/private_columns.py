"""The private columns of stored tables, and of queries over them. No user's column can have such a name.

The columns of panes and open states are in stores: their names never change. Every stage has a module like this one,
with the columns that its modules share; a column of a later stage is imported from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from latecomer.config.names import PRIVATE

LANE = f"{PRIVATE}lane"
"""The lane of a pass that a row goes to, text. There is a folder of files for each lane, which the tables name."""
NTH = f"{PRIVATE}nth"
"""The rank of a pane among those of its window and key, the newest first, bigint: never stored."""

# Of panes and open states

EVENTS = f"{PRIVATE}events"
"""The events that a pane holds, bigint."""
NEW_BEHIND = f"{PRIVATE}new_behind"
"""How many of a batch's events were behind the watermark, bigint."""
NEW_ASSIGNMENTS = f"{PRIVATE}new_assignments"
"""With overlapping windows: a batch's (event, window) pairs, bigint."""
NEW_PARTLY = f"{PRIVATE}new_partly"
"""With overlapping windows: how many of a batch's events have different fates, bigint."""
HELD = f"{PRIVATE}held"
"""With early panes and sessions: all events of the window so far, bigint."""
SINCE = f"{PRIVATE}since"
"""With early panes and sessions: the events since the window's last pane, bigint."""
UNSETTLED = f"{PRIVATE}unsettled"
"""Of a session: on-time events that no pane has published since it closed, bigint."""
WAITING_EVENTS = f"{PRIVATE}waiting"
"""Of a session: late events that no pane has published, bigint."""

SINCE_CLOCK = f"{PRIVATE}since_clock"
"""Where triggers fire within batches: the arrival clock at the first event since the last pane, bigint."""
SINCE_MARK = f"{PRIVATE}since_mark"
"""The watermark that it met, bigint."""
FIRST_CLOCK = f"{PRIVATE}first_clock"
"""Of a trigger that ends: the arrival clock at the first event of the window, bigint."""
FIRST_MARK = f"{PRIVATE}first_mark"
"""The watermark that it met, bigint."""
EARLY_IS_OVER = f"{PRIVATE}early_is_over"
"""Of a session: more than 0 once the early trigger has ended, bigint."""


def when_column(when: str) -> str:
    """The count of a window's events for which a predicate of its trigger is true, bigint."""
    return f"{PRIVATE}when_{sha256(when.encode()).hexdigest()[:12]}"


def since_when_column(when: str) -> str:
    """The same of the events since the last pane, bigint."""
    return when_column(when).replace(PRIVATE, f"{PRIVATE}since_", 1)


def measure_column(measure: str) -> str:
    """The sum of a ledger measure in a pane."""
    return f"{PRIVATE}measure_{measure}"


def new_column(column: str) -> str:
    """The part of a private sum that the pane's own batch added."""
    return column.replace(PRIVATE, f"{PRIVATE}new_", 1)


def late_column(column: str) -> str:
    """The late part of what a session's own batch added."""
    return column.replace(PRIVATE, f"{PRIVATE}new_late_", 1)


def state_column(column: str, part: str) -> str:
    """A part of the state behind an aggregate, or behind a private sum.

    >>> state_column("mean", "count"), state_column(measure_column("paise"), "beyond")
    ('_lc_mean_count', '_lc_measure_paise_beyond')
    """
    return f"{column if column.startswith(PRIVATE) else PRIVATE + column}_{part}"


# Beside the columns of an output


def free_name(name: str, taken: Iterable[str]) -> str:
    """A column's name, with `_` at its end where an output uses the name itself.

    >>> free_name("late_events", ["merchant", "Late_Events"])
    'late_events_'
    """
    used = {each.lower() for each in taken}
    while name.lower() in used:
        name += "_"
    return name
