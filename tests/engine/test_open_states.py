"""Open states that stay open for long: small files are merged once there are many, large ones are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.config.outputs import Output
from latecomer.engine.without_data import drain_input
from latecomer.model.durations import UNITS
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from latecomer.store.delta.data_files import DataFile
from latecomer.store.store import open_store
from latecomer.windowing.firing import job, output
from spark_kit import Bench, assert_same

DAILY = Output(
    window={"tumbling": "1d"},
    by=["key"],
    aggregates={"paise": "sum(paise)", "n": "count(*)"},
    allowed_lateness="1m",
    late="update",
)
MANY_KEYS, SMALL_BATCHES = 6, 11
BATCHES = [
    [
        Arrival(number * UNITS["s"], number * UNITS["s"], "p", {"key": f"k{nth}", "paise": 10 * number + nth})
        for nth in range(MANY_KEYS if number == 0 else 1)
    ]
    for number in range(SMALL_BATCHES + 1)
]


def test_small_files_are_merged_without_reading_large_ones(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "FOLD_AT", 3)
    monkeypatch.setattr(job, "MOST_MERGED", MANY_KEYS)
    bench = Bench(
        spark, tmp_path, Bounded("5s"), {"daily": DAILY}, {"key": "string", "paise": "bigint"}, ids=False
    )
    engine, states = bench.engine(), list[list[DataFile]]()
    for number, batch in enumerate(BATCHES):
        engine.data(number, bench.write(number, batch))
        states.append(open_store(bench.pipeline).output_tables("daily", None).partials.files())
    (large,) = states[0]
    assert large.rows == MANY_KEYS
    assert all(large in each for each in states)
    assert max(map(len, states)) == 4  # the large one, and as many small ones as are merged
    assert len(states[-1]) < 4
    drain_input(engine)
    engine.finish()
    engine.close()
    assert_same(bench, open_store(bench.pipeline), bench.oracle(BATCHES, drain=True), BATCHES)
