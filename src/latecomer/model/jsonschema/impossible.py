"""Cases that no value fits: proved, or not known."""

from __future__ import annotations

from latecomer.model.jsonschema.facts import Case, Facts, first_whole, last_whole
from latecomer.model.jsonschema.sameness import Sameness
from latecomer.model.schemas.mistakes import Work

_DEPTH = 4
"""How many parts of parts, or combinations in combinations, are looked at."""
_MOST_ITEMS = 20


class Knowledge:
    """The facts of every case that a comparison meets, each found once."""

    def __init__(self, work: Work) -> None:
        self.work, self.sameness = work, Sameness(work)
        self.known: dict[Case, Facts] = {}
        self.answers: dict[tuple[Case, int], bool] = {}

    def facts(self, case: Case) -> Facts:
        if case not in self.known:
            self.known[case] = Facts(case, self.work)
        return self.known[case]

    def is_impossible(self, case: Case, depth: int = _DEPTH) -> bool:
        """Whether it is certain that no value fits a case."""
        key = (case, depth)
        if key not in self.answers:
            self.work.spend(5)
            self.answers[key] = False  # as long as it is not known better
            self.answers[key] = self._is_impossible(self.facts(case), depth)
        return self.answers[key]

    def _is_impossible(self, facts: Facts, depth: int) -> bool:
        if facts.values is not None and not facts.values:
            return True
        if self._contradicts(facts) or all(self._lacks(kind, facts, depth) for kind in facts.types):
            return True
        return depth > 0 and any(
            all(self.is_impossible(facts.case.with_more(way.fits, way.fails), depth - 1) for way in ways)
            for ways in facts.ways
        )

    def _contradicts(self, facts: Facts) -> bool:
        self.work.spend(len(facts.fails) * len(facts.nodes))
        if any(each.takes_everything for each in facts.fails):
            return True
        return any(self.sameness.same(one, other) for other in facts.fails for one in facts.nodes)

    def _lacks(self, kind: str, facts: Facts, depth: int) -> bool:
        """Whether no value of a type fits."""
        match kind:
            case "integer":
                lower, upper = facts.lower, facts.upper
                return lower is not None and upper is not None and first_whole(lower) > last_whole(upper)
            case "fraction":
                return _is_crossed(facts)
            case "string":
                return _exceeds(facts.least("min_length"), facts.most("max_length"))
            case "array":
                return _exceeds(facts.least("min_items"), facts.most("max_items")) or self._lacks_item(
                    facts, depth
                )
            case "object":
                least, most = facts.least("min_properties"), facts.most("max_properties")
                return _exceeds(least, most) or self._lacks_property(facts, depth)
        return False

    def _lacks_item(self, facts: Facts, depth: int) -> bool:
        needed = range(min(facts.least("min_items"), _MOST_ITEMS)) if depth > 0 else ()
        return any(self.is_impossible(facts.item(index), depth - 1) for index in needed)

    def _lacks_property(self, facts: Facts, depth: int) -> bool:
        if any(not facts.may_have(name) for name in facts.required):
            return True
        return depth > 0 and any(
            self.is_impossible(facts.property(name), depth - 1) for name in sorted(facts.required)
        )


def _exceeds(least: int, most: int | None) -> bool:
    return most is not None and least > most


def _is_crossed(facts: Facts) -> bool:
    if facts.lower is None or facts.upper is None:
        return False
    if facts.lower.number == facts.upper.number:
        return facts.lower.exclusive or facts.upper.exclusive
    return facts.lower.number > facts.upper.number
