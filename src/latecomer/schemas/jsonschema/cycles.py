"""Refuses references that return to themselves for the same value: such a schema has no meaning."""

from __future__ import annotations

from collections.abc import Mapping

from latecomer.schemas.jsonschema.nodes import Node
from latecomer.schemas.mistakes import DEEPEST_TYPE, Path, SchemaError, too_deep


def require_progress(places: Mapping[Path, Node]) -> None:
    """Refuse a node that needs itself for the same value, and chains of references that are too long."""
    heights: dict[int, int | None] = {}
    for path, root in places.items():
        stack = [(root, False)]
        while stack:
            node, done = stack.pop()
            inner = [each for _, each in node.in_place()]
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
