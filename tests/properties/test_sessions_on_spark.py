"""Random sessions of every policy, trigger and mode: Spark says what the oracle says.

Sessions of different keys have nothing to do with each other, so a crowd of keys in one run is as good
as many runs with one key, and much faster.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.model.oracle.arrivals import Arrival, Heartbeat
from latecomer.model.strategies import Strategy
from scenarios import watermarks
from spark_kit import PAYLOAD, Batch, Bench, assert_same, filtered, many_on_spark, on_spark
from window_kit import any_outputs, quiet_batches, sessions

Example = tuple[list[Batch], Strategy, tuple[Output, Output, Output], bool, bool]


@st.composite
def crowds(draw: st.DrawFn) -> list[Batch]:
    """Many keys at once, in a few batches; one of them is null."""
    chance = Random(draw(st.integers(0, 1 << 32)))
    now, read = 0, []
    for _ in range(draw(st.integers(100, 800))):
        now += chance.choice((0, 0, 0, 1))
        behind = chance.choice((0, 0, 0, 0, 1, 2, 3, 5, 8, 13, 21, 34, -1, -4))
        payload = {
            "key": chance.choice((None, *range(50))),
            "paise": chance.choice((None, -9, 0, 1, 7, 99)),
            "ok": chance.choice((True, True, True, False, None)),
        }
        payload["key"] = None if payload["key"] is None else str(payload["key"])
        read.append(Arrival(now - behind, now, chance.choice("ab"), payload))
    cuts = sorted(chance.randrange(len(read)) for _ in range(draw(st.integers(1, 4))))
    return [read[first:last] for first, last in zip([0, *cuts], [*cuts, len(read)], strict=True)]


def few_batches() -> st.SearchStrategy[list[Batch]]:
    return quiet_batches().map(lambda batches: [*batches[:4], *batches[-1:]])


def examples(batches: st.SearchStrategy[list[Batch]]) -> st.SearchStrategy[Example]:
    output = any_outputs(window=sessions())
    return st.tuples(batches, watermarks(), st.tuples(output, output, output), st.booleans(), st.booleans())


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


@pytest.mark.long
@given(examples(crowds()))
@settings(on_spark, max_examples=1)
def test_crowds_of_sessions_equal_the_oracle(spark: SparkSession, example: Example) -> None:
    run_and_compare(spark, *example)


@given(examples(few_batches()))
@settings(on_spark, max_examples=1)
def test_sessions_with_silence_equal_the_oracle(spark: SparkSession, example: Example) -> None:
    run_and_compare(spark, *example)


@pytest.mark.long
@given(examples(crowds() | few_batches()))
@many_on_spark
def test_many_sessions_equal_the_oracle(spark: SparkSession, example: Example) -> None:
    run_and_compare(spark, *example)
