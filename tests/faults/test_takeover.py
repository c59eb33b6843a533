"""One engine at a time, in real processes: killed, paused, woken up. The tables are those of an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from azure_kit import Container
from faults.faults_kit import START, left_behind, tables_of, write_pipeline
from faults.lease_kit import TAKEOVER, engines, token, until, with_lease
from hdfs_kit import Folder
from latecomer.after.rebuild import rebuilding
from latecomer.config.load import load_pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.store.delta.commits import commits_of
from s3_kit import Bucket

PLACES = {"s3": "bucket", "hdfs": "hdfs_folder", "azure": "container"}


def bucket_for(request: pytest.FixtureRequest, at: str) -> Bucket | Folder | Container | None:
    return None if at == "folder" else request.getfixturevalue(PLACES[at])


QUICK = "totals.panes.written"
OTHERS = (
    "events.written",
    "events.committed",
    "sinks.applied",
    "dead_letters.committed",
    "duplicates.committed",
    "watermarks.committed",
    "totals.panes.committed",
    "totals.late.written",
    "totals.late.committed",
    "totals.partials.committed",
    "alerts.panes.committed",
    "alerts.late.committed",
    "alerts.partials.committed",
    "ledger.committed",
    "publications.committed",
    "sink.delta.written",
    "sink.jsonl.written",
    "sink.parquet.written",
)


@pytest.fixture(scope="module")
def undisturbed_lease(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What one engine leaves behind that nobody disturbs."""
    file = with_lease(write_pipeline(tmp_path_factory.mktemp("undisturbed")))
    with engines(file) as start:
        assert start("drain").wait() == 0
    return left_behind(file)


def require_alike(file: Path, expected: dict[str, list[str]]) -> None:
    assert left_behind(file) == expected
    assert check_ledger(load_pipeline(file)) == []


