"""Closing panes: the last pane of each window and key for which nothing more can come.

They hold the numbers that stand. Where the pane that stands is marked as the last already, none is published.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model.arrays import flat
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.windowing.firing.clocks import Clocks, settled_at
from latecomer.windowing.firing.panes import Firing, constant, last_of, places_of, taken_back, timing_and_op
from latecomer.windowing.merge import with_columns

CLOSING = "closing"


def closing_panes(firing: Firing, panes: pa.Table, published: pa.Table | None, clocks: Clocks) -> pa.Table:
    """One CLOSING pane for each window and key that this batch makes final, from all `panes` up to now.

    `published` are the panes of sessions that have more to publish: those will be taken back, and are not closed.
    """
    ends = np.asarray(flat(panes.column("window_end")).cast(pa.int64()))
    final = settled_at(firing.output, ends)
    known = panes.filter(pa.array((final > clocks.before) & (final <= clocks.now)))
    place = ["window_start", "window_end", *firing.merger.layout.keys]
    others = known.slice(0, 0) if published is None else published
    codes = places_of([known.select(place), others.select(place)])
    own_codes, other_codes = codes[: known.num_rows], codes[known.num_rows :]
    is_retract = np.asarray(pc.equal(known.column("op"), Op.RETRACT.value)).astype(np.int64)
    newest = last_of(own_codes, 2 * np.asarray(flat(known.column("sequence"))) + is_retract)
    is_last = np.asarray(flat(known.column("is_last")))
    stands = newest[(is_retract[newest] == 0) & ~is_last[newest] & ~np.isin(own_codes[newest], other_codes)]
    held = known.take(pa.array(np.sort(stands)))
    closing = _closing(firing, held, clocks)
    if firing.output.accumulation is not Accumulation.RETRACTING:
        return closing
    order = np.concatenate([2 * np.arange(held.num_rows), 2 * np.arange(held.num_rows) + 1])
    return pa.concat_tables([taken_back(held, closing), closing]).take(pa.array(np.argsort(order)))


def _closing(firing: Firing, held: pa.Table, clocks: Clocks) -> pa.Table:
    """The panes that stand, published for the last time; with `discarding`, without values."""
    count, discards = held.num_rows, firing.output.accumulation is Accumulation.DISCARDING
    rows = firing.merger.uncounted(firing.merger.emptied(held) if discards else held)
    changed = {
        "sequence": pc.add(flat(held.column("sequence")), 1),
        **timing_and_op(Timing.CLOSING, Op.INSERT, count),
        "is_last": np.ones(count, bool),
        "batch": constant(clocks.batch, count),
        "fired_at": constant(None if clocks.arrival == BEGIN_OF_TIME else clocks.arrival, count),
        "watermark": constant(clocks.now, count),
    }
    return with_columns(rows, changed)
