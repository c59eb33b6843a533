"""The order of publication of panes, side output and dead letters, for sinks and readers alike.

Panes are ordered by batch. Within a batch, a retract comes before the pane that replaces it. One window and key may be
published, retracted and published again in one batch: its sequences come one after the other. A session that grows or
joins others retracts their panes, which may be of the same batch: their windows are all shorter, and shorter windows
come first. A closing pane comes last, with its retracts. Ties are broken by window and key, so that all readers see the
same order.
"""

from __future__ import annotations

from latecomer.config.outputs import Output
from latecomer.model.panes import Accumulation, Timing
from latecomer.store.sql import listed

LATE_ORDER = "batch, arrival_time, origin, position, window_start, window_end"
"""Side output, in order of arrival; an event can miss several windows."""
DEAD_LETTER_ORDER = "batch, origin, position"
"""Dead letters, in the order in which their rows were read."""


def publication_order(output: Output) -> str:
    """The order as an ORDER BY for DataFusion.

    >>> publication_order(Output(window={"session": "10m"}, by=("user",), aggregates={"n": "count(*)"}))
    'batch, timing = \\'CLOSING\\', window_end - window_start, "window_start", "window_end", "user", sequence, op'
    """
    place = listed(["window_start", "window_end", *output.by])
    if output.window.merges:
        # Within one window: panes that add up are retracted together, others one by one before the next pane.
        panes = "op, sequence" if output.accumulation is Accumulation.DISCARDING else "sequence, op"
        return f"batch, timing = '{Timing.CLOSING}', window_end - window_start, {place}, {panes}"
    return f"batch, sequence, case when op = 'retract' then 1 else 0 end, {place}"
