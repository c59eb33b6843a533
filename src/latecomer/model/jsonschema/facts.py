"""What is known of a value that fits some nodes and does not fit others.

Whatever is left out here can only make the answer of a comparison *no*. So what no one needs is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor
from typing import Any

from latecomer.model.jsonschema import patterns
from latecomer.model.jsonschema.nodes import Bound, Contains, Node, Value
from latecomer.model.jsonschema.validation import certainly
from latecomer.model.jsonschema.values import ALL_TYPES, NUMBERS, key_of, type_of
from latecomer.model.schemas.mistakes import Work

OF_TYPE = {each: Node(types=frozenset((each,))) for each in sorted(ALL_TYPES)}
"""The node of all values of a type."""
OF_NUMBERS = Node(types=NUMBERS)


@dataclass(frozen=True)
class Case:
    """Nodes that a value fits, and nodes that it does not fit."""

    fits: tuple[Node, ...] = ()
    fails: tuple[Node, ...] = ()
    tried: tuple[Node, ...] = ()
    """Those that it does not fit and that were looked at already in search of a contradiction. Without them a proof
    could go round in a circle: that something is impossible because it is."""

    @classmethod
    def of(cls, fits: Iterable[Node]) -> Case:
        return cls(_in_order(each for each in fits if not each.takes_everything))

    def with_more(self, fits: Iterable[Node], fails: Iterable[Node] = ()) -> Case:
        return Case(Case.of((*self.fits, *fits)).fits, _in_order((*self.fails, *fails)), self.tried)

    def after(self, tried: Node) -> Case:
        return Case(self.fits, self.fails, _in_order((*self.tried, tried)))


def _in_order(nodes: Iterable[Node]) -> tuple[Node, ...]:
    kept = {each.serial: each for each in nodes}
    return tuple(kept[serial] for serial in sorted(kept))


@dataclass(frozen=True)
class Way:
    """One of the ways in which a value can fit a writer's anyOf, oneOf or if."""

    name: str
    fits: tuple[Node, ...]
    fails: tuple[Node, ...] = ()


def matches(pattern: str, text: str, work: Work) -> bool | None:
    """Whether a pattern fits a text; None if it is not run."""
    try:
        return patterns.compiled(pattern).found_in(text, work.spend)
    except patterns.NotRun:
        return None


