"""States merged without Spark: any cut of any events comes to what the whole list comes to."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.after.reading.states import states_of, values_of
from latecomer.model.aggregates import Aggregate, parse_aggregate
from latecomer.store.layout import arrow_type
from latecomer.store.state_types import state_parts
from scenarios import quick

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bigint": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    "decimal(18,2)": st.integers(-300, 300).map(lambda cents: Decimal(cents).scaleb(-2)),
    "double": st.sampled_from((0.0, -0.0, 0.5)) | st.floats(-1e6, 1e6),
    "string": st.sampled_from(("a", "b", "é\n")),
    "binary": st.sampled_from((b"\x00", b"\xff")),
}
NUMBERS = ("avg", "variance", "var_pop", "stddev", "stddev_pop", "median")
FEW = "approx_percentile(x, 0.5)"
"""Exact of so few values."""
ANY = ("count(distinct x)", "first(x)", "last(x)", "top_k(x, 2)", "collect(x, 3)", "approx_count_distinct(x)")
PUBLISHED = {
    ("avg", "decimal(18,2)"): "decimal(38,6)",
    ("median", "bigint"): "decimal(38,1)",
    ("median", "decimal(18,2)"): "decimal(38,3)",
}


@st.composite
def cases(draw: st.DrawFn) -> tuple[Aggregate, str, list[list[dict[str, Any]]]]:
    """An aggregate, the type of its column, and events in parts, each with its own place in the order."""
    kind = draw(st.sampled_from(sorted(VALUES)))
    numeric = kind not in ("string", "binary")
    possible = [*ANY, *(f"{each}(x)" for each in NUMBERS if numeric), *([FEW] if numeric else [])]
    written = draw(st.sampled_from([each for each in possible if state_parts(parse_aggregate(each), kind)]))
    values = draw(st.lists(st.none() | VALUES[kind], max_size=20))
    times = draw(st.lists(st.integers(0, 5), min_size=len(values), max_size=len(values)))
    events = [
        {"t": time, "a": time + 1, "o": "file", "p": place, "v": value}
        for place, (time, value) in enumerate(zip(times, values, strict=True))
    ]
    parts: list[list[dict[str, Any]]] = [[] for _ in range(draw(st.integers(1, 4)))]
    for event in events:
        parts[draw(st.integers(0, len(parts) - 1))].append(event)
    return parse_aggregate(written), kind, parts


def state_of(aggregate: Aggregate, events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return {part: column[0].as_py() for part, column in states_of(aggregate, [events], kind).items()}


@given(cases())
@quick
def test_any_cut_comes_to_what_the_whole_list_comes_to(
    case: tuple[Aggregate, str, list[list[dict[str, Any]]]],
) -> None:
    aggregate, kind, parts = case
    published = arrow_type(PUBLISHED.get((aggregate.function, kind), "double"))
    (found,) = values_of(aggregate, [[state_of(aggregate, part, kind) for part in parts]], kind, published)
    in_order = sorted((event for part in parts for event in part), key=lambda event: (event["t"], event["p"]))
    expected = aggregate.evaluate([event["v"] for event in in_order])
    if aggregate.function == "avg" and isinstance(expected, Decimal):
        expected = expected.quantize(Decimal("1.000000"), ROUND_HALF_UP)
    if aggregate.function == "approx_percentile" and expected is not None:
        expected = float(expected)  # sketches are of doubles
    if isinstance(expected, float) and aggregate.function != "median":
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-3 if kind == "double" else 0.0)
    else:
        assert found == expected


def test_a_state_that_is_not_known_leaves_the_value_unknown() -> None:
    known = state_of(parse_aggregate("avg(x)"), [{"v": 4}], "bigint")
    unknown = dict.fromkeys(known)
    assert values_of(parse_aggregate("avg(x)"), [[known, unknown]], "bigint", arrow_type("double")) == [None]
    tally = {"tally": None}
    assert values_of(parse_aggregate("count(distinct x)"), [[tally]], "bigint", arrow_type("bigint")) == [
        None
    ]
