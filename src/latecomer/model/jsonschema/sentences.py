"""What people read of schemas that do not fit: the rule, a sentence, and what would pass."""

from __future__ import annotations

from fractions import Fraction

from latecomer.model.jsonschema.facts import Case, Facts
from latecomer.model.jsonschema.nodes import Bound, Node, Value
from latecomer.model.jsonschema.rules import Incompatibility, Rule
from latecomer.model.jsonschema.values import ALL_TYPES, written_types
from latecomer.model.schemas.mistakes import Path, listed, shown_value

_SIZES = {
    "length": ("characters", "LENGTH"),
    "items": ("items", "ITEMS"),
    "properties": ("properties", "PROPERTIES"),
}


def _types(types: frozenset[str]) -> str:
    return "anything" if types == ALL_TYPES else listed(written_types(types), " or ")


def wrong_type(reader: Node, written: frozenset[str]) -> Incompatibility:
    if reader.is_false:
        message = f"{_types(written)} may be written, and nothing is read"
        return Incompatibility(
            (), Rule.TYPE_CHANGED, message, "describe in the reader's schema what is written"
        )
    rule = Rule.TYPE_NARROWED if written & reader.types else Rule.TYPE_CHANGED
    message = f"{_types(written)} may be written, and {_types(reader.types)} is read"
    return Incompatibility(("type",), rule, message, f"read {_types(written | reader.types)}")


def refused_values(values: list[Value], why: str) -> Incompatibility:
    shown = listed([shown_value(each.value) for each in values])
    message = f"{shown} may be written, and the reader refuses it{why}"
    return Incompatibility(
        (), Rule.ENUM_ARRAY_NARROWED, message, "let the reader take every value that is written"
    )


def only_values(reader: Node, written: frozenset[str]) -> Incompatibility:
    shown = listed([shown_value(each.value) for each in reader.values or ()])
    message = f"any {_types(written)} may be written, and only {shown} is read"
    return Incompatibility(
        ("enum",), Rule.ENUM_ARRAY_CHANGED, message, "list the values in the writer's schema too"
    )


def bound(kind: str, reader: Bound, writer: Bound | None) -> Incompatibility:
    """`kind` is minimum or maximum."""
    is_lower = kind == "minimum"
    keyword, rule, word = kind, kind.upper(), "at least" if is_lower else "at most"
    if reader.exclusive:
        keyword, rule, word = (
            f"exclusive{kind.capitalize()}",
            f"EXCLUSIVE_{rule}",
            "above" if is_lower else "below",
        )
    if writer is None:
        before, fix, change = "any number", f"leave {keyword} out", "ADDED"
    else:
        limit = _number(writer.number)
        before, fix = f"numbers {'from' if is_lower else 'up to'} {limit}", f"keep {limit}"
        change = "INCREASED" if is_lower else "DECREASED"
    message = f"{before} may be written, and numbers {word} {_number(reader.number)} are read"
    return Incompatibility((keyword,), Rule(f"{rule}_{change}"), message, fix)


