"""What checking a value by a schema may cost: so that no schema keeps a task busy, or fills its stack.

The library of validation has no limit of its own. A value may be looked at by many schemas at once, and each of its
values by more, so a few references are enough for years of work. Here is counted how many rules look at one value, at
each depth, in the worst case.
"""

from __future__ import annotations

from dataclasses import dataclass

from latecomer.schemas.jsonschema import patterns
from latecomer.schemas.jsonschema.nodes import Node, reachable
from latecomer.schemas.mistakes import SchemaError, Work

DEEPEST_CHECK = 150
"""How deep values may be. With a hundred schemas in a row for each, as deep as they may be, the library's stack is
filled to a third."""
MOST_COST = 20_000
"""Rules that may look at one value. More would take the library seconds to name what is wrong."""
_LEAST_DEPTH = 3
"""A schema that costs too much for values of less depth is refused."""
_MOST_WORK = 2_000_000
_UNEVALUATED = 4
"""As often the library looks at what stands beside `unevaluatedProperties`, for each that is around it."""


@dataclass(frozen=True)
class _Parts:
    """A node by the numbers of the nodes that it leads to."""

    own: int
    times: int
    in_place: list[int]
    properties: list[int]
    of_objects: list[int]
    items: list[int]
    of_arrays: list[int]


def costs_of(root: Node) -> list[int]:
    """How many rules may look at one value, for each depth at which it may be, as deep as it may be. Raises SchemaError
    if they are too many, or a pattern is not run.

    >>> from latecomer.schemas.jsonschema.parsing import schema_of
    >>> costs_of(schema_of({"properties": {"a": {"anyOf": [{"type": "null"}, {"minimum": 0}]}}}).root)[:3]
    [1, 3, 0]
    """
    work = Work("check values by", _MOST_WORK)
    nodes = _in_order(root)
    number = {id(each): nth for nth, each in enumerate(nodes)}
    parts = [_parts(each, number) for each in nodes]
    top = number[id(root)]
    below: list[int] = []
    found: list[int] = []
    while len(found) <= DEEPEST_CHECK:
        work.spend(len(nodes))
        costs: list[int] = []
        for part in parts:
            cost = _inside(part, below) if below else part.own
            cost += part.times * sum(costs[each] for each in part.in_place)
            costs.append(min(cost, MOST_COST + 1))
        if costs[top] > MOST_COST:
            break
        if costs == below:
            return found + [costs[top]] * (DEEPEST_CHECK + 1 - len(found))
        found.append(costs[top])
        below = costs
    if len(found) <= _LEAST_DEPTH:
        message = f"has more than {MOST_COST} rules for one value, references counted as often as used"
        raise SchemaError((), message, "make the schema smaller")
    return found


def _inside(part: _Parts, below: list[int]) -> int:
    """The cost of a value within another, of whatever kind that is."""
    return max(
        max((below[each] for each in part.properties), default=0)
        + sum(below[each] for each in part.of_objects),
        max((below[each] for each in part.items), default=0) + sum(below[each] for each in part.of_arrays),
    )


def _parts(node: Node, number: dict[int, int]) -> _Parts:
    def numbers(*nodes: Node | None) -> list[int]:
        return [number[id(each)] for each in nodes if each is not None]

    unevaluated = node.unevaluated_items is not None or node.unevaluated_properties is not None
    contains = None if node.contains is None else node.contains.node
    return _Parts(
        1 + sum(map(_cost_of_pattern, filter(None, (node.pattern, *node.pattern_properties)))),
        _UNEVALUATED if unevaluated else 1,
        numbers(*(each for _, each in node.in_place())),
        numbers(*node.properties.values(), node.additional),
        numbers(*node.pattern_properties.values(), node.names, node.unevaluated_properties),
        numbers(*node.prefix, node.rest),
        numbers(contains, node.unevaluated_items),
    )


def _cost_of_pattern(pattern: str) -> int:
    try:
        return patterns.cost(pattern)
    except patterns.NotRun as error:
        fix = "write it without, or check it where the data is used"
        raise SchemaError((), f"has a pattern that is not run here: {error}", fix, pattern) from None


def _in_order(root: Node) -> list[Node]:
    """Every node after those that look at the same value with it."""
    done: set[int] = set()
    found: list[Node] = []
    for start in reachable(root):
        left = [(start, False)]
        while left:
            node, is_done = left.pop()
            if id(node) in done:
                continue
            if is_done:
                done.add(id(node))
                found.append(node)
            else:
                left += [(node, True), *((each, False) for _, each in node.in_place())]
    return found
