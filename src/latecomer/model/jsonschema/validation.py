"""Whether a value is valid under a schema, and where it is not.

Formats refuse nothing. A value that would take too many steps, or that is nested too deeply, counts as invalid.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from latecomer.model.jsonschema import patterns
from latecomer.model.jsonschema.nodes import Bound, Node, Value, reachable
from latecomer.model.jsonschema.parsing import Schema
from latecomer.model.jsonschema.values import (
    NUMBERS,
    Rough,
    TooDeep,
    key_of,
    number_of,
    type_of,
    written_types,
)
from latecomer.model.schemas.mistakes import Path, SchemaError, Work, listed, shown_value, written_path

MOST_STEPS = 500_000
"""Steps that one value may take: a second or two. An event that people sent takes some hundreds."""
DEEPEST_CHECK = 150
"""How far values and references within a schema may lead together. Python's stack is shared with whoever calls."""
_MOST_FAULTS = 20
_MOST_STEPS_ASIDE = 20_000


@dataclass(frozen=True)
class Fault:
    """What is wrong with a value, and where in it."""

    path: Path
    message: str

    def __str__(self) -> str:
        place = written_path(self.path) if self.path else "the value"
        return f"{place}: {self.message}"


class Validator:
    """Checks values against a schema. Made once for many values."""

    def __init__(self, schema: Schema) -> None:
        """Raises a SchemaError if the schema has patterns that are not run."""
        self.root = schema.root
        for node in reachable(schema.root):
            for pattern in (node.pattern, *node.pattern_properties):
                if pattern is not None:
                    _require_run(pattern)

    def faults(self, value: Any) -> list[Fault]:
        """What is wrong with a JSON value; nothing if it is valid.

        >>> from latecomer.model.jsonschema.parsing import schema_of
        >>> [str(each) for each in Validator(schema_of({"properties": {"a": {"minimum": 0}}})).faults({"a": -1})]
        ['a: is -1, below 0']
        """
        try:
            return Check().faults(self.root, value, (), 0)[:_MOST_FAULTS]
        except TooMuch as error:
            return [Fault((), str(error))]
        except RecursionError:  # whoever calls stands deep already
            return [Fault((), "is nested too deeply to be checked")]


def _require_run(pattern: str) -> None:
    try:
        patterns.compiled(pattern)
    except patterns.NotRun as error:
        fix = "write it without, or check it where the data is used"
        raise SchemaError((), f"has a pattern that is not run here: {error}", fix, pattern) from None


class TooMuch(Exception):
    """There is no answer within the limits."""


