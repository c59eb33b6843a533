"""The private columns of rows that are being logged, and of events that are read from the log."""

from __future__ import annotations

from enum import StrEnum

from latecomer.config.names import PRIVATE


class LogLane(StrEnum):
    """The lanes into which the rows of a batch are logged; folders are named by it, after `LANE`."""

    EVENTS = "events"
    BEHIND = "behind"
    """Events behind the watermark have files of their own, so that they do not widen the time range of every file."""
    DUPLICATES = "duplicates"
    DEAD_LETTERS = "dead_letters"


UNIQUE = ("event_time", "arrival_time", "position", "event_id")
"""Columns whose values are nearly all different: a dictionary would only cost time."""

ARRIVAL = f"{PRIVATE}arrival"
"""The arrival time, in microseconds."""
REASON = f"{PRIVATE}reason"
"""Why a row is a dead letter; only dead letters have it."""
RAW = f"{PRIVATE}raw"
"""The bytes of a dead letter."""
LOGGED = f"{PRIVATE}logged_"
"""Prefix of the name of a column of the log, beside columns under the source's own names."""
FIRST_BATCH = f"{PRIVATE}first_batch"
"""The first of the batches in which an id came with one event time."""
CAME = f"{PRIVATE}came"
"""In how many batches it came."""