def _number(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else str(float(number))


def multiple(reader: Fraction, facts: Facts) -> Incompatibility:
    before = listed([_number(each) for each in sorted(facts.multiples)]) if facts.multiples else ""
    rule = Rule.MULTIPLE_OF_CHANGED if before else Rule.MULTIPLE_OF_ADDED
    what = f"multiples of {before}" if before else "numbers of every kind"
    message = f"{what} may be written, and only multiples of {_number(reader)} are read"
    fix = f"use a number that {before} is a multiple of" if before else "leave multipleOf out"
    return Incompatibility(("multipleOf",), rule, message, fix)


def too_few(kind: str, wanted: int, written: int) -> Incompatibility:
    """`kind` is length, items or properties."""
    what, name = _SIZES[kind]
    keyword = f"min{kind.capitalize()}"
    rule = Rule(f"MIN_{name}_{'INCREASED' if written else 'ADDED'}")
    message = f"{written} {what} may be written, and at least {wanted} are read"
    return Incompatibility((keyword,), rule, message, f"use {keyword} {written}")


def too_many(kind: str, wanted: int, written: int | None) -> Incompatibility:
    what, name = _SIZES[kind]
    keyword = f"max{kind.capitalize()}"
    rule = Rule(f"MAX_{name}_{'ADDED' if written is None else 'DECREASED'}")
    before = f"any number of {what}" if written is None else f"{written} {what}"
    message = f"{before} may be written, and at most {wanted} are read"
    fix = f"leave {keyword} out" if written is None else f"use {keyword} {written}"
    return Incompatibility((keyword,), rule, message, fix)


def other_text(keyword: str, reader: str, writer: frozenset[str]) -> Incompatibility:
    """`keyword` is pattern or format."""
    rule = Rule(f"{keyword.upper()}_{'CHANGED' if writer else 'ADDED'}")
    before = (
        f"with the {keyword} {listed(sorted(map(shown_value, writer)))}" if writer else f"without a {keyword}"
    )
    message = f"texts {before} may be written, and those with {shown_value(reader)} are read"
    fix = f"keep the {keyword}" if writer else f"leave {keyword} out"
    return Incompatibility((keyword,), rule, f"{message}; two {keyword}s are compared as texts", fix)


def not_unique() -> Incompatibility:
    message = "an item may be written twice, and each is read once"
    return Incompatibility(("uniqueItems",), Rule.UNIQUE_ITEMS_ADDED, message, "leave uniqueItems out")


def contains(keyword: str) -> Incompatibility:
    message = "the writer's schema does not promise the items that the reader's schema counts"
    fix = f"keep contains and {keyword} as the writer has them, or leave them out"
    return Incompatibility((keyword,), Rule.CONTAINS_CHANGED, message, fix)


def item(reader: Node, case: Case, index: int | None) -> Incompatibility | None:
    """A problem with items that is better reported here than by what they hold."""
    which = "further items" if index is None else f"an item at {index}"
    if reader.is_false:
        rule = Rule.ADDITIONAL_ITEMS_REMOVED if index is None else Rule.ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL
        return Incompatibility(
            (), rule, f"{which} may be written, and none is read", "let the reader take it"
        )
    if case.fits:
        return None
    rule = Rule.ADDITIONAL_ITEMS_NARROWED if index is None else Rule.ITEM_ADDED_TO_OPEN_CONTENT_MODEL
    message = f"{which} may be written with anything in it, and the reader asks for more"
    return Incompatibility((), rule, message, "read anything there: write {} instead of a schema")


def missing(name: str, facts: Facts) -> Incompatibility:
    known = any(name in node.properties for node in facts.nodes)
    before = "need not be written" if known else "is not described in the writer's schema"
    message = (
        f"the property {shown_value(name)} {before}, and is required to read; no default is ever filled in"
    )
    return Incompatibility(
        ("required",),
        Rule.REQUIRED_ATTRIBUTE_ADDED,
        message,
        "make it optional, or require it of the writer first",
    )


def open_property(path: Path, name: str) -> Incompatibility:
    message = f"anything may be written as {shown_value(name)}: the writer's schema is open and does not describe it"
    fix = (
        "describe it as {}; a property can be added where the writer's schema has additionalProperties false"
    )
    return Incompatibility(path, Rule.PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL, message, fix)


def closed_property(path: Path, name: str) -> Incompatibility:
    message = f"the property {shown_value(name)} may be written, and the reader's schema does not allow it"
    fix = "keep it in the reader's schema, or allow additionalProperties"
    return Incompatibility(path, Rule.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL, message, fix)


def other_properties(path: Path, reader: Node, case: Case, which: str) -> Incompatibility | None:
    if reader.is_false:
        message = f"{which} may be written, and the reader's schema does not allow them"
        return Incompatibility(
            path, Rule.ADDITIONAL_PROPERTIES_REMOVED, message, "allow them in the reader's schema"
        )
    if case.fits:
        return None
    message = f"{which} may be written with anything in them, and the reader asks for more"
    fix = "leave the schema of additionalProperties out"
    return Incompatibility(path, Rule.ADDITIONAL_PROPERTIES_NARROWED, message, fix)


def pattern_properties(path: Path, pattern: str) -> Incompatibility:
    message = f"properties that fit {shown_value(pattern)} may be written with anything in them"
    fix = "keep patternProperties as the writer has them; two patterns are compared as texts"
    return Incompatibility(path, Rule.PATTERN_PROPERTY_ADDED, message, fix)


def dependency(path: Path, name: str, absent: list[str], extended: bool) -> Incompatibility:
    rule = Rule.DEPENDENCY_ARRAY_EXTENDED if extended else Rule.DEPENDENCY_ARRAY_ADDED
    message = f"{shown_value(name)} may be written without {listed(list(map(shown_value, absent)))}, and is not read so"
    return Incompatibility(path, rule, message, "require no more than the writer does")


def no_branch(keyword: str, facts: Facts, reason: Incompatibility | None) -> Incompatibility:
    message = f"{_types(facts.types)} may be written, and no branch of the reader's {keyword} can be shown to read it"
    fix = "keep the branch as the writer has it, or add one"
    if reason is not None:
        message = f"{message}: {reason}"
    return Incompatibility((keyword,), Rule.SUM_TYPE_NARROWED, message, fix)


def overlapping(path: Path, other: str) -> Incompatibility:
    message = f"a value of this branch may fit {other} of the reader too, and oneOf allows one"
    fix = "use anyOf, or tell the branches apart by type or by a required property with a const"
    return Incompatibility(path, Rule.ONE_OF_OVERLAPS, message, fix)


def excluded() -> Incompatibility:
    message = "the reader excludes something that cannot be shown to be never written"
    fix = "exclude it in the writer's schema in the same words, or leave not out"
    return Incompatibility((), Rule.NOT_TYPE_EXTENDED, message, fix)


def unevaluated(keyword: str) -> Incompatibility:
    message = (
        f"{keyword} beside references or combinations is compared in equal schemas alone, and these differ"
    )
    fix = "write it with additionalProperties or items instead, or keep this schema as the writer has it"
    return Incompatibility((keyword,), Rule.UNEVALUATED_CHANGED, message, fix)
