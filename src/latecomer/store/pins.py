"""`pipeline.json`: what a store has written down about itself. All of it is checked: what reaches SQL (types of
columns, numbers of batches) must be what latecomer writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from latecomer.errors import StoreMismatch
from latecomer.errors.system import refusal_of
from latecomer.model.types import normal_type
from latecomer.store import files
from latecomer.store.fences import rewrite
from latecomer.store.files import Location, make_folder
from latecomer.store.migrations import FORMAT, SUMS, upgraded

PINS = "pipeline.json"
MOVED = "moved_to"
"""The key for the new location of a store that was moved."""
_PINNED = {"pipeline": str, "outputs": dict, "policies": dict, "columns": dict, SUMS: str}
"""The keys that every store has besides its format, and their types."""


def is_store(root: Location) -> bool:
    """Whether there is a store."""
    return files.is_file(root / PINS)


def read_pins(root: Location) -> dict[str, Any] | None:
    """The checked content of `pipeline.json`; None where there is no store."""
    try:
        written: Any = json.loads(files.read_text(root / PINS))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        # A folder that may not be entered says nothing of what is in it: there may be no store to restore.
        refused = refusal_of(error) if isinstance(error, OSError) else None
        why = f": {refused}" if refused else f" cannot be read ({error}); restore it"
        raise StoreMismatch(f"store {root}: {PINS}{why}") from None
    if not isinstance(written, dict):
        raise StoreMismatch(f"store {root}: {PINS} is not what latecomer writes; restore it")
    if MOVED in written:
        raise StoreMismatch(
            f"store {root} was moved; write store: {written[MOVED]} in the pipeline file, and delete {root} once "
            "nobody needs it"
        )
    pinned = upgraded(written)
    if pinned is None:
        raise StoreMismatch(
            f"store {root} has format {written.get('format')}, and this latecomer knows none beyond {FORMAT}; use the "
            "latecomer that made it, or a later one"
        )
    if missing := [key for key in _PINNED if not isinstance(pinned.get(key), _PINNED[key])]:
        raise StoreMismatch(f"store {root}: {PINS} lacks {', '.join(missing)}; restore it")
    if (wrong := _misshapen(pinned)) is not None:
        raise StoreMismatch(f"store {root}: {PINS}: {wrong} is not what latecomer writes; restore it")
    return pinned


def write_pins(root: Location, pins: Mapping[str, Any]) -> None:
    make_folder(root)
    rewrite(root / PINS, json.dumps(pins, indent=2) + "\n")


def mark_moved(root: Location, to: str) -> None:
    """Mark a store as moved: from here on it cannot be opened in this place."""
    write_pins(root, {**json.loads(files.read_text(root / PINS)), MOVED: to})


def _misshapen(pinned: Mapping[str, Any]) -> str | None:
    """The first entry that latecomer cannot have written."""
    sources = pinned.get("sources", {})
    if not isinstance(sources, dict) or not all(isinstance(each, dict) for each in sources.values()):
        return "sources"
    of_each = {"columns": pinned["columns"], **{f"sources.{name}": each for name, each in sources.items()}}
    for place, columns in of_each.items():
        for column, kind in columns.items():
            if not _is_type(kind):
                return f"{place}.{column} ({kind!r})"
    schemas = pinned.get("schemas", {})
    if not isinstance(schemas, dict) or not all(map(_is_schema, schemas.values())):
        return "schemas"
    for name, definition in pinned["outputs"].items():
        if not isinstance(definition, dict):
            return f"outputs.{name}"
    for name, entries in pinned["policies"].items():
        if not isinstance(entries, list) or not all(map(_is_period, entries)):
            return f"policies.{name}"
    return None


def _is_type(kind: object) -> bool:
    try:
        return isinstance(kind, str) and normal_type(kind) == kind
    except ValueError:
        return False


def _is_schema(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("schema"), str)


def _is_period(entry: object) -> bool:
    """Whether it has a policy, the batch since which it applies, and perhaps a definition."""
    return (
        isinstance(entry, dict)
        and type(entry.get("since")) is int
        and isinstance(entry.get("policy"), dict)
        and isinstance(entry.get("definition", {}), dict)
    )
