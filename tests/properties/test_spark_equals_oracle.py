"""Random arrivals, delays, partitions, idleness, windows and policies: Spark says what the oracle says.

Each example is a whole pipeline with two outputs on real Spark, so there are few of them here and many
in `make test-long`; the same properties run over thousands of examples without Spark in tests/model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from latecomer.config.outputs import Output
from latecomer.model.ledger import unbalanced
from latecomer.model.oracle.interpreter import Arrival
from latecomer.model.panes import Op, surviving
from latecomer.model.strategies import Strategy
from scenarios import arrivals, cut, cuts, out_of_step, outputs, watermarks
from spark_kit import (
    PAYLOAD,
    Bench,
    assert_same,
    comparable,
    filtered,
    many_on_spark,
    on_spark,
    stored_entries,
    stored_panes,
)

Example = tuple[list[list[Arrival]], Strategy, tuple[Output, Output], bool, bool]
"""Batches, a strategy, two outputs, whether to drain and whether to restart after each batch."""


def examples(most_batches: int) -> st.SearchStrategy[Example]:
    sizes = cuts().map(lambda sizes: sizes[: most_batches - 1])
    batches = st.builds(cut, arrivals(), sizes)
    return st.tuples(batches, watermarks(), st.tuples(outputs(), outputs()), st.booleans(), st.booleans())


def run_and_compare(
    spark: SparkSession,
    batches: Sequence[Sequence[Arrival]],
    strategy: Strategy,
    both: Sequence[Output],
    drain: bool,
    restart: bool,
) -> None:
    named = {"plain": both[0], "filtered": filtered(both[1])}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(spark, Path(folder), strategy, named, PAYLOAD, spread=True)
        store = bench.run(batches, drain=drain, restart=restart)
        outcome = bench.oracle(batches, drain=drain, filtered=lambda payload: payload["ok"])
        assert_same(bench, store, outcome, batches)
        assert unbalanced(stored_entries(store)) == []
        for output in named:
            _retracts_cancel(store, output)
        marks = store.watermarks.query("select watermark from t order by batch, tick").column(0).to_pylist()
        known = [mark for mark in marks if mark is not None]
        assert known == sorted(known)


def _retracts_cancel(store: object, output: str) -> None:
    """For each window and key at most one pane survives, and each retract names the pane before it."""
    panes = [pane for _, pane in stored_panes(store, output)]  # type: ignore[arg-type]
    standing = surviving(panes)
    for place in {pane.place for pane in panes}:
        history = [pane for pane in panes if pane.place == place]
        inserts = [pane.sequence for pane in history if pane.op is Op.INSERT]
        assert inserts == list(range(len(inserts)))
        assert standing[place].sequence == inserts[-1]
        for taken_back in (pane for pane in history if pane.op is Op.RETRACT):
            (undone,) = [p for p in history if p.op is Op.INSERT and p.sequence == taken_back.sequence]
            assert undone.values == taken_back.values


@given(examples(most_batches=3))
@settings(on_spark, max_examples=3)
def test_spark_equals_the_oracle(spark: SparkSession, example: Example) -> None:
    run_and_compare(spark, *example)


@given(out_of_step().map(lambda batches: batches[:3]), watermarks(), st.tuples(outputs(), outputs()))
@settings(on_spark, max_examples=2)
def test_spark_equals_the_oracle_when_partitions_are_read_out_of_step(
    spark: SparkSession, batches: list[list[Arrival]], strategy: Strategy, both: tuple[Output, Output]
) -> None:
    run_and_compare(spark, batches, strategy, both, drain=False, restart=False)


@pytest.mark.long
@given(
    arrivals(rejects=False),
    cuts().map(lambda sizes: sizes[:3]),
    cuts().map(lambda sizes: sizes[:3]),
    watermarks(),
    outputs(),
)
@settings(on_spark, max_examples=4)
def test_any_two_cuts_give_the_same_on_time_panes_and_finals(
    spark: SparkSession,
    read: list[Arrival],
    one: list[int],
    other: list[int],
    strategy: Strategy,
    output: Output,
) -> None:
    """It follows from the tests above, and from the same property of the oracle, which is in
    tests/model/test_books_on_any_input.py."""
    found = []
    for sizes in (one, other):
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(spark, Path(folder), strategy, {"out": output}, PAYLOAD)
            batches = cut(read, sizes)
            store = bench.run(batches, drain=True)
            panes = stored_panes(store, "out")
            on_time = comparable(
                [(0, pane) for _, pane in panes if pane.timing == "ON_TIME" and pane.op == "insert"]
            )
            finals = {place: dict(pane.values) for place, pane in surviving(p for _, p in panes).items()}
            judged = sorted(
                (sum(map(len, batches[:batch])) + nth, verdict)
                for (batch, nth, _), verdict in bench.judgements(store, "out").items()
            )
            found.append((on_time, finals, judged))
    assert found[0] == found[1]


@pytest.mark.long
@given(examples(most_batches=5))
@many_on_spark
def test_spark_equals_the_oracle_on_many_examples(spark: SparkSession, example: Example) -> None:
    run_and_compare(spark, *example)
