"""Whether two nodes mean the same because they are written the same, in whatever schemas they stand."""

from __future__ import annotations

from latecomer.model.jsonschema.nodes import Node
from latecomer.model.schemas.mistakes import Work

_Pair = tuple[Node, Node]


class Sameness:
    """Compares nodes with all that they lead to. Two are the same as long as nothing tells them apart."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.known: dict[_Pair, bool] = {}

    def same(self, one: Node, other: Node) -> bool:
        first = (one.behind_refs(), other.behind_refs())
        if first not in self.known:
            self._find_out(first)
        return self.known[first]

    def _find_out(self, first: _Pair) -> None:
        """Go through all pairs that follow from one. Where two differ, so do all that led there."""
        led_by: dict[_Pair, _Pair | None] = {first: None}
        left = [first]
        while left:
            pair = left.pop()
            if self.known.get(pair):
                continue
            parts = None if self.known.get(pair) is False else self._parts(pair)
            if parts is None:
                differing: _Pair | None = pair
                while differing is not None:
                    self.known[differing] = False
                    differing = led_by[differing]
                return
            for each in parts:
                if each not in led_by:
                    led_by[each] = pair
                    left.append(each)
        self.known |= dict.fromkeys(led_by, True)

    def _parts(self, pair: _Pair) -> list[_Pair] | None:
        """The pairs that must be the same for a pair to be; None if it differs by itself."""
        one, other = pair
        self.work.spend(3)
        if one is other:
            return []
        if one.own != other.own:
            return None
        parts, others = dict(one.parts()), dict(other.parts())
        self.work.spend(len(parts))
        if parts.keys() != others.keys():
            return None
        return [(part.behind_refs(), others[label].behind_refs()) for label, part in parts.items()]
