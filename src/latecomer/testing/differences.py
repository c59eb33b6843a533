"""Compares two sides line by line, and shows them side by side where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar

from latecomer.testing.notation import NOTHING, Line

Actual = TypeVar("Actual")


StatedT = TypeVar("StatedT", bound=Line)


@dataclass(frozen=True)
class Pair:
    """Two lines that should say the same."""

    expected: str
    actual: str
    same: bool


@dataclass(frozen=True)
class Difference:
    """Something that is not as it should be: its place, what it is, and both sides."""

    place: str
    what: str
    pairs: tuple[Pair, ...]
    sides: tuple[str, str] = ("expected", "actual")
    runs: tuple[str, ...] = ()
    """Where it was found: on the oracle under these cuts, or on Spark."""

    def __str__(self) -> str:
        width = max(len(text) for text in (self.sides[0], *(pair.expected for pair in self.pairs)))
        where = f" ({'; '.join(self.runs)})" if self.runs else ""
        lines = [
            f"{self.place}: {self.what}{where}",
            f"    {self.sides[0]:<{width}}    {self.sides[1]}".rstrip(),
        ]
        for pair in self.pairs:
            lines.append(f"{'   ' if pair.same else '  ≠'} {pair.expected:<{width}}    {pair.actual}")
        return "\n".join(lines)


def in_any_order(_one: object, _other: object) -> bool:
    """Says that the order of two actuals does not matter."""
    return False


def matched(
    stated: Sequence[StatedT],
    actual: Iterable[Actual],
    names: Callable[[StatedT, Actual], bool],
    write: Callable[[Actual], str],
    in_turn: Callable[[Actual, Actual], bool] = in_any_order,
) -> tuple[Pair, ...]:
    """Pairs of each stated line and the actual that it names. Lines and actuals without a partner are paired in order.

    Each line needs an actual of its own, and each actual a line. Where `in_turn` says that the order of two actuals
    matters, the lines have to stand in that order.
    """
    actuals = list(actual)
    partners = _in_turn(
        _paired([[names(line, each) for each in actuals] for line in stated]), actuals, in_turn
    )
    unpaired = [place for place in range(len(actuals)) if place not in partners]
    pairs = []
    for line, partner in zip(stated, partners, strict=True):
        place = partner if partner is not None else unpaired.pop(0) if unpaired else None
        if place is None:
            pairs.append(Pair(line.line, NOTHING, False))
        else:
            pairs.append(Pair(line.line, write(actuals[place]), names(line, actuals[place])))
    return (*pairs, *(Pair(NOTHING, write(actuals[place]), False) for place in unpaired))


def _paired(named: Sequence[Sequence[bool]]) -> list[int | None]:
    """For each line the place of its partner, in as many pairs as possible.

    A line takes the partner of another line only if that one finds another partner.
    """
    partners: list[int | None] = [None] * len(named)

    def find(line: int, tried: set[int]) -> bool:
        places = [place for place, hit in enumerate(named[line]) if hit]
        for place in sorted(places, key=lambda place: place in partners):
            if place in tried:
                continue
            tried.add(place)
            if place not in partners or find(partners.index(place), tried):
                partners[line] = place
                return True
        return False

    for line in range(len(named)):
        find(line, set())
    return partners


def _in_turn(
    partners: Sequence[int | None], actuals: Sequence[Actual], in_turn: Callable[[Actual, Actual], bool]
) -> list[int | None]:
    """The same partners, exchanged among the lines until those whose order matters are in order."""
    turned = list(partners)
    exchanged = True
    while exchanged:
        exchanged = False
        for one, other in combinations(range(len(turned)), 2):
            first, second = turned[one], turned[other]
            if (
                first is None
                or second is None
                or first < second
                or not in_turn(actuals[second], actuals[first])
            ):
                continue
            turned[one], turned[other], exchanged = second, first, True
    return turned


def compared(expected: Iterable[str], actual: Iterable[str]) -> tuple[Pair, ...]:
    """Pairs of lines that have to be equal, in any order."""
    stated, found = list(expected), list(actual)
    missing, extra = Counter(stated) - Counter(found), Counter(found) - Counter(stated)
    unpaired, pairs = extra.elements(), []
    for line in stated:
        pairs.append(Pair(line, next(unpaired, NOTHING) if missing[line] else line, not missing[line]))
        missing[line] -= missing[line] > 0
    return (*pairs, *(Pair(NOTHING, line, False) for line in unpaired))


def each_once(differences: Iterable[Difference]) -> list[Difference]:
    """Equal differences as one, which names every run that it was found in."""
    runs_of: dict[Difference, tuple[str, ...]] = {}
    for difference in differences:
        bare = replace(difference, runs=())
        runs_of[bare] = (*runs_of.get(bare, ()), *difference.runs)
    return [replace(bare, runs=runs) for bare, runs in runs_of.items()]


def differs(pairs: Iterable[Pair]) -> bool:
    return not all(pair.same for pair in pairs)