@pytest.mark.parametrize("at", ["folder", *(pytest.param(each, marks=pytest.mark.long) for each in PLACES)])
def test_a_standby_takes_over_from_whoever_is_killed(
    tmp_path: Path, undisturbed_lease: dict[str, list[str]], at: str, request: pytest.FixtureRequest
) -> None:
    file = with_lease(write_pipeline(tmp_path), bucket=bucket_for(request, at))
    store = load_pipeline(file).store_path
    with engines(file) as start:
        first = start("drain", at="pause:totals.panes.committed@1")
        until(lambda: "holds" in first.said)
        second = start("drain")
        until(lambda: "standing by for store" in second.said)
        first.send(signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
        took = until(lambda: token(store) == 2)
        assert second.wait() == 0
    assert took < 1.2 * TAKEOVER + 20  # on a busy machine
    require_alike(file, undisturbed_lease)


@pytest.mark.parametrize(
    ("place", "at"),
    [
        (QUICK, "folder"),
        *(pytest.param(QUICK, at, marks=pytest.mark.long) for at in PLACES),
        *(pytest.param("events.committed", at, marks=pytest.mark.long) for at in ("hdfs", "azure")),
        *(pytest.param(place, at, marks=pytest.mark.long) for place in OTHERS for at in ("folder", "s3")),
    ],
)
def test_whoever_wakes_up_after_a_takeover_changes_nothing(
    tmp_path: Path,
    undisturbed_lease: dict[str, list[str]],
    place: str,
    at: str,
    request: pytest.FixtureRequest,
) -> None:
    file = with_lease(write_pipeline(tmp_path), bucket=bucket_for(request, at))
    with engines(file) as start:
        first = start("drain", at=f"pause:{place}@1")
        until(lambda: first.is_paused)
        second = start("drain")
        assert second.wait() == 0, second.said
        assert token(load_pipeline(file).store_path) == 2
        first.send(signal.SIGCONT)
        assert first.wait() == 1, first.said
        assert "was taken over by process" in first.said
        assert "(token 2)" in first.said
    require_alike(file, undisturbed_lease)


@pytest.mark.long
def test_whoever_wakes_up_in_the_middle_of_a_transaction_of_a_sink_ends_it_and_begins_no_other(
    tmp_path: Path, undisturbed_lease: dict[str, list[str]]
) -> None:
    """The database is held by it until then: for the other engine that sink is down, and is caught up afterwards."""
    file = with_lease(write_pipeline(tmp_path))
    with engines(file) as start:
        first = start("drain", at="pause:sink.sqlite.written@1")
        until(lambda: first.is_paused)
        second = start("drain")
        until(lambda: "The run goes on without it" in second.said or "locked" in second.said)
        first.send(signal.SIGCONT)
        assert first.wait() == 1, first.said
        assert "was taken over by process" in first.said
        assert second.wait() == 0, second.said
    require_alike(file, undisturbed_lease)


def test_after_a_clean_stop_the_next_one_starts_at_once(tmp_path: Path) -> None:
    file = with_lease(write_pipeline(tmp_path), takeover=60)
    with engines(file) as start:
        first = start()
        until(lambda: "holds" in first.said)
        second = start("drain")
        until(lambda: "standing by for store" in second.said)
        first.send(signal.SIGTERM)
        assert first.wait() == 0, first.said
        assert until(lambda: token(tmp_path / "store") == 2) < 10
        assert second.wait() == 0, second.said


def test_a_rebuild_that_a_stale_engine_gave_a_batch_is_not_taken_for_published(tmp_path: Path) -> None:
    file = with_lease(write_pipeline(tmp_path))
    with engines(file) as start:
        assert start("drain").wait() == 0
        planned = rebuilding.plan(load_pipeline(file), "totals")
        planned.accept(1)  # which is a batch of data
        again = start("drain")
        assert again.wait() == 0, again.said
    assert f"rebuild {planned.id} was given batch 1 by an engine that had lost the store" in again.said
    assert (planned.batch, planned.stale) == (None, True)
    assert check_ledger(load_pipeline(file)) == []


# A fight


def fight(file: Path, seconds: float, seed: int) -> None:
    """Two engines want one store, and are paused and woken up at random, while files come in."""
    by, folder, store = random.Random(seed), file.parent, load_pipeline(file).store_path
    with engines(file) as start:
        both = [start("again") for _ in range(2)]
        until(lambda: token(store) > 0)
        ends, written = time.monotonic() + seconds, 0
        while time.monotonic() < ends:
            if by.random() < 0.5:
                write_more(folder, written)
                written += 1
            by.choice(both).send(by.choice([signal.SIGSTOP, signal.SIGCONT, signal.SIGCONT]))
            time.sleep(by.uniform(0.05, TAKEOVER))
        for each in both:
            each.send(signal.SIGCONT)
            each.send(signal.SIGTERM)
        for each in both:
            assert each.wait() == 0, each.said
        assert start("drain").wait(600) == 0  # it reads all that is left of ten minutes
        print(
            f"{written} files, token {token(store)}, refused {sum(each.said.count('refused') for each in both)}"
        )
        assert token(store) >= 2
    require_once(file, written)


def write_more(folder: Path, number: int) -> None:
    """Another file of payments, in order of time, as it is seen at once."""
    at = START + timedelta(minutes=number)
    lines = [
        {
            "txn": f"more{number}-{nth}",
            "tower": f"tower{nth % 2}",
            "merchant": "amul",
            "paise": nth,
            "event_time": at.isoformat(),
            "arrival_time": at.isoformat(),
        }
        for nth in range(20)
    ]
    draft = folder / f"{number}.json"
    draft.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    os.utime(draft, (2_000_000 + number, 2_000_000 + number))
    draft.rename(folder / "in" / f"more{number:05}.json")


def require_once(file: Path, written: int) -> None:
    """Every batch is in every table once, and every payment is counted once, in the store and in the sinks."""
    pipeline = load_pipeline(file)
    for name, table in tables_of(pipeline).items():
        batches = [each.batch for each in commits_of(table.root) if each.application == "latecomer"]
        assert len(batches) == len(set(batches)), name
        assert batches == sorted(batches, reverse=True), name
    ids = tables_of(pipeline)["events"].query("select event_id from t")["event_id"].to_pylist()
    assert len(ids) == len(set(ids))
    assert sum(each.startswith("more") for each in ids) == 20 * written
    assert check_ledger(pipeline) == []
    with closing(sqlite3.connect(file.parent / "results.db")) as database:
        in_sink = database.execute("select sum(payments) from totals").fetchone()[0]
    counted = tables_of(pipeline)["ledger"].query(
        "select sum(on_time + late_accepted) as n from t where output = 'totals' and unit = 'assignments'"
    )
    assert in_sink == int(counted["n"][0].as_py())


@pytest.mark.long
def test_two_engines_fight_for_a_store(tmp_path: Path) -> None:
    fight(with_lease(write_pipeline(tmp_path)), 8, seed=30)


@pytest.mark.long
@pytest.mark.parametrize("at", ["folder", "s3"])
def test_two_engines_fight_for_ten_minutes(tmp_path: Path, at: str, request: pytest.FixtureRequest) -> None:
    fight(with_lease(write_pipeline(tmp_path), bucket=bucket_for(request, at)), 600, seed=31)
