"""The rules of Confluent's registry by name: the message when one is broken, and the fix. Among them the changes of the
keywords that stand for themselves: types, limits, patterns, multiples and values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from latecomer.errors import shortened
from latecomer.schemas.jsonschema.keywords import keyed_value
from latecomer.schemas.jsonschema.kinds import Shape
from latecomer.schemas.jsonschema.nodes import number_of
from latecomer.schemas.mistakes import SHOWN, Incompatibility, Path, listed, shown_value

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


# Single keywords

_LIMITS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "string": (("maxLength", "MAX_LENGTH"), ("minLength", "MIN_LENGTH")),
    "number": (
        ("maximum", "MAXIMUM"),
        ("minimum", "MINIMUM"),
        ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
        ("exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
    ),
    "array": (
        ("maxItems", "MAX_ITEMS"),
        ("minItems", "MIN_ITEMS"),
        ("maxContains", "MAX_CONTAINS"),
        ("minContains", "MIN_CONTAINS"),
    ),
    "object": (("maxProperties", "MAX_PROPERTIES"), ("minProperties", "MIN_PROPERTIES")),
}


def changed_keywords(writer: Shape, reader: Shape) -> Iterator[Incompatibility]:
    """The refused changes of limits, patterns, multiples and values between two shapes of one kind."""
    for keyword, stem in _LIMITS.get(writer.kind, ()):
        yield from _limit(keyword, stem, writer.words.get(keyword), reader.words.get(keyword))
    match writer.kind:
        case "string":
            yield from _pattern(writer.words.get("pattern"), reader.words.get("pattern"))
        case "number":
            yield from _numbers(writer, reader)
        case "enum" | "const":
            yield from _values(writer.kind, writer.words, reader.words)


def changed_type(rule: str, writer: Shape, reader: Shape) -> Incompatibility:
    return problem((), rule, written=writer.name, read=reader.name)


def _limit(keyword: str, stem: str, written: Any, read: Any) -> Iterator[Incompatibility]:
    """Compare a limit. One that is no number does not count: exclusive limits of draft-04 are flags."""
    if not _is_number(read):
        return
    values = {"written": shown_value(written), "read": shown_value(read), "word": keyword}
    is_least = "min" in keyword.lower()
    if not _is_number(written):
        yield problem((keyword,), f"{stem}_ADDED", **values)
    elif number_of(read) > number_of(written) if is_least else number_of(read) < number_of(written):
        yield problem((keyword,), f"{stem}_{'INCREASED' if is_least else 'DECREASED'}", **values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _pattern(written: Any, read: Any) -> Iterator[Incompatibility]:
    if read is not None and read != written:
        values = {"written": shown_value(written), "read": shown_value(read), "word": "pattern"}
        yield problem(("pattern",), "PATTERN_ADDED" if written is None else "PATTERN_CHANGED", **values)


def _numbers(writer: Shape, reader: Shape) -> Iterator[Incompatibility]:
    written, read = writer.words.get("multipleOf"), reader.words.get("multipleOf")
    if read is not None and (written is None or number_of(written) % number_of(read)):
        grown = written is not None and not number_of(read) % number_of(written)
        change = "ADDED" if written is None else "EXPANDED" if grown else "CHANGED"
        values = {"written": shown_value(written), "read": shown_value(read), "word": "multipleOf"}
        yield problem(("multipleOf",), f"MULTIPLE_OF_{change}", **values)
    if reader.is_whole and not writer.is_whole:
        yield changed_type("TYPE_NARROWED", writer, reader)


def _values(kind: str, writer: Mapping[str, Any], reader: Mapping[str, Any]) -> Iterator[Incompatibility]:
    old, new = (
        dict.fromkeys(
            keyed_value(each, (kind,)) for each in (words[kind] if kind == "enum" else [words[kind]])
        )
        for words in (writer, reader)
    )
    lost = [shown_value(each.value) for each in old if each not in new]
    if lost:
        narrowed = kind == "enum" and new.keys() <= old.keys()
        yield problem((kind,), f"ENUM_ARRAY_{'NARROWED' if narrowed else 'CHANGED'}", lost=listed(lost))