class Check:
    """One check of a value. `unsure` says whether something was met that another validator may judge otherwise."""

    def __init__(self, most: int = MOST_STEPS) -> None:
        self.left, self.unsure = most, False

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooMuch("takes too many steps to check")

    def is_valid(self, node: Node, value: Any, depth: int) -> bool:
        return not self.faults(node, value, (), depth)

    def _fitting(self, nodes: Iterable[Node], value: Any, depth: int) -> list[int]:
        """Which of some nodes fit."""
        found = []
        for index, each in enumerate(nodes):
            if not self.faults(each, value, (), depth):
                found.append(index)
        return found

    def faults(self, node: Node, value: Any, path: Path, depth: int) -> list[Fault]:
        self.spend(1)
        if depth > DEEPEST_CHECK:
            raise TooMuch("is nested too deeply to be checked")
        kind = type_of(value)
        if kind not in node.types:
            return [Fault(path, _wrong_type(node, kind, value))]
        found: list[Fault] = []
        if node.values is not None and self._key(value) not in node.keys:
            found.append(Fault(path, _not_listed(node.values, value)))
        if kind in NUMBERS:
            found += [Fault(path, message) for message in _number_faults(node, value)]
        elif kind == "string":
            found += [Fault(path, message) for message in self._text_faults(node, value)]
        elif kind == "array":
            found += self._array_faults(node, value, path, depth)
        elif kind == "object":
            found += self._object_faults(node, value, path, depth)
        return found + self._combined_faults(node, value, path, depth)

    def _key(self, value: Any) -> Any:
        try:
            return key_of(value)
        except TooDeep:
            raise TooMuch("is nested too deeply to be compared") from None

    def matches(self, pattern: str, text: str) -> bool:
        try:
            return patterns.compiled(pattern).found_in(text, self.spend)
        except patterns.NotRun:
            self.unsure = True
            return False

    def _text_faults(self, node: Node, value: str) -> list[str]:
        found = []
        if node.format is not None:
            self.unsure = True
        if len(value) < node.min_length:
            found.append(f"has {len(value)} characters, fewer than {node.min_length}")
        if node.max_length is not None and len(value) > node.max_length:
            found.append(f"has {len(value)} characters, more than {node.max_length}")
        if node.pattern is not None and not self.matches(node.pattern, value):
            found.append(
                f"does not fit the pattern {shown_value(node.pattern)} (value: {shown_value(value)})"
            )
        return found

    # Arrays

    def _array_faults(self, node: Node, value: list[Any], path: Path, depth: int) -> list[Fault]:
        found = _size_faults(len(value), node.min_items, node.max_items, "items", path)
        for index, each in enumerate(value):
            inner = node.prefix[index] if index < len(node.prefix) else node.rest
            if inner is not None:
                found += self.faults(inner, each, (*path, index), depth + 1)
        if node.unique and len({self._key(each) for each in value}) < len(value):
            found.append(Fault(path, "has an item twice"))
        if node.contains is not None:
            fitting = sum(self.is_valid(node.contains.node, each, depth + 1) for each in value)
            least, most = node.contains.least, node.contains.most
            if fitting < least or (most is not None and fitting > most):
                wanted = f"at least {least}" if fitting < least else f"at most {most}"
                found.append(Fault(path, f"has {fitting} items of the kind it must contain, not {wanted}"))
        if node.unevaluated_items is not None:
            for index in sorted(set(range(len(value))) - self._evaluated_items(node, value, depth)):
                found += self.faults(node.unevaluated_items, value[index], (*path, index), depth + 1)
        return found

    def _evaluated_items(self, node: Node, value: list[Any], depth: int) -> set[int]:
        """The items that some keyword looked at."""
        every = range(len(value))
        if node.rest is not None:
            return set(every)
        found = set(every[: len(node.prefix)])
        if node.contains is not None and node.contains_evaluates:
            found |= {i for i in every if self.is_valid(node.contains.node, value[i], depth + 1)}
        for each in self._applied(node, value, depth):
            if each.unevaluated_items is not None:
                return set(every)
            found |= self._evaluated_items(each, value, depth + 1)
        return found

    # Objects

    def _object_faults(self, node: Node, value: dict[str, Any], path: Path, depth: int) -> list[Fault]:
        found = _size_faults(len(value), node.min_properties, node.max_properties, "properties", path)
        found += [Fault(path, f"has no {shown_value(name)}") for name in sorted(node.required - value.keys())]
        for name, needed in node.dependent_required.items():
            if name in value and (missing := sorted(needed - value.keys())):
                found.append(Fault(path, f"has {shown_value(name)} and no {shown_value(missing[0])}"))
        for name, each in value.items():
            for inner in self._property_nodes(node, name):
                if inner.is_false:
                    found.append(Fault((*path, name), "is a property that may not be there"))
                else:
                    found += self.faults(inner, each, (*path, name), depth + 1)
            if node.names is not None and not self.is_valid(node.names, name, depth + 1):
                found.append(Fault((*path, name), "has a name that is not allowed"))
        if node.unevaluated_properties is not None:
            for name in value.keys() - self._evaluated_properties(node, value, depth):
                found += self.faults(node.unevaluated_properties, value[name], (*path, name), depth + 1)
        return found

    def _property_nodes(self, node: Node, name: str) -> list[Node]:
        """The nodes that look at a property."""
        found = [node.properties[name]] if name in node.properties else []
        found += [each for pattern, each in node.pattern_properties.items() if self.matches(pattern, name)]
        return found or ([] if node.additional is None else [node.additional])

    def _evaluated_properties(self, node: Node, value: dict[str, Any], depth: int) -> set[str]:
        if node.additional is not None:
            return set(value)
        found = {name for name in value if self._property_nodes(node, name)}
        for each in self._applied(node, value, depth):
            if each.unevaluated_properties is not None:
                return set(value)
            found |= self._evaluated_properties(each, value, depth + 1)
        return found

    # The same value

    def _applied(self, node: Node, value: Any, depth: int) -> list[Node]:
        """The nodes beside this one that hold of the value, by references and combinations."""
        found = [each for each in (node.ref,) if each is not None]
        if node.condition is not None:
            met = self.is_valid(node.condition, value, depth + 1)
            found += [each for each in (node.condition, node.then) if each is not None] if met else []
            found += [node.otherwise] if node.otherwise is not None and not met else []
        found += [*node.all_of, *node.any_of, *node.one_of]
        if isinstance(value, dict):
            found += [each for name, each in node.dependent.items() if name in value]
        return [found[index] for index in self._fitting(found, value, depth + 1)]

    def _combined_faults(self, node: Node, value: Any, path: Path, depth: int) -> list[Fault]:
        found: list[Fault] = []
        for each in (node.ref, *node.all_of):
            if each is not None:
                found += self.faults(each, value, path, depth + 1)
        if isinstance(value, dict):
            for name, each in node.dependent.items():
                found += self.faults(each, value, path, depth + 1) if name in value else []
        if node.any_of and not self._fitting(node.any_of, value, depth + 1):
            found.append(Fault(path, "fits no branch of anyOf"))
        if node.one_of:
            fitting = self._fitting(node.one_of, value, depth + 1)
            if len(fitting) != 1:
                which = listed([str(each) for each in fitting], " and ") if fitting else "none"
                found.append(Fault(path, f"must fit one branch of oneOf, and fits {which}"))
        if node.negated is not None and self.is_valid(node.negated, value, depth + 1):
            found.append(Fault(path, "fits what it must not"))
        if node.condition is not None:
            met = self.is_valid(node.condition, value, depth + 1)
            chosen = node.then if met else node.otherwise
            found += [] if chosen is None else self.faults(chosen, value, path, depth + 1)
        return found


