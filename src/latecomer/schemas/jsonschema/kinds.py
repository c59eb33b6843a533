"""A schema as Confluent's registry sees it: of one kind, or a combination of others.

Confluent divides the keywords of a schema by what they are about. A schema that has more than one kind of them is an
`allOf` of one each: `{"type": "string", "enum": ["a"]}` is a string and an enum. Its rules compare kinds
(`changes.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from latecomer.schemas.jsonschema.nodes import Node

COMBINED = ("allOf", "anyOf", "oneOf")
_KEYWORDS: Mapping[str, str] = {
    "array": "items minItems maxItems uniqueItems contains",
    "object": "properties required minProperties maxProperties patternProperties additionalProperties propertyNames",
    "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    "string": "minLength maxLength pattern",
}
"""Which keywords make a schema one of a kind, where it names no type."""
_UP_TO_07 = {"array": "additionalItems", "object": "dependencies", "string": "format"}
_SINCE_2019 = {
    "array": "prefixItems unevaluatedItems minContains maxContains",
    "object": "dependentRequired dependentSchemas unevaluatedProperties",
}
_BARE = Node()


@dataclass(eq=False)
class Shape:
    """A schema, or those of its keywords that are about one kind of thing."""

    kind: str
    """A type of JSON (integer is a number), one of `COMBINED`, or enum, const, not, if, anything, nothing."""
    node: Node
    is_whole: bool = False
    """Whether numbers must be whole."""
    parts: list[Shape | Node] = field(default_factory=list)
    """What a combination combines."""

    @property
    def name(self) -> str:
        """What people call it."""
        if self.kind in (*COMBINED, "enum", "const", "not", "if"):
            return f"what {self.kind} allows"
        return "integer" if self.is_whole else self.kind

    @property
    def words(self) -> dict[str, Any]:
        """The keywords as they are written."""
        return self.node.source if isinstance(self.node.source, dict) else {}


class Shapes:
    """The shapes of nodes, each made once."""

    def __init__(self) -> None:
        self._known: dict[Node, Shape] = {}

    def of(self, schema: Node | Shape) -> Shape:
        if isinstance(schema, Shape):
            return schema
        node = _referred(schema)
        if node not in self._known:
            self._known[node] = _shape(node)
        return self._known[node]


def _referred(node: Node) -> Node:
    """The node behind references that stand alone. That they end was seen to when the schema was read."""
    while node.ref is not None and (not node.is_recent or not _shapes(node)):
        node = node.ref
    return node


def _shape(node: Node) -> Shape:
    if node.source is False:
        return Shape("nothing", node)
    found = _shapes(node)
    if node.ref is not None:
        found.append(node.ref)
    match found:
        case []:
            return Shape("anything", node)
        case [Shape() as only]:
            return only
    return Shape("allOf", node, parts=found)


def _shapes(node: Node) -> list[Shape | Node]:
    words = node.source if isinstance(node.source, dict) else {}
    found: list[Shape | Node] = [Shape(kind, node) for kind in ("enum", "const", "not") if kind in words]
    for kind, parts in zip(COMBINED, (node.all_of, node.any_of, node.one_of), strict=True):
        if kind in words:
            found.append(Shape(kind, node, parts=[each for each in parts if each.step[0] == kind]))
    if node.condition is not None:
        found.append(Shape("if", node))
    return found + _typed(node, words)


def _typed(node: Node, words: dict[str, Any]) -> list[Shape | Node]:
    """Shapes by types, and by keywords of types that are not named."""
    named = words.get("type", [])
    types = [named] if isinstance(named, str) else list(named)
    several = isinstance(named, list) and bool(named)
    found: list[Shape | Node] = []
    # In later drafts the keywords stand beside several types; in earlier ones each type has its own.
    bare = several and node.is_recent
    shapes = [_of_type(each, _BARE if bare else node) for each in types]
    found += [Shape("anyOf", node, parts=list(shapes))] if several else shapes
    taken = set() if bare else {each.kind for each in shapes}
    more = _SINCE_2019 if node.is_recent else _UP_TO_07
    for kind, known in _KEYWORDS.items():
        if kind not in taken and words.keys() & f"{known} {more.get(kind, '')}".split():
            found.append(Shape(kind, node))
    return found


def _of_type(name: str, node: Node) -> Shape:
    return Shape("number" if name == "integer" else name, node, is_whole=name == "integer")
