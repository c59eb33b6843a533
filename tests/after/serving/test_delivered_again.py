"""A file that is delivered again after its ids were forgotten is counted once, by whoever counts the log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.after.explain.explain import explain
from latecomer.after.reading.reader import Reader
from latecomer.after.rebuild import rebuilding
from latecomer.after.reconcile.against import Against
from latecomer.after.reconcile.reconcile import reconcile
from latecomer.after.replay.replaying import replay
from latecomer.after.serving.correcting import correct
from latecomer.after.serving.served import serving
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.log.repeated import came_again
from latecomer.model.verdicts import Fate
from source.source_kit import ledger_lines, pipeline_in, rows_of, run_once, write_json

SECOND = 1_000_000
BEGIN = 1_794_139_200 * SECOND  # 2026-11-08T12:00:00Z
FIRST_WINDOW = datetime(2026, 11, 8, 12, tzinfo=UTC)
AGGREGATES = {"paise": "sum(paise)", "n": "count(*)"}
SHORT = {
    "window": {"tumbling": "1m"},
    "aggregates": AGGREGATES,
    "allowed_lateness": "1m",
    "late": "side_output",
}
DROPS = {"window": {"tumbling": "1m"}, "aggregates": AGGREGATES, "late": "drop", "too_late": "drop"}
LONG = {"window": {"tumbling": "1m"}, "aggregates": AGGREGATES, "allowed_lateness": "1h", "late": "update"}


def row(txn: str | None, paise: int, at: float, seen: float | None = None) -> dict[str, Any]:
    when = at + 1 if seen is None else seen
    return {"txn": txn, "paise": paise, "at": BEGIN + int(at * SECOND), "seen": BEGIN + int(when * SECOND)}


FIRST = [("a", 1, 5), ("b", 2, 10), (None, 4, 15)]
DELIVERIES = [
    [row(*each) for each in FIRST],
    [row("far", 8, at=600), row("late", 16, at=20, seen=602)],
    [
        *(row(*each, seen=700) for each in FIRST),  # the first file again: the ids are forgotten
        row("late", 16, at=20, seen=701),  # and a late event again
        row("far", 64, at=600, seen=703),  # one that is not forgotten is a duplicate
    ],
    [row("a", 32, at=699, seen=704)],  # an id that is forgotten is free for another event
]


def pipeline_with(folder: Path, **outputs: Any) -> Pipeline:
    return pipeline_in(
        folder,
        files={"order_by": "seen", "max_files_per_batch": 1},
        schema={"txn": "string", "paise": "bigint", "at": "bigint", "seen": "bigint"},
        event={"id": "txn", "unit": "us"},
        outputs={"short": SHORT, "drops": DROPS, **outputs},
        ledger=["paise"],
    )


@pytest.fixture(scope="module")
def delivered(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose first file came again long after; then an output joined that looks back further."""
    folder = tmp_path_factory.mktemp("delivered")
    for nth, rows in enumerate(DELIVERIES):
        write_json(folder, f"{nth}.json", rows, nth)
    run_once(pipeline_with(folder), spark)
    run_once(pipeline_with(folder, long=LONG), spark)
    return folder


def first_window(rows: list[dict[str, Any]]) -> tuple[int, int]:
    (found,) = [each for each in rows if each["window_start"] == FIRST_WINDOW]
    return found["paise"], found["n"]


def test_the_log_holds_it_twice(spark: SparkSession, delivered: Path) -> None:
    store = run_once(pipeline_with(delivered, long=LONG), spark)
    logged = rows_of(
        store.events, "select event_id, batch from t where event_id in ('a', 'b', 'late', 'far')"
    )
    assert sorted((each["event_id"], each["batch"]) for each in logged) == [
        ("a", 0), ("a", 2), ("a", 3), ("b", 0), ("b", 2), ("far", 1), ("late", 1), ("late", 2),
    ]  # fmt: skip
    repeated = came_again(store, store.last_complete_batch())
    assert repeated is not None
    assert repeated.count == 3


def test_a_correction_counts_it_once(delivered: Path) -> None:
    reader = Reader(pipeline_with(delivered, long=LONG))
    rows = correct(reader, "short").to_pylist()
    # Without an id nobody can tell: paise 4 is corrected; a, b and the second `late` are not.
    assert sorted((each["batch"], each["paise"], each["late_events"]) for each in rows) == [
        (1, 16, 1),
        (2, 4, 1),
    ]
    assert first_window(serving(reader, "short").to_pylist()) == (1 + 2 + 4 + 16 + 4, 5)


@pytest.mark.long
def test_the_log_says_the_same(spark: SparkSession, delivered: Path) -> None:
    pipeline = pipeline_with(delivered, long=LONG)
    kept, dropped, joined = (
        reconcile(pipeline, name, Against("log"), spark=spark) for name in ("short", "drops", "long")
    )
    for found, kind in ((kept, "side_output"), (dropped, "dropped")):
        (paise,) = [gap for gap in found.gaps if gap.aggregate == "paise"]
        assert (paise.known[kind], paise.known["not_closed"], paise.unexplained) == (20, 40, 0)
        assert found.explained
    assert joined.explained


def test_an_output_that_joins_counts_it_once(spark: SparkSession, delivered: Path) -> None:
    pipeline = pipeline_with(delivered, long=LONG)
    store = run_once(pipeline, spark)
    assert first_window(Reader(pipeline).results("long").to_pylist()) == (27, 5)
    lines = {name: ledger_lines(store, name)[2, "paise"] for name in ("short", "long")}
    assert lines["short"]["duplicate"] == 64
    assert lines["long"]["duplicate"] == 64 + 1 + 2 + 16
    assert check_ledger(pipeline, spark) == []
    outcome = explain(Reader(pipeline), "long", FIRST_WINDOW)
    assert outcome.reconciled, outcome.notes
    assert [each.event.event_id for each in outcome.left_out[Fate.DUPLICATE]] == ["a", "b", "late"]


@pytest.mark.long
def test_a_replay_repeats_what_happened(spark: SparkSession, delivered: Path) -> None:
    pipeline = pipeline_with(delivered, long=LONG)
    for one_shot in (False, True):
        again = replay(pipeline, one_shot=one_shot, spark=spark)
        assert again.equal, again.fates.to_pylist()


def test_a_rebuild_counts_it_once(spark: SparkSession, tmp_path: Path) -> None:
    for nth, rows in enumerate(DELIVERIES):
        write_json(tmp_path, f"{nth}.json", rows, nth)
    pipeline = pipeline_with(tmp_path)
    run_once(pipeline, spark)
    rebuilding.apply(pipeline, "short", spark=spark)
    reader = Reader(pipeline)
    assert first_window(reader.results("short").to_pylist()) == (27, 5)
    assert correct(reader, "short").num_rows
    assert first_window(serving(reader, "short").to_pylist()) == (27, 5)
    assert explain(reader, "short", FIRST_WINDOW).reconciled
    assert check_ledger(pipeline, spark) == []
    found = reconcile(pipeline, "short", Against("log"), spark=spark)
    assert (found.explained, found.gaps[0].gap, found.gaps[0].known["not_closed"]) == (True, 40, 40)
