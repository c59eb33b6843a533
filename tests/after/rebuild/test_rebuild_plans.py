"""What is applied: the range as it is, whatever was planned before, and by what the file says now."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.after.rebuild import rebuilding
from latecomer.config.outputs import Output
from latecomer.errors import StoreError
from latecomer.model.durations import UNITS, to_micros
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from latecomer.model.windows import Tumbling
from spark_kit import Bench, require_explained

SECOND, MINUTE = UNITS["s"], UNITS["m"]


@pytest.mark.long
def test_a_range_is_applied_as_it_is_now_whatever_was_planned_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    output = Output(window=Tumbling("1m"), aggregates={"many": "count(*)"}, late="side_output")
    bench = Bench(spark, tmp_path, Bounded("1s"), {"one": output}, {}, measures=(), ids=False)
    engine = bench.engine()
    engine.data(0, bench.write(0, [at(5), at(65), at(200), at(10, came=210)]))
    plan = rebuilding.plan(bench.pipeline, "one", 0, 3 * MINUTE, spark=spark)
    assert plan.record.counts["changed"] == 1
    engine.data(1, bench.write(1, [at(70, came=220)]))  # another minute of the range
    engine.close()

    rebuilding.apply(bench.pipeline, "one", 0, 3 * MINUTE, spark=spark)

    standing = Reader(bench.pipeline).results("one").to_pylist()
    assert {to_micros(row["window_start"]) // MINUTE: row["many"] for row in standing} == {0: 2, 1: 2}
    with pytest.raises(StoreError, match="out of date"):
        rebuilding.apply(bench.pipeline, "one", plan_id=plan.id, spark=spark)

    nothing = rebuilding.plan(bench.pipeline, "one", 0, 3 * MINUTE, spark=spark)
    engine = bench.engine()
    engine.data(2, bench.write(2, [at(230)]))  # a batch more does not make nothing out of date
    engine.close()
    assert rebuilding.apply(bench.pipeline, "one", plan_id=nothing.id, spark=spark).batch is None


def test_an_aggregate_may_change_where_its_name_and_type_stay(spark: SparkSession, tmp_path: Path) -> None:
    """The windows of the range and what is still open are brought over; a window before them is not."""

    def pipeline(aggregate: str) -> Bench:
        output = Output(window=Tumbling("1m"), aggregates={"paise": aggregate}, late="side_output")
        columns = {"gross": "bigint", "net": "bigint"}
        return Bench(spark, tmp_path, Bounded("1s"), {"one": output}, columns, measures=(), ids=False)

    engine = pipeline("sum(gross)").engine()
    engine.data(0, pipeline("sum(gross)").write(0, [sale(5), sale(65), sale(125), sale(130)]))
    engine.close()
    changed = pipeline("sum(net)")
    rebuilding.apply(changed.pipeline, "one", MINUTE, spark=spark)
    engine = changed.engine()
    engine.data(1, changed.write(1, [sale(135), sale(200), sale(210)]))
    engine.close()

    standing = Reader(changed.pipeline).results("one").to_pylist()
    assert {to_micros(row["window_start"]) // MINUTE: row["paise"] for row in standing} == {
        0: 1000,
        1: 900,
        2: 3 * 900,
    }
    require_explained(changed.pipeline, "one")


def at(second: int, came: int | None = None) -> Arrival:
    return Arrival(second * SECOND, (second if came is None else came) * SECOND)


def sale(second: int) -> Arrival:
    return Arrival(second * SECOND, second * SECOND, payload={"gross": 1000, "net": 900})
