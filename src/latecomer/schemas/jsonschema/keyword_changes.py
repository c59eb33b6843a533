"""Changes of the keywords that stand for themselves: types, limits, patterns, multiples and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from latecomer.schemas.jsonschema.keywords import keyed_value
from latecomer.schemas.jsonschema.kinds import Shape
from latecomer.schemas.jsonschema.rules import problem
from latecomer.schemas.jsonschema.values import number_of
from latecomer.schemas.mistakes import Incompatibility, listed, shown_value

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
