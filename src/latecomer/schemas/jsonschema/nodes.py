"""A JSON Schema as a graph of nodes, whatever draft it was written in; and JSON values as it compares them.

A `Node` is one schema: its keywords, and the nodes within it. A reference points to the node itself, so a recursive
schema is a graph with cycles. A node does not change once its schema is parsed. 1 and 1.0 are equal values, and true
is no number.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from typing import Any

from latecomer.schemas.mistakes import DEEPEST_TYPE, Path, SchemaError, too_deep

ALL_TYPES = frozenset(("null", "boolean", "integer", "fraction", "string", "array", "object"))
"""Every value has one of these types. An integer is a number without a fraction, such as 1.0."""
NUMBERS = frozenset(("integer", "fraction"))
TYPES = {each: frozenset((each,)) for each in sorted(ALL_TYPES - {"fraction"})} | {"number": NUMBERS}
"""Type of a schema → the types of values."""
DEEPEST_VALUE = 100


class TooDeep(ValueError):
    """A value is nested too deeply to be compared."""


def type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "fraction"
        case Decimal():
            return "integer" if Fraction(value).denominator == 1 else "fraction"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    raise TypeError(f"{type(value).__name__} is no type of JSON")


def number_of(value: int | float | Decimal) -> Fraction:
    """A number as it is written: 0.1 is a tenth.

    >>> number_of(0.1), number_of(3)
    (Fraction(1, 10), Fraction(3, 1))
    """
    if isinstance(value, int | Decimal):
        return Fraction(value)
    return Fraction(Decimal(float.__repr__(value)))


def key_of(value: Any, depth: int = 0) -> Hashable:
    """A key that is the same for equal values only.

    >>> key_of([1, {"a": None}]) == key_of([1.0, {"a": None}]), key_of(1) == key_of(True)
    (True, False)
    """
    if depth > DEEPEST_VALUE:
        raise TooDeep
    match value:
        case None | bool() | str():
            return type(value).__name__, value
        case int() | float() | Decimal():
            return "number", number_of(value)
        case list():
            return "list", tuple([key_of(each, depth + 1) for each in value])
    return "object", frozenset([(name, key_of(each, depth + 1)) for name, each in value.items()])


def normal_text(value: Any) -> str:
    """The text of a schema that is the same for schemas that differ only in layout: without white space, sorted by key.

    >>> normal_text({"type": "string", "minLength": 1})
    '{"minLength":1,"type":"string"}'
    """
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Bound:
    """The least or largest number that is allowed, or the number beyond which all must be."""

    number: Fraction
    exclusive: bool = False


@dataclass(frozen=True)
class Value:
    """A value of an enum or const. Two are equal if they are equal for JSON Schema."""

    key: Hashable
    value: Any = field(compare=False)


@dataclass(eq=False, repr=False)
class Node:
    """One schema. The defaults are those of {}, which allows everything."""

    step: Path = ()
    """The path to it from the schema around it."""
    types: frozenset[str] = ALL_TYPES
    values: tuple[Value, ...] | None = None
    # numbers
    lower: Bound | None = None
    upper: Bound | None = None
    multiples: tuple[Fraction, ...] = ()
    # texts
    min_length: int = 0
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None
    # arrays
    min_items: int = 0
    max_items: int | None = None
    unique: bool = False
    prefix: tuple[Node, ...] = ()
    rest: Node | None = None
    additional_items: Node | None = None
    """`additionalItems` as it is written; it has no effect unless `items` is a list."""
    contains: Node | None = None
    # objects
    min_properties: int = 0
    max_properties: int | None = None
    required: frozenset[str] = frozenset()
    properties: dict[str, Node] = field(default_factory=dict)
    pattern_properties: dict[str, Node] = field(default_factory=dict)
    additional: Node | None = None
    names: Node | None = None
    dependent_required: dict[str, frozenset[str]] = field(default_factory=dict)
    dependent: dict[str, Node] = field(default_factory=dict)
    dependencies: str = "dependentRequired"
    """The keyword of the draft for `dependent_required`."""
    # schemas for the same value
    ref: Node | None = None
    all_of: tuple[Node, ...] = ()
    any_of: tuple[Node, ...] = ()
    one_of: tuple[Node, ...] = ()
    negated: Node | None = None
    condition: Node | None = None
    then: Node | None = None
    otherwise: Node | None = None
    # values that no other keyword has checked
    unevaluated_items: Node | None = None
    unevaluated_properties: Node | None = None
    source: Any = field(default_factory=dict)
    """The JSON that it was read from."""

    def parts(self) -> list[Node]:
        """Every node directly within this one, and the one that it refers to."""
        several = (*self.prefix, *self.properties.values(), *self.pattern_properties.values())
        single = (self.rest, self.additional, self.names, self.contains)
        unevaluated = (self.unevaluated_items, self.unevaluated_properties)
        return [*self.in_place(), *several, *filter(None, (*single, *unevaluated))]

    def in_place(self) -> list[Node]:
        """The nodes that check the same value as this one."""
        single = (self.ref, self.negated, self.condition, self.then, self.otherwise)
        several = (*self.all_of, *self.any_of, *self.one_of, *self.dependent.values())
        return [*filter(None, single), *several]

    def says_only(self, *allowed: str) -> bool:
        """Whether it has no keywords but these, by the names of the fields here. {} has none."""
        return all(getattr(self, name) == getattr(_EVERYTHING, name) for name in _SAID - {*allowed})

    @property
    def own_types(self) -> frozenset[str]:
        """The types that its own keywords allow."""
        if self.values is None:
            return self.types
        return self.types & {type_of(each.value) for each in self.values}

    @property
    def is_false(self) -> bool:
        return not self.types

    @property
    def is_recent(self) -> bool:
        """Whether its draft is 2019-09 or later."""
        return self.dependencies == "dependentRequired"

    def behind_refs(self) -> Node:
        """The node behind references: this one, if it is more than a reference."""
        node = self
        while node.ref is not None and node.says_only("ref"):
            node = node.ref
        return node


_EVERYTHING = Node()
_SAID = {*Node.__dataclass_fields__} - {"step", "source", "dependencies", "additional_items"}


def reachable(roots: Iterable[Node]) -> list[Node]:
    """Some nodes and every other that they lead to."""
    nodes = dict.fromkeys(roots)
    pending = list(nodes)
    while pending:
        new = [each for each in pending.pop().parts() if each not in nodes]
        nodes |= dict.fromkeys(new)
        pending += new
    return list(nodes)


def require_progress(places: Mapping[Path, Node]) -> None:
    """Refuse a node that needs itself for the same value, as it has no meaning, and too long chains of references."""
    # A dynamic reference has no place; nor has a node in whose place another one was read later.
    paths = {node: path for path, node in places.items()}
    heights: dict[Node, int] = {}
    graph = TopologicalSorter({each: each.in_place() for each in reachable(paths)})
    try:
        for node in graph.static_order():
            heights[node] = 1 + max((heights[each] for each in node.in_place()), default=0)
            if heights[node] > DEEPEST_TYPE:
                raise too_deep(paths.get(node, ()))
    except CycleError as error:
        path = min((paths[each] for each in error.args[1] if each in paths), key=len, default=())
        fix = "refer to a schema that does not lead back here, or only from within a property or an item"
        raise SchemaError(path, "refers to itself without end", fix) from None
