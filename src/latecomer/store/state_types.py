"""The columns with the state behind an aggregate's value: names and types, for merging states without Spark."""

from __future__ import annotations

from latecomer.model import types
from latecomer.model.aggregates import ADDITIVE, MOMENTS, SKETCHED, TALLIED, Aggregate
from latecomer.store.private_columns import state_column

WHOLE = "decimal(38,0)"
NARROW = "bigint"
LOW_DIGITS = 20
"""The number of digits in the lower half of a decimal, where sums are made of two halves."""
_EVENT = "t: bigint, a: bigint, o: string, p: bigint"
"""Event time, arrival time, origin and position: the order of events."""


def held_type(kind: str) -> str:
    """The type in which values of a column are stored in states."""
    if kind in types.INTEGERS:
        return "bigint"
    return "double" if kind in types.FLOATS else kind


def tally_type(kind: str) -> str:
    """The values of a column, each with its count.

    >>> tally_type("int")
    'array<struct<v: bigint, n: bigint>>'
    """
    return f"array<struct<v: {held_type(kind)}, n: bigint>>"


def event_type(kind: str) -> str:
    """An event by its place in the order of events, and its value."""
    return f"struct<{_EVENT}, v: {held_type(kind)}>"


def can_sketch(aggregate: Aggregate, kind: str) -> bool:
    """Whether an approximation over a column of this type can be made and merged without Spark.

    The library has no way to count distinct bytes.
    """
    return aggregate.function == "approx_percentile" or kind != "binary"


def state_parts(aggregate: Aggregate, kind: str) -> dict[str, str]:
    """The parts of the state of an aggregate over a column of this type, and their types.

    Sums, counts, minima and maxima are their own state. There is none either where only Spark can merge the aggregate.

    >>> state_parts(Aggregate(function="avg", column="paise"), "bigint")
    {'sum': 'decimal(38,0)', 'count': 'bigint'}
    """
    if aggregate.function in ADDITIVE:
        return {}
    if aggregate.function in SKETCHED:
        return {"sketch": "binary"} if can_sketch(aggregate, kind) else {}
    if aggregate.function in TALLIED:
        return {"tally": tally_type(kind)}
    match aggregate.function:
        case "first" | "last":
            return {"event": event_type(kind)}
        case "collect":
            return {"events": f"array<{event_type(kind)}>"}
        case "avg":
            held = f"decimal(38,{types.scale_of(kind)})" if types.is_exact(kind) else "double"
            return {"sum": held, "count": "bigint"}
    if aggregate.function not in MOMENTS:
        raise ValueError(f"{aggregate.function} has no state")
    if not types.is_exact(kind):
        return {"count": "bigint", "mean": "double", "spread": "double"}
    rough = dict.fromkeys(("rough_sum", "rough_squares"), "double")
    return {"count": "bigint", "sum": WHOLE, "squares": WHOLE, **rough}


def beyond_column(column: str) -> str:
    """The column for a sum of whole numbers that exceeds its column of 64 bits; else null."""
    return state_column(column, "beyond")


def beyond_halves(column: str) -> tuple[str, str]:
    """The columns for the upper and the lower half of a sum that needs more than 38 digits; else null."""
    return f"{beyond_column(column)}_high", f"{beyond_column(column)}_low"
