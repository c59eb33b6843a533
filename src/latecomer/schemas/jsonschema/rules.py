"""The rules of Confluent's registry, by its names: what people read where one is broken, and what would pass."""

from __future__ import annotations

from latecomer.errors import shortened
from latecomer.schemas.mistakes import SHOWN, Incompatibility, Path

_LIMITS = ("MAXIMUM", "EXCLUSIVE_MAXIMUM", "MAX_LENGTH", "MAX_ITEMS", "MAX_CONTAINS", "MAX_PROPERTIES")
_MORE = "more may be written than is described, and the reader has {word}"
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
        "{what} was written by what the writer says of others, and is read by another schema",
        "read what may have been written there",
    ),
    (
        tuple(f"{each}_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL" for each in ("PROPERTY", "ITEM")),
        "{what} is written, and does not fit what the reader says of others",
        _DESCRIBE,
    ),
    (
        tuple(f"{each}_REMOVED_FROM_CLOSED_CONTENT_MODEL" for each in ("PROPERTY", "ITEM")),
        "{what} may be written, and the reader takes nothing that it does not describe",
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
        "{more} must stand beside {what} for the reader alone",
        _ASK_LESS,
    ),
    (("DEPENDENCY_SCHEMA_ADDED",), "the reader alone has a schema for what has {what}", "leave it out"),
    (("COMBINED_TYPE_CHANGED",), "{written} is written, and {read} is read", "keep {written}, or read anyOf"),
    (
        ("PRODUCT_TYPE_EXTENDED",),
        "{written} schemas must fit what is written, and {read} what is read",
        _ASK_LESS,
    ),
    (
        ("SUM_TYPE_NARROWED",),
        "there are {written} schemas to write by, and {read} to read by",
        "read by every one of them",
    ),
    (
        ("COMBINED_TYPE_SUBSCHEMAS_CHANGED",),
        "not every schema to write by has one of its own that reads it",
        "change each in a way that is compatible by itself",
    ),
    (("NOT_TYPE_EXTENDED",), "other values are excluded than before", "exclude what was excluded, or less"),
)
RULES = {name: (message, fix) for names, message, fix in _TABLE for name in names}
"""Name → what is wrong, and what would pass."""


def problem(path: Path, rule: str, **values: object) -> Incompatibility:
    """A change that is refused. `values` fill the sentence of the rule."""
    message, fix = RULES[rule]
    shown = {name: shortened(str(value), SHOWN) for name, value in values.items()}
    return Incompatibility(path, rule, message.format(**shown), fix.format(**shown))
