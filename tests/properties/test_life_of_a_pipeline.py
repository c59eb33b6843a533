"""A pipeline's life, action by action: events, silence, restarts, a new output, another delay, the end.

Hypothesis chooses the actions. After each of them the store's panes and ledger are the oracle's; at the end
so is every verdict, and the ledger checks against the tables.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine
from pyspark.sql import SparkSession

from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.pipeline import Engine
from latecomer.engine.without_data import drain_input, heartbeat
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.oracle.interpreter import Changed, Drain, Heartbeat, Interpretation, Joined, interpret
from latecomer.model.panes import Accumulation, Pane, Place, summed, surviving
from latecomer.model.strategies import Strategy
from latecomer.store.store import open_store
from scenarios import watermarks
from spark_kit import (
    PAYLOAD,
    Bench,
    as_lines,
    assert_judged,
    comparable,
    many_on_spark,
    on_spark,
    require_equal,
    stored_entries,
    stored_panes,
)
from window_kit import WHENS, any_outputs

EVENTS = st.lists(
    st.tuples(
        st.sampled_from((0, 0, 1, 2, 3, 8)),  # since the arrival before
        st.sampled_from((0, 0, 0, 1, 2, 3, 5, 8, 13, 21, 34, -1)),  # event time behind arrival
        st.sampled_from("aaab"),
        st.sampled_from(("x", "y", None)),
        st.sampled_from((None, -9, 0, 1, 7, 99)),
        st.sampled_from((True, True, False, None)),
        st.sampled_from((False,) * 9 + (True,)),  # a dead letter
    ),
    min_size=1,
    max_size=12,
)
JOINING = any_outputs(trigger={}, emit_empty=False)
"""When an output fired early in a past that it was not there for, nobody can tell."""


class Life(RuleBasedStateMachine):
    """The engine and the oracle side by side."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.spark = spark
        self.engine: Engine | None = None
        self.history: list[Any] = []
        self.read = 0
        self.now = 0
        self.drained = False

    @initialize(strategy=watermarks(), output=any_outputs())
    def begin(self, strategy: Strategy, output: Output) -> None:
        self.first = strategy
        self.bench = Bench(self.spark, self.folder, strategy, {"first": output}, PAYLOAD, ids=False)
        self.engine = self.bench.engine()

    @rule(events=EVENTS)
    def receive(self, events: list[tuple[int, int, str, str | None, int | None, bool | None, bool]]) -> None:
        """A batch of data, cut wherever Hypothesis likes."""
        batch = []
        for wait, behind, partition, key, paise, ok, dead in events:
            self.now += wait
            payload = {"key": key, "paise": paise, "ok": ok}
            batch.append(Arrival(self.now - behind, self.now, partition, payload, dead=dead))
        assert self.engine is not None
        self.engine.data(self.read, self.bench.write(self.read, batch))
        self.read += 1
        self.history.append(batch)

    @precondition(lambda self: self.read)
    @rule(lasts=st.integers(1, 40))
    def fall_silent(self, lasts: int) -> None:
        self.now += lasts
        assert self.engine is not None
        heartbeat(self.engine, self.now)
        self.history.append(Heartbeat(self.now))

    @rule()
    def restart(self) -> None:
        self._reopen()

    @precondition(lambda self: not self.drained and hasattr(self.bench.strategy, "delay"))
    @rule(delay=st.integers(0, 12))
    def change_the_delay(self, delay: int) -> None:
        self.bench.strategy = self.bench.strategy.model_copy(update={"delay": delay})
        self._reopen()
        self.history.append(Changed(self.bench.strategy))

    @precondition(lambda self: self.read and "joined" not in self.bench.outputs)
    @rule(output=JOINING)
    def add_an_output(self, output: Output) -> None:
        self.bench.outputs = {**self.bench.outputs, "joined": output}
        self._reopen()
        self.history.append(Joined("joined"))

    @precondition(lambda self: self.read > 1 and not self.drained)
    @rule()
    def drain(self) -> None:
        assert self.engine is not None
        drain_input(self.engine)
        self.history.append(Drain())
        self.drained = True

    @invariant()
    def panes_and_ledger_are_the_oracles(self) -> None:
        if not self.read:
            return
        outcome, store = self._oracle(), open_store(self.bench.pipeline)
        published = [(each.batch, each.pane) for each in outcome.published["first"]]
        require_equal(comparable(stored_panes(store, "first")), comparable(published))
        require_equal(as_lines(stored_entries(store)), as_lines(outcome.ledger))
        if "joined" in self.bench.outputs:
            stored = [pane for _, pane in stored_panes(store, "joined")]
            require_equal(self._stands(stored), self._stands(outcome.panes("joined")))

    def teardown(self) -> None:
        try:
            if self.engine is not None and self.read:
                store = open_store(self.bench.pipeline)
                batches = [each for each in self.history if isinstance(each, list)]
                assert_judged(self.bench, store, self._oracle(), batches)
                assert check_ledger(self.bench.pipeline, self.spark) == []
        finally:
            if self.engine is not None:
                self.engine.close()
            shutil.rmtree(self.folder)

    def _reopen(self) -> None:
        assert self.engine is not None
        self.engine.close()
        self.engine = self.bench.engine()

    def _oracle(self) -> Interpretation:
        return interpret(
            self.history, self.first, self.bench.outputs, measures=self.bench.measures, when=WHENS
        )

    def _stands(self, panes: list[Pane]) -> dict[Place, dict[str, Any]]:
        """What an output's panes come to, however many it took to say so."""
        output = self.bench.outputs["joined"]
        if output.accumulation is Accumulation.DISCARDING:
            return {place: dict(values) for place, values in summed(panes, output.aggregates).items()}
        return {place: dict(pane.values) for place, pane in surviving(panes).items()}


def test_a_pipeline_lives_as_the_oracle_says(spark: SparkSession) -> None:
    run_machine(lambda: Life(spark), settings=settings(on_spark, max_examples=3, stateful_step_count=5))


@pytest.mark.long
def test_many_pipelines_live_as_the_oracle_says(spark: SparkSession) -> None:
    run_machine(
        lambda: Life(spark), settings=settings(many_on_spark, max_examples=25, stateful_step_count=12)
    )
