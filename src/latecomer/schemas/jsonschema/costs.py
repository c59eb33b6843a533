"""Limits what validation by a schema may cost, so that no schema keeps a task busy or overflows its stack.

The validation library has no limit of its own. Many schemas may check one value, and more of them each value within
it, so a few references can cause years of work. This module counts the rules that check one value in the worst case,
for each depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter

from latecomer.schemas.jsonschema import patterns
from latecomer.schemas.jsonschema.nodes import Node, reachable
from latecomer.schemas.mistakes import SchemaError, StepLimit

DEEPEST_CHECK = 150
"""How deep values may be nested. With a chain of a hundred schemas for each value, this fills a third of the library's
stack."""
MOST_COST = 20_000
"""How many rules may check one value. With more, the library needs seconds to list what is wrong."""
_LEAST_DEPTH = 3
"""A schema that is too expensive up to this depth is refused."""
_MOST_WORK = 2_000_000
_UNEVALUATED = 4
"""How often the library checks what stands beside `unevaluatedProperties`, for each level of them."""


@dataclass(frozen=True)
class _Parts:
    """A node, with the numbers of the nodes that it leads to."""

    own: int
    times: int
    in_place: list[int]
    inside: tuple[tuple[list[int], list[int]], ...]
    """For objects and for arrays: the nodes of which one checks a value within, and those that all check it."""


def costs_of(root: Node) -> list[int]:
    """How many rules may check one value, for each depth of the value. Raises SchemaError if they are too many, or if a
    pattern cannot be run.

    >>> from latecomer.schemas.jsonschema.parsing import schema_of
    >>> costs_of(schema_of({"properties": {"a": {"anyOf": [{"type": "null"}, {"minimum": 0}]}}}).root)[:3]
    [1, 3, 0]
    """
    work = StepLimit("check values by", _MOST_WORK)
    # each after the nodes that check the same value
    nodes = list(TopologicalSorter({each: each.in_place() for each in reachable([root])}).static_order())
    number = {id(each): nth for nth, each in enumerate(nodes)}
    parts = [_parts(each, number) for each in nodes]
    top = number[id(root)]
    below: list[int] = []
    costs_by_depth: list[int] = []
    while len(costs_by_depth) <= DEEPEST_CHECK:
        work.spend(len(nodes))
        costs: list[int] = []
        for part in parts:
            cost = _inside(part, below) if below else part.own
            cost += part.times * sum(costs[each] for each in part.in_place)
            costs.append(min(cost, MOST_COST + 1))
        if costs[top] > MOST_COST:
            break
        if costs == below:
            return costs_by_depth + [costs[top]] * (DEEPEST_CHECK + 1 - len(costs_by_depth))
        costs_by_depth.append(costs[top])
        below = costs
    if len(costs_by_depth) <= _LEAST_DEPTH:
        message = f"has more than {MOST_COST} rules for one value, each use of a reference counted"
        raise SchemaError((), message, "make the schema smaller")
    return costs_by_depth


def _inside(part: _Parts, below: list[int]) -> int:
    """The cost of the values within a value: the larger of an object and an array."""
    return max(
        max((below[each] for each in one), default=0) + sum(below[each] for each in every)
        for one, every in part.inside
    )


def _parts(node: Node, number: dict[int, int]) -> _Parts:
    def numbers(*nodes: Node | None) -> list[int]:
        return [number[id(each)] for each in nodes if each is not None]

    unevaluated = node.unevaluated_items is not None or node.unevaluated_properties is not None
    of_object = numbers(*node.properties.values(), node.additional)
    of_all = numbers(*node.pattern_properties.values(), node.names, node.unevaluated_properties)
    of_array = numbers(*node.prefix, node.rest), numbers(node.contains, node.unevaluated_items)
    return _Parts(
        1 + sum(map(_cost_of_pattern, filter(None, (node.pattern, *node.pattern_properties)))),
        _UNEVALUATED if unevaluated else 1,
        numbers(*node.in_place()),
        ((of_object, of_all), of_array),
    )


def _cost_of_pattern(pattern: str) -> int:
    try:
        return patterns.cost(pattern)
    except patterns.NotRun as error:
        fix = "write it without, or check it where the data is used"
        raise SchemaError((), f"has a pattern that is not run here: {error}", fix, pattern) from None
