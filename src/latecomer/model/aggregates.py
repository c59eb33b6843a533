"""Aggregates as they are written (`sum(paise)`), and their exact meaning on plain values.

`evaluate` is what the oracle uses: the whole list of values, no state, no merging. The Spark path
computes the same through mergeable states (windowing/states.py) and must agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from latecomer.model.base import Model

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(\s*(\*|`(?:[^`]|``)+`|[^,()`]+?)\s*(?:,\s*([^,()]+?)\s*)?\)\s*")

SYNONYMS = {
    "mean": "avg",
    "var": "variance",
    "var_samp": "variance",
    "std": "stddev",
    "stddev_samp": "stddev",
    "percentile_approx": "approx_percentile",
}
FUNCTIONS = (
    "sum",
    "count",
    "min",
    "max",
    "avg",
    "variance",
    "var_pop",
    "stddev",
    "stddev_pop",
    "approx_count_distinct",
    "approx_percentile",
)
NUMERIC = frozenset({"sum", "avg", "variance", "var_pop", "stddev", "stddev_pop", "approx_percentile"})
"""The functions that take numbers only."""
ADDITIVE = frozenset({"sum", "count", "min", "max"})
"""The functions whose results over parts give the result over the whole."""
RANDOMISED = frozenset({"approx_percentile"})
"""The functions that may say a little different things of the same events."""


class Aggregate(Model):
    """One aggregate: a function over one column (`None` for `count(*)`), with its argument if any."""

    function: str
    column: str | None = None
    argument: float | None = None

    def __str__(self) -> str:
        column = "*" if self.column is None else _written_name(self.column)
        argument = "" if self.argument is None else f", {self.argument}"
        return f"{self.function}({column}{argument})"

    def evaluate(self, values: Sequence[Any]) -> Any:
        """The exact result over all values of the column (over all rows for `count(*)`)."""
        if self.column is None:
            return len(values)
        present = [value for value in values if value is not None]
        if self.function == "count":
            return len(present)
        if self.function == "approx_count_distinct":
            return len(set(present))
        if not present:
            return None
        return _EVALUATE[self.function](present, self.argument)

    def of_nothing(self) -> int | None:
        """What an empty window says: counts and sums are 0, and nothing has no largest value.

        >>> parse_aggregate("sum(paise)").of_nothing()
        0
        """
        return 0 if self.function in ("sum", "count", "approx_count_distinct") else None

    def add_up(self, results: Sequence[Any]) -> Any:
        """The result over the whole, from those over its parts; for additive functions only."""
        if self.function not in ADDITIVE:
            raise ValueError(f"{self.function} of parts does not give {self.function} of the whole")
        present = [result for result in results if result is not None]
        if not present:
            return None
        return _EVALUATE["sum" if self.function == "count" else self.function](present, None)


def parse_aggregate(written: object) -> Aggregate:
    """Read `function(column)`.

    >>> parse_aggregate("approx_percentile(fare, 0.95)")
    Aggregate(function='approx_percentile', column='fare', argument=0.95)
    """
    if isinstance(written, Aggregate):
        return written
    if isinstance(written, dict):
        return Aggregate(**written)
    match = _CALL.fullmatch(written) if isinstance(written, str) else None
    if match is None:
        raise ValueError("not an aggregate; write function(column), such as sum(paise) or count(*)")
    function, column, argument = match.group(1).lower(), match.group(2), match.group(3)
    function = SYNONYMS.get(function, function)
    if function not in FUNCTIONS:
        raise ValueError(f"unknown function {function}; there are {', '.join(FUNCTIONS)}")
    if column.startswith("`"):
        column = column[1:-1].replace("``", "`")
    elif column == "*":
        if function != "count":
            raise ValueError(f"{function} needs a column; only count takes *")
        _argument(function, argument)
        return Aggregate(function=function)
    return Aggregate(function=function, column=column, argument=_argument(function, argument))


def _written_name(column: str) -> str:
    """A column as it has to be written to be read back."""
    if re.fullmatch(r"[^\s,()`*]+", column):
        return column
    return "`" + column.replace("`", "``") + "`"


def _argument(function: str, written: str | None) -> float | None:
    if function != "approx_percentile":
        if written is not None:
            raise ValueError(f"{function} takes one column and nothing else")
        return None
    try:
        share = float(written or "")
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError("approx_percentile needs a share from 0 to 1, as in approx_percentile(fare, 0.95)")
    return share


def _average(values: Sequence[Any], _: float | None) -> Any:
    if isinstance(values[0], Decimal):
        with localcontext(prec=60):
            return sum(values, Decimal(0)) / len(values)
    return _total(values) / len(values)


def _total(values: Sequence[Any]) -> Any:
    if isinstance(values[0], float):
        return math.fsum(values)
    with localcontext(prec=80):
        return sum(values)


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


_EVALUATE: dict[str, Any] = {
    "sum": lambda values, _: _total(values),
    "min": lambda values, _: min(values),
    "max": lambda values, _: max(values),
    "avg": _average,
    "variance": lambda values, _: _moment(values, 1),
    "var_pop": lambda values, _: _moment(values, 0),
    "stddev": lambda values, _: _root(_moment(values, 1)),
    "stddev_pop": lambda values, _: _root(_moment(values, 0)),
    "approx_percentile": _percentile,
}

WrittenAggregate = Annotated[
    Aggregate,
    BeforeValidator(parse_aggregate),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {"type": "string", "examples": ["sum(paise)", "count(*)", "approx_percentile(fare, 0.95)"]}
    ),
]
