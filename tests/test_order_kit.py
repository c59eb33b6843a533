"""Tests as letters: s for one on Spark, k for one with a broker, b for one with both, a dot for any other."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from order_kit import in_order

FIXTURES = {"s": ["tmp_path", "spark"], "k": ["own_kafka"], "b": ["kafka", "spark"], ".": ["tmp_path"]}


@dataclass(eq=False)
class Item:
    letter: str

    @property
    def fixturenames(self) -> list[str]:
        return FIXTURES[self.letter]


def ordered(written: str, workers: int) -> str:
    items = [Item(letter) for letter in written]
    found = in_order(items, workers)
    assert sorted(map(id, found)) == sorted(map(id, items))
    return "".join(item.letter for item in found)


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        (1, "ssbskk............."),
        (2, "ssbskk............."),
        (3, "ss....bs....kk....."),
        (5, "ss.bs..kk.........."),
    ],
)
def test_two_workers_begin_with_spark_and_a_third_with_brokers(workers: int, expected: str) -> None:
    assert ordered(".s.k...s..b..k..s..", workers) == expected


def test_where_most_tests_need_spark_they_come_first() -> None:
    assert ordered("s.sk.sss", 3) == "sssssk.."
