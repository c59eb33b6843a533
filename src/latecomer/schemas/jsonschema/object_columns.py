"""The columns of a JSON Schema: the properties of its objects, and their types.

    columns_of(schema)      column → type

A value without a type, or with several types, is a column of text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from latecomer.model.paths import DEEPEST
from latecomer.model.types import DEEPEST_NESTED, field_name, normal_type
from latecomer.schemas import SchemaError
from latecomer.schemas.jsonschema.nodes import NUMBERS, Node
from latecomer.schemas.jsonschema.parsing import Schema

MOST_FIELDS = 5_000
_PLAIN = {"string": "string", "boolean": "boolean", "integer": "bigint"}
_TEXT = "string"
_DIGITS, _MOST_SCALE = 18, 9
"""Digits of a decimal column, and how many of them may be behind the point."""
_NULL = frozenset(("null",))


def columns_of(schema: Schema) -> dict[str, str]:
    """The columns of a schema. A number that is a multiple of 0.01 is a decimal with two digits behind the point; any
    other is a double.

    >>> from latecomer.schemas.jsonschema.parsing import schema_of
    >>> price = {"type": "object", "properties": {"net": {"type": "number", "multipleOf": 0.01}}}
    >>> tags = {"type": "array", "items": {"type": "string"}}
    >>> columns_of(schema_of({"properties": {"id": {"type": "integer"}, "price": price, "tags": tags}}))
    {'id': 'bigint', 'price.net': 'decimal(18,2)', 'tags': 'array<string>'}
    """
    columns = dict(_Maker().columns(schema.root, "", frozenset()))
    if not columns:
        fix = "name the schema of an object with properties, or declare source.schema"
        raise SchemaError((), "has no property that could be a column", fix)
    return columns


def _digits_behind(number: Fraction) -> int:
    """How many digits a number has behind the point.

    >>> _digits_behind(Fraction(1, 40)), _digits_behind(Fraction(-300))
    (3, 0)
    """
    digits = 0
    while (number * 10**digits).denominator != 1:
        digits += 1
    return digits


class _Several(Exception):
    """A value may have several types: its column is text."""


@dataclass
class _Seen:
    """The constraints on a value, from a schema and those that it refers to."""

    types: frozenset[str]
    properties: dict[str, Node] = field(default_factory=dict)
    items: list[Node] = field(default_factory=list)
    values: list[Node] = field(default_factory=list)
    """The schemas of properties that are not named."""
    scales: list[int] = field(default_factory=list)
    is_one_of_several: bool = False
    """Whether it has several options (anyOf, oneOf), of which only the types are kept."""
    is_a_row: bool = False
    """Whether single items have their own schemas."""


def _seen(root: Node) -> _Seen:
    found, pending, done = _Seen(root.types), [root], set[int]()
    while pending:
        node = pending.pop()
        if id(node) in done:
            continue
        done.add(id(node))
        found.types &= node.own_types
        for name, each in node.properties.items():
            found.properties.setdefault(name, each)
        found.items += [node.rest] if node.rest is not None else []
        found.values += [node.additional] if node.additional is not None else []
        found.scales += [_digits_behind(each) for each in node.multiples]
        found.is_a_row |= bool(node.prefix)
        pending += [*([node.ref] if node.ref is not None else []), *node.all_of]
        for options in (node.any_of, node.one_of):
            others = [each for each in options if not each.own_types <= _NULL]
            if len(others) == 1:
                pending += others
            elif others:
                found.is_one_of_several = True
                found.types &= frozenset().union(*(_seen_types(each) for each in others))
    found.types -= _NULL
    return found


def _seen_types(node: Node, depth: int = 0) -> frozenset[str]:
    """The types that an option allows, through references."""
    inner = node.ref
    return (
        node.own_types if inner is None or depth > DEEPEST else node.own_types & _seen_types(inner, depth + 1)
    )


def _is_object(seen: _Seen) -> bool:
    return seen.types == {"object"} and bool(seen.properties) and not seen.is_one_of_several


class _Maker:
    """Goes through the objects of a schema. One that is used twice is gone through twice."""

    def __init__(self) -> None:
        self.looks_left = MOST_FIELDS

    def _looked_at(self, node: Node) -> _Seen:
        self.looks_left -= 1
        if self.looks_left < 0:
            fix = "name a schema with fewer fields, or declare source.schema"
            raise SchemaError((), f"has more than {MOST_FIELDS} fields, nested ones included", fix)
        return _seen(node)

    def columns(self, node: Node, around: str, above: frozenset[int]) -> Iterator[tuple[str, str]]:
        """The columns of an object; a recursive one is text."""
        inside = above | {id(node.behind_refs())}
        for name, each in self._looked_at(node).properties.items():
            seen = self._looked_at(each)
            if not name or not seen.types:  # no column can have the name, or it is always null
                continue
            leads_back = id(each.behind_refs()) in inside
            if _is_object(seen) and not leads_back and "." not in name and len(inside) < DEEPEST:
                yield from self.columns(each, f"{around}{name}.", inside)
            else:
                yield f"{around}{name}", self._kind(seen)

    def _kind(self, seen: _Seen) -> str:
        """The type of a column; text if no other type holds every value."""
        try:
            return normal_type(self._type(seen, 1))
        except (_Several, ValueError):  # names may differ only in case
            return _TEXT

    def _type(self, seen: _Seen, depth: int) -> str:
        if seen.types <= NUMBERS and "fraction" in seen.types:
            scale = min(filter(None, seen.scales), default=0)
            return f"decimal({_DIGITS},{scale})" if 0 < scale <= _MOST_SCALE else "double"
        if len(seen.types) == 1 and depth <= DEEPEST_NESTED:
            (only,) = seen.types
            if only in _PLAIN:
                return _PLAIN[only]
            if not seen.is_one_of_several:
                return self._nested(seen, only, depth)
        raise _Several

    def _nested(self, seen: _Seen, only: str, depth: int) -> str:
        if only == "array" and len(seen.items) == 1 and not seen.is_a_row:
            return f"array<{self._type(self._looked_at(seen.items[0]), depth + 1)}>"
        if only == "object" and seen.properties and depth > 1:
            fields = (
                f"{field_name(name)}:{self._type(self._looked_at(each), depth + 1)}"
                for name, each in seen.properties.items()
            )
            return f"struct<{','.join(fields)}>"
        if only == "object" and not seen.properties and len(seen.values) == 1:
            return f"map<string,{self._type(self._looked_at(seen.values[0]), depth + 1)}>"
        raise _Several
