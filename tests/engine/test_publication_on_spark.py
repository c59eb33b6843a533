"""When batches are published by the wall clock: each once, in order, whatever happens to the run or to its clock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from faults.faults_kit import Died
from latecomer.after.reading.reader import Reader
from latecomer.config.outputs import Output
from latecomer.engine.ledger.report import BatchReport
from latecomer.engine.pipeline import Engine
from latecomer.engine.starting import start_engine
from latecomer.engine.without_data import drain_input
from latecomer.model.durations import to_micros
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from latecomer.model.windows import Tumbling
from latecomer.store import failpoints
from latecomer.store.store import Store
from latecomer.testing.engine import put_watermark
from spark_kit import PAYLOAD, Bench

SECOND = 1_000_000
DAY = 86_400 * SECOND
TOTALS = Output(window=Tumbling("10s"), by=("key",), aggregates={"n": "count(*)"}, late="update")


class Runs:
    """A pipeline that is run again and again, each time by a machine whose clock stands somewhere else."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.bench = Bench(spark, folder, Bounded("0s"), {"totals": TOTALS}, PAYLOAD, ids=False)
        self.reports: list[BatchReport] = []

    def begin(self, *clock: int) -> Engine:
        pipeline, moments = self.bench.pipeline, iter(clock)
        store = Store(pipeline, pipeline.source.columns or {})
        engine = Engine(self.bench.runner, store, self.reports.append, clock=lambda: next(moments))
        start_engine(engine)
        return engine

    def read(self, engine: Engine, nth: int, *seconds: int) -> None:
        engine.data(nth, self.bench.write(nth, list(map(arrival, seconds))))

    def published(self, output: str = "totals") -> list[tuple[int, int]]:
        panes = Reader(self.bench.pipeline).panes(output)
        pairs = zip(panes["batch"].to_pylist(), panes["published_at"].to_pylist(), strict=True)
        return sorted({(batch, -1 if at is None else to_micros(at)) for batch, at in pairs})


def arrival(second: int) -> Arrival:
    return Arrival(second * SECOND, second * SECOND, payload={"key": "a", "paise": 1, "ok": True})


def ended(engine: Engine) -> None:
    engine.finish()
    engine.close()


def test_every_kind_of_batch_is_published_at_a_moment_that_never_goes_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = Runs(spark, tmp_path)
    first = runs.begin(DAY, DAY + 5, DAY - 7)
    runs.read(first, 0, 1, 12, 14)
    put_watermark(first, 20 * SECOND)
    runs.read(first, 1, 26, 41, 43)  # its clock was set back by a moment
    ended(first)
    assert runs.published() == [(0, DAY), (1, DAY + 5), (2, DAY + 5)]

    # An output that joins is published when it is computed, not when the events it is about were; and the next run
    # finds its machine a day in the past.
    runs.bench.outputs = {"totals": TOTALS, "more": TOTALS}
    second = runs.begin(DAY + 9, 3)
    drain_input(second)
    ended(second)
    assert runs.published() == [(0, DAY), (1, DAY + 5), (2, DAY + 5), (3, DAY + 9)]
    assert runs.published("more") == [(2, DAY + 9), (3, DAY + 9)]

    assert [report.published_at for report in runs.reports] == [DAY, DAY + 5, DAY + 5, DAY + 9]
    data, beat, later, drain = runs.reports
    assert (data.lag, data.arrival_lag) == (DAY - 12 * SECOND, 2 * SECOND)
    assert beat.lag == DAY + 5 - 20 * SECOND
    assert (later.lag, later.arrival_lag) == (DAY + 5 - 41 * SECOND, 2 * SECOND)
    assert (drain.lag, drain.arrival_lag) == (None, None)


@pytest.mark.parametrize(
    ("place", "moment"),
    [
        pytest.param("watermarks.committed", 2 * DAY, marks=pytest.mark.long),
        ("totals.panes.committed", 2 * DAY),
        pytest.param("totals.partials.committed", 2 * DAY, marks=pytest.mark.long),
        ("ledger.committed", DAY),
        pytest.param("publications.committed", DAY, marks=pytest.mark.long),
    ],
)
def test_an_interrupted_batch_has_the_time_of_the_commit_that_completed_it(
    spark: SparkSession, tmp_path: Path, deadly: pytest.MonkeyPatch, place: str, moment: int
) -> None:
    runs = Runs(spark, tmp_path)
    deadly.setenv(failpoints.VARIABLE, f"{place}@0")
    killed = runs.begin(DAY)
    with pytest.raises(Died):
        runs.read(killed, 0, 1, 12, 14)
    killed.close()
    deadly.delenv(failpoints.VARIABLE)
    if place == "totals.panes.committed":
        assert runs.published() == [(0, -1)]  # it can be read, and is not complete
    ended(runs.begin(2 * DAY))
    assert runs.published() == [(0, moment)]
    assert times_in(runs) == [moment]


def times_in(runs: Runs) -> Sequence[int]:
    table = Store(runs.bench.pipeline, runs.bench.pipeline.source.columns or {}).publications
    return [to_micros(at) for at in table.query("select published_at from t")["published_at"].to_pylist()]
