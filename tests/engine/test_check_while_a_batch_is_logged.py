"""`ledger --check` beside a run, or after a crash: the next batch may be in the log and not on the timeline yet."""

from __future__ import annotations

from pathlib import Path

from after.reconcile.log_kit import arrivals
from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.model.strategies import Bounded
from scenarios import cut
from spark_kit import Bench

OUTPUTS = {
    "minutes": Output(window={"tumbling": "1m"}, by=["key"], aggregates={"n": "count(*)"}),
    "visits": Output(window={"session": "7s"}, by=["key"], aggregates={"n": "count(*)"}, late="update"),
}


def test_events_that_are_only_logged_are_no_difference(tmp_path: Path) -> None:
    bench = Bench(None, tmp_path, Bounded("5s"), OUTPUTS, {"key": "string", "paise": "bigint"})
    first, second = cut(arrivals(), [40])[:2]
    engine = bench.engine()
    engine.data(0, bench.write(0, first))
    engine.log.write(1, bench.write(1, second), engine.keeper.timeline)
    engine.close()
    assert check_ledger(bench.pipeline) == []
