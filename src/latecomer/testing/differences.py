"""Two sides held against each other, line by line, and shown side by side where they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Protocol, TypeVar

from latecomer.testing.notation import NOTHING

Actual = TypeVar("Actual")


class Stated(Protocol):
    """What a line states."""

    @property
    def line(self) -> str: ...


StatedT = TypeVar("StatedT", bound=Stated)


@dataclass(frozen=True)
class Line:
    """A line that says all there is to say."""

    line: str


@dataclass(frozen=True)
class Pair:
    """Two lines that should say the same."""

    expected: str
    actual: str
    same: bool


@dataclass(frozen=True)
class Difference:
    """Something that is not as it should be: where, what, and both sides."""

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


def matched(
    stated: Sequence[StatedT],
    actual: Iterable[Actual],
    names: Callable[[StatedT, Actual], bool],
    write: Callable[[Actual], str],
    in_turn: Callable[[Actual, Actual], bool] = lambda _one, _other: False,
) -> tuple[Pair, ...]:
    """Every stated line beside what it names, the rest side by side in their order.

    Each line needs one actual of its own, and each actual a line. Order decides where `in_turn` says
    that it matters which of two actuals came first.
    """
    there = list(actual)
    beside = _in_turn(_paired([[names(line, each) for each in there] for line in stated]), there, in_turn)
    left = [place for place in range(len(there)) if place not in beside]
    pairs = []
    for line, found in zip(stated, beside, strict=True):
        place = found if found is not None else left.pop(0) if left else None
        if place is None:
            pairs.append(Pair(line.line, NOTHING, False))
        else:
            pairs.append(Pair(line.line, write(there[place]), names(line, there[place])))
    return (*pairs, *(Pair(NOTHING, write(there[place]), False) for place in left))


def _paired(named: Sequence[Sequence[bool]]) -> list[int | None]:
    """For each line the place of the actual that is its own: as many as there can be.

    A line that finds what it names taken makes way for another only if that one finds something else.
    """
    beside: list[int | None] = [None] * len(named)

    def find(line: int, asked: set[int]) -> bool:
        places = [place for place, hit in enumerate(named[line]) if hit]
        for place in sorted(places, key=lambda place: place in beside):
            if place in asked:
                continue
            asked.add(place)
            if place not in beside or find(beside.index(place), asked):
                beside[line] = place
                return True
        return False

    for line in range(len(named)):
        find(line, set())
    return beside


def _in_turn(
    beside: Sequence[int | None], there: Sequence[Actual], in_turn: Callable[[Actual, Actual], bool]
) -> list[int | None]:
    """The same actuals, exchanged among the lines until those whose order matters stand in it."""
    turned = list(beside)
    exchanged = True
    while exchanged:
        exchanged = False
        for one, other in combinations(range(len(turned)), 2):
            first, second = turned[one], turned[other]
            if first is None or second is None or first < second or not in_turn(there[second], there[first]):
                continue
            turned[one], turned[other], exchanged = second, first, True
    return turned


def compared(expected: Iterable[str], actual: Iterable[str]) -> tuple[Pair, ...]:
    """The same for lines that have to be equal."""
    sides = list(expected), list(actual)
    missing, extra = list(sides[0]), list(sides[1])
    pairs = []
    for line in sides[0]:
        if line in extra:
            extra.remove(line)
            missing.remove(line)
    for line in sides[0]:
        if line in missing:
            missing.remove(line)
            pairs.append(Pair(line, extra.pop(0) if extra else NOTHING, False))
        else:
            pairs.append(Pair(line, line, True))
    return (*pairs, *(Pair(NOTHING, line, False) for line in extra))


def each_once(differences: Iterable[Difference]) -> list[Difference]:
    """Those that say the same as one, which names every run that it was found in."""
    found: dict[Difference, tuple[str, ...]] = {}
    for difference in differences:
        bare = replace(difference, runs=())
        found[bare] = (*found.get(bare, ()), *difference.runs)
    return [replace(bare, runs=runs) for bare, runs in found.items()]


def differs(pairs: Iterable[Pair]) -> bool:
    return not all(pair.same for pair in pairs)