def _wrong_type(node: Node, kind: str, value: Any) -> str:
    if node.is_false:
        return "may not be there"
    wanted = listed(written_types(node.types), " or ")
    return f"is {shown_value(value)}, which is {written_types(frozenset((kind,)))[0]} and not {wanted}"


def _not_listed(values: tuple[Value, ...], value: Any) -> str:
    return f"is {shown_value(value)}, and not {listed([shown_value(each.value) for each in values], ' or ')}"


def _size_faults(size: int, least: int, most: int | None, what: str, path: Path) -> list[Fault]:
    found = [Fault(path, f"has {size} {what}, fewer than {least}")] if size < least else []
    if most is not None and size > most:
        found.append(Fault(path, f"has {size} {what}, more than {most}"))
    return found


def _number_faults(node: Node, value: int | float | Decimal) -> list[str]:
    found: list[str] = []
    shown = f"is {shown_value(value)}"
    if not (node.lower or node.upper or node.multiples):
        return found
    number = number_of(value)
    if node.lower and (number < node.lower.number or (node.lower.exclusive and number == node.lower.number)):
        found.append(f"{shown}, {_beyond('below', node.lower)}")
    if node.upper and (number > node.upper.number or (node.upper.exclusive and number == node.upper.number)):
        found.append(f"{shown}, {_beyond('above', node.upper)}")
    exact = not isinstance(value, Rough) or value.is_exact
    found += [
        f"{shown}, no multiple of {each}"
        for each in node.multiples
        if not exact or (number / each).denominator != 1
    ]
    return found


def _beyond(word: str, bound: Bound) -> str:
    if bound.exclusive:
        return f"not {'above' if word == 'below' else 'below'} {bound.number}"
    return f"{word} {bound.number}"


def certainly(node: Node, value: Any, work: Work) -> bool | None:
    """Whether a value is valid to every validator; None if that depends, or takes too long to say."""
    check = Check(_MOST_STEPS_ASIDE)
    try:
        found = check.is_valid(node, value, 0)
    except (TooMuch, RecursionError):
        return None
    finally:
        work.spend(_MOST_STEPS_ASIDE - check.left)
    return None if check.unsure else found
