"""What was known at a moment, as SQL over an output's panes. No Spark.

By the wall clock a pane was known once its batch was published. Batches are published in their order, so the panes that
were known at a moment are those up to the last batch published by then (`store/publications.py`). By the arrival clock
a pane could be known at `fired_at`: when the watermark reached the end of its window, or the last of its late events
arrived. A batch that catches up may hold a month of these. The timeline holds that clock, so the answer is the same
after a replay.
"""

from __future__ import annotations

from latecomer.config.names import PRIVATE
from latecomer.store.sql import moment_literal

_ENDED, _BATCH = f"{PRIVATE}ended", f"{PRIVATE}ended_batch"
BATCH_ENDS = f"select batch as {_BATCH}, max(at) as {_ENDED} from w group by batch"
"""Each batch of the timeline `w`, and the arrival clock at its end."""


def published_up_to(batch: int) -> str:
    """The panes of `t` that had been published with a batch or before it."""
    return f"(select * from t where batch <= {batch})"


def arrived_by(moment: str, timeline: bool) -> str:
    """The panes of `t` that could be known at a moment of the arrival clock; `timeline` says whether there is a
    table `w`: it has the end of a batch, for panes whose `fired_at` is not known."""
    if not timeline:
        return f"(select * from t where fired_at <= {moment})"
    return (
        f"(select t.* from t left join ({BATCH_ENDS}) on t.batch = {_BATCH} "
        f"where coalesce(fired_at, {_ENDED}) <= {moment})"
    )


def holds(moment: str) -> str:
    """Whether a window holds a moment: its start belongs to it, its end does not."""
    return f"window_start <= {moment} and {moment} < window_end"


def starts_between(low: int | None, high: int | None) -> str:
    """Whether a window starts in [low, high), in microseconds; None is no bound."""
    bounds = ((">=", low), ("<", high))
    conditions = [f"window_start {op} {moment_literal(at)}" for op, at in bounds if at is not None]
    return " and ".join(conditions) or "true"
