"""In which order the workers are given the tests."""

from __future__ import annotations

from itertools import islice
from typing import Any, TypeVar

Item = TypeVar("Item")


def takes(item: Any, *fixtures: str) -> bool:
    """Whether a test asks for one of the fixtures."""
    return not {*fixtures}.isdisjoint(getattr(item, "fixturenames", ()))


def in_order(items: list[Item], workers: int) -> list[Item]:
    """What takes long comes first, so that no worker is left alone with it at the end.

    Each worker is given a share, and takes from the ends of others' when it is through. A Spark costs it half a
    minute, so two workers share what needs one. A third begins with what waits for brokers.
    """
    spark = [item for item in items if takes(item, "spark")]
    brokers = [item for item in items if takes(item, "kafka", "own_kafka") and item not in spark]
    first = {*spark, *brokers}
    others = iter([item for item in items if item not in first])
    half = len(spark) // 2
    firsts = [spark[:half], spark[half:], brokers]
    if workers < len(firsts) or max(map(len, firsts)) > len(items) // workers:
        return [*spark, *brokers, *others]
    made: list[Item] = []
    for nth, first_of in enumerate(firsts, 1):
        made += first_of
        made += islice(others, len(items) * nth // workers - len(made))
    return [*made, *others]
