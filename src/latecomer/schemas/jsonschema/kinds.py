"""A schema as Confluent's registry sees it: of one kind, or a combination of others.

Confluent groups keywords by kind. A schema with keywords of several kinds is an `allOf` of one part for each:
`{"type": "string", "enum": ["a"]}` is a string and an enum. The rules compare kinds (`compatibility.py`).
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
"""Kind → the keywords that make a schema without `type` one of that kind."""
_UP_TO_07 = {"array": "additionalItems", "object": "dependencies", "string": "format"}
_SINCE_2019 = {
    "array": "prefixItems unevaluatedItems minContains maxContains",
    "object": "dependentRequired dependentSchemas unevaluatedProperties",
}
_BARE = Node()


@dataclass(eq=False)
class Shape:
    """A schema, or its keywords of one kind."""

    kind: str
    """A JSON type (number for integer), one of `COMBINED`, or enum, const, not, if, anything, nothing."""
    node: Node
    is_whole: bool = False
    """Whether numbers must be whole."""
    parts: list[Shape | Node] = field(default_factory=list)
    """The parts of a combination."""

    @property
    def name(self) -> str:
        """Its name in messages."""
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
    """The node behind references without other keywords. They end: the parser refuses cycles."""
    while node.ref is not None and (not node.is_recent or not _shapes(node)):
        node = node.ref
    return node


def _shape(node: Node) -> Shape:
    if node.source is False:
        return Shape("nothing", node)
    shapes = _shapes(node)
    if node.ref is not None:
        shapes.append(node.ref)
    match shapes:
        case []:
            return Shape("anything", node)
        case [Shape() as only]:
            return only
    return Shape("allOf", node, parts=shapes)


def _shapes(node: Node) -> list[Shape | Node]:
    words = node.source if isinstance(node.source, dict) else {}
    shapes: list[Shape | Node] = [Shape(kind, node) for kind in ("enum", "const", "not") if kind in words]
    for kind, parts in zip(COMBINED, (node.all_of, node.any_of, node.one_of), strict=True):
        if kind in words:
            shapes.append(Shape(kind, node, parts=[each for each in parts if each.step[0] == kind]))
    if node.condition is not None:
        shapes.append(Shape("if", node))
    return shapes + _typed(node, words)


def _typed(node: Node, words: dict[str, Any]) -> list[Shape | Node]:
    """The shapes of the types that are named, and of keywords of other types."""
    named = words.get("type", [])
    types = [named] if isinstance(named, str) else list(named)
    several = isinstance(named, list) and bool(named)
    typed: list[Shape | Node] = []
    # In later drafts several types share the keywords; in earlier ones each type has its own.
    bare = several and node.is_recent
    shapes = [_of_type(each, _BARE if bare else node) for each in types]
    typed += [Shape("anyOf", node, parts=list(shapes))] if several else shapes
    kinds_named = set() if bare else {each.kind for each in shapes}
    more = _SINCE_2019 if node.is_recent else _UP_TO_07
    for kind, known in _KEYWORDS.items():
        if kind not in kinds_named and words.keys() & f"{known} {more.get(kind, '')}".split():
            typed.append(Shape(kind, node))
    return typed


def _of_type(name: str, node: Node) -> Shape:
    return Shape("number" if name == "integer" else name, node, is_whole=name == "integer")


# Properties and items that a schema does not describe


class Content:
    """Other properties or items than those described: whether any value, those of a schema, or none are allowed."""

    def __init__(self, additional: Node | None, unevaluated: Node | None) -> None:
        self.is_closed = is_false(additional)
        self.schema = None if additional is None or isinstance(additional.source, bool) else additional
        self.unevaluated = unevaluated

    @property
    def other(self) -> Node | None:
        """The schema of the others, if they have one."""
        if self.schema is None and self.unevaluated is not None:
            return None if isinstance(self.unevaluated.source, bool) else self.unevaluated
        return self.schema

    @property
    def is_open(self) -> bool:
        return not self.is_closed and self.other is None and not is_false(self.unevaluated)


def is_false(node: Node | None) -> bool:
    return node is not None and node.source is False


def other_properties(node: Node) -> Content:
    found = {
        each.step[0]: each for each in (node.additional, node.unevaluated_properties) if each is not None
    }
    return Content(found.get("additionalProperties"), found.get("unevaluatedProperties"))


def other_items(node: Node) -> Content:
    found = {each.step[0]: each for each in (node.rest, node.unevaluated_items) if each is not None}
    items = None if every_item(node) is not None else found.get("items")
    return Content(node.additional_items or items, found.get("unevaluatedItems"))


def every_item(node: Node) -> Node | None:
    """The schema of all items. In later drafts `items: false` closes a list instead."""
    if node.rest is None or node.prefix or node.rest.step != ("items",):
        return None
    return None if node.is_recent and isinstance(node.rest.source, bool) else node.rest
