"""Upkeep beside a real engine: it goes on as if nothing had happened, and everything can be computed again."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from after.reconcile.log_kit import PAYLOAD, arrivals
from latecomer.after.certify.certificate import Certificate, certify, check
from latecomer.after.reading.reader import Reader
from latecomer.after.reconcile.against import Against
from latecomer.after.reconcile.reconcile import reconcile
from latecomer.after.replay.replaying import replay
from latecomer.after.serving.correcting import correct
from latecomer.config.models import Pipeline
from latecomer.config.operation import Retention
from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.pipeline import Engine
from latecomer.engine.starting import start_engine
from latecomer.engine.upkeep.compacting import compact
from latecomer.engine.without_data import drain_input
from latecomer.errors import NoStore, NotCovered
from latecomer.model.durations import to_moment
from latecomer.model.oracle.interpreter import Interpretation
from latecomer.model.strategies import Bounded
from latecomer.spark.base import InProcess
from latecomer.store.coverage import covered_since, removals, removed_until
from latecomer.store.delta.data_files import is_merged
from latecomer.store.delta.table import Table
from latecomer.store.holding.lock import exclusive
from latecomer.store.store import Store, open_store
from scenarios import cut
from spark_kit import Bench, as_lines, comparable, require_equal, stored_entries, stored_panes

LATER = datetime.now(UTC) + timedelta(days=30)
OUTPUTS = {
    "updates": Output(
        window={"tumbling": "1m"},
        by=["key"],
        aggregates={"paise": "sum(paise)", "n": "count(*)", "payers": "approx_count_distinct(paise)"},
        allowed_lateness="90s",
        late="update",
    ),
    "sessions": Output(
        window={"session": "7s", "max": "1m"},
        by=["key"],
        aggregates={
            "paise": "sum(paise)",
            "n": "count(*)",
            "often": "top_k(paise, 2)",
            "ends": "last(paise)",
        },
        allowed_lateness="30s",
        late="update",
        too_late="drop",
    ),
}
BATCHES = cut(arrivals(), [40, 50])


@dataclass(frozen=True)
class Ran:
    bench: Bench
    outcome: Interpretation
    early: Certificate
    """Of the output `updates`, after the first batch."""

    @property
    def pipeline(self) -> Pipeline:
        return self.bench.pipeline

    def copied(self, folder: Path, **retention: str) -> Pipeline:
        shutil.copytree(self.pipeline.store_path, folder / "store")
        kept = Retention(**retention)
        return self.pipeline.model_copy(update={"store": str(folder / "store"), "retention": kept})


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run_with_upkeep(spark, tmp_path_factory.mktemp("kept"), OUTPUTS)


@pytest.fixture(scope="module")
def ran_without_sessions(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """In half the time."""
    return run_with_upkeep(spark, tmp_path_factory.mktemp("kept"), {"updates": OUTPUTS["updates"]})


def run_with_upkeep(spark: SparkSession, folder: Path, outputs: Mapping[str, Output]) -> Ran:
    """Batch after batch, with everything that upkeep can do after each of them, beside the same engine."""
    bench = Bench(spark, folder, Bounded("5s"), outputs, PAYLOAD)
    with exclusive(bench.pipeline.store_path), pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "latecomer.windowing.firing.output.FOLD_AT", 1
        )  # the engine takes files out whenever it may
        engine, certificates = bench.engine(), []
        for number, batch in enumerate(BATCHES):
            engine.data(number, bench.write(number, batch))
            certificates.append(certify(bench.pipeline, "updates"))
            compact(bench.pipeline)
            compact(bench.pipeline, now=LATER)
        drain_input(engine)
        engine.close()
    return Ran(bench, bench.oracle(BATCHES, drain=True), certificates[0])


@pytest.mark.long
def test_the_engine_does_not_notice(ran: Ran) -> None:
    store = open_store(ran.pipeline)
    assert any(is_merged(file) for file in store.events.files())
    assert any(is_merged(file) for file in store.output_tables("sessions", None).panes.files())
    assert_as_published(ran.bench, ran.outcome)


def assert_as_published(bench: Bench, outcome: Interpretation) -> None:
    """Every pane and every line of the ledger is what the oracle says."""
    store = open_store(bench.pipeline)
    for output in OUTPUTS:
        published = [(each.batch, each.pane) for each in outcome.published[output]]
        require_equal(_exact(comparable(stored_panes(store, output))), _exact(comparable(published)))
    require_equal(as_lines(stored_entries(store)), as_lines(outcome.ledger))


def _exact(panes: dict) -> dict:
    """Without what is only near."""
    return {place: {k: v for k, v in values.items() if k != "payers"} for place, values in panes.items()}


@pytest.mark.long
def test_everything_can_be_computed_again_from_merged_files(ran: Ran, spark: SparkSession) -> None:
    assert compact(ran.pipeline, now=LATER).total("files_after") < 14
    found = replay(ran.pipeline, outputs=["updates"], spark=spark)
    assert found.exact
    assert found.equal, found.summary.to_pylist()
    assert check_ledger(ran.pipeline, spark) == []


@pytest.mark.long
def test_a_past_that_ends_within_merged_files(ran: Ran, spark: SparkSession) -> None:
    assert ran.early.batches == 1
    assert ran.early.rows > 0
    assert check(ran.pipeline, "updates", ran.early, spark).reproduced


@pytest.mark.long
def test_every_output_can_be_computed_again(ran: Ran, spark: SparkSession) -> None:
    for one_shot in (False, True):
        assert replay(ran.pipeline, spark=spark, one_shot=one_shot).equal


def test_spark_reads_the_same_columns(ran_without_sessions: Ran, spark: SparkSession) -> None:
    store = open_store(ran_without_sessions.pipeline)
    for table in (store.events, store.output_tables("updates", None).panes):
        merged = [
            path
            for path, file in zip(table.paths(table.files()), table.files(), strict=True)
            if is_merged(file)
        ]
        assert merged
        assert spark.read.parquet(*merged).schema == from_arrow_schema(table.stored_schema)


@pytest.mark.long
def test_upkeep_without_pause_while_the_engine_works(spark: SparkSession, tmp_path: Path) -> None:
    """Not between two batches but in the middle of them, over and over."""
    bench = Bench(spark, tmp_path, Bounded("5s"), OUTPUTS, PAYLOAD)
    batches = cut(arrivals(), [3] * 40)
    over = threading.Event()

    def work() -> None:
        try:
            engine = bench.engine()
            for number, batch in enumerate(batches):
                engine.accept(number, bench.write(number, batch))
            drain_input(engine)
            engine.close()
        finally:
            over.set()

    calls = 0
    with exclusive(bench.pipeline.store_path), pytest.MonkeyPatch.context() as patch:
        patch.setattr("latecomer.windowing.firing.output.FOLD_AT", 1)
        with ThreadPoolExecutor(1) as pool:
            working = pool.submit(work)
            while not over.is_set():
                try:
                    compact(bench.pipeline)
                    calls += 1
                except NoStore:
                    over.wait(0.1)
            working.result()
    assert calls > 5
    assert_as_published(bench, bench.oracle(batches, drain=True))


@pytest.mark.long
def test_side_output_that_was_removed_is_not_missed(ran: Ran, spark: SparkSession, tmp_path: Path) -> None:
    pipeline = ran.copied(tmp_path, late="1m")
    correct(Reader(pipeline), "updates")
    compact(pipeline)
    assert removed_until(open_store(pipeline), "late", "updates") >= 0
    assert replay(pipeline, outputs=["updates"], spark=spark).equal
    assert check_ledger(pipeline, spark) == []


@pytest.fixture(scope="module")
def forgetful(ran_without_sessions: Ran, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The same store, with its first batch forgotten."""
    return forgotten(ran_without_sessions, tmp_path_factory.mktemp("forgetful"))


