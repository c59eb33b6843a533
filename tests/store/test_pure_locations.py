"""A whole life of a store whose root nothing can be read or written through, but by store/files.py (ADR 0026)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath

import pytest
from pyspark.sql import SparkSession

import latecomer
from latecomer.after.reading.reader import Reader
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.model.durations import UNITS, to_micros
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from latecomer.model.windows import Session, Tumbling
from latecomer.store.holding.lock import exclusive, holder_of
from latecomer.store.recovery import held_for_run, require_unbroken
from latecomer.store.store import open_store
from spark_kit import Bench, require_explained

SECOND, MINUTE = UNITS["s"], UNITS["m"]
COUNT = {"many": "count(*)"}
OUTPUTS = {
    "updated": Output(window=Tumbling("1m"), aggregates=COUNT, late="retract", allowed_lateness="2m"),
    "aside": Output(window=Tumbling("1m"), aggregates=COUNT, late="side_output"),
    "visits": Output(window=Session("30s"), aggregates=COUNT, allowed_lateness="2m"),
}


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    whole = Pipeline.store_path.fget
    assert whole is not None
    monkeypatch.setattr(Pipeline, "store_path", property(lambda pipeline: PurePath(whole(pipeline))))
    return Bench(spark, tmp_path, Bounded("1s"), OUTPUTS, {}, measures=())


def test_all_that_is_done_to_a_store_is_done_through_its_locations(spark: SparkSession, bench: Bench) -> None:
    assert not hasattr(bench.pipeline.store_path, "exists")
    with exclusive(bench.pipeline.store_path):
        assert holder_of(bench.pipeline.store_path) is not None
    engine = bench.engine()
    engine.data(0, bench.write(0, [at(5, "a"), at(65, "b"), at(65, "b"), Arrival(0, 0, dead=True)]))
    engine.data(1, bench.write(1, [at(70, "c", came=130), at(200, "d"), at(6, "a", came=201)]))
    engine.data(2, bench.write(2, [at(75, "e", came=210), at(20, "f", came=211), at(300, "g")]))
    engine.close()

    store = open_store(bench.pipeline)
    with held_for_run(store.root) as aside:
        assert aside == []
    require_unbroken(store)
    assert store.duplicates.rows_of(0) + store.duplicates.rows_of(1) == 2
    assert store.dead_letters.rows_of(0) == 1
    assert counts(bench, "updated") == {0: 1, 1: 3}
    assert counts(bench, "aside") == {0: 1, 1: 2}

    assert latecomer.correct(bench.pipeline, "aside").num_rows
    planned = latecomer.plan_rebuild(
        bench.pipeline, "aside", since=datetime(1970, 1, 1, tzinfo=UTC), spark=spark
    )
    assert planned.record.changes
    assert latecomer.apply_rebuild(bench.pipeline, "aside", plan=planned, spark=spark).batch == 3
    assert counts(bench, "aside") == {0: 2, 1: 3}
    latecomer.compact(bench.pipeline, now=datetime.now(UTC) + timedelta(days=9))
    assert counts(bench, "aside") == {0: 2, 1: 3}
    assert latecomer.replay(bench.pipeline, spark=spark).equal
    assert check_ledger(bench.pipeline, spark) == []
    require_explained(bench.pipeline, "updated")


def counts(bench: Bench, output: str) -> dict[int, int]:
    rows = Reader(bench.pipeline).results(output).to_pylist()
    return {to_micros(row["window_start"]) // MINUTE: row["many"] for row in rows}


def at(second: int, name: str, came: int | None = None) -> Arrival:
    return Arrival(second * SECOND, (second if came is None else came) * SECOND, event_id=name)
