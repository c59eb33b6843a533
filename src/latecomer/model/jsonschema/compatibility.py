"""Whether every value that is valid under one schema is valid under another: what a writer's schema means to a reader.

A goal is a reader's node and a case, which is what is known of the writer's value. The reader's keywords are taken one
by one: each is shown from the facts, or needs other goals, or is a problem. Every goal is looked at once. It is refuted
by a problem of its own or by a goal that it needs. Each goal that a goal needs is about a smaller value or has less to
look into (`Case.tried` sees to that), and values are finite: what is never refuted is true.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from latecomer.model.jsonschema import sentences
from latecomer.model.jsonschema.facts import (
    OF_NUMBERS,
    OF_TYPE,
    Case,
    Facts,
    first_whole,
    last_whole,
    matches,
)
from latecomer.model.jsonschema.impossible import Knowledge
from latecomer.model.jsonschema.nodes import Node, Value
from latecomer.model.jsonschema.parsing import Schema
from latecomer.model.jsonschema.rules import Incompatibility
from latecomer.model.jsonschema.validation import certainly
from latecomer.model.jsonschema.values import NUMBERS
from latecomer.model.schemas.mistakes import Path, Work

FALSE = Node(types=frozenset())
_GOAL = 15
"""Steps that a goal takes, with the facts of its case."""


def incompatibilities(reader: Schema, writer: Schema) -> list[Incompatibility]:
    """Why not every value that `writer` allows is allowed by `reader`; none if it can be shown to be.

    >>> from latecomer.model.jsonschema.parsing import parse_schema
    >>> for problem in incompatibilities(parse_schema('{"type": "integer"}'), parse_schema('{"type": "number"}')):
    ...     print(problem)
    type: number may be written, and integer is read (TYPE_NARROWED); read number
    """
    return _Comparison(reader, writer).problems()


_Key = tuple[Hashable, ...]


@dataclass
class _Needed:
    """A goal that another needs, and the way to it through the reader's schema."""

    path: Path
    goal: _Key
    instead: Incompatibility | None = None
    """Reported if the goal is refuted, where that says more than the goal's own problems. Its path begins here."""
    way: str = ""
    """Which of the writer's branches this is about."""


@dataclass
class _Goal:
    reader: Node
    case: Case
    kind: str
    index: int = 0
    parts: list[Incompatibility | _Needed] = field(default_factory=list)
    one_is_enough: bool = False
    missing: Incompatibility | None = None
    """Reported if one needed goal is enough and there is none."""
    open_parts: int = 0


