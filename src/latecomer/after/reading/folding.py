"""States of an aggregate merged without Spark: what several of them come to, none rounded before the end.

The parts of a state are those of `store/state_types.py`. `state_of` makes one from events, `folded` the value
of several.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pyarrow as pa

from latecomer.model import meaning, types
from latecomer.model.aggregates import SKETCHED, TALLIED, Aggregate
from latecomer.model.types import MOST_DIGITS
from latecomer.model.written_numbers import fits

State = Mapping[str, Any]
Event = Mapping[str, Any]
"""Event time `t`, arrival time `a`, origin `o`, position `p` and value `v`."""


def state_of(aggregate: Aggregate, events: Sequence[Event], kind: str) -> dict[str, Any]:
    """The state of some events, whose values are of this type."""
    held = [event for event in events if event["v"] is not None]
    values = [event["v"] for event in held]
    if aggregate.function in TALLIED:
        return {"tally": [{"v": value, "n": count} for value, count in meaning.tally(values)]}
    if aggregate.function in SKETCHED:
        from latecomer.store.sketches import sketch_of  # its library is loaded only where it is needed

        return {"sketch": sketch_of(aggregate, values, kind)}
    match aggregate.function:
        case "first" | "last" | "collect":
            return _kept(aggregate, held)
        case "avg":
            return {"sum": meaning.total(values) if values else None, "count": len(values)}
    return _exact_moments(values, types.scale_of(kind)) if types.is_exact(kind) else _moments(values)


def folded(aggregate: Aggregate, states: Sequence[State], kind: str, published: pa.DataType) -> Any:
    """The value of several states, over a column of this type; None where one of them is not known."""
    if aggregate.function in ("first", "last", "collect"):
        return _of_events(aggregate, states)
    first = _first_part(aggregate)
    if any(state[first] is None for state in states):
        return None
    if aggregate.function in TALLIED:
        return _of_tallies(aggregate, states)
    if aggregate.function in SKETCHED:
        from latecomer.store.sketches import estimate

        return estimate(aggregate, [state["sketch"] for state in states], kind)
    known = [state for state in states if state["count"]]
    count = sum(state["count"] for state in known)
    if aggregate.function == "avg":
        sums = [state["sum"] for state in known]
        return _average(sums, count, published) if count and None not in sums else None
    less = 1 if aggregate.function in ("variance", "stddev") else 0
    if count <= less:
        return None
    spread = _exact_spread(known, count, types.scale_of(kind)) if types.is_exact(kind) else _spread(known)
    variance = spread / (count - less)
    return math.sqrt(variance) if aggregate.function.startswith("stddev") else variance


def _first_part(aggregate: Aggregate) -> str:
    """The part of a state that is never empty where the state is known."""
    if aggregate.function in SKETCHED:
        return "sketch"
    return "tally" if aggregate.function in TALLIED else "count"


# Events in their order


def _place(event: Event) -> tuple[Any, ...]:
    return event["t"], event["a"], event["o"], event["p"], meaning.in_order(event["v"])


def _kept(aggregate: Aggregate, events: Sequence[Event]) -> dict[str, Any]:
    in_order = sorted(events, key=_place)
    if aggregate.function == "collect":
        return {"events": in_order[: int(aggregate.argument or 0)]}
    ends = in_order[:1] if aggregate.function == "first" else in_order[-1:]
    return {"event": ends[0] if ends else None}


def _of_events(aggregate: Aggregate, states: Sequence[State]) -> Any:
    if aggregate.function != "collect":
        kept = _kept(aggregate, [state["event"] for state in states if state["event"] is not None])["event"]
        return None if kept is None else kept["v"]
    if any(state["events"] is None for state in states):
        return None
    kept = _kept(aggregate, [event for state in states for event in state["events"]])["events"]
    return meaning.collected([event["v"] for event in kept], len(kept))


# Tallies


def _of_tallies(aggregate: Aggregate, states: Sequence[State]) -> Any:
    counts: dict[Any, int] = {}
    for each in (each for state in states for each in state["tally"]):
        value = meaning.one_zero(each["v"])
        counts[value] = counts.get(value, 0) + each["n"]
    tallied = sorted(counts.items(), key=lambda pair: meaning.in_order(pair[0]))
    match aggregate.function:
        case "count_distinct":
            return meaning.distinct(tallied)
        case "median":
            return meaning.median(tallied)
    return meaning.top(tallied, int(aggregate.argument or 0))


# Averages and spreads


def _average(sums: Sequence[Any], count: int, published: pa.DataType) -> Any:
    with localcontext(prec=76):
        total = meaning.float_sum(sums) if isinstance(sums[0], float) else sum(sums)
    return quotient(total, count, published)


def quotient(total: Any, count: int, published: pa.DataType) -> Any:
    """An average from its sum; None where its type has too few digits for it, as on Spark."""
    if not pa.types.is_decimal(published):
        return float(total) / count
    with localcontext(prec=76):
        rounded = (total / count).quantize(Decimal(1).scaleb(-published.scale), ROUND_HALF_UP)
    return rounded if fits(rounded, published.precision - published.scale) else None


def _exact_moments(values: Sequence[Any], scale: int) -> dict[str, Any]:
    with localcontext(prec=80):
        whole = [int(value * 10**scale) for value in values]
    doubles = [float(value) for value in values]
    return {
        "count": len(values),
        "sum": _unless_lost(sum(whole)),
        "squares": _unless_lost(sum(value * value for value in whole)),
        "rough_sum": meaning.float_sum(doubles),
        "rough_squares": meaning.float_sum([value * value for value in doubles]),
    }


def _unless_lost(whole: int) -> Decimal | None:
    return Decimal(whole) if abs(whole) < 10**MOST_DIGITS else None


def _moments(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"count": 0, "mean": None, "spread": None}
    mean = meaning.float_sum(values) / len(values)
    return {
        "count": len(values),
        "mean": mean,
        "spread": meaning.float_sum([(value - mean) * (value - mean) for value in values]),
    }


def _exact_spread(states: Sequence[State], count: int, scale: int) -> float:
    """The summed squared distance from the mean, in whole numbers until the division.

    From the doubles beside them, where a state's own whole numbers had too many digits.
    """
    if any(state[part] is None for state in states for part in ("sum", "squares")):
        rough_sum, rough_squares = (
            meaning.float_sum([state[part] for state in states]) for part in ("rough_sum", "rough_squares")
        )
        return max(rough_squares - rough_sum * rough_sum / count, 0.0)
    total, squares = (sum(int(state[part]) for state in states) for part in ("sum", "squares"))
    whole: int = count * squares - total * total
    return float(whole / (count * 10 ** (2 * scale)))


def _spread(states: Sequence[State]) -> float:
    """The same of floating point numbers, by Chan's rule for two states."""
    n, mean, spread = 0, 0.0, 0.0
    for state in states:
        m, away = state["count"], state["mean"] - mean
        spread += state["spread"] + away * away * n * m / (n + m)
        mean += away * m / (n + m)
        n += m
    return spread
