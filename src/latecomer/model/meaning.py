"""The definition of each aggregate over a plain list of all values, without states and merging.

The values come without nulls and in the order of events: event time, then arrival time, then reading order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from latecomer.model.json_text import json_text
from latecomer.model.ledger import exact_amounts

Meaning = Callable[[Sequence[Any], Any], Any]


def total(values: Sequence[Any]) -> Any:
    """The exact sum. That of floating point numbers is rounded once; it is infinite where it is too large, and NaN
    where infinities cancel.

    >>> total([1e308, 1e308]), total([0.1] * 10)
    (inf, 1.0)
    """
    if not isinstance(values[0], float):
        with exact_amounts():
            return sum(values)
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        # An intermediate sum is too large, or there are infinities of both signs.
        return sum(values)


def _average(values: Sequence[Any], _: Any) -> Any:
    if isinstance(values[0], Decimal):
        with localcontext(prec=60):
            return sum(values, Decimal(0)) / len(values)
    return total(values) / len(values)


def _moment(values: Sequence[Any], less: int) -> float | None:
    if len(values) <= less:
        return None
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return float(sum((value - mean) ** 2 for value in exact) / (len(exact) - less))


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def _percentile(values: Sequence[Any], share: float | None) -> Any:
    rank = max(math.ceil((share or 0) * len(values)), 1)
    return sorted(values)[rank - 1]


# Over tallies: each value with its count


def tally(values: Sequence[Any]) -> list[tuple[Any, int]]:
    """Each value with its count, in order of the values.

    >>> tally(["b", "a", "b"])
    [('a', 1), ('b', 2)]
    """
    return sorted(Counter(map(_one_zero, values)).items(), key=lambda pair: _in_order(pair[0]))


def _one_zero(value: Any) -> Any:
    """The value, with -0.0 as 0.0 and every NaN as the same object."""
    if not isinstance(value, float):
        return value
    return math.nan if math.isnan(value) else value + 0.0


def _in_order(value: Any) -> Any:
    """The sort key of a value: NaN is larger than every number."""
    return (math.isnan(value), value) if isinstance(value, float) else value


def median(tallied: Sequence[tuple[Any, int]]) -> Any:
    """The middle value. For an even count, the mean of the two middle values, exact for exact numbers.

    >>> median([(1, 1), (2, 1), (7, 2)])
    Decimal('4.5')
    """
    size = sum(count for _, count in tallied)
    low, high = (_at_rank(tallied, rank) for rank in ((size - 1) // 2, size // 2))
    if isinstance(low, float):
        return (low + high) / 2
    with exact_amounts():
        return (Decimal(low) + Decimal(high)) / 2


def _at_rank(tallied: Sequence[tuple[Any, int]], rank: int) -> Any:
    seen = 0
    for value, count in tallied:
        seen += count
        if seen > rank:
            return value
    raise IndexError(rank)


def top(tallied: Sequence[tuple[Any, int]], most: int) -> str:
    """The most frequent values with their counts, as JSON; of equally frequent ones, the smaller first.

    >>> top([("a", 1), ("b", 2), ("c", 1)], 2)
    '[{"value":"b","count":2},{"value":"a","count":1}]'
    """
    ranked = sorted(tallied, key=lambda pair: (-pair[1], _in_order(pair[0])))[:most]
    return json_text([{"value": value, "count": count} for value, count in ranked])


MEANINGS: Mapping[str, Meaning] = {
    "sum": lambda values, _: total(values),
    "min": lambda values, _: min(values),
    "max": lambda values, _: max(values),
    "avg": _average,
    "variance": lambda values, _: _moment(values, 1),
    "var_pop": lambda values, _: _moment(values, 0),
    "stddev": lambda values, _: _root(_moment(values, 1)),
    "stddev_pop": lambda values, _: _root(_moment(values, 0)),
    "first": lambda values, _: values[0],
    "last": lambda values, _: values[-1],
    "median": lambda values, _: median(tally(values)),
    "top_k": lambda values, most: top(tally(values), most),
    "collect": lambda values, most: json_text(values[:most]),
    "approx_percentile": _percentile,
}
