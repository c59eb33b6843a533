"""Two sides held against each other, line by line, and shown side by side where they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from latecomer.testing.notation import NOTHING

Actual = TypeVar("Actual")


class Stated(Protocol):
    """What a line states."""

    @property
    def line(self) -> str: ...


StatedT = TypeVar("StatedT", bound=Stated)


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

    def __str__(self) -> str:
        width = max(len(text) for text in (self.sides[0], *(pair.expected for pair in self.pairs)))
        lines = [f"{self.place}: {self.what}", f"    {self.sides[0]:<{width}}    {self.sides[1]}".rstrip()]
        for pair in self.pairs:
            lines.append(f"{'   ' if pair.same else '  ≠'} {pair.expected:<{width}}    {pair.actual}")
        return "\n".join(lines)


def matched(
    stated: Sequence[StatedT],
    actual: Iterable[Actual],
    names: Callable[[StatedT, Actual], bool],
    write: Callable[[Actual], str],
) -> tuple[Pair, ...]:
    """Every stated line beside what it names, the rest side by side in their order.

    Order decides nothing: each line needs one actual of its own, and each actual a line.
    """
    left = list(actual)
    found: list[Actual | None] = []
    for line in stated:
        hit = next((each for each in left if names(line, each)), None)
        found.append(hit)
        if hit is not None:
            del left[next(index for index, each in enumerate(left) if each is hit)]
    pairs = []
    for line, hit in zip(stated, found, strict=True):
        if hit is not None:
            pairs.append(Pair(line.line, write(hit), True))
        else:
            pairs.append(Pair(line.line, write(left.pop(0)) if left else NOTHING, False))
    return (*pairs, *(Pair(NOTHING, write(each), False) for each in left))


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


def differs(pairs: Iterable[Pair]) -> bool:
    return not all(pair.same for pair in pairs)