class Facts:
    """What a case says about a value, all its nodes taken together."""

    def __init__(self, case: Case, work: Work) -> None:
        self.case, self.work = case, work
        self.nodes = self._closure()
        work.spend(5 + len(self.nodes))
        self.fails = _unique(
            (*case.fails, *(each.negated for each in self.nodes if each.negated is not None))
        )
        self.types = self._types()

    def _closure(self) -> tuple[Node, ...]:
        """The nodes of the case, and those that hold because these do."""
        found: dict[Node, None] = {}
        left, required, types = deque(self.case.fits), set[str](), ALL_TYPES
        while left:
            self.work.spend()
            node = left.popleft()
            if node not in found and not node.takes_everything:
                found[node] = None
                required |= node.required
                types &= node.types
                left += [each for each in (node.ref, *node.all_of) if each is not None]
            if not left:
                present = required if types <= {"object"} else set[str]()
                following = [each for node in found for each in self._following(node, found, present)]
                left.extend(each for each in following if each not in found)
        return tuple(found)

    def _following(self, node: Node, found: dict[Node, None], present: set[str]) -> list[Node]:
        """What holds by a condition that is decided, or by a property that is there."""
        following = [each for name, each in node.dependent.items() if name in present]
        if node.condition is not None and node.then is not None:
            following += [node.then] if node.condition in found or node.condition.takes_everything else []
        if node.condition is not None and node.condition in self.case.fails and node.otherwise is not None:
            following.append(node.otherwise)
        return [each for each in following if not each.takes_everything]

    def _types(self) -> frozenset[str]:
        found = ALL_TYPES
        for node in self.nodes:
            found &= node.types
        if any(each.denominator == 1 for each in self.multiples):
            found -= {"fraction"}
        if self.listed is not None:
            found &= {type_of(each.value) for each in self.listed}
        return found

    # Values

    @cached_property
    def listed(self) -> tuple[Value, ...] | None:
        """The values that every enum has, as far as the other nodes allow them; None without an enum."""
        enums = [each.values for each in self.nodes if each.values is not None]
        if not enums:
            return None
        keys = set.intersection(*({each.key for each in values} for values in enums))
        self.work.spend(sum(map(len, enums)))
        return tuple(each for each in enums[0] if each.key in keys and self._is_possible(each))

    def _is_possible(self, value: Value) -> bool:
        if any(certainly(node, value.value, self.work) is False for node in self.nodes):
            return False
        return not any(certainly(node, value.value, self.work) is True for node in self.fails)

    @cached_property
    def values(self) -> tuple[Value, ...] | None:
        """All values there can be, if they can be counted."""
        if self.listed is None and self.types <= {"null", "boolean"}:
            small: dict[str, list[Any]] = {"null": [None], "boolean": [False, True]}
            every = [Value(key_of(each), each) for kind in sorted(self.types) for each in small[kind]]
            return tuple(each for each in every if self._is_possible(each))
        return self.listed

    # Numbers and texts

    @cached_property
    def lower(self) -> Bound | None:
        bounds = [each.lower for each in self.nodes if each.lower is not None]
        return max(bounds, key=lambda each: (each.number, each.exclusive), default=None)

    @cached_property
    def upper(self) -> Bound | None:
        bounds = [each.upper for each in self.nodes if each.upper is not None]
        return min(bounds, key=lambda each: (each.number, not each.exclusive), default=None)

    @property
    def is_whole(self) -> bool:
        """Whether all numbers are integers."""
        return "fraction" not in self.types

    @cached_property
    def multiples(self) -> frozenset[Fraction]:
        return frozenset(each for node in self.nodes for each in node.multiples)

    @cached_property
    def patterns(self) -> frozenset[str]:
        return frozenset(each.pattern for each in self.nodes if each.pattern is not None)

    @cached_property
    def formats(self) -> frozenset[str]:
        return frozenset(each.format for each in self.nodes if each.format is not None)

    def least(self, name: str) -> int:
        """The largest of all minimums: of min_length, min_items or min_properties."""
        found: int = max((getattr(each, name) for each in self.nodes), default=0)
        return max(found, len(self.required)) if name == "min_properties" else found

    def most(self, name: str) -> int | None:
        found = [getattr(each, name) for each in self.nodes if getattr(each, name) is not None]
        if name == "max_items":
            found += [len(each.prefix) for each in self.nodes if each.rest is not None and each.rest.is_false]
        if name == "max_properties" and self.names is not None:
            found.append(len(self.names))
        return min(found, default=None)

    # Arrays

    @cached_property
    def is_unique(self) -> bool:
        return any(each.unique for each in self.nodes)

    @cached_property
    def contains(self) -> tuple[Contains, ...]:
        return tuple(each.contains for each in self.nodes if each.contains is not None)

    @cached_property
    def longest_prefix(self) -> int:
        return max((len(each.prefix) for each in self.nodes), default=0)

    def item(self, index: int) -> Case:
        """What is known of an item."""
        self.work.spend(len(self.nodes))
        found = [each.prefix[index] if index < len(each.prefix) else each.rest for each in self.nodes]
        return Case.of(each for each in found if each is not None)

    # Objects

    @cached_property
    def required(self) -> frozenset[str]:
        return self.required_with(frozenset())

    def required_with(self, more: frozenset[str]) -> frozenset[str]:
        """The properties that are there if some others are."""
        found = more.union(*(each.required for each in self.nodes))
        size = -1
        while size < len(found):
            size = len(found)
            for node in self.nodes:
                self.work.spend(len(node.dependent_required))
                found = found.union(
                    *(needed for name, needed in node.dependent_required.items() if name in found)
                )
        return found

    @cached_property
    def names(self) -> frozenset[str] | None:
        """All names that properties can have, if they can be counted."""
        found: list[frozenset[str]] = []
        for node in self.nodes:
            if node.additional is not None and node.additional.is_false and not node.pattern_properties:
                found.append(frozenset(node.properties))
            if node.names is not None and (values := node.names.behind_refs().values) is not None:
                found.append(frozenset(each.value for each in values if isinstance(each.value, str)))
        return frozenset.intersection(*found) if found else None

    @cached_property
    def described(self) -> list[str]:
        """The names that properties have in some node, as far as they are possible."""
        every = dict.fromkeys(name for node in self.nodes for name in node.properties)
        if self.names is not None:
            return [name for name in every if name in self.names] + sorted(self.names - every.keys())
        return list(every)

    @cached_property
    def naming(self) -> tuple[Node, ...]:
        return tuple(each.names for each in self.nodes if each.names is not None)

    def may_have(self, name: str) -> bool:
        if self.names is not None and name not in self.names:
            return False
        return not any(certainly(each, name, self.work) is False for each in self.naming)

    def property(self, name: str) -> Case:
        """What is known of a property."""
        found: list[Node] = []
        for node in self.nodes:
            self.work.spend(1)
            if name in node.properties:
                found.append(node.properties[name])
            answers = {pattern: matches(pattern, name, self.work) for pattern in node.pattern_properties}
            found += [node.pattern_properties[pattern] for pattern, answer in answers.items() if answer]
            unnamed = name not in node.properties and all(answer is False for answer in answers.values())
            if unnamed and node.additional is not None:
                found.append(node.additional)
        return Case.of(found)

    def named_like(self, pattern: str) -> list[Case]:
        """What is known of a property that fits a pattern and that no node describes by name: one of some cases."""
        self.work.spend(len(self.nodes))
        found = [
            each.pattern_properties[pattern] for each in self.nodes if pattern in each.pattern_properties
        ]
        found += [
            each.additional
            for each in self.nodes
            if each.additional is not None and not each.pattern_properties
        ]
        closed = [each for each in self.nodes if each.additional is not None and each.additional.is_false]
        if found or not closed:
            return [Case.of(found)]
        return [Case.of([each]) for each in closed[0].pattern_properties.values()]

    @cached_property
    def patterned(self) -> list[str]:
        """The patterns by which nodes describe properties."""
        return list(dict.fromkeys(pattern for node in self.nodes for pattern in node.pattern_properties))

    def others(self) -> Case:
        """What is known of a property that no node describes."""
        return Case.of(each.additional for each in self.nodes if each.additional is not None)

    # Combinations

    @cached_property
    def ways(self) -> list[list[Way]]:
        """For each anyOf, oneOf and if that is open: the ways in which it can hold."""
        every = [found for node in self.nodes for found in _ways(node)]
        known, failing = {*self.nodes}, {*self.case.fails}
        return [ways for ways in every if not any(_is_taken(way, known, failing) for way in ways)]


