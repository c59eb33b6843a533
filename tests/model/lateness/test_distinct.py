"""Counting different things: exactly while they are few, within its error when they are many."""

from __future__ import annotations

import numpy as np

from latecomer.model.lateness.sweep import Distinct, mixed


def test_few_are_counted() -> None:
    counted = Distinct("any")
    counted.add(np.array([3, 1, 3], np.uint64), np.array([1, 2, 4], np.uint64))
    counted.add(np.array([1], np.uint64), np.array([8], np.uint64))
    counted.settle()
    assert counted.things.tolist() == [1, 3]
    assert counted.flags.tolist() == [10, 5]
    assert counted.error == 0


def test_the_least_of_each_is_kept() -> None:
    counted = Distinct("least")
    counted.add(np.array([3, 1, 3], np.uint64), np.array([7, 2, 4], np.uint64))
    counted.settle()
    assert counted.flags.tolist() == [2, 4]


def test_many_are_sampled_within_the_error_it_tells() -> None:
    counted = Distinct("any", room=10_000)
    for start in range(0, 400_000, 40_000):
        things = np.arange(start, start + 60_000, dtype=np.uint64) % np.uint64(400_000)
        counted.add(mixed(things), np.ones(len(things), np.uint64))
    counted.settle()
    assert len(counted.things) <= 10_000
    assert 0 < counted.error < 0.02
    assert abs(len(counted.things) * counted.weight / 400_000 - 1) < 4 * counted.error
