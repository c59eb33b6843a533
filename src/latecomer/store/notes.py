"""Notes in a store: small JSON files for people, and for the next run. No result depends on one."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import TypeAdapter

from latecomer.errors import LatecomerError
from latecomer.store.files import Location, read_text, replace_bytes

_Note = TypeVar("_Note")


def read_note(file: Location, kind: type[_Note]) -> _Note | None:
    """The note in a file; None where there is none that can be read."""
    with suppress(OSError, LatecomerError, ValueError):
        return TypeAdapter(kind).validate_json(read_text(file), strict=True)
    return None


def write_note(file: Location, note: Any, kind: Any = None) -> None:
    """Write a note, a dataclass or what `kind` says, in the place of the one before. Bytes of names that are not UTF-8
    become question marks."""
    values = TypeAdapter(kind or type(note)).dump_python(note, mode="json")
    text = json.dumps(values, ensure_ascii=False, indent=1) + "\n"
    replace_bytes(file, text.encode("utf-8", "replace"))
