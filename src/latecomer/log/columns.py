"""The private columns of rows on their way into the log, and of events that are read from it."""

from __future__ import annotations

from enum import StrEnum

from latecomer.config.names import PRIVATE


class Lane(StrEnum):
    """The lanes of a batch that is logged, in `LANE`."""

    EVENTS = "events"
    BEHIND = "behind"
    """Events behind the watermark are kept in files of their own, so that they do not widen the time range of every
    file."""
    DUPLICATES = "duplicates"
    DEAD_LETTERS = "dead_letters"


UNIQUE = ("event_time", "arrival_time", "position", "event_id")
"""Columns in which hardly a value comes twice: a dictionary would only cost time."""

ARRIVAL = f"{PRIVATE}arrival"
"""The arrival time, in microseconds."""
REASON = f"{PRIVATE}reason"
"""Why a row is a dead letter; null for all others."""
RAW = f"{PRIVATE}raw"
"""The bytes of a dead letter."""
LOGGED = f"{PRIVATE}logged_"
"""Before the name of a column of the log, beside the columns under the source's own names."""
