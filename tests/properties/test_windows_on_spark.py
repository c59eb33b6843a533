"""All fixed windows, triggers, accumulation modes and policies, with silence: Spark says what the oracle says."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.model.oracle.arrivals import Heartbeat
from latecomer.model.strategies import Strategy
from scenarios import watermarks
from spark_kit import PAYLOAD, Batch, Bench, assert_same, filtered, many_on_spark, on_spark
from window_kit import any_outputs, micros, quiet_batches, sliding

Example = tuple[list[Batch], Strategy, tuple[Output, Output, Output], bool, bool]


def fixed_windows() -> st.SearchStrategy[Output]:
    tumbling = st.fixed_dictionaries({"tumbling": micros(1, 15), "offset": micros(0, 9)})
    others = st.sampled_from([{"global": True}, {"calendar": "day"}])
    return any_outputs(window=st.one_of(sliding(), tumbling, others))


def examples(most_batches: int) -> st.SearchStrategy[Example]:
    few = quiet_batches().map(lambda batches: [*batches[:most_batches], *batches[-1:]])
    outputs = st.tuples(fixed_windows(), fixed_windows(), fixed_windows())
    return st.tuples(few, watermarks(), outputs, st.booleans(), st.booleans())


def run_and_compare(
    spark: SparkSession,
    batches: list[Batch],
    strategy: Strategy,
    outputs: tuple[Output, Output, Output],
    drain: bool,
    restart: bool,
) -> None:
    named = {"one": outputs[0], "other": outputs[1], "filtered": filtered(outputs[2])}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(spark, Path(folder), strategy, named, PAYLOAD, spread=True)
        store = bench.run(batches, drain=drain, restart=restart)
        outcome = bench.oracle(batches, drain=drain, filtered=lambda payload: payload["ok"])
        assert_same(bench, store, outcome, batches)
        if any(batch for batch in batches if not isinstance(batch, Heartbeat)):
            assert check_ledger(bench.pipeline, spark) == []


@given(examples(most_batches=3))
@settings(on_spark, max_examples=2)
def test_spark_equals_the_oracle_for_every_window_and_trigger(spark: SparkSession, example: Example) -> None:
    run_and_compare(spark, *example)


@pytest.mark.long
@given(examples(most_batches=4))
@many_on_spark
def test_spark_equals_the_oracle_for_many_windows_and_triggers(spark: SparkSession, example: Example) -> None:
    run_and_compare(spark, *example)
