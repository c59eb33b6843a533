"""Which schemas can be checked exactly by conditions in SQL (ADR 0059), and why others cannot."""

from __future__ import annotations

from fractions import Fraction

from latecomer.model.jsonschema.nodes import Node
from latecomer.model.jsonschema.parsing import Schema
from latecomer.model.jsonschema.plain_patterns import NotPlain, plain_pattern
from latecomer.model.jsonschema.values import NUMBERS, number_of, type_of
from latecomer.model.schemas.mistakes import Path, SchemaError
from latecomer.model.types import MOST_DIGITS

MOST_NODES = 2000
"""A condition of more takes Spark too long to plan."""
MOST_DIGITS_OF_A_DIVISOR = 18
DEEPEST = 60
_FIX = "leave it out of the schema, or write validate: false to take only the ids"


def require_checkable(schema: Schema) -> None:
    """Refuse a schema with a rule that cannot be checked exactly.

    >>> from latecomer.model.jsonschema.parsing import schema_of
    >>> require_checkable(schema_of({"properties": {"a": {"enum": [[1]]}}}))
    Traceback (most recent call last):
    latecomer.model.schemas.mistakes.SchemaError: properties.a: has enum or const with a list or an object, which is \
not checked; leave it out of the schema, or write validate: false to take only the ids
    """
    _Walk().into(schema.root, ())


def decimal_parts(number: Fraction) -> tuple[int, int]:
    """A number as a whole number and how many digits of it are behind the point.

    >>> decimal_parts(Fraction(1, 40)), decimal_parts(Fraction(-300))
    ((25, 3), (-300, 0))
    """
    digits = 0
    while (number * 10**digits).denominator != 1:
        digits += 1
    return int(number * 10**digits), digits


class _Walk:
    """Goes through a schema as its condition does: what is referred to twice is there twice."""

    def __init__(self) -> None:
        self.seen, self.around = 0, set[int]()

    def into(self, node: Node, path: Path) -> None:
        self.seen += 1
        if self.seen > MOST_NODES:
            raise SchemaError(
                (), f"has more than {MOST_NODES} rules, references counted as often as used", _FIX
            )
        if id(node) in self.around:
            raise _refused(path, "refers to itself")
        if len(self.around) > DEEPEST:
            raise _refused(path, f"is more than {DEEPEST} schemas deep")
        for what in _problems(node):
            raise _refused(path, what)
        self.around.add(id(node))
        for label, each in node.parts():
            self.into(each, (*path, "$ref") if label == "ref" else (*path, *each.step))
        self.around.discard(id(node))


def _refused(path: Path, what: str) -> SchemaError:
    return SchemaError(path[-20:], f"{what}, which is not checked", _FIX)


def _problems(node: Node) -> list[str]:
    found = []
    values = [each.value for each in node.values or ()]
    if any(isinstance(each, list | dict) for each in values):
        found.append("has enum or const with a list or an object")
    numbers = [Fraction(each.number) for each in (node.lower, node.upper) if each is not None]
    numbers += [number_of(each) for each in values if type_of(each) in NUMBERS]
    if any(_is_long(each) for each in numbers):
        found.append(f"has a number of more than {MOST_DIGITS} digits before or behind the point")
    for whole, digits in map(decimal_parts, node.multiples):
        if max(len(str(whole)), digits) > MOST_DIGITS_OF_A_DIVISOR:
            found.append(f"has a multipleOf of more than {MOST_DIGITS_OF_A_DIVISOR} digits")
    if node.pattern is not None:
        try:
            plain_pattern(node.pattern)
        except NotPlain as error:
            found.append(f"has the pattern {node.pattern[:60]} with {error}")
    if node.unique and not _only_texts(node):
        found.append("has uniqueItems of items that are not all of the type string")
    for there, name in (
        (node.pattern_properties, "patternProperties"),
        (node.names, "propertyNames"),
        (node.unevaluated_items, "unevaluatedItems"),
        (node.unevaluated_properties, "unevaluatedProperties"),
    ):
        if there:
            found.append(f"has {name}")
    return found


def _is_long(number: Fraction) -> bool:
    whole = abs(number.numerator) // number.denominator
    if whole >= 10**MOST_DIGITS:
        return True
    return bool((number * 10**MOST_DIGITS).denominator != 1)


def _only_texts(node: Node) -> bool:
    items = (*node.prefix, *([node.rest] if node.rest is not None else []))
    return node.rest is not None and all(each.behind_refs().types == {"string"} for each in items)
