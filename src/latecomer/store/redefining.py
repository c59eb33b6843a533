"""What can be done about an output whose definition is no longer the one it was computed with."""

from __future__ import annotations

from latecomer.config.models import Output
from latecomer.model.aggregates import Aggregate
from latecomer.model.panes import Accumulation
from latecomer.store.layout import EventLayout, PaneLayout

_OWN_STATE = frozenset({"sum", "count", "min", "max"})
"""Aggregates whose value is all that is stored of them."""


def fix_for(name: str, before: Output, after: Output, events: EventLayout) -> str:
    """What works: a new name always does, a rebuild where the output keeps its columns."""
    fix = "give the changed output a new name, and it is computed from the log"
    if _fits_its_tables(before, after, events):
        fix += f"; or bring windows that are there over to it: latecomer rebuild apply FILE {name} --from T"
    return fix


def _fits_its_tables(before: Output, after: Output, events: EventLayout) -> bool:
    """Whether a rebuild certainly takes the new definition: the same windows and keys, and every aggregate
    with the name, the type and the state it had."""
    if (before.window, before.by) != (after.window, after.by) or after.window.merges:
        return False
    if before.counted != after.counted:
        return False
    if any(before.columns.get(name) != after.columns.get(name) for name in after.by):
        return False
    if Accumulation.DISCARDING in (before.accumulation, after.accumulation):
        return False
    if PaneLayout(before, events).values != PaneLayout(after, events).values:
        return False
    return all(_same_state(before.aggregates[name], each) for name, each in after.aggregates.items())


def _same_state(before: Aggregate, after: Aggregate) -> bool:
    return before == after or {before.function, after.function} <= _OWN_STATE
