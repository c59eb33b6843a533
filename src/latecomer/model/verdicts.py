"""The verdict on an event for a window, and the fate that follows from it and the output's policy."""

from __future__ import annotations

from enum import StrEnum

BEGIN_OF_TIME = -(1 << 62)
"""The watermark before anything is known: no window has ended."""
END_OF_TIME = 253_402_300_799_999_999
"""The watermark after a drain (9999-12-31T23:59:59.999999Z): every window has ended."""


class Verdict(StrEnum):
    """Where the watermark stood, at the event's arrival, relative to its window's end."""

    ON_TIME = "on_time"
    LATE = "late"
    TOO_LATE = "too_late"


class LatePolicy(StrEnum):
    """What an output does with a late event."""

    DROP = "drop"
    UPDATE = "update"
    RETRACT = "retract"
    SIDE_OUTPUT = "side_output"

    @property
    def accepts(self) -> bool:
        """Whether late events still enter the window's number."""
        return self in (LatePolicy.UPDATE, LatePolicy.RETRACT)


class TooLatePolicy(StrEnum):
    """What an output does with an event beyond its allowed lateness."""

    SIDE_OUTPUT = "side_output"
    DROP = "drop"


class OnError(StrEnum):
    """What an output does with an event for which a derived column or its `where` fails."""

    DEAD_LETTER = "dead_letter"
    NULL = "null"
    FAIL = "fail"


class Fate(StrEnum):
    """The fate of a received event for one output. Every event has exactly one."""

    ON_TIME = "on_time"
    LATE_ACCEPTED = "late_accepted"
    SIDE_OUTPUT = "side_output"
    DROPPED = "dropped"
    DUPLICATE = "duplicate"
    FILTERED = "filtered"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"


WITHOUT_WINDOW = (Fate.FILTERED, Fate.FAILED, Fate.DUPLICATE, Fate.DEAD_LETTER)
"""The fates of events that reach no window; each counts as one assignment."""


def judge(window_end: int, watermark: int, allowed_lateness: int) -> Verdict:
    """On time while the window is open, late within its allowed lateness, too late after that.

    >>> judge(window_end=60, watermark=59, allowed_lateness=10)
    <Verdict.ON_TIME: 'on_time'>
    >>> judge(window_end=60, watermark=60, allowed_lateness=10)
    <Verdict.LATE: 'late'>
    >>> judge(window_end=60, watermark=70, allowed_lateness=10)
    <Verdict.TOO_LATE: 'too_late'>
    """
    if window_end > watermark:
        return Verdict.ON_TIME
    if watermark < window_end + allowed_lateness:
        return Verdict.LATE
    return Verdict.TOO_LATE


def fate_of(verdict: Verdict, late: LatePolicy, too_late: TooLatePolicy) -> Fate:
    """The fate that follows from a verdict and the output's policy."""
    if verdict is Verdict.ON_TIME:
        return Fate.ON_TIME
    if verdict is Verdict.LATE:
        if late.accepts:
            return Fate.LATE_ACCEPTED
        return Fate.SIDE_OUTPUT if late is LatePolicy.SIDE_OUTPUT else Fate.DROPPED
    return Fate.SIDE_OUTPUT if too_late is TooLatePolicy.SIDE_OUTPUT else Fate.DROPPED
