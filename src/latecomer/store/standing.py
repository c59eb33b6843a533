"""Panes in SQL: which of them stands, and in which order they are published.

Which pane stands: the rules of `model.panes.surviving` and `model.panes.summed`, for every dialect.

Of the panes of a window and key, the one with the largest sequence stands, unless that sequence was retracted.
Discarding panes add up: all that were not retracted stand. `place` is the columns of window and key, quoted for the
dialect. The rest is the same in DataFusion, DuckDB, Postgres and Spark.
"""

from __future__ import annotations

from latecomer.config.names import PRIVATE
from latecomer.config.outputs import Output
from latecomer.model.panes import Accumulation, Timing
from latecomer.store.private_columns import NTH
from latecomer.store.sql import listed

_FIRST = f"{PRIVATE}first_of_place"
"""The rank of the first pane of a window and key among all panes, bigint: never stored."""
STANDS = f"{NTH} = 1 and op = 'insert'"


def newest_first(place: str) -> str:
    """The rank of a pane among those of its window and key.

    'retract' sorts after 'insert', so with `op desc` the retract of a sequence comes before its insert.
    """
    return f"row_number() over (partition by {place} order by sequence desc, op desc)"


def standing(rows: str, place: str, columns: str = "*", also: str = "true") -> str:
    """A query for the panes that stand among `rows`, a table or a query in brackets.

    >>> standing("t", "k", "v", "v > 0").partition(" where ")[2]
    "_lc_nth = 1 and op = 'insert' and v > 0"
    """
    ranked = f"select *, {newest_first(place)} as {NTH} from {rows} as panes"
    return f"select {columns} from ({ranked}) as ranked where {STANDS} and {also}"


def standing_in_order(rows: str, place: str, columns: str) -> str:
    """The same panes, ordered by window and key, for a reader of all of them on one machine.

    Most places have a single pane, and a partition of one row costs DataFusion as much as one of many. So all panes are
    sorted once: a pane is the first of its place if its row number equals its rank by place.
    """
    nth = f"row_number() over (order by {place}, sequence desc, op desc)"
    first = f"rank() over (order by {place})"
    ranked = f"select *, {nth} as {NTH}, {first} as {_FIRST} from {rows} as panes"
    return f"select {columns} from ({ranked}) as ranked where {NTH} = {_FIRST} and op = 'insert' order by {place}"


def taken_back(place: str) -> str:
    """Whether a pane was retracted: 1 or 0."""
    return f"max(case when op = 'retract' then 1 else 0 end) over (partition by {place}, sequence)"


def not_taken_back(rows: str, place: str) -> str:
    """A query for the discarding panes that stand among `rows`."""
    marked = f"select *, {taken_back(place)} as {NTH} from {rows} as panes"
    return f"select * from ({marked}) as marked where {NTH} = 0 and op = 'insert'"


# The order of publication, for sinks and readers alike

LATE_ORDER = "batch, arrival_time, origin, position, window_start, window_end"
"""Side output, in order of arrival; an event can miss several windows."""
DEAD_LETTER_ORDER = "batch, origin, position"
"""Dead letters, in the order in which their rows were read."""


def publication_order(output: Output) -> str:
    """The order of panes as an ORDER BY for DataFusion.

    Panes are ordered by batch. Within a batch, a retract comes before the pane that replaces it. One window and key may
    be published, retracted and published again in one batch: its sequences come one after the other. A session that
    grows or joins others retracts their panes, which may be of the same batch: their windows are all shorter, and
    shorter windows come first. A closing pane comes last, with its retracts. Ties are broken by window and key, so that
    all readers see the same order.

    >>> publication_order(Output(window={"session": "10m"}, by=("user",), aggregates={"n": "count(*)"}))
    'batch, timing = \\'CLOSING\\', window_end - window_start, "window_start", "window_end", "user", sequence, op'
    """
    place = listed(["window_start", "window_end", *output.by])
    if output.window.merges:
        # Within one window: panes that add up are retracted together, others one by one before the next pane.
        panes = "op, sequence" if output.accumulation is Accumulation.DISCARDING else "sequence, op"
        return f"batch, timing = '{Timing.CLOSING}', window_end - window_start, {place}, {panes}"
    return f"batch, sequence, case when op = 'retract' then 1 else 0 end, {place}"