def forgotten(ran: Ran, folder: Path) -> Pipeline:
    pipeline = ran.copied(folder, events="3m")
    compact(pipeline)
    assert removed_until(open_store(pipeline), "events") == 0
    return pipeline


def test_the_ledger_balances_with_what_was_removed(forgetful: Pipeline, spark: SparkSession) -> None:
    notes: list[str] = []
    assert check_ledger(forgetful, spark, notes) == []
    assert notes[0].startswith("output updates: the fates of 1 batch were not recomputed")


@pytest.mark.long
def test_the_ledger_balances_with_what_was_removed_of_sessions(
    ran: Ran, spark: SparkSession, tmp_path: Path
) -> None:
    assert check_ledger(forgotten(ran, tmp_path), spark) == []


@pytest.mark.parametrize(
    ("table", "column", "complaint"),
    [
        ("removals", "amount", "batch 0, output updates, events: the ledger says received"),
        ("ledger", "dropped", "the record of what retention removed"),
    ],
)
def test_tampering_is_still_seen(
    forgetful: Pipeline, spark: SparkSession, tmp_path: Path, table: str, column: str, complaint: str
) -> None:
    shutil.copytree(forgetful.store_path, tmp_path / "store")
    pipeline = forgetful.model_copy(update={"store": str(tmp_path / "store")})
    pipeline = pipeline.model_copy(update={"outputs": {"updates": pipeline.outputs["updates"]}})
    _add_one(Table(tmp_path / "store" / table, removals(open_store(pipeline)).schema), column)
    assert any(complaint in difference for difference in check_ledger(pipeline, spark))


def _add_one(table: Table, column: str) -> None:
    """Change one row of batch 0 by hand."""
    file = next(file for file in table.files() if file.minimum["batch"] == 0)
    rows = pq.read_table(table.root / file.path)
    nth = pc.index(pc.and_(pc.equal(rows["batch"], 0), pc.equal(rows["unit"], "events")), True).as_py()
    values = rows[column].to_pylist()
    values[nth] += 1
    changed = rows.set_column(
        rows.schema.get_field_index(column), column, pa.array(values, rows[column].type)
    )
    folder = table.new_folder(0)
    folder.mkdir(parents=True)
    pq.write_table(changed, folder / "part.parquet")
    table.rearrange([folder / "part.parquet"], [file])


def test_what_is_covered_can_be_reconciled(forgetful: Pipeline, spark: SparkSession) -> None:
    since = covered_since(open_store(forgetful))
    assert since is not None
    found = reconcile(forgetful, "updates", Against("log"), since=to_moment(since), spark=spark)
    assert found.explained
    assert found.counts["equal"] > 0


def test_a_new_output_is_refused(forgetful: Pipeline, spark: SparkSession) -> None:
    more = {**forgetful.outputs, "more": forgetful.outputs["updates"]}
    pipeline = forgetful.model_copy(update={"outputs": more})
    engine = Engine(InProcess(spark), Store(pipeline, pipeline.source.columns or {}))
    with pytest.raises(
        NotCovered, match="output more is new and needs the whole log, and retention has removed"
    ):
        start_engine(engine)
    engine.close()
