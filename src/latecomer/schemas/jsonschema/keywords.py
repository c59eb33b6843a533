"""Reads the values of single keywords, and checks their form; first of them `$schema`, which names the draft."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from fractions import Fraction
from typing import Any

from latecomer.errors import did_you_mean
from latecomer.schemas.jsonschema import patterns
from latecomer.schemas.jsonschema.nodes import (
    ALL_TYPES,
    DEEPEST_VALUE,
    TYPES,
    Bound,
    TooDeep,
    Value,
    key_of,
    number_of,
)
from latecomer.schemas.mistakes import Path, SchemaError

Keywords = Mapping[str, Any]
_NOT_OF_PYTHON = re.compile(r"\\[pPu]\{[^}]*\}|\\c[A-Za-z]|\\k<[^>]*>|(?<=\()\?<[A-Za-z_$]\w*>", re.ASCII)
"""Syntax that only JavaScript's patterns have."""


class Draft(IntEnum):
    """The drafts of JSON Schema, in the order in which they appeared."""

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


def types_of(value: Keywords, path: Path) -> frozenset[str]:
    if "type" not in value:
        return ALL_TYPES
    found, place = value["type"], (*path, "type")
    names = found if isinstance(found, list) else [found]
    if not names:
        raise SchemaError(place, "is an empty list", "name a type, or leave it out", found)
    for name in names:
        if not isinstance(name, str) or name not in TYPES:
            fix = did_you_mean(str(name)[:100], TYPES)
            raise SchemaError(place, "is no type", fix, found)
    if len(set(names)) < len(names):
        raise SchemaError(place, "names a type twice", "name it once", found)
    return frozenset[str]().union(*(TYPES[name] for name in names))


def values_of(value: Keywords, path: Path, draft: Draft) -> tuple[Value, ...] | None:
    """The values that enum and const both allow."""
    values = None
    if "enum" in value:
        listed = value["enum"]
        if not isinstance(listed, list):
            raise SchemaError((*path, "enum"), "is no list", "write a list of values", listed)
        values = tuple(dict.fromkeys(keyed_value(each, (*path, "enum")) for each in listed))
    if draft >= Draft.DRAFT_06 and "const" in value:
        constant = keyed_value(value["const"], (*path, "const"))
        values = (constant,) if values is None or constant in values else ()
    return values


def keyed_value(value: Any, path: Path) -> Value:
    """A value of enum or const, ready to be compared."""
    try:
        return Value(key_of(value), value)
    except TooDeep:
        fix = f"nest at most {DEEPEST_VALUE} lists and objects in a value"
        raise SchemaError(path, "is nested too deeply", fix) from None


def bounds_of(value: Keywords, path: Path, draft: Draft) -> tuple[Bound | None, Bound | None]:
    """The lower and the upper bound of numbers."""
    lower = _bound(value, "minimum", "exclusiveMinimum", path, draft)
    upper = _bound(value, "maximum", "exclusiveMaximum", path, draft)
    return (
        max(lower, key=lambda each: (each.number, each.exclusive), default=None),
        min(upper, key=lambda each: (each.number, not each.exclusive), default=None),
    )


def _bound(value: Keywords, key: str, exclusive: str, path: Path, draft: Draft) -> list[Bound]:
    bounds = [Bound(number(value, key, path))] if key in value else []
    if exclusive not in value:
        return bounds
    if draft >= Draft.DRAFT_06:
        return [*bounds, Bound(number(value, exclusive, path), True)]
    if not isinstance(value[exclusive], bool):
        fix = f"write true or false beside {key}: so it is in draft-04"
        raise SchemaError((*path, exclusive), "is neither true nor false", fix, value[exclusive])
    if not bounds:
        raise SchemaError(path, f"has {exclusive} and no {key}", f"write {key}", dict(value))
    return [Bound(bounds[0].number, value[exclusive])]


def number(value: Keywords, key: str, path: Path) -> Fraction:
    written = value[key]
    if isinstance(written, bool) or not isinstance(written, int | float):
        raise SchemaError((*path, key), "is no number", "write a number", written)
    return number_of(written)


def multiples_of(value: Keywords, path: Path) -> tuple[Fraction, ...]:
    if "multipleOf" not in value:
        return ()
    divisor = number(value, "multipleOf", path)
    if divisor <= 0:
        fix = "write a number above 0"
        raise SchemaError((*path, "multipleOf"), "is not above 0", fix, value["multipleOf"])
    return (divisor,)


def count(value: Keywords, key: str, path: Path) -> int | None:
    """A length or a number of things."""
    if key not in value:
        return None
    written = value[key]
    if type(written) not in (int, float) or written < 0 or written != int(written):
        raise SchemaError((*path, key), "is no count", "write a whole number from 0", written)
    return int(written)


def flag(value: Keywords, key: str, path: Path) -> bool:
    written = value.get(key, False)
    if not isinstance(written, bool):
        raise SchemaError((*path, key), "is neither true nor false", "write true or false", written)
    return written


def text(value: Keywords, key: str, path: Path) -> str | None:
    written = value.get(key)
    if key in value and not isinstance(written, str):
        raise SchemaError((*path, key), "is no text", "write text in quotes, or leave it out", written)
    return written


def names(found: Any, path: Path) -> frozenset[str]:
    if not isinstance(found, list):
        raise SchemaError(path, "is no list", "write a list of names of properties", found)
    for index, each in enumerate(found):
        if not isinstance(each, str):
            raise SchemaError((*path, index), "is no text", "write the name of a property", each)
    return frozenset(found)


def require_pattern(pattern: str, path: Path) -> None:
    """Refuse a text that is no regular expression. One that cannot be run here is allowed: it is compared as text."""
    if patterns.matches(pattern, "") is not None or len(pattern) > patterns.LONGEST_PATTERN:
        return
    try:
        re.compile(_NOT_OF_PYTHON.sub("x", pattern))
    except re.error as error:
        fix = "write a regular expression as JavaScript has them"
        raise SchemaError(path, f"is no regular expression: {error}", fix, pattern) from None
    except (RecursionError, OverflowError):
        return


def mapping(value: Keywords, key: str, path: Path) -> Mapping[str, Any]:
    written = value.get(key, {})
    if not isinstance(written, dict):
        raise SchemaError((*path, key), "is no object", "write an object: a name and a schema each", written)
    return written


def sequence(value: Keywords, key: str, path: Path) -> list[Any]:
    written = value[key]
    if not isinstance(written, list):
        raise SchemaError((*path, key), "is no list", "write a list of schemas", written)
    if not written:
        raise SchemaError((*path, key), "is an empty list", "write a schema in it, or leave it out", written)
    return written
