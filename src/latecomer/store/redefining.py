"""The fix for an output whose definition differs from the one that it was computed with."""

from __future__ import annotations

from latecomer.config.outputs import Output
from latecomer.model.aggregates import Aggregate
from latecomer.model.panes import Accumulation
from latecomer.store.layout import EventLayout, PaneLayout

_OWN_STATE = frozenset({"sum", "count", "min", "max"})
"""Aggregates that store nothing but their value."""


def fix_for(name: str, before: Output, after: Output, events: EventLayout) -> str:
    """The fix: a new name, which always works; or a rebuild, which works if the output keeps its columns."""
    renamed = "give the changed output a new name, and it is computed from the log"
    if not _fits_its_tables(before, after, events):
        return renamed
    apply = f"latecomer rebuild apply FILE {name} --from T"
    added = [each for each in after.aggregates if each not in before.aggregates]
    if added:
        return (
            f"to add {', '.join(added)}, run {apply}: windows that start at T or later get it from the log, and "
            f"earlier ones stay as they are; or {renamed}"
        )
    return f"{renamed}; or bring windows that are there over to it: {apply}"


def _fits_its_tables(before: Output, after: Output, events: EventLayout) -> bool:
    """Whether a rebuild accepts the new definition: windows and keys with their types are the same, and every old
    aggregate has its name, type and state."""
    if (before.window, before.by) != (after.window, after.by) or after.window.merges:
        return False
    if not set(before.columns_in_numbers) <= set(after.columns_in_numbers):
        return False
    if Accumulation.DISCARDING in (before.accumulation, after.accumulation):
        return False
    old, new = PaneLayout(before, events), PaneLayout(after, events)
    kept, wanted = old.values, new.values
    if old.keys != new.keys or any(wanted.get(column) != kind for column, kind in kept.items()):
        return False
    return all(_same_state(each, after.aggregates[name]) for name, each in before.aggregates.items())


def _same_state(before: Aggregate, after: Aggregate) -> bool:
    return before == after or {before.function, after.function} <= _OWN_STATE
