"""A plan that lies around: what is applied by range is the range as it is, not as it was planned."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from latecomer.config.models import Output
from latecomer.corrections import rebuilding
from latecomer.model.arrivals import Arrival
from latecomer.model.durations import UNITS, to_micros
from latecomer.model.strategies import Bounded
from latecomer.model.windows import Tumbling
from latecomer.reader import Reader
from spark_kit import Bench

SECOND, MINUTE = UNITS["s"], UNITS["m"]


def test_a_range_is_applied_as_it_is_now_whatever_was_planned_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    output = Output(window=Tumbling("1m"), aggregates={"many": "count(*)"}, late="side_output")
    bench = Bench(spark, tmp_path, Bounded("1s"), {"one": output}, {}, measures=(), ids=False)
    engine = bench.engine()
    engine.data(0, [bench.write(0, [at(5), at(65), at(200), at(10, came=210)])])
    plan = rebuilding.plan(bench.pipeline, "one", 0, 3 * MINUTE, spark=spark)
    assert plan.record.counts["changed"] == 1
    engine.data(1, [bench.write(1, [at(70, came=220)])])  # another minute of the range
    engine.close()

    rebuilding.apply(bench.pipeline, "one", 0, 3 * MINUTE, spark=spark)

    standing = Reader(bench.pipeline).results("one").to_pylist()
    assert {to_micros(row["window_start"]) // MINUTE: row["many"] for row in standing} == {0: 2, 1: 2}


def at(second: int, came: int | None = None) -> Arrival:
    return Arrival(second * SECOND, (second if came is None else came) * SECOND)
