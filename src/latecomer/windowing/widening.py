"""Columns of wider types. They are refused where past and new values of an output would not fit together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set

from latecomer.config.derived import derived_types
from latecomer.config.models import Pipeline
from latecomer.errors import StoreMismatch
from latecomer.model.predicates import named_columns
from latecomer.model.types import is_wider, leaf_types, new_fields
from latecomer.store.delta.table import Table
from latecomer.store.layout import EventLayout, PaneLayout, arrow_type
from latecomer.store.pins import read_pins
from latecomer.store.store import Store
from latecomer.store.wider_types import holds_all_values
from latecomer.windowing.merge import Merger

_OF_WHOLE = re.compile(
    r"\b(to_json|hash|xxhash64|string|array_(distinct|union|except|intersect|contains|position)|arrays_overlap)\s*\("
    r"|\bcast\s*\(\s*(\w+|`[^`]+`)\s+as\b",
    re.IGNORECASE,
)
"""Functions that look at whole objects of a list, where a path would look at one field."""


def wider_columns(store: Store) -> dict[str, str]:
    """Columns whose type was narrower at the last run → the type then."""
    pinned = read_pins(store.root)
    before = {} if pinned is None else pinned["columns"]
    return {
        column: before[column]
        for column, kind in store.columns.items()
        if column in before and is_wider(kind, before[column])
    }


def require_widenable(store: Store) -> None:
    """Refuse wider types that would change an output, an id or a partition."""
    wider = wider_columns(store)
    if not wider or store.replay_of is not None:
        return
    floats = {column for column, kind in wider.items() if "float" in leaf_types(kind)}
    for column, place in _texts(store.pipeline):
        if column in floats:
            raise StoreMismatch(
                f"column {column} cannot become a double: {place} is made of its text, and 1.1 is another number as a "
                "float than as a double; restore the declared type, or start a new store"
            )
    _require_no_text(store, floats)
    _require_parts(store, wider)
    old = EventLayout(store.pipeline, {**store.columns, **wider}, store.wide_sums)
    for name, output in store.pipeline.outputs.items():
        before, after = (_kinds(PaneLayout(output, layout), store) for layout in (old, store.layout))
        for column, kind in before.items():
            if not holds_all_values(arrow_type(kind), arrow_type(after.get(column, kind))):
                raise StoreMismatch(
                    f"column {', '.join(wider)} cannot be widened: {column} of output {name} would become "
                    f"{after[column]}, and was {kind}; restore the declared type, or give the output a new name and it "
                    "is computed from the log"
                )


def widen_tables(store: Store, published: Iterable[Table]) -> bool:
    """Widen the log and the published tables to the declared types. Gives whether a table had narrower ones."""
    if store.replay_of is not None:
        return False
    tables = (store.events, store.duplicates, *published)
    narrower = [table for table in tables if table.is_narrower]
    for table in narrower:
        table.widen()
    return bool(narrower)


def _require_no_text(store: Store, floats: Set[str]) -> None:
    """Refuse a double in place of a float from which a derived column is computed, if the text of that column tells
    rows apart."""
    texts = dict(_texts(store.pipeline))
    for output in store.pipeline.outputs.values():
        types = derived_types(output.columns, store.layout.types)
        for name, made in output.columns.items():
            named = named_columns(made.sql, floats)
            if named and name in texts and types[name] in ("string", "float", "double"):
                raise StoreMismatch(
                    f"column {named[0]} cannot become a double: {texts[name]} is computed from it, and 1.1 is another "
                    "number as a float than as a double; restore the declared type, or start a new store"
                )


def _require_parts(store: Store, wider: Mapping[str, str]) -> None:
    """Refuse new fields of objects where an output looks at whole objects, such as their text. Past events may get the
    field from what was kept, and would no longer be what they were when they were published."""
    gained = [column for column, kind in wider.items() if new_fields(column, kind, store.columns[column])]
    for name, output in store.pipeline.outputs.items():
        expressions = [derived.sql for derived in output.columns.values()]
        expressions += [sql for sql in (output.where, *output.trigger.whens) if sql]
        for sql in expressions:
            named = named_columns(sql, gained)
            if named and _OF_WHOLE.search(sql):
                raise StoreMismatch(
                    f"column {named[0]} cannot get a field: output {name} looks at its objects as a whole ({sql}), and "
                    "what was kept of the field would change events that are published; restore the declared type (the "
                    "field is kept in unknown_fields), or start a new store"
                )


def _kinds(layout: PaneLayout, store: Store) -> dict[str, str]:
    """The columns of an output's panes and states, and their types."""
    return {**layout.keys, **layout.values, **Merger(layout, store.measures()).state_columns}


def _texts(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """The columns whose text tells rows apart, and what it identifies."""
    event = pipeline.event
    yield from ((column, "event.id") for column in event.id_columns)
    yield from ((column, "event.producer") for column in (event.producer,) if column)
    for view in pipeline.views.values():
        if view.partition_column:
            yield view.partition_column, "the source partition"
    for name, output in pipeline.outputs.items():
        yield from ((column, f"the key of output {name}") for column in output.by)
        for label, aggregate in output.aggregates.items():
            if aggregate.function == "approx_count_distinct" and aggregate.column:
                yield aggregate.column, f"{label} of output {name}"
