"""Results held against the log, on Spark: the truth is a GROUP BY, and every gap has its reason."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from after.reconcile.log_kit import VALUES, arrivals, bench_of, events_of, grouped, in_sessions
from after.reconcile.reconcile_kit import gap_of
from latecomer.after.certify.certificate import Certificate, certify, check
from latecomer.after.reading.accounts import Accounts, Span
from latecomer.after.reading.reader import Reader
from latecomer.after.reconcile.against import Against
from latecomer.after.reconcile.reconcile import reconcile
from latecomer.after.reconcile.truth import truth
from latecomer.config.models import Pipeline
from latecomer.model.durations import to_micros, to_moment
from latecomer.model.windows import Session
from latecomer.store.store import open_store
from scenarios import cut
from spark_kit import Bench

READING = arrivals()


@dataclass(frozen=True)
class Ran:
    bench: Bench
    early: Certificate
    """Of the output `updates`, after the first of two batches."""

    @property
    def pipeline(self) -> Pipeline:
        return self.bench.pipeline


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Two batches; the last windows are still open."""
    bench = bench_of(spark, tmp_path_factory.mktemp("log"))
    first, second = cut(READING, [50])
    engine = bench.engine()
    engine.data(0, bench.write(0, first))
    early = certify(bench.pipeline, "updates")
    engine.data(1, bench.write(1, second))
    engine.close()
    return Ran(bench, early)


def copied(ran: Ran, folder: Path) -> Pipeline:
    """The same store once more, to be changed by other hands."""
    shutil.copytree(ran.pipeline.store_path, folder / "store")
    return ran.pipeline.model_copy(update={"store": str(folder / "store")})


@pytest.mark.parametrize("output", ["drops", "aside", "updates", "sessions"])
def test_against_the_log_every_gap_is_explained(ran: Ran, spark: SparkSession, output: str) -> None:
    rules = ran.bench.outputs[output]
    group = in_sessions if isinstance(rules.window, Session) else grouped
    expected = group(rules, events_of(READING))
    store, book = open_store(ran.pipeline), Reader(ran.pipeline).book(output)
    rows = truth(Accounts(store, book, Span()), store.ledger.last_batch(), spark)[0].to_pylist()
    outcome: dict[tuple[Any, ...], dict[str, Any]] = {
        (to_micros(row["window_start"]), to_micros(row["window_end"]), *(row[key] for key in rules.by)): row
        for row in rows
    }
    assert outcome.keys() == expected.keys()
    for place, events in expected.items():
        for name, value in VALUES.items():
            if name in rules.aggregates:
                assert outcome[place][name] == value(events), (place, name)

    found = reconcile(ran.pipeline, output, Against("log"), spark=spark)
    assert not found.equal  # there are late events and open windows, or this would show nothing
    assert [gap.unexplained for gap in found.gaps if gap.aggregate in ("paise", "n", "filled")] == [
        0 for name in ("paise", "n", "filled") if name in rules.aggregates
    ]
    assert found.explained
    known = gap_of(found, "n").known
    assert known["not_closed"]
    assert bool(known["dropped"]) is (output != "aside")
    assert bool(known["side_output"]) is (output == "aside")
    assert not known["dead_letter"]


def test_a_number_changed_by_other_hands_is_found_and_not_explained(
    ran: Ran, spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = copied(ran, tmp_path)
    before = certify(pipeline, "drops")
    store = open_store(pipeline)
    panes = store.output_tables("drops", None).panes
    panes.schema = pa.schema(DeltaTable(str(panes.root)).schema().to_arrow())
    row = panes.query("select * from t where paise is not null order by window_start limit 1").cast(
        panes.schema
    )
    forged = row.set_column(
        row.schema.get_field_index("paise"), "paise", [[row["paise"][0].as_py() + 1]]
    ).set_column(row.schema.get_field_index("sequence"), "sequence", [[9]])
    panes.append(7, forged, "forger")
    moment = row["window_start"][0].as_py()

    found = reconcile(
        pipeline, "drops", Against("log"), spark=spark, since=moment, until=to_moment(to_micros(moment) + 1)
    )
    assert not found.explained
    assert gap_of(found, "paise").unexplained == -1
    assert gap_of(found, "n").unexplained == 0

    after = certify(pipeline, "drops")
    assert after.sha256 != before.sha256
    outcome = check(pipeline, "drops", after, spark)
    assert not outcome.reproduced
    assert outcome.sha256 == before.sha256


@pytest.mark.parametrize("output", ["aside", "sessions"])
def test_the_log_reproduces_the_hash(ran: Ran, spark: SparkSession, output: str) -> None:
    certificate = certify(ran.pipeline, output)
    outcome = check(ran.pipeline, output, certificate, spark)
    assert certificate.rows > 3
    assert (outcome.rows, outcome.sha256) == (certificate.rows, certificate.sha256)
    assert outcome.reproduced
    assert outcome.stands


def test_later_events_do_not_break_a_certificate(ran: Ran, spark: SparkSession) -> None:
    outcome = check(ran.pipeline, "updates", ran.early, spark)
    assert ran.early.batches == 1
    assert ran.early.rows > 0
    assert outcome.reproduced
    assert not outcome.stands  # late events have changed what was certified
