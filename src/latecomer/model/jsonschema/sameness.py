"""Whether two nodes mean the same because they are written the same, in whatever schemas they stand."""

from __future__ import annotations

from latecomer.model.jsonschema.nodes import Node
from latecomer.model.schemas.mistakes import Work


class Sameness:
    """Compares nodes with all that they lead to. Two are the same as long as nothing tells them apart."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.known: dict[tuple[Node, Node], bool] = {}

    def same(self, one: Node, other: Node) -> bool:
        first = (one.behind_refs(), other.behind_refs())
        if first not in self.known:
            seen = self._alike(first)
            if seen is None:
                self.known[first] = False
            else:
                self.known |= dict.fromkeys(seen, True)
        return self.known[first]

    def _alike(self, first: tuple[Node, Node]) -> set[tuple[Node, Node]] | None:
        """All pairs that follow from one, unless two of them differ."""
        seen, left = {first}, [first]
        while left:
            self.work.spend()
            one, other = left.pop()
            if one is other or self.known.get((one, other)):
                continue
            if one.own != other.own:
                return None
            parts, others = dict(one.parts()), dict(other.parts())
            if parts.keys() != others.keys():
                return None
            self.work.spend(len(parts))
            for label, part in parts.items():
                pair = (part.behind_refs(), others[label].behind_refs())
                if pair not in seen:
                    seen.add(pair)
                    left.append(pair)
        return seen
