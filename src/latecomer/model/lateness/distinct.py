"""Counts distinct things, each with flags, in bounded memory.

A thing is a 64-bit hash. While there are few, all are kept and the count is exact. When there are too many, only those
below a threshold are kept, and the threshold is halved as often as needed. The result is a sample of the distinct
things: one that comes a thousand times counts once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Literal

import numpy as np

from latecomer.model.array_types import Unsigned

ROOM = 1 << 21
"""The most things that are kept. Each takes 16 bytes, and those that wait to be merged take as much again."""


@dataclass
class Distinct:
    """Distinct things, each with the flags of all its occurrences: their union (`any`), or the smallest (`least`)."""

    keep: Literal["any", "least"]
    room: int = ROOM
    things: Unsigned = field(default_factory=lambda: np.zeros(0, np.uint64))
    flags: Unsigned = field(default_factory=lambda: np.zeros(0, np.uint64))
    halved: int = 0
    _waiting: list[tuple[Unsigned, Unsigned]] = field(default_factory=list)
    _waits: int = 0

    def add(self, things: Unsigned, flags: Unsigned) -> None:
        """Add things, which may have duplicates."""
        things, flags = self._sampled(things, flags)
        if not len(things):
            return
        self._waiting.append(self._merged(things, flags))
        self._waits += len(self._waiting[-1][0])
        if self._waits > self.room:
            self.settle()

    def settle(self) -> None:
        """Merge the waiting things."""
        if not self._waiting:
            return
        waiting = [(self.things, self.flags), *self._waiting]
        things = np.concatenate([each for each, _ in waiting])
        flags = np.concatenate([each for _, each in waiting])
        self.things, self.flags = self._merged(things, flags)
        self._waiting, self._waits = [], 0
        while len(self.things) > self.room:
            self.halved += 1
            self.things, self.flags = self._sampled(self.things, self.flags)

    def _sampled(self, things: Unsigned, flags: Unsigned) -> tuple[Unsigned, Unsigned]:
        if not self.halved:
            return things, flags
        kept = things < np.uint64(1 << (64 - self.halved))
        return things[kept], flags[kept]

    def _merged(self, things: Unsigned, flags: Unsigned) -> tuple[Unsigned, Unsigned]:
        order = np.argsort(things)
        things, flags = things[order], flags[order]
        first = np.flatnonzero(np.concatenate([[True], things[1:] != things[:-1]]))
        together = np.bitwise_or if self.keep == "any" else np.minimum
        return things[first], together.reduceat(flags, first)

    @property
    def weight(self) -> int:
        """How many things each kept one stands for."""
        return 1 << self.halved

    @property
    def error(self) -> float:
        """The relative standard error of a count of all of them; 0 where it is exact."""
        self.settle()
        return sqrt((self.weight - 1) / (self.weight * len(self.things))) if self.halved else 0.0


def mixed(*columns: Unsigned) -> Unsigned:
    """A 64-bit hash of each row over all columns."""
    mix = np.full(len(columns[0]), 0x9E3779B97F4A7C15, np.uint64)
    for column in columns:
        mix = mix ^ (column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15) + (mix << np.uint64(6)))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mix = (mix ^ (mix >> np.uint64(shift))) * np.uint64(factor)
        mix ^= mix >> np.uint64(31)
    return mix
