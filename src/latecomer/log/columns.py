"""The private columns of rows on their way into the log, and of events that are read from it."""

from __future__ import annotations

from enum import StrEnum

from latecomer.config.checks import PRIVATE


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

TIME = f"{PRIVATE}time"
"""The event time, in microseconds."""
ARRIVAL = f"{PRIVATE}arrival"
"""The arrival time, in microseconds."""
REASON = f"{PRIVATE}reason"
"""Why a row is a dead letter; null for all others."""
RAW = f"{PRIVATE}raw"
"""The bytes of a dead letter."""
WHOLE_EVENT = f"{PRIVATE}whole_event"
"""An event as it was logged, as one struct."""
LOGGED = f"{PRIVATE}logged_"
"""Before the name of a column of the log, beside the columns under the source's own names."""
MARK = f"{PRIVATE}marked"
"""The moment that an event marks, in microseconds; null where it is no mark."""

# What a batch is told, beside each of its rows

THIS_BATCH = f"{PRIVATE}this_batch"
"""The number of the batch that is computed, bigint."""
WATERMARK_BEFORE = f"{PRIVATE}watermark_before"
"""The watermark before the batch, in microseconds."""
FIRST_TICK = f"{PRIVATE}first_tick"
"""The last tick before the batch, bigint."""
NEWEST = f"{PRIVATE}newest_landing"
"""When the newest of the batch landed, in microseconds."""
