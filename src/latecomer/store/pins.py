"""`pipeline.json`: what a store has written down about itself. All of it is checked: what reaches SQL (types of
columns, numbers of batches) must be what latecomer writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from latecomer.errors import StoreMismatch
from latecomer.errors.system import refusal_of
from latecomer.model.types import normal_type
from latecomer.store import files
from latecomer.store.files import Location, make_folder
from latecomer.store.holding.fences import rewrite
from latecomer.store.migrations import FORMAT, STEPS, upgraded, with_sums

PINS = "pipeline.json"
MOVED = "moved_to"
"""The key for the new location of a store that was moved."""


def _written_type(kind: str) -> str:
    if normal_type(kind) != kind:
        raise ValueError(f"latecomer writes {normal_type(kind)}")
    return kind


_Columns = dict[str, Annotated[str, AfterValidator(_written_type)]]


class _Part(BaseModel):
    """A part of the file; its other keys are checked by those who read them."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Schema(_Part):
    schema_: str = Field(alias="schema")


class _Policy(_Part):
    trigger: dict[str, Any] = {}


class _Period(_Part):
    """A policy, the batch since which it applies, and perhaps a definition."""

    since: int
    policy: _Policy
    definition: dict[str, Any] = {}


class _Pins(_Part):
    """What every store has besides its format, and what it may have."""

    pipeline: str
    outputs: dict[str, dict[str, Any]]
    policies: dict[str, list[_Period]]
    columns: _Columns
    sums: str
    sources: dict[str, _Columns] = {}
    schemas: dict[str, _Schema] = {}


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
    if type(written.get("format")) is not int or written["format"] not in (*STEPS, FORMAT):
        raise StoreMismatch(
            f"store {root} has format {written.get('format')}, and this latecomer knows none beyond {FORMAT}; use the "
            "latecomer that made it, or a later one"
        )
    try:
        _Pins.model_validate(with_sums(written))
    except ValidationError as error:
        raise StoreMismatch(f"store {root}: {PINS}{_what_is_wrong(error)}; restore it") from None
    return upgraded(written)


def _what_is_wrong(error: ValidationError) -> str:
    """The keys that the file lacks, or the first entry that latecomer cannot have written."""
    found = error.errors()
    if lacking := [
        str(each["loc"][0]) for each in found if each["type"] == "missing" and len(each["loc"]) == 1
    ]:
        return f" lacks {', '.join(lacking)}"
    place, value = ".".join(map(str, found[0]["loc"])), found[0]["input"]
    return f": {place}{f' ({value!r})' if isinstance(value, str) else ''} is not what latecomer writes"


def write_pins(root: Location, pins: Mapping[str, Any]) -> None:
    make_folder(root)
    rewrite(root / PINS, json.dumps(pins, indent=2) + "\n")


def mark_moved(root: Location, to: str) -> None:
    """Mark a store as moved: from here on it cannot be opened in this place."""
    write_pins(root, {**json.loads(files.read_text(root / PINS)), MOVED: to})
