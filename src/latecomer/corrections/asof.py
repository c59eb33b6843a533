"""What was known at a moment of processing time, as SQL over an output's panes. No Spark.

Processing time is the arrival clock. The timeline holds it, so the answer is the same today, tomorrow
and after a replay: a pane was known once the batch that published it had ended, and a batch ends at the
largest `at` of its rows in the timeline. `fired_at` is when a window closed, which is earlier: a batch
may go on long after that. It decides only where the timeline says nothing of the batch.
"""

from __future__ import annotations

from latecomer.config.checks import PRIVATE

_ENDED, _BATCH = f"{PRIVATE}ended", f"{PRIVATE}ended_batch"
BATCH_ENDS = f"select batch as {_BATCH}, max(at) as {_ENDED} from w group by batch"
"""Each batch of the timeline `w`, and the arrival clock at its end."""


def known_at(moment: str, timeline: bool) -> str:
    """The panes of `t` that were known at a moment; `timeline` says whether there is a `w` to ask."""
    if not timeline:
        return f"(select * from t where fired_at <= {moment})"
    return (
        f"(select t.* from t left join ({BATCH_ENDS}) on t.batch = {_BATCH} "
        f"where coalesce({_ENDED}, fired_at) <= {moment})"
    )


def holding(moment: str, rows: str = "t") -> str:
    """The rows whose window holds a moment of event time."""
    return f"(select * from {rows} where {holds(moment)})"


def holds(moment: str) -> str:
    """Whether a window holds a moment: its start belongs to it, its end does not."""
    return f"window_start <= {moment} and {moment} < window_end"