class _Comparison:
    def __init__(self, reader: Schema, writer: Schema) -> None:
        self.work = Work("compare with another schema")
        self.knowledge = Knowledge(self.work)
        self.goals: dict[_Key, _Goal] = {}
        self.new: list[_Goal] = []
        self.requiring: dict[str, Node] = {}
        self.root = self._need(reader.root, Case.of([writer.root]))
        while self.new:
            self._look_at(self.new.pop())
        self.refuted = self._refuted()

    def problems(self) -> list[Incompatibility]:
        return list(dict.fromkeys(self._problems_of(_Needed((), self.root), first=False)))

    # Goals

    def _need(self, reader: Node, case: Case, kind: str = "fits", index: int = 0) -> _Key:
        self.work.spend()
        key: _Key = (kind, index, reader, case)
        if key not in self.goals:
            self.work.spend(_GOAL)
            self.goals[key] = goal = _Goal(reader, case, kind, index)
            self.new.append(goal)
        return key

    def _look_at(self, goal: _Goal) -> None:
        facts = self.knowledge.facts(goal.case)
        match goal.kind:
            case "fits":
                self._fits(goal, facts)
            case "anyOf":
                self._any_of(goal, facts)
            case "oneOf":
                self._one_of(goal, facts)
            case "branch":
                self._branch(goal)
            case "contains":
                self._contains(goal, facts)
        goal.open_parts = len(goal.parts)

    def _fits(self, goal: _Goal, facts: Facts) -> None:
        reader = goal.reader
        if reader.takes_everything or self.knowledge.is_impossible(goal.case):
            return
        if any(self.knowledge.sameness.same(reader, each) for each in facts.nodes):
            return
        if facts.values is not None and not reader.is_false and self._values(goal, facts):
            return
        if facts.ways:
            for way in facts.ways[0]:
                needed = self._need(reader, goal.case.with_more(way.fits, way.fails))
                goal.parts.append(_Needed((), needed, way=way.name))
        elif reader.is_false:
            self._contradiction(goal, facts)
        else:
            self._keywords(goal, facts)

    def _contradiction(self, goal: _Goal, facts: Facts) -> None:
        """Nothing is read. That is right if the value fits what it does not fit."""
        goal.one_is_enough = True
        goal.missing = sentences.wrong_type(goal.reader, facts.types)
        for node in facts.fails:
            if node not in goal.case.tried:
                goal.parts.append(_Needed((), self._need(node, goal.case.after(node))))

    def _values(self, goal: _Goal, facts: Facts) -> bool:
        """Try every value there can be. Whether that answers the question."""
        answers = [(each, certainly(goal.reader, each.value, self.work)) for each in facts.values or ()]
        if all(answer for _, answer in answers):
            return True
        refused = [each for each, answer in answers if answer is False]
        if facts.listed is None or not refused:
            return False
        goal.parts.append(sentences.refused_values(refused, ""))
        return True

    def _keywords(self, goal: _Goal, facts: Facts) -> None:
        reader = goal.reader
        if not facts.types <= reader.types:
            goal.parts.append(sentences.wrong_type(reader, facts.types))
        if not facts.types & reader.types:
            return
        if reader.values is not None:
            goal.parts.append(sentences.only_values(reader, facts.types))
        types = facts.types & reader.types
        if types & NUMBERS:
            self._numbers(goal, facts)
        if "string" in types:
            self._texts(goal, facts)
        if "array" in types:
            self._arrays(goal, facts)
        if "object" in types:
            self._objects(goal, facts)
        self._combinations(goal, facts)

    # Keywords of a type

    def _numbers(self, goal: _Goal, facts: Facts) -> None:
        reader = goal.reader
        if reader.lower is not None:
            lower = facts.lower
            if lower is None:
                held = False
            elif facts.is_whole:
                held = first_whole(lower) >= first_whole(reader.lower)
            else:
                held = (lower.number, lower.exclusive) >= (reader.lower.number, reader.lower.exclusive)
            if not held:
                goal.parts.append(sentences.bound("minimum", reader.lower, lower))
        if reader.upper is not None:
            upper = facts.upper
            if upper is None:
                held = False
            elif facts.is_whole:
                held = last_whole(upper) <= last_whole(reader.upper)
            else:
                held = (upper.number, not upper.exclusive) <= (
                    reader.upper.number,
                    not reader.upper.exclusive,
                )
            if not held:
                goal.parts.append(sentences.bound("maximum", reader.upper, upper))
        written = facts.multiples | ({Fraction(1)} if facts.is_whole else frozenset())
        for each in reader.multiples:
            if not any((other / each).denominator == 1 for other in written):
                goal.parts.append(sentences.multiple(each, facts))

    def _texts(self, goal: _Goal, facts: Facts) -> None:
        self._sizes(goal, facts, "length")
        reader = goal.reader
        if reader.pattern is not None and reader.pattern not in facts.patterns:
            goal.parts.append(sentences.other_text("pattern", reader.pattern, facts.patterns))
        if reader.format is not None and reader.format not in facts.formats:
            goal.parts.append(sentences.other_text("format", reader.format, facts.formats))

    def _sizes(self, goal: _Goal, facts: Facts, kind: str) -> None:
        """`kind` is length, items or properties."""
        least, most = facts.least(f"min_{kind}"), facts.most(f"max_{kind}")
        wanted: int = getattr(goal.reader, f"min_{kind}")
        if least < wanted:
            goal.parts.append(sentences.too_few(kind, wanted, least))
        limit: int | None = getattr(goal.reader, f"max_{kind}")
        if limit is not None and (most is None or most > limit):
            goal.parts.append(sentences.too_many(kind, limit, most))

    def _arrays(self, goal: _Goal, facts: Facts) -> None:
        self._sizes(goal, facts, "items")
        reader, most = goal.reader, facts.most("max_items")
        if reader.unique and not facts.is_unique and (most is None or most > 1):
            goal.parts.append(sentences.not_unique())
        first = max(len(reader.prefix), facts.longest_prefix)
        if most is not None and most <= first:
            first = most
        elif reader.rest is not None:
            self._item(goal, reader.rest, facts.item(first), None if first == len(reader.prefix) else first)
        for index in range(first):
            inner = reader.prefix[index] if index < len(reader.prefix) else reader.rest
            if inner is not None:
                self._item(goal, inner, facts.item(index), index)
        if reader.contains is not None:
            goal.parts.append(_Needed((), self._need(reader, goal.case, "contains", 0)))
            goal.parts.append(_Needed((), self._need(reader, goal.case, "contains", 1)))
        if reader.unevaluated_items is not None and not reader.unevaluated_items.takes_everything:
            goal.parts.append(sentences.unevaluated("unevaluatedItems"))

    def _item(self, goal: _Goal, inner: Node, case: Case, index: int | None) -> None:
        if not inner.takes_everything:
            instead = sentences.item(inner, case, index)
            goal.parts.append(_Needed(inner.step, self._need(inner, case), instead))

    def _contains(self, goal: _Goal, facts: Facts) -> None:
        """That there are enough items of a kind (0), and not too many (1)."""
        wanted = goal.reader.contains
        assert wanted is not None  # noqa: S101
        goal.one_is_enough = True
        if goal.index == 0:
            goal.one_is_enough = wanted.least > 0
            goal.missing = sentences.contains("minContains" if wanted.least != 1 else "contains")
            for each in facts.contains if wanted.least > 0 else ():
                if each.least >= wanted.least:
                    goal.parts.append(_Needed((), self._need(wanted.node, Case.of([each.node]))))
            return
        most = facts.most("max_items")
        goal.missing = sentences.contains("maxContains")
        if wanted.most is None or (most is not None and most <= wanted.most):
            goal.one_is_enough = False
            return
        for each in facts.contains:
            if each.most is not None and each.most <= wanted.most:
                goal.parts.append(_Needed((), self._need(each.node, Case.of([wanted.node]))))

    def _objects(self, goal: _Goal, facts: Facts) -> None:
        self._sizes(goal, facts, "properties")
        reader = goal.reader
        for name in sorted(reader.required - facts.required):
            goal.parts.append(sentences.missing(name, facts))
        self._dependencies(goal, facts)
        for name, inner in reader.properties.items():
            if not inner.takes_everything and facts.may_have(name):
                case = facts.property(name)
                instead = None if case.fits else sentences.open_property((), name)
                if inner.is_false:
                    instead = sentences.closed_property((), name)
                goal.parts.append(_Needed(inner.step, self._need(inner, case), instead))
        for pattern, inner in reader.pattern_properties.items():
            if not inner.takes_everything:
                self._pattern_properties(goal, facts, pattern, inner)
        if reader.additional is not None and not reader.additional.takes_everything:
            self._other_properties(goal, facts, reader.additional)
        if reader.names is not None:
            self._names(goal, facts, reader.names)
        if reader.unevaluated_properties is not None and not reader.unevaluated_properties.takes_everything:
            goal.parts.append(sentences.unevaluated("unevaluatedProperties"))

    def _dependencies(self, goal: _Goal, facts: Facts) -> None:
        for name, needed in goal.reader.dependent_required.items():
            absent = sorted(needed - facts.required_with(frozenset((name,))))
            if absent and facts.may_have(name) and not self.knowledge.is_impossible(facts.property(name)):
                extended = any(name in node.dependent_required for node in facts.nodes)
                goal.parts.append(
                    sentences.dependency((goal.reader.dependencies, name), name, absent, extended)
                )

    def _pattern_properties(self, goal: _Goal, facts: Facts, pattern: str, inner: Node) -> None:
        for name in facts.described:
            if facts.may_have(name) and matches(pattern, name, self.work) is not False:
                instead = sentences.closed_property((), name) if inner.is_false else None
                goal.parts.append(_Needed(inner.step, self._need(inner, facts.property(name)), instead))
        if facts.names is None:
            for case in facts.named_like(pattern):
                instead = (
                    None if case.fits and not inner.is_false else sentences.pattern_properties((), pattern)
                )
                goal.parts.append(_Needed(inner.step, self._need(inner, case), instead))

    def _other_properties(self, goal: _Goal, facts: Facts, inner: Node) -> None:
        """The reader's additionalProperties: what it says of each property that it does not describe."""
        reader = goal.reader
        for name in facts.described:
            if self._describes(reader, name) or not facts.may_have(name):
                continue
            instead = sentences.closed_property((), name) if inner.is_false else None
            goal.parts.append(_Needed(inner.step, self._need(inner, facts.property(name)), instead))
        if facts.names is not None:
            return
        for pattern in facts.patterned:
            if pattern not in reader.pattern_properties:
                for case in facts.named_like(pattern):
                    which = f"properties that fit {pattern[:80]}"
                    instead = sentences.other_properties((), inner, case, which)
                    goal.parts.append(_Needed(inner.step, self._need(inner, case), instead))
        case = facts.others()
        instead = sentences.other_properties((), inner, case, "other properties")
        goal.parts.append(_Needed(inner.step, self._need(inner, case), instead))

    def _describes(self, node: Node, name: str) -> bool:
        """Whether it is certain that a node describes a property by its name."""
        return name in node.properties or any(
            matches(pattern, name, self.work) for pattern in node.pattern_properties
        )

    def _names(self, goal: _Goal, facts: Facts, names: Node) -> None:
        fits = [OF_TYPE["string"], *facts.naming]
        if facts.names is not None:
            values = tuple(Value(("str", name), name) for name in sorted(facts.names))
            fits.append(Node(values=values))
        goal.parts.append(_Needed(names.step, self._need(names, Case.of(fits))))

    # Keywords about the same value

    def _combinations(self, goal: _Goal, facts: Facts) -> None:
        reader, case, parts = goal.reader, goal.case, goal.parts
        if reader.ref is not None:
            parts.append(_Needed((), self._need(reader.ref, case)))
        for each in reader.all_of:
            parts.append(_Needed(each.step, self._need(each, case)))
        for keyword, branches in (("anyOf", reader.any_of), ("oneOf", reader.one_of)):
            for typed in self._by_type(facts, branches) if branches else ():
                parts.append(_Needed((), self._need(reader, typed, keyword)))
        if reader.negated is not None:
            excluded = self._need(FALSE, case.with_more([reader.negated]))
            parts.append(_Needed(reader.negated.step, excluded, sentences.excluded()))
        if reader.condition is not None:
            if reader.then is not None:
                needed = self._need(reader.then, case.with_more([reader.condition]))
                parts.append(_Needed(reader.then.step, needed))
            if reader.otherwise is not None and not reader.condition.takes_everything:
                needed = self._need(reader.otherwise, case.with_more([], [reader.condition]))
                parts.append(_Needed(reader.otherwise.step, needed))
        if "object" in facts.types:
            for name, each in reader.dependent.items():
                needed = self._need(each, case.with_more([self._requiring(name), OF_TYPE["object"]]))
                parts.append(_Needed(each.step, needed))

    def _requiring(self, name: str) -> Node:
        if name not in self.requiring:
            self.requiring[name] = Node(required=frozenset((name,)))
        return self.requiring[name]

    def _by_type(self, facts: Facts, branches: tuple[Node, ...]) -> list[Case]:
        """The case, split by types: each may need another branch."""
        if len(facts.types) == 1 or (facts.types == NUMBERS and not self._splits_numbers(branches)):
            return [facts.case]
        nodes = [OF_TYPE[kind] for kind in sorted(facts.types)]
        if facts.types >= NUMBERS and not self._splits_numbers(branches):
            nodes = [each for each in nodes if not each.types <= NUMBERS] + [OF_NUMBERS]
        return [facts.case.with_more([each]) for each in nodes]

    def _splits_numbers(self, branches: tuple[Node, ...]) -> bool:
        kinds = [self.knowledge.facts(Case.of([each])).types & NUMBERS for each in branches]
        return any(len(each) == 1 for each in kinds)

    def _any_of(self, goal: _Goal, facts: Facts) -> None:
        goal.one_is_enough = True
        for branch in goal.reader.any_of:
            if self._comes_near(branch, facts):
                goal.parts.append(_Needed(branch.step, self._need(branch, goal.case)))

    def _one_of(self, goal: _Goal, facts: Facts) -> None:
        goal.one_is_enough = True
        for index, branch in enumerate(goal.reader.one_of):
            if self._comes_near(branch, facts):
                goal.parts.append(_Needed((), self._need(goal.reader, goal.case, "branch", index)))

    def _comes_near(self, branch: Node, facts: Facts) -> bool:
        """Whether the branch takes all types of the case: if not, it cannot do alone."""
        self.work.spend()
        return facts.types <= self.knowledge.facts(Case.of([branch])).types

    def _branch(self, goal: _Goal) -> None:
        """That one branch of oneOf is valid, and no other."""
        branches = goal.reader.one_of
        chosen = branches[goal.index]
        goal.parts.append(_Needed(chosen.step, self._need(chosen, goal.case)))
        for index, branch in enumerate(branches):
            if index != goal.index:
                excluded = self._need(FALSE, goal.case.with_more([branch]))
                problem = sentences.overlapping((), f"oneOf[{index}]")
                goal.parts.append(_Needed(chosen.step, excluded, problem))

    # What follows from them

    def _refuted(self) -> set[_Key]:
        needing: dict[_Key, list[_Key]] = {}
        found = set[_Key]()
        for key, goal in self.goals.items():
            for part in goal.parts:
                if isinstance(part, _Needed):
                    needing.setdefault(part.goal, []).append(key)
                else:
                    found.add(key)
            if goal.one_is_enough and not goal.parts:
                found.add(key)
        left = deque(found)
        while left:
            for key in needing.get(left.popleft(), ()):
                goal = self.goals[key]
                goal.open_parts -= 1
                if key not in found and not (goal.one_is_enough and goal.open_parts > 0):
                    found.add(key)
                    left.append(key)
        return found

    def _problems_of(self, start: _Needed, *, first: bool) -> list[Incompatibility]:
        """The problems of a refuted goal and all it needs, or the first of them, each where it is first met."""
        problems: list[Incompatibility] = []
        left: list[Incompatibility | _Needed] = [start]
        seen = set[_Key]()
        while left and not (first and problems):
            part = left.pop()
            if isinstance(part, Incompatibility):
                problems.append(part)
            elif part.goal not in self.refuted or (part.goal in seen and part.instead is None):
                continue
            elif part.instead is not None:
                problems.append(_problem_below(part, part.instead))
            else:
                seen.add(part.goal)
                self.work.spend()
                goal = self.goals[part.goal]
                parts = [self._missing(goal, first)] if goal.one_is_enough else goal.parts
                if first:  # what is wrong here says more than what follows from it
                    parts = sorted(parts, key=lambda each: isinstance(each, _Needed))
                left.extend(_below(part, each) for each in reversed(parts))
        return problems

    def _missing(self, goal: _Goal, first: bool) -> Incompatibility:
        """The problem of a goal that no other reaches, with the reason why the one that comes nearest does not."""
        if goal.missing is not None:
            return goal.missing
        nearest = next((part for part in goal.parts if isinstance(part, _Needed)), None)
        reasons = [] if nearest is None or first else self._problems_of(nearest, first=True)
        facts = self.knowledge.facts(goal.case)
        return sentences.no_branch(goal.kind, facts, reasons[0] if reasons else None)


def _below(needed: _Needed, part: Incompatibility | _Needed) -> Incompatibility | _Needed:
    """A part of a needed goal, with the way to it."""
    if isinstance(part, Incompatibility):
        return _problem_below(needed, part)
    way = ", ".join(filter(None, (needed.way, part.way)))
    return replace(part, path=(*needed.path, *part.path), way=way)


def _problem_below(needed: _Needed, part: Incompatibility) -> Incompatibility:
    message = f"{part.message}, in the writer's {needed.way}" if needed.way else part.message
    return replace(part, path=(*needed.path, *part.path), message=message)
