"""The drafts of JSON Schema, by what `$schema` says."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from latecomer.schemas.mistakes import Path, SchemaError


class Draft(IntEnum):
    """In the order in which they appeared."""

    DRAFT_04 = 4
    DRAFT_06 = 6
    DRAFT_07 = 7
    V2019_09 = 2019
    V2020_12 = 2020


USUAL = Draft.DRAFT_07
"""The draft of a schema without `$schema`, as in Confluent's registry."""
_PLACES = {
    "json-schema.org/draft-04/schema": Draft.DRAFT_04,
    "json-schema.org/draft-06/schema": Draft.DRAFT_06,
    "json-schema.org/draft-07/schema": Draft.DRAFT_07,
    "json-schema.org/draft/2019-09/schema": Draft.V2019_09,
    "json-schema.org/draft/2020-12/schema": Draft.V2020_12,
}
ADDRESSES = {
    draft: f"http{'s' if 'draft/' in place else ''}://{place}{'' if 'draft/' in place else '#'}"
    for place, draft in _PLACES.items()
}
"""How `$schema` names each."""


def draft_of(schema: Any) -> Draft:
    """The draft in which a whole schema is written.

    >>> draft_of({"$schema": "http://json-schema.org/draft-04/schema#"}).name, draft_of(True).name
    ('DRAFT_04', 'DRAFT_07')
    """
    if not isinstance(schema, dict) or "$schema" not in schema:
        return USUAL
    return named_draft(schema["$schema"], ("$schema",))


def named_draft(name: Any, path: Path) -> Draft:
    text = name if isinstance(name, str) else ""
    place = text.removesuffix("#").removeprefix("http://").removeprefix("https://")
    if place not in _PLACES:
        known = ", ".join(each.removesuffix("#") for each in ADDRESSES.values())
        raise SchemaError(path, "is no draft that is known here", f"use one of {known}", name)
    return _PLACES[place]
