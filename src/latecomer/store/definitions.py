"""The definition of an output's numbers, and of how events are read, as pinned in the store: it may not change
later. What to do where it differs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from latecomer.config.derived import mistake_of, seen_types
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.config.renames import parse_column
from latecomer.errors import StoreMismatch
from latecomer.model.aggregates import ADDITIVE
from latecomer.model.base import in_own_words
from latecomer.model.panes import Accumulation
from latecomer.model.predicates import column_mistake
from latecomer.model.verdicts import OnError
from latecomer.model.windows import Tumbling
from latecomer.store import files
from latecomer.store.delta.table import Table
from latecomer.store.files import Location
from latecomer.store.layout import EventLayout, PaneLayout
from latecomer.store.pins import PINS
from latecomer.store.source_turns import SOURCES

WALL_CLOCK = "wall"
"""Pinned with windows shorter than a day in a zone: they follow its wall clock."""


def definition_of(output: Output) -> dict[str, Any]:
    """The definition of an output's numbers, which may not change; policies and sinks may."""
    dumped = output.model_dump(mode="json")
    meaning = {key: dumped[key] for key in ("window", "by", "where", "aggregates")}
    if output.columns:
        meaning["columns"] = dumped["columns"]
    if isinstance(output.window, Tumbling) and output.window.within_days:
        meaning["clock"] = WALL_CLOCK
    # Panes that add up cannot come after panes that replace one another.
    return {**meaning, "discarding": output.accumulation is Accumulation.DISCARDING}


def require_wall_clock(name: str, kept: Mapping[str, Any], definition: Mapping[str, Any]) -> None:
    """Refuse windows within days of a zone that were not cut by its wall clock (ADR 0010)."""
    if "clock" in definition and "clock" not in kept and kept["window"] == definition["window"]:
        zone = definition["window"]["zone"]
        raise StoreMismatch(
            f"output {name} was computed by an earlier latecomer, whose windows shorter than a day drifted from the "
            f"wall clock of {zone} on the days of a clock change; give the output a new name, and it is computed "
            "from the log"
        )


def policy_of(output: Output) -> dict[str, Any]:
    """The policy of an output, as pinned: when it publishes, and what it does with late events."""
    dumped = output.model_dump(mode="json")
    policy = ("late", "too_late", "allowed_lateness", "on_error", "trigger", "accumulation", "emit_empty")
    return {key: dumped[key] for key in policy}


_BEFORE_ON_ERROR: dict[str, Any] = {"on_error": OnError.NULL.value}
"""What a policy pinned by an earlier version lacks: an event that could not be computed gave null (ADR 0057)."""


def require_definitions(
    pipeline: Pipeline, name: str, pinned: Mapping[str, Any], columns: Mapping[str, str]
) -> None:
    """Refuse a pinned definition that no pipeline file could have, above all its `where`."""
    seen = seen_types(pipeline, columns)
    # A policy without a definition has that of the output. The file may have another one by now, over other columns.
    kept = pinned["outputs"].get(name, {})
    for entry in ({"definition": kept}, *pinned["policies"].get(name, [])):
        try:
            then = with_definition(pipeline.outputs[name], entry.get("definition", kept), entry.get("policy"))
            if not entry.get("definition", kept):
                continue  # nothing is pinned: the file was checked when it was loaded
            mistake = then.where and column_mistake(then.where, {**seen, **then.columns})
            reason = f"where: {mistake}" if mistake else None
            for made in then.columns.values():
                mistake = mistake_of(made.sql, (), seen)
                reason = reason or (f"columns: {mistake}" if mistake else None)
        except ValidationError as error:
            first = error.errors()[0]
            reason = f"{'.'.join(map(str, first['loc']))}: {in_own_words(first)[0]}"
        if reason is not None:
            raise StoreMismatch(
                f"store {pipeline.store_path}: {PINS} has a definition of output {name} that cannot be used: {reason}; "
                "restore the file, or give the output a new name and what you want it to mean, and it is computed "
                "from the log"
            )


def with_definition(
    output: Output, definition: Mapping[str, Any], policy: Mapping[str, Any] | None = None
) -> Output:
    """An output with a pinned definition and policy instead of its own."""
    meaning = {key: value for key, value in definition.items() if key not in ("clock", "discarding")}
    if definition:
        meaning = {"columns": {}, **meaning}
    pinned_policy = _BEFORE_ON_ERROR | dict(policy) if policy else policy_of(output)
    return Output.model_validate({**dict(output), **pinned_policy, **meaning})


def listed(definition: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Some settings of a definition, in words."""
    return ", ".join(f"{key} {json.dumps(definition.get(key))}" for key in keys)


def read_definition(pipeline: Pipeline) -> dict[str, Any]:
    """The settings by which rows become events; with several sources, those of each."""
    if pipeline.sources:
        return {"sources": {name: read_definition(view) for name, view in pipeline.views.items()}}
    return {
        "partition": pipeline.partition_column,
        "order_by": pipeline.order_by,
        "zone": pipeline.event.zone,
        "unit": pipeline.event.unit,
        "arrival_unit": pipeline.arrival_unit,
        "columns": {new: str(made_from) for new, made_from in pipeline.renames.items()} or None,
    }


def with_new_renames(
    before: Mapping[str, Any], now: Mapping[str, Any], pinned: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The pinned settings of reading, and the renames of columns that the store does not have yet."""
    if "sources" in before and "sources" in now:
        known = {name: {"columns": columns} for name, columns in pinned.get("sources", {}).items()}
        of_each = {
            name: with_new_renames(each, now["sources"].get(name, each), known.get(name, {"columns": {}}))
            for name, each in before["sources"].items()
        }
        return {**before, "sources": of_each}
    columns, renames = pinned.get("columns", {}), before.get("columns") or {}
    new = {
        name: written
        for name, written in (now.get("columns") or {}).items()
        if name not in renames and name not in columns and parse_column(written).name not in columns
    }
    return {**before, "columns": {**renames, **new} or None}


_TABLES = ("dead_letters", "repairs", "duplicates", "events", "watermarks", "ledger")
_PROGRESS = ("found", "offsets")
"""Folders with files and answers of a source, which are written down before a batch of them is in any table."""


def fix_if_unread(root: Location) -> str | None:
    """The fix for a definition that differs from a store that never began a batch; None where one was begun: then a
    part of it may be in the store, or the source may no longer have what it gave."""
    if any(files.names(root / folder) for folder in _PROGRESS):
        return None
    if any(file.parent.name in _PROGRESS for file in files.files_below(root / SOURCES)):
        return None
    if any(Table(root / name, None).last_batch() >= 0 for name in _TABLES):
        return None
    return f"delete the store at {root} and run again: no batch was read yet"


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
    pairs = ((each, after.aggregates[name]) for name, each in before.aggregates.items())
    return all(one == other or {one.function, other.function} <= ADDITIVE for one, other in pairs)
