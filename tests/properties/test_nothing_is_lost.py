"""Whatever the order of arrival, the silences and the policy, as long as it is not drop: results + side output
= a plain GROUP BY over the log."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from latecomer.config.outputs import Output
from latecomer.model.durations import to_micros
from latecomer.model.oracle.arrivals import Arrival, Heartbeat
from latecomer.model.panes import Accumulation, summed, surviving
from latecomer.model.strategies import Strategy
from latecomer.model.verdicts import LatePolicy, TooLatePolicy
from latecomer.model.windows import Session
from latecomer.store.store import Store
from scenarios import out_of_step, watermarks
from spark_kit import PAYLOAD, Batch, Bench, many_on_spark, on_spark, stored_panes
from window_kit import any_outputs, micros, quiet_batches, sessions, sliding

Place = tuple[int | None, Any]
"""Window end and key. Sessions have no place that is known beforehand: for them the key alone."""
Example = tuple[list[Batch], Strategy, tuple[Output, Output]]


def keeping(window: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Output]:
    """Outputs that lose nothing."""
    outputs = any_outputs(window=window, by=("key",), too_late=TooLatePolicy.SIDE_OUTPUT)
    return outputs.filter(lambda output: output.late is not LatePolicy.DROP)


def examples(most_batches: int) -> st.SearchStrategy[Example]:
    """Batches with silence between them, or read out of step; fixed windows beside sessions."""
    tumbling = st.fixed_dictionaries({"tumbling": micros(1, 15), "offset": micros(0, 9)})
    fixed = st.one_of(tumbling, sliding(), st.sampled_from([{"global": True}, {"calendar": "day"}]))
    batches = st.one_of(quiet_batches(rejects=False), out_of_step(rejects=False))
    return st.tuples(
        batches.map(lambda batches: batches[:most_batches]),
        watermarks(),
        st.tuples(keeping(fixed), keeping(sessions())),
    )


def run_and_group(
    spark: SparkSession, batches: Sequence[Batch], strategy: Strategy, both: tuple[Output, Output]
) -> None:
    outputs = {"fixed": both[0], "sessions": both[1]}
    read = [arrival for batch in batches if not isinstance(batch, Heartbeat) for arrival in batch]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(spark, Path(folder), strategy, outputs, PAYLOAD, ids=False)
        store = bench.run(batches, drain=True)
        for name, output in outputs.items():
            rows, paise = _published(store, name, output)
            for end, key, amount in _set_aside(store, name):
                rows[_place(output, end, key)] += 1
                paise[_place(output, end, key)] += amount or 0
            expected_rows, expected_paise = _grouped(read, output)
            assert +rows == expected_rows
            assert _without_zeros(paise) == _without_zeros(expected_paise)


@pytest.mark.long
@given(examples(most_batches=3))
@settings(on_spark, max_examples=3)
def test_results_and_side_output_are_the_log(spark: SparkSession, example: Example) -> None:
    run_and_group(spark, *example)


@pytest.mark.long
@given(examples(most_batches=6))
@many_on_spark
def test_results_and_side_output_are_the_log_on_many_examples(spark: SparkSession, example: Example) -> None:
    run_and_group(spark, *example)


def _place(output: Output, end: int, key: Any) -> Place:
    return (None if isinstance(output.window, Session) else end), key


def _published(store: Store, name: str, output: Output) -> tuple[Counter[Place], Counter[Place]]:
    panes = [pane for _, pane in stored_panes(store, name)]
    if output.accumulation is Accumulation.DISCARDING:
        results = summed(panes, output.aggregates)
    else:
        results = {place: dict(pane.values) for place, pane in surviving(panes).items()}
    rows: Counter[Place] = Counter()
    paise: Counter[Place] = Counter()
    for (_, end, (key,)), values in results.items():
        rows[_place(output, end, key)] += values["rows"]
        paise[_place(output, end, key)] += values["paise"] or 0
    return rows, paise


def _set_aside(store: Store, name: str) -> Iterable[tuple[int, Any, int | None]]:
    table = store.output_tables(name, None).late
    if table.exists:
        for row in table.query("select window_end, key, paise from t").to_pylist():
            yield to_micros(row["window_end"]), row["key"], row["paise"]


def _grouped(read: Sequence[Arrival], output: Output) -> tuple[Counter[Place], Counter[Place]]:
    """The batch job: every event into its windows, whenever it came."""
    rows: Counter[Place] = Counter()
    paise: Counter[Place] = Counter()
    window = output.window
    for arrival in read:
        at, key = arrival.event_time, arrival.payload["key"]
        ends = [None] if isinstance(window, Session) else [held.end for held in window.assign_all(at)]
        for end in ends:
            rows[end, key] += 1
            paise[end, key] += arrival.payload["paise"] or 0
    return rows, paise


def _without_zeros(sums: Counter[Place]) -> dict[Place, int]:
    return {place: amount for place, amount in sums.items() if amount}
