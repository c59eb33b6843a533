"""JSON pointers, with which references name a place in a document."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from latecomer.schemas.mistakes import Path, Step


def place_of(fragment: str, document: Any, around: Path) -> Path | None:
    """The place that a pointer names, relative to the schema at `around`; None if there is no such place.

    >>> place_of("/definitions/a~1b/0", {"definitions": {"a/b": [True]}}, ())
    ('definitions', 'a/b', 0)
    """
    value = document
    for step in around:
        value = value[step]
    place: list[Step] = list(around)
    for part in fragment.split("/")[1:]:
        name: Step = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and str(name).isascii() and str(name).isdigit() and len(part) < 7:
            name = int(name)
        present = (
            isinstance(name, int) and name < len(value) if isinstance(value, list) else _has(value, name)
        )
        if not present:
            return None
        value = value[name]
        place.append(name)
    return tuple(place)


def _has(value: Any, name: Step) -> bool:
    return isinstance(value, dict) and name in value


def unquoted(fragment: str) -> str:
    """A fragment without percent-encoding.

    >>> unquoted("/definitions/a%25b")
    '/definitions/a%b'
    """
    return unquote(fragment)
