"""Aggregates as they are written (`sum(paise)`), and the properties of each function.

Their results are defined on plain values, without states and merging: the oracle uses these definitions. The Spark path
computes the same through mergeable states (`windowing/aggregates`) and must agree.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from latecomer.model.base import Model
from latecomer.model.json_text import json_text
from latecomer.model.ledger import exact_amounts
from latecomer.model.words import QUOTED, in_backticks, without_backticks, words

_CALL = re.compile(
    rf"\s*([A-Za-z_]\w*)\s*\(\s*(?:(distinct)(?:\s+|(?=`)))?(\*|{QUOTED}|[^,()`]+?)\s*(?:,\s*([^,()`]+?)\s*)?\)\s*",
    re.IGNORECASE,
)
_OPERATOR = re.compile(r"[+*/%|<>=!']|\s-\s|\s(?:and|or|is|not)\s|^case\s", re.IGNORECASE)

SYNONYMS = {
    "mean": "avg",
    "var": "variance",
    "var_samp": "variance",
    "std": "stddev",
    "stddev_samp": "stddev",
    "percentile_approx": "approx_percentile",
}
FUNCTIONS = words(
    "sum count min max avg variance var_pop stddev stddev_pop count_distinct first last median top_k collect "
    "approx_count_distinct approx_percentile"
)
NUMERIC = frozenset(
    {"sum", "avg", "variance", "var_pop", "stddev", "stddev_pop", "median", "approx_percentile"}
)
"""The functions that take numbers only."""
ADDITIVE = frozenset({"sum", "count", "min", "max"})
"""The functions whose results over parts can be combined to the result over the whole."""
TALLIED = frozenset({"count_distinct", "median", "top_k"})
"""The functions that keep each distinct value with its count."""
MOMENTS = frozenset({"variance", "var_pop", "stddev", "stddev_pop"})
"""The functions that are computed from a count, a sum and a sum of squares."""
ORDERED = frozenset({"first", "last", "collect"})
"""The functions that depend on the order of events: event time, then arrival time, then reading order."""
SKETCHED = frozenset({"approx_count_distinct", "approx_percentile"})
"""The functions that keep a sketch instead of the values."""
RANDOMISED = frozenset({"approx_percentile"})
"""The functions whose results for the same events may differ a little."""
MOST = {"top_k": 1_000, "collect": 10_000}
"""The largest argument: how many values are returned at most."""
_NEAR = {
    "any_value": "first(column)",
    "approx_distinct": "approx_count_distinct(column)",
    "approx_top_k": "top_k(column, 10)",
    "array_agg": "collect(column, 100)",
    "average": "avg(column)",
    "collect_list": "collect(column, 100)",
    "collect_set": "top_k(column, 100)",
    "first_value": "first(column)",
    "last_value": "last(column)",
    "mode": "top_k(column, 1)",
    "ndv": "approx_count_distinct(column)",
    "nunique": "count(distinct column)",
    "percentile": "median(column), or approx_percentile(column, 0.95)",
    "percentile_cont": "median(column), or approx_percentile(column, 0.95)",
    "quantile": "approx_percentile(column, 0.95)",
    "approx_quantile": "approx_percentile(column, 0.95)",
}
"""Functions of other systems → how they are written here."""


class Aggregate(Model):
    """One aggregate: a function over one column (`None` for `count(*)`), with its argument if any."""

    function: str
    column: str | None = None
    argument: int | float | None = None
    """The share of a percentile, or the most values to return."""

    def __str__(self) -> str:
        column = "*"
        if self.column is not None:  # in backticks where it could not be parsed again without them
            plain = re.fullmatch(r"[^\s,()`*]+", self.column)
            column = self.column if plain else in_backticks(self.column)
        if self.function == "count_distinct":
            return f"count(distinct {column})"
        argument = "" if self.argument is None else f", {self.argument}"
        return f"{self.function}({column}{argument})"

    @property
    def called(self) -> str:
        """The function as people write it."""
        return "count(distinct)" if self.function == "count_distinct" else self.function

    def evaluate(self, values: Sequence[Any]) -> Any:
        """The exact result over all values of the column (over all rows for `count(*)`).

        Functions that depend on the order of events (ORDERED) need the values in that order.
        """
        if self.column is None:
            return len(values)
        present = [value for value in values if value is not None]
        if self.function == "count":
            return len(present)
        if self.function in ("approx_count_distinct", "count_distinct"):
            return len(tally(present))
        if not present:
            return None
        return _MEANINGS[self.function](present, self.argument)

    def of_nothing(self) -> int | None:
        """The result for an empty window: 0 for counts and sums, None for the others.

        >>> parse_aggregate("sum(paise)").of_nothing()
        0
        """
        return 0 if self.function in ("sum", "count", "count_distinct", "approx_count_distinct") else None

    def add_up(self, results: Sequence[Any]) -> Any:
        """The result over the whole, from the results over its parts; for additive functions only."""
        if self.function not in ADDITIVE:
            raise ValueError(f"{self.called} of parts does not give {self.called} of the whole")
        present = [result for result in results if result is not None]
        if not present:
            return None
        return _MEANINGS["sum" if self.function == "count" else self.function](present, None)


def parse_aggregate(written: object) -> Aggregate:
    """Read `function(column)`.

    >>> parse_aggregate("approx_percentile(fare, 0.95)")
    Aggregate(function='approx_percentile', column='fare', argument=0.95)
    >>> parse_aggregate("count(distinct `net amount`)")
    Aggregate(function='count_distinct', column='net amount', argument=None)
    """
    if isinstance(written, Aggregate):
        return written
    if isinstance(written, dict):
        return parse_aggregate(str(Aggregate(**written)))
    match = _CALL.fullmatch(written) if isinstance(written, str) else None
    if match is None:
        raise ValueError(
            "not an aggregate, which is one function of one column and no expression; "
            "write function(column), such as sum(paise), count(*) or count(distinct payer), "
            "and compute expressions in a column first"
        )
    name, distinct, column, argument = match.groups()
    function = _function(name.lower(), distinct is not None)
    if column.startswith("`"):
        column = without_backticks(column)
    elif column == "*":
        if function != "count":
            raise ValueError(f"{shown_function(function)} needs a column; only count takes *")
        _argument(function, argument)
        return Aggregate(function=function)
    return Aggregate(function=function, column=column, argument=_argument(function, argument))


def _function(name: str, distinct: bool) -> str:
    function = SYNONYMS.get(name, name)
    if distinct:
        if function != "count":
            raise ValueError(
                f"distinct goes with count alone; write count(distinct column), or {name}(column)"
            )
        return "count_distinct"
    if function in FUNCTIONS:
        return function
    near = difflib.get_close_matches(function, [*FUNCTIONS, *SYNONYMS], n=1, cutoff=0.75)
    near_one = _NEAR.get(function) or (shown_function(near[0]) if near else None)
    hint = "" if near_one is None else f"did you mean {near_one}? "
    raise ValueError(
        f"unknown function {function}; {hint}there are {', '.join(map(shown_function, FUNCTIONS))}"
    )


def shown_function(function: str) -> str:
    """A function as people write it."""
    return "count(distinct column)" if function == "count_distinct" else function


def is_expression(column: str) -> bool:
    """Whether a text in the place of a column looks like an expression.

    >>> is_expression("distance * 2"), is_expression("net amount"), is_expression("net-amount2")
    (True, False, False)
    """
    return _OPERATOR.search(column) is not None


def _argument(function: str, written: str | None) -> int | float | None:
    if function in MOST:
        most = MOST[function]
        if written is None or not re.fullmatch(r"\d{1,6}", written) or not 1 <= int(written) <= most:
            raise ValueError(
                f"{function} needs a number of values from 1 to {most}, as in {function}(merchant, 10)"
            )
        return int(written)
    if function != "approx_percentile":
        if written is not None:
            raise ValueError(f"{shown_function(function)} takes one column and nothing else")
        return None
    try:
        share = float(written or "")
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError("approx_percentile needs a share from 0 to 1, as in approx_percentile(fare, 0.95)")
    return share


WrittenAggregate = Annotated[
    Aggregate,
    BeforeValidator(parse_aggregate),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "examples": ["sum(paise)", "count(*)", "count(distinct payer)", "top_k(merchant, 10)"],
        }
    ),
]


# The result over a plain list of all values, without nulls and in the order of events


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


_MEANINGS: Mapping[str, Callable[[Sequence[Any], Any], Any]] = {
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
