"""Closing panes: the last pane of each window and key for which nothing more can come.

They hold the numbers that stand. Where the pane that stands is marked as the last already, none is published.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.model.arrays import flat
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.model.windows import FIRST_MOMENT
from latecomer.store.files import Location, read_table
from latecomer.store.sql import double_quoted, moment_literal
from latecomer.store.standing import standing
from latecomer.windowing.firing.clocks import Clocks, settled_at, settled_by
from latecomer.windowing.firing.panes import Firing, constant, last_of, places_of, taken_back, timing_and_op
from latecomer.windowing.merge import with_columns

if TYPE_CHECKING:
    from latecomer.log.timeline.keeper import Section
    from latecomer.store.data_files import DataFile
    from latecomer.store.table import Table

CLOSING = "closing"


def may_close(files: Iterable[DataFile], output: Output, section: Section) -> list[DataFile]:
    """The pane files that can hold a window which this section makes final: nothing more can come for it."""
    before = section.watermark_before

    def may(file: DataFile) -> bool:
        start, end = file.windows
        closes = end is None or end + output.settles_after > before
        return closes and (start is None or start < section.fires_at)

    return [file for file in files if may(file)]


def places_to_close(panes: Table, output: Output, section: Section) -> set[tuple[Any, ...]]:
    """The windows and keys that would get a closing pane, without Spark."""
    place = ", ".join(double_quoted(name) for name in ("window_start", "window_end", *output.by))
    low = section.watermark_before - output.settles_after
    high = settled_by(output, section.fires_at)
    if high <= FIRST_MOMENT:
        return set()
    since = f"window_end > {moment_literal(low)} and " if low > FIRST_MOMENT else ""
    closing = f"(select * from t where {since}window_end <= {moment_literal(high)})"
    found = panes.query_rows(standing(closing, place, place, "not is_last"))
    return {tuple(map(repr, row.values())) for row in found}


def places_in(files: Iterable[Location], output: Output) -> set[tuple[Any, ...]]:
    """The windows and keys of stored panes."""
    names = ["window_start", "window_end", *output.by]
    tables = (read_table(file, columns=names).select(names) for file in files)
    return {tuple(map(repr, row.values())) for table in tables for row in table.to_pylist()}


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
