"""The order of publication: how panes, side output and dead letters follow one another, for sinks and readers alike.

Batch by batch; within a batch, what is taken back comes before what takes its place. A window and key
may be published, taken back and published again in one batch: its sequences come one after the other. A
session takes back panes of windows that it has outgrown and swallowed, which may be of the same batch: all of
them are shorter, and shorter windows come first. A closing pane comes last with what it takes back. Ties go by
window and key, so that two readers see the same order.
"""

from __future__ import annotations

from latecomer.config.outputs import Output
from latecomer.model.panes import Accumulation, Timing
from latecomer.store.sql import listed

LATE_ORDER = "batch, arrival_time, origin, position, window_start, window_end"
"""Side output, in order of arrival; an event can miss several windows."""
DEAD_LETTER_ORDER = "batch, origin, position"
"""Dead letters, in the order in which they were read."""


def publication_order(output: Output) -> str:
    """The order as an ORDER BY for DataFusion.

    >>> publication_order(Output(window={"session": "10m"}, by=("user",), aggregates={"n": "count(*)"}))
    'batch, timing = \\'CLOSING\\', window_end - window_start, "window_start", "window_end", "user", sequence, op'
    """
    place = listed(["window_start", "window_end", *output.by])
    if output.window.merges:
        # Of one window: panes that add up are taken back together, others each before the next one.
        panes = "op, sequence" if output.accumulation is Accumulation.DISCARDING else "sequence, op"
        return f"batch, timing = '{Timing.CLOSING}', window_end - window_start, {place}, {panes}"
    return f"batch, sequence, case when op = 'retract' then 1 else 0 end, {place}"
