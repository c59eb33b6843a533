"""Labels that do not overlap: each gets a place near its dot where neither a dot nor a label is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

HEIGHT, LETTER = 11, 7.0
"""The size of a label's letters in wide fonts."""


@dataclass(frozen=True)
class Box:
    """A rectangle on paper."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, x: float, y: float, radius: float) -> Box:
        return cls(x - radius, y - radius, x + radius, y + radius)

    def meets(self, other: Box) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)

    def inside(self, other: Box) -> bool:
        wide = other.left <= self.left and self.right <= other.right
        return wide and other.top <= self.top and self.bottom <= other.bottom


@dataclass
class Labels:
    """The labels of one panel."""

    within: Box
    boxes: list[Box] = field(default_factory=list)

    def place(self, x: float, y: float, text: str, radius: float) -> tuple[float, float] | None:
        """The middle of the label's baseline, above the dot if possible; None where there is no room."""
        half = LETTER * len(text) / 2
        for middle, base in _candidates(x, y, half, radius):
            box = Box(middle - half, base - HEIGHT + 2, middle + half, base + 2)
            if box.inside(self.within) and not any(box.meets(other) for other in self.boxes):
                self.boxes.append(box)
                return round(middle, 1), round(base, 1)
        return None


def _candidates(x: float, y: float, half: float, radius: float) -> Iterator[tuple[float, float]]:
    """Above, below, at the right, at the left; then further away."""
    for away in (radius + 4, radius + 16):
        yield x, y - away
        yield x, y + away + HEIGHT - 3
        yield x + half + away, y + 4
        yield x - half - away, y + 4
        yield x + half, y - away
        yield x - half, y - away


def shortened(text: str, most: int) -> str:
    """A text cut to a length; an ellipsis marks the cut.

    >>> shortened("electronics", 8)
    'elect…cs'
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 3
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"
