"""The wall clock: when a batch was published, what was known at a moment, and how far the watermark is behind.

The arrival clock says what could have been known, and a replay repeats it. The wall clock says what was: a batch is
published with the commit that completes it, all its panes at once, and no replay repeats that.
"""

from __future__ import annotations

from collections.abc import Mapping

from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME

HISTORY = 86_400_000_000
"""What was read so long after it had arrived is history: a day, in microseconds."""
NONE = -1
"""The last batch that was known before any was."""


def publication_time(before: int | None, now: int) -> int:
    """When a batch is published: now, and never before the batch before it. A machine's clock may be set back.

    >>> publication_time(None, 5), publication_time(5, 7), publication_time(7, 3)
    (5, 7, 7)
    """
    return now if before is None else max(before, now)


def last_known(moment: int, published: Mapping[int, int], complete: int) -> int | None:
    """The last batch that had been published by a moment, of those up to `complete`; None where nobody can tell.

    Batches are published in their order, so whoever knew a batch knew all before it, also those whose own time was
    never written down. The batch after it must have a time, or it may have been known too.

    >>> last_known(20, {0: 10, 1: 20, 2: 30}, 2), last_known(5, {0: 10}, 0)
    (1, -1)
    >>> last_known(30, {1: 20}, 1), last_known(10, {1: 20}, 1)
    (1, None)
    """
    known = max(
        (batch for batch, at in published.items() if batch <= complete and at <= moment), default=NONE
    )
    return known if known >= complete or known + 1 in published else None


def lag(watermark: int, clock: int | None) -> int | None:
    """How far the watermark is behind a clock; None before the first watermark, after a drain, without a clock."""
    if clock is None or clock == BEGIN_OF_TIME or watermark in (BEGIN_OF_TIME, END_OF_TIME):
        return None
    return clock - watermark


def is_history(newest_arrival: int, published_at: int | None) -> bool:
    """Whether what arrived was read so long after that the wall clock says nothing of it. Then lag goes by the arrival
    clock: of a year of 2013 that is read today, the watermark is hours behind, and not thousands of days.

    >>> is_history(0, 60_000_000), is_history(0, 400 * HISTORY), is_history(0, None)
    (False, True, False)
    """
    return published_at is not None and published_at - newest_arrival > HISTORY