def _is_taken(way: Way, known: set[Node], failing: set[Node]) -> bool:
    fits = all(each.takes_everything or each in known for each in way.fits)
    return fits and all(each in failing for each in way.fails)


def _ways(node: Node) -> list[list[Way]]:
    found = []
    if node.any_of:
        found.append([Way(_name(each), (each,)) for each in node.any_of])
    if node.one_of:
        found.append([_chosen(node.one_of, each) for each in node.one_of])
    follows = node.then is not None or node.otherwise is not None
    if node.condition is not None and follows and not node.condition.takes_everything:
        met = Way("if", (node.condition, *_present(node.then)))
        found.append([met, Way("else", _present(node.otherwise), (node.condition,))])
    return found


def _chosen(branches: tuple[Node, ...], chosen: Node) -> Way:
    """One branch and none of the others."""
    return Way(_name(chosen), (chosen,), tuple(each for each in branches if each is not chosen))


def _present(node: Node | None) -> tuple[Node, ...]:
    return () if node is None else (node,)


def _name(node: Node) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else step for step in node.step)


def _unique(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(dict.fromkeys(nodes))


def first_whole(bound: Bound) -> int:
    """The least integer that a lower bound allows."""
    return floor(bound.number) + 1 if bound.exclusive else ceil(bound.number)


def last_whole(bound: Bound) -> int:
    """The largest integer that an upper bound allows."""
    return ceil(bound.number) - 1 if bound.exclusive else floor(bound.number)
