"""The order of publication: how panes, side output and dead letters follow one another, for sinks and readers alike.

Batch by batch; within a batch, what is taken back comes before what takes its place. A window and key
may be published, taken back and published again in one batch: its sequences come one after the other. A
session takes back panes of earlier batches, of windows that it has outgrown and swallowed: all that a
batch takes back comes first, but for a closing pane, which comes last with what it takes back. Ties go by
window and key, so that two readers see the same order.
"""

from __future__ import annotations

from latecomer.config.outputs import Output
from latecomer.model.panes import Timing
from latecomer.store.sql import listed

LATE_ORDER = "batch, arrival_time, origin, position, window_start, window_end"
"""Side output, in order of arrival; an event can miss several windows."""
DEAD_LETTER_ORDER = "batch, origin, position"
"""Dead letters, in the order in which they were read."""


def publication_order(output: Output) -> str:
    """The order as an ORDER BY for DataFusion.

    >>> publication_order(Output(window={"session": "10m"}, by=("user",), aggregates={"n": "count(*)"}))
    'batch, timing = \\'CLOSING\\', op = \\'insert\\', "window_start", "window_end", "user", sequence'
    """
    place = listed(["window_start", "window_end", *output.by])
    if output.window.merges:
        return f"batch, timing = '{Timing.CLOSING}', op = 'insert', {place}, sequence"
    return f"batch, sequence, case when op = 'retract' then 1 else 0 end, {place}"
