"""The check of the ledger knows what the panes and the open states of discarding sessions hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from spark_kit import Bench


@pytest.mark.parametrize("more", [[], [49], [49, 50], [49, 50, 51]], ids=str)
def test_an_early_pane_of_a_session_that_has_grown_is_not_counted_twice(
    spark: SparkSession, tmp_path: Path, more: list[int]
) -> None:
    """Grown, it is in the open states as a whole, with the pane that it will take back."""
    output = Output(
        window={"session": "8us"},
        aggregates={"rows": "count(*)"},
        trigger={"early": {"count": 2}},
        accumulation="discarding",
    )
    bench = Bench(spark, tmp_path, Bounded("20us"), {"out": output}, {}, measures=())
    bench.run([[Arrival(at, at, "a", {}) for at in (42, 43, *more)]])
    assert check_ledger(bench.pipeline, spark) == []
