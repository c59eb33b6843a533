"""The wall clock: when a batch was published, what was known at a moment, and how far behind the watermark is.

The arrival clock tells what could have been known, and a replay repeats it. The wall clock tells what was known: a
batch is published by the commit that completes it, with all its panes at once. No replay repeats that.
"""

from __future__ import annotations

from collections.abc import Mapping

from latecomer.model.durations import DAY
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME

HISTORY = DAY
"""Events that are read later than this after their arrival are history."""
NONE = -1
"""The last known batch, where none was known."""


def publication_time(before: int | None, now: int) -> int:
    """When a batch is published: now, but never before the previous batch. A machine's clock may be set back.

    >>> publication_time(None, 5), publication_time(5, 7), publication_time(7, 3)
    (5, 7, 7)
    """
    return now if before is None else max(before, now)


def last_known(moment: int, published: Mapping[int, int], complete: int) -> int | None:
    """The last batch up to `complete` that had been published by a moment; None where that is not known.

    Batches are published in order. So if a batch was known, all batches before it were, even those without a recorded
    time. The next batch must have a recorded time: without one, it may have been known, too.

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
    """How far the watermark is behind a clock; None before the first watermark, after a drain, or without a clock."""
    if clock is None or clock == BEGIN_OF_TIME or watermark in (BEGIN_OF_TIME, END_OF_TIME):
        return None
    return clock - watermark


def is_history(newest_arrival: int, published_at: int | None) -> bool:
    """Whether events were read so long after their arrival that a lag by the wall clock has no meaning. Then lag is
    measured by the arrival clock: for data of 2013 that is read today, it is hours, not thousands of days.

    >>> is_history(0, 60_000_000), is_history(0, 400 * HISTORY), is_history(0, None)
    (False, True, False)
    """
    return published_at is not None and published_at - newest_arrival > HISTORY
