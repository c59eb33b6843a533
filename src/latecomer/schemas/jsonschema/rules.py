"""The rules of Confluent's registry by name: the message when one is broken, and the fix."""

from __future__ import annotations

from latecomer.errors import shortened
from latecomer.schemas.mistakes import SHOWN, Incompatibility, Path

_LIMITS = ("MAXIMUM", "EXCLUSIVE_MAXIMUM", "MAX_LENGTH", "MAX_ITEMS", "MAX_CONTAINS", "MAX_PROPERTIES")
_MORE = "the writer may write more than it describes, and the reader has {word}"
_DESCRIBE = "describe {what} in the reader's schema too"
_OPEN = "the writer says nothing of {what}, so anything may have been written there"
_KEEP_OUT = "leave {word} out"
_UNREQUIRE = "do not require it, or give it a default"
_ASK_LESS = "ask for no more than the writer"

_TABLE: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("TYPE_CHANGED", "TYPE_NARROWED"), "{written} is written, and {read} is read", "read {written}"),
    (("SCHEMA_ADDED",), "any item may be written, and the reader has a schema for them", _KEEP_OUT),
    (
        ("ENUM_ARRAY_NARROWED", "ENUM_ARRAY_CHANGED"),
        "{lost} may be written, and is not read",
        "read every value that is written",
    ),
    (
        tuple(f"{each.replace('MAX', end)}_ADDED" for each in _LIMITS for end in ("MAX", "MIN")),
        "the writer has no {word}, and the reader has {read}",
        _KEEP_OUT,
    ),
    (
        tuple(f"{each}_DECREASED" for each in _LIMITS),
        "it is {written} for the writer, and {read} for the reader",
        "read with {written} or more",
    ),
    (
        tuple(f"{each.replace('MAX', 'MIN')}_INCREASED" for each in _LIMITS),
        "it is {written} for the writer, and {read} for the reader",
        "read with {written} or less",
    ),
    (("PATTERN_ADDED",), "the writer has no {word}, and the reader has {read}", _KEEP_OUT),
    (
        ("PATTERN_CHANGED",),
        "it is {written} for the writer, and {read} for the reader",
        "keep it, or leave it out",
    ),
    (
        ("MULTIPLE_OF_ADDED",),
        "numbers of every kind are written, and multiples of {read} are read",
        _KEEP_OUT,
    ),
    (
        ("MULTIPLE_OF_CHANGED", "MULTIPLE_OF_EXPANDED"),
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
        tuple(
            f"{each}_ADDED_TO_OPEN_CONTENT_MODEL"
            for each in ("OPTIONAL_PROPERTY", "REQUIRED_PROPERTY_WITH_DEFAULT")
        ),
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
        tuple(f"{each}_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL" for each in ("PROPERTY", "ITEM")),
        "the writer's schema for others applies to {what}, and the reader has another schema for it",
        "read what may have been written there",
    ),
    (
        tuple(f"{each}_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL" for each in ("PROPERTY", "ITEM")),
        "{what} is written, and does not fit the reader's schema for others",
        _DESCRIBE,
    ),
    (
        tuple(f"{each}_REMOVED_FROM_CLOSED_CONTENT_MODEL" for each in ("PROPERTY", "ITEM")),
        "{what} may be written, and the reader allows nothing that it does not describe",
        _DESCRIBE,
    ),
    (
        tuple(
            f"{each}_{what}_{change}"
            for each in ("ADDITIONAL", "UNEVALUATED")
            for what in ("PROPERTIES", "ITEMS")
            for change in ("REMOVED", "NARROWED")
        ),
        _MORE,
        _KEEP_OUT,
    ),
    (
        tuple(f"DEPENDENCY_ARRAY_{each}" for each in ("ADDED", "EXTENDED", "CHANGED")),
        "only the reader requires {more} beside {what}",
        _ASK_LESS,
    ),
    (("DEPENDENCY_SCHEMA_ADDED",), "only the reader has a schema for objects with {what}", "leave it out"),
    (("COMBINED_TYPE_CHANGED",), "{written} is written, and {read} is read", "keep {written}, or read anyOf"),
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
