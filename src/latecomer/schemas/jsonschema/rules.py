"""The rules of Confluent's registry by name: the message when one is broken, and the fix."""

from __future__ import annotations

from collections.abc import Iterable

from latecomer.errors import shortened
from latecomer.schemas.mistakes import SHOWN, Incompatibility, Path

_MOST = ("MAXIMUM", "EXCLUSIVE_MAXIMUM", "MAX_LENGTH", "MAX_ITEMS", "MAX_CONTAINS", "MAX_PROPERTIES")
_LEAST = tuple(each.replace("MAX", "MIN") for each in _MOST)
_PARTS = ("PROPERTY", "ITEM")
_OTHERS = ("ADDITIONAL_PROPERTIES", "ADDITIONAL_ITEMS", "UNEVALUATED_PROPERTIES", "UNEVALUATED_ITEMS")
_TYPES = "{written} is written, and {read} is read"
_ADDED = "the writer has no {word}, and the reader has {read}"
_DIFFERS = "it is {written} for the writer, and {read} for the reader"
_MORE = "the writer may write more than it describes, and the reader has {word}"
_DESCRIBE = "describe {what} in the reader's schema too"
_OPEN = "the writer says nothing of {what}, so anything may have been written there"
_KEEP_OUT = "leave {word} out"
_UNREQUIRE = "do not require it, or give it a default"
_ASK_LESS = "ask for no more than the writer"


def _each(stems: Iterable[str], *endings: str) -> tuple[str, ...]:
    return tuple(f"{stem}_{ending}" for stem in stems for ending in endings)


_TABLE: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("TYPE_CHANGED", "TYPE_NARROWED"), _TYPES, "read {written}"),
    (("SCHEMA_ADDED",), "any item may be written, and the reader has a schema for them", _KEEP_OUT),
    (
        _each(["ENUM_ARRAY"], "NARROWED", "CHANGED"),
        "{lost} may be written, and is not read",
        "read every value that is written",
    ),
    (_each((*_MOST, *_LEAST, "PATTERN"), "ADDED"), _ADDED, _KEEP_OUT),
    (_each(_MOST, "DECREASED"), _DIFFERS, "read with {written} or more"),
    (_each(_LEAST, "INCREASED"), _DIFFERS, "read with {written} or less"),
    (("PATTERN_CHANGED",), _DIFFERS, "keep it, or leave it out"),
    (
        ("MULTIPLE_OF_ADDED",),
        "numbers of every kind are written, and multiples of {read} are read",
        _KEEP_OUT,
    ),
    (
        _each(["MULTIPLE_OF"], "CHANGED", "EXPANDED"),
        "multiples of {written} are written, and multiples of {read} are read",
        "read by a number that {written} is a multiple of",
    ),
    (("UNIQUE_ITEMS_ADDED",), "items may be written twice, and only unique ones are read", _KEEP_OUT),
    (
        ("REQUIRED_ATTRIBUTE_ADDED", "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"),
        "the property {what} may be left out by the writer, and is required by the reader",
        _UNREQUIRE,
    ),
    (
        _each(("OPTIONAL_PROPERTY", "REQUIRED_PROPERTY_WITH_DEFAULT"), "ADDED_TO_OPEN_CONTENT_MODEL"),
        _OPEN,
        "let the writer's schema have additionalProperties: false, or the policy be LENIENT",
    ),
    (
        ("REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",),
        f"{_OPEN}, or nothing",
        "do not require it, and let the writer's schema have additionalProperties: false",
    ),
    (("ITEM_ADDED_TO_OPEN_CONTENT_MODEL",), _OPEN, "let the writer's schema allow no further items"),
    (
        _each(_PARTS, "ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"),
        "the writer's schema for others applies to {what}, and the reader has another schema for it",
        "read what may have been written there",
    ),
    (
        _each(_PARTS, "REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"),
        "{what} is written, and does not fit the reader's schema for others",
        _DESCRIBE,
    ),
    (
        _each(_PARTS, "REMOVED_FROM_CLOSED_CONTENT_MODEL"),
        "{what} may be written, and the reader allows nothing that it does not describe",
        _DESCRIBE,
    ),
    (_each(_OTHERS, "REMOVED", "NARROWED"), _MORE, _KEEP_OUT),
    (
        _each(["DEPENDENCY_ARRAY"], "ADDED", "EXTENDED", "CHANGED"),
        "only the reader requires {more} beside {what}",
        _ASK_LESS,
    ),
    (("DEPENDENCY_SCHEMA_ADDED",), "only the reader has a schema for objects with {what}", "leave it out"),
    (("COMBINED_TYPE_CHANGED",), _TYPES, "keep {written}, or read anyOf"),
    (
        ("PRODUCT_TYPE_EXTENDED",),
        "{written} schemas must fit what is written, and {read} what is read",
        _ASK_LESS,
    ),
    (
        ("SUM_TYPE_NARROWED",),
        "the writer has {written} schemas, and the reader has {read}",
        "read by every one of them",
    ),
    (
        ("COMBINED_TYPE_SUBSCHEMAS_CHANGED",),
        "not every schema of the writer has one of the reader that reads it",
        "change each in a way that is compatible by itself",
    ),
    (
        ("NOT_TYPE_EXTENDED",),
        "the reader excludes other values than the writer",
        "exclude the writer's values, or fewer",
    ),
)
RULES = {name: (message, fix) for names, message, fix in _TABLE for name in names}
"""Name → message and fix."""


def problem(path: Path, rule: str, **values: object) -> Incompatibility:
    """A refused change. `values` fill in the message of the rule."""
    message, fix = RULES[rule]
    shown = {name: shortened(str(value), SHOWN) for name, value in values.items()}
    return Incompatibility(path, rule, message.format(**shown), fix.format(**shown))
