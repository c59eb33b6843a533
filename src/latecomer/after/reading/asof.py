"""What was known at a moment of processing time, as SQL over an output's panes. No Spark.

Processing time is the arrival clock. The timeline holds it, so the answer is the same today, tomorrow
and after a replay. A pane was published once its batch had ended, and a batch ends at the largest `at` of
its rows in the timeline. It could be known earlier, at `fired_at`: when the watermark reached the end of
its window, or the last of its late events arrived. A batch that catches up may hold a month of these.
"""

from __future__ import annotations

from latecomer.after.reading.choices import Clock
from latecomer.config.checks import PRIVATE

_ENDED, _BATCH = f"{PRIVATE}ended", f"{PRIVATE}ended_batch"
BATCH_ENDS = f"select batch as {_BATCH}, max(at) as {_ENDED} from w group by batch"
"""Each batch of the timeline `w`, and the arrival clock at its end."""


def known_at(moment: str, timeline: bool, clock: Clock = Clock.PUBLISHED) -> str:
    """The panes of `t` that were known at a moment; `timeline` says whether there is a `w` to ask."""
    if not timeline:
        return f"(select * from t where fired_at <= {moment})"
    since = (_ENDED, "fired_at") if clock is Clock.PUBLISHED else ("fired_at", _ENDED)
    return (
        f"(select t.* from t left join ({BATCH_ENDS}) on t.batch = {_BATCH} "
        f"where coalesce({', '.join(since)}) <= {moment})"
    )


def holds(moment: str) -> str:
    """Whether a window holds a moment: its start belongs to it, its end does not."""
    return f"window_start <= {moment} and {moment} < window_end"
