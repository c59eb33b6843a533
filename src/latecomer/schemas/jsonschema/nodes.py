"""A JSON Schema as a graph of nodes, whatever draft it was written in.

A `Node` is one schema: its keywords, and the nodes within it. A reference points to the node itself, so a recursive
schema is a graph with cycles. A node does not change once its schema is parsed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from latecomer.schemas.jsonschema.values import ALL_TYPES, type_of
from latecomer.schemas.mistakes import DEEPEST_TYPE, Path, SchemaError, too_deep


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


def reachable(root: Node) -> list[Node]:
    """A node and every other that it leads to."""
    nodes, pending = {id(root): root}, [root]
    while pending:
        for each in pending.pop().parts():
            if id(each) not in nodes:
                nodes[id(each)] = each
                pending.append(each)
    return list(nodes.values())


def require_progress(places: Mapping[Path, Node]) -> None:
    """Refuse a node that needs itself for the same value, as it has no meaning, and too long chains of references."""
    heights: dict[int, int | None] = {}
    for path, root in places.items():
        stack = [(root, False)]
        while stack:
            node, done = stack.pop()
            inner = node.in_place()
            if done:
                heights[id(node)] = height = 1 + max([heights[id(each)] or 0 for each in inner], default=0)
                if height > DEEPEST_TYPE:
                    raise too_deep(path)
            elif id(node) not in heights:
                heights[id(node)] = None
                stack.append((node, True))
                stack.extend((each, False) for each in inner)
                if any(heights.get(id(each), 0) is None for each in inner):
                    fix = "refer to a schema that does not lead back here, or only from within a property or an item"
                    raise SchemaError(path, "refers to itself without end", fix)
