"""Whatever the order of arrival and the policy, as long as it is not drop: results + side output = a plain
GROUP BY over the log."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from latecomer.config.models import Output
from latecomer.model.arrivals import Arrival
from latecomer.model.durations import to_micros
from latecomer.model.interpreter import cut
from latecomer.model.panes import Accumulation, summed, surviving
from latecomer.model.strategies import Strategy
from latecomer.model.verdicts import LatePolicy, TooLatePolicy
from latecomer.model.windows import Session
from latecomer.store.store import Store
from scenarios import arrivals, cuts, watermarks
from spark_kit import PAYLOAD, Bench, on_spark, stored_panes
from window_kit import any_outputs, micros, sliding

Place = tuple[int, Any]
"""Window end and key."""


def keeping() -> st.SearchStrategy[Output]:
    """Outputs that lose nothing."""
    tumbling = st.fixed_dictionaries({"tumbling": micros(1, 15), "offset": micros(0, 9)})
    days = st.just({"calendar": "day"})
    outputs = any_outputs(
        window=st.one_of(tumbling, sliding(), days), by=("key",), too_late=TooLatePolicy.SIDE_OUTPUT
    )
    return outputs.filter(lambda output: output.late is not LatePolicy.DROP)


@given(
    arrivals(rejects=False),
    cuts().map(lambda sizes: sizes[:3]),
    watermarks(),
    st.tuples(keeping(), keeping()),
)
@settings(on_spark, max_examples=5)
def test_results_and_side_output_are_the_log(
    spark: SparkSession,
    read: list[Arrival],
    sizes: list[int],
    strategy: Strategy,
    both: tuple[Output, Output],
) -> None:
    outputs = {"one": both[0], "other": both[1]}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(spark, Path(folder), strategy, outputs, PAYLOAD, ids=False)
        store = bench.run(cut(read, sizes), drain=True)
        for name, output in outputs.items():
            rows, paise = _published(store, name, output)
            for end, key, amount in _set_aside(store, name):
                rows[end, key] += 1
                paise[end, key] += amount or 0
            expected_rows, expected_paise = _grouped(read, output)
            assert +rows == expected_rows
            assert _without_zeros(paise) == _without_zeros(expected_paise)


def _published(store: Store, name: str, output: Output) -> tuple[Counter[Place], Counter[Place]]:
    panes = [pane for _, pane in stored_panes(store, name)]
    if output.accumulation is Accumulation.DISCARDING:
        results = summed(panes, output.aggregates)
    else:
        results = {place: dict(pane.values) for place, pane in surviving(panes).items()}
    rows: Counter[Place] = Counter()
    paise: Counter[Place] = Counter()
    for (_, end, (key,)), values in results.items():
        rows[end, key] += values["rows"]
        paise[end, key] += values["paise"] or 0
    return rows, paise


def _set_aside(store: Store, name: str) -> Iterable[tuple[int, Any, int | None]]:
    table = store.output_tables(name, None).late
    if table.exists:
        for row in table.query("select window_end, key, paise from t").to_pylist():
            yield to_micros(row["window_end"]), row["key"], row["paise"]


def _grouped(read: Sequence[Arrival], output: Output) -> tuple[Counter[Place], Counter[Place]]:
    """The batch job: every event into its windows, whenever it came."""
    assert not isinstance(output.window, Session)
    rows: Counter[Place] = Counter()
    paise: Counter[Place] = Counter()
    for arrival in read:
        for window in output.window.assign_all(arrival.event_time):
            rows[window.end, arrival.payload["key"]] += 1
            paise[window.end, arrival.payload["key"]] += arrival.payload["paise"] or 0
    return rows, paise


def _without_zeros(sums: Counter[Place]) -> dict[Place, int]:
    return {place: amount for place, amount in sums.items() if amount}
