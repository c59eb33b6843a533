"""What the command line can do, from Python: one story through every call, and wrong arguments in each."""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import latecomer
import latecomer.api as api
from after.serving.correct_kit import make_lake
from cli.cli_kit import Lake
from latecomer import Output, PipelineError, Reader
from latecomer.model.durations import to_micros
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from latecomer.model.windows import Tumbling
from spark_kit import Bench

SECOND = 1_000_000
NOON = to_micros(datetime(2026, 4, 25, 12, tzinfo=UTC))


def paid(second: int, paise: int, came: int | None = None) -> Arrival:
    arrival = NOON + (second if came is None else came) * SECOND
    return Arrival(NOON + second * SECOND, arrival, payload={"paise": paise})


def test_a_number_is_corrected_explained_reconciled_certified_and_rebuilt(
    spark: SparkSession, tmp_path: Path
) -> None:
    output = Output(window=Tumbling("1m"), aggregates={"paise": "sum(paise)"}, late="side_output")
    bench = Bench(
        spark, tmp_path, Bounded("1s"), {"one": output}, {"paise": "bigint"}, measures=(), ids=False
    )
    engine, pipeline = bench.engine(), bench.pipeline
    engine.data(0, bench.write(0, [paid(5, 10), paid(65, 20), paid(200, 30), paid(10, 5, came=210)]))
    engine.close()

    added = latecomer.correct(pipeline, "one", since="2026-04-25T12:00Z", until="2026-04-25T12:01")
    assert added["paise"].to_pylist() == [5]
    assert latecomer.serve(pipeline, "one")["paise"].to_pylist() == [15, 20]
    assert latecomer.serve(pipeline, "one", prefer="live")["paise"].to_pylist() == [10, 20]

    found = latecomer.explain(pipeline, "one", "2026-04-25T12:00:30")
    assert [pane.pane.values["paise"] for pane in found.panes] == [10]
    assert found.document()["output"] == "one"
    assert found.picture().startswith("<svg")

    bank = tmp_path / "bank.csv"
    with bank.open("w", newline="") as file:
        csv.writer(file).writerows(
            [("minute", "amount"), ("2026-04-25T12:00:00Z", 15), ("2026-04-25T12:01:00Z", 20)]
        )
    columns = {"minute": "window_start", "amount": "paise"}
    compared = latecomer.reconcile(pipeline, "one", str(bank), columns=columns)
    assert (compared.equal, compared.explained, compared.counts["different"]) == (False, True, 1)
    assert latecomer.reconcile(pipeline, "one", str(bank), columns=columns, tolerance="40%").equal

    certificate = latecomer.certify(pipeline, "one", at="2026-04-25T12:01")
    assert certificate.rows == 1
    assert latecomer.check_certificate(pipeline, "one", certificate, spark=spark).reproduced

    plan = latecomer.plan_rebuild(pipeline, "one", last="4m", spark=spark)
    assert plan.record.counts["changed"] == 1
    assert latecomer.apply_rebuild(pipeline, "one", plan=plan, spark=spark).batch is not None
    assert Reader(pipeline).results("one")["paise"].to_pylist() == [15, 20]
    again = latecomer.apply_rebuild(
        pipeline, "one", since=datetime(2026, 4, 25, 12, tzinfo=UTC), until="2026-04-25T12:02", spark=spark
    )
    assert again.batch is None


WRONG: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (latecomer.correct, {"since": "yesterday"}, r"since: is not a moment \(value: 'yesterday'\)"),
    (latecomer.correct, {"since": "2026-04-26", "until": "2026-04-25"}, "until: is not after since"),
    (
        latecomer.serve,
        {"prefer": "best"},
        "(?s)prefer: is not known .*choose one of live, corrected, rebuilt",
    ),
    (latecomer.nowcast, {"window": "noon"}, "window: is not a moment"),
    (latecomer.nowcast, {"key": {"merchant": 5}}, "key merchant: has the wrong kind"),
    (latecomer.explain, {"window": 5}, "window: is not a moment"),
    (latecomer.explain, {"window": "2026-04-25", "key": {"merchant": 5}}, "key merchant: has the wrong kind"),
    (latecomer.explain, {"window": "2026-04-25", "clock": "mine"}, "clock: is not known"),
    (latecomer.reconcile, {"against": 7}, "against: has the wrong kind of value"),
    (
        latecomer.reconcile,
        {"against": "log", "since": "2026-04-25", "until": "2026-04-25"},
        "until: is not after since",
    ),
    (latecomer.certify, {"at": "soon"}, "at: is not a moment"),
    (latecomer.check_certificate, {"certificate": 7}, "certificate: has the wrong kind of value"),
    (latecomer.plan_rebuild, {}, "since: is missing"),
    (latecomer.plan_rebuild, {"last": "a while"}, "last: is not a duration"),
    (latecomer.plan_rebuild, {"last": "0s"}, "last: is no time at all"),
    (latecomer.plan_rebuild, {"last": "4h", "since": "2026-04-25"}, "last: is a range of its own"),
    (latecomer.apply_rebuild, {"plan": "x", "last": "4h"}, "plan: has a range of its own"),
]


@pytest.mark.parametrize(("call", "given", "problem"), WRONG)
def test_a_wrong_argument_is_named_with_its_fix(
    tmp_path: Path, call: Callable[..., Any], given: dict[str, Any], problem: str
) -> None:
    lake: Lake = make_lake(tmp_path)
    with pytest.raises(PipelineError, match=problem) as raised:
        call(lake.pipeline, "totals", **given)
    assert raised.value.problems[0].fix


@pytest.mark.parametrize(
    "call", list(dict.fromkeys(call for call, _, _ in WRONG)), ids=lambda call: call.__name__
)
def test_pipeline_and_output_are_checked_first(tmp_path: Path, call: Callable[..., Any]) -> None:
    required = {"explain": {"window": "2026-04-25"}, "reconcile": {"against": "log"}}.get(call.__name__, {})
    if call is latecomer.check_certificate:
        required = {"certificate": "x"}
    with pytest.raises(PipelineError, match="pipeline"):
        call("pipeline.yaml", "totals", **required)
    with pytest.raises(PipelineError, match="did you mean totals"):
        call(make_lake(tmp_path).pipeline, "total", **required)


def test_every_call_is_tried() -> None:
    made = {
        name
        for name, each in vars(api).items()
        if inspect.isfunction(each) and each.__module__ == api.__name__ and name in latecomer.__all__
    }
    elsewhere = {
        "run",
        "sink_status",
        "check_alerts",
        "replay_dead_letters",
        "gaps",
        "advise",
    }  # in test_wrong_arguments.py, cli/test_gaps.py, observe/test_check.py and observe/advise
    tried = {call.__name__ for call, _, _ in WRONG} | elsewhere
    assert {name for name in made if not name.startswith("_")} == tried
