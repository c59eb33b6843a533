"""Each sink lives its own life: one that is down holds nobody, and has everything once it is back."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from latecomer.errors import SinkError
from latecomer.sink.keeper import SinkKeeper, check_sinks, sink_status
from latecomer.sink.worker import LONGEST_SECONDS, SinkWorker
from latecomer.store.holding.lock import exclusive
from latecomer.store.store import open_store
from sink.feeding_kit import Fed, HandClock, eventually
from sink.sink_kit import lines_of, rows_of_delta, rows_of_sqlite

THREE = "[{sqlite: results.db}, {delta: results}, {jsonl: changes}]"
SQLITE = "[{sqlite: results.db}]"


@contextmanager
def working(fed: Fed, clock: HandClock, complete: int = -1) -> Iterator[SinkKeeper]:
    keeper = SinkKeeper(fed.store, clock)
    try:
        keeper.start(complete)
        yield keeper
    finally:
        keeper.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latecomer.sink.database_file.BUSY_SECONDS", 0.01)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    other = sqlite3.connect(folder / "results.db", isolation_level=None)
    other.execute("begin exclusive")
    try:
        yield
    finally:
        other.execute("rollback")
        other.close()


def of_kind(keeper: SinkKeeper, kind: str) -> SinkWorker:
    return next(worker for worker in keeper.workers if worker.logic.kind == kind)


def batches(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["batch"] for row in rows)


def test_three_sinks_of_which_one_is_down_for_five_minutes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fed, clock = Fed(tmp_path, THREE), HandClock()
    with exclusive(fed.store.root), working(fed, clock) as keeper:
        fed.publish(0, "chai", None)
        keeper.announce(0)
        eventually(lambda: not any(worker.behind for worker in keeper.workers))
        down = of_kind(keeper, "sqlite")
        caplog.set_level(logging.INFO)
        with locked(tmp_path):
            for batch in range(1, 31):
                clock.seconds += 10
                fed.publish(batch, "chai")
                keeper.announce(batch)
                # The others keep their pace: each batch is there before the next one comes.
                others = [worker for worker in keeper.workers if worker is not down]
                eventually(lambda others=others: not any(worker.behind for worker in others))
                eventually(lambda: down.outage is not None)
            eventually(lambda: down.outage is not None and down.outage.attempts > 5)
            assert batches(rows_of_delta(tmp_path / "results")) == [0, 0, *range(1, 31)]
            assert batches(lines_of(tmp_path / "changes")) == [0, 0, *range(1, 31)]
            assert down.behind == 30
            asked = {row["sink"]: row for row in sink_status(open_store(fed.pipeline)).to_pylist()}
            assert [asked[kind]["state"] for kind in ("delta", "jsonl")] == ["up to date", "up to date"]
            assert asked["sqlite"] | {"target": ""} == {
                "output": "totals",
                "stream": "panes",
                "sink": "sqlite",
                "target": "",
                "state": "down",
                "last_batch": 0,
                "complete": 30,
                "behind": 30,
                "since": datetime(2026, 11, 16, 3, 0, 10, tzinfo=UTC),
                "reason": "another program held the database for 0.01 s; close it or let it finish",
                "on_outage": "wait",
            }
            assert batches(rows_of_sqlite_while_locked(tmp_path)) == [0, 0]
        clock.seconds += LONGEST_SECONDS
        keeper.finish()
        assert down.outage is None
        assert set(sink_status(open_store(fed.pipeline))["behind"].to_pylist()) == {0}
    assert batches(rows_of_sqlite(tmp_path / "results.db", "totals")) == [0, 0, *range(1, 31)]
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 2, said
    assert "another program held the database" in said[0]
    assert "The run goes on without it" in said[0]
    assert "is back after" in said[1]


def rows_of_sqlite_while_locked(folder: Path) -> list[dict[str, Any]]:
    """What is in the file: nobody can ask SQLite while it is locked."""
    copy = folder / "copy.db"
    copy.write_bytes((folder / "results.db").read_bytes())
    return rows_of_sqlite(copy, "totals")


def test_attempts_become_rarer(tmp_path: Path) -> None:
    fed, clock = Fed(tmp_path, SQLITE), HandClock()
    with working(fed, clock) as keeper:
        (worker,) = keeper.workers
        fed.publish(0, "chai")
        with locked(tmp_path):
            keeper.announce(0)
            waits = []
            for attempt in range(1, 10):
                eventually(lambda attempt=attempt: worker.outage and worker.outage.attempts == attempt)
                assert worker.outage is not None
                waits.append(worker.outage.retry_at - clock.seconds)
                clock.seconds = worker.outage.retry_at
    for nth, wait in enumerate(waits):
        longest = min(0.5 * 2**nth, 60)
        assert longest / 2 <= wait <= longest


def test_a_sink_that_is_down_from_the_start_is_waited_for(tmp_path: Path) -> None:
    fed, clock = Fed(tmp_path, SQLITE), HandClock()
    (tmp_path / "results.db").touch()
    fed.publish(0, "chai")
    with locked(tmp_path):
        check_sinks(fed.store)
        keeper = SinkKeeper(fed.store, clock)
        keeper.start(0)
    clock.seconds += 1
    keeper.finish()
    keeper.close()
    assert batches(rows_of_sqlite(tmp_path / "results.db", "totals")) == [0]


def test_a_run_that_is_done_waits_only_so_long(tmp_path: Path) -> None:
    fed, clock = Fed(tmp_path, SQLITE), HandClock()
    with working(fed, clock) as keeper, locked(tmp_path):
        fed.publish(0, "chai")
        keeper.announce(0)
        eventually(lambda: keeper.workers[0].outage)
        keeper.workers[0].finish()
        clock.seconds += 30
        with pytest.raises(SinkError, match=r"held the database.*the next run catches this sink up"):
            keeper.finish()


def test_a_sink_may_not_fall_behind_for_ever(tmp_path: Path) -> None:
    fed, clock = Fed(tmp_path, "[{sqlite: {path: results.db, max_behind: 2}}]"), HandClock()
    with working(fed, clock) as keeper, locked(tmp_path):
        for batch in range(3):
            fed.publish(batch, "chai")
            keeper.announce(batch)
            eventually(lambda: keeper.workers[0].outage)
        fed.publish(3, "chai")
        with pytest.raises(SinkError, match=r"is down since 2026-11-16T03:00:00Z .*max_behind: 2 batches"):
            keeper.announce(3)


def test_on_outage_stop_stops_at_once(tmp_path: Path) -> None:
    fed, clock = Fed(tmp_path, "[{sqlite: {path: results.db, on_outage: stop}}]"), HandClock()
    with working(fed, clock) as keeper, locked(tmp_path):
        fed.publish(0, "chai")
        keeper.announce(0)
        with pytest.raises(SinkError, match="Nothing is lost: the next run continues with batch 0"):
            keeper.finish()
        with pytest.raises(SinkError, match="held the database"):
            check_sinks(fed.store)


def test_what_cannot_pass_stops_at_the_start(tmp_path: Path) -> None:
    fed, clock = Fed(tmp_path, SQLITE), HandClock()
    fed.publish(0, "chai")
    with working(fed, clock, complete=0) as keeper:
        keeper.finish()
    emptied = SinkKeeper(fed.store, clock)
    with pytest.raises(SinkError, match=r"holds batch 0 of output totals, .*filled from another store"):
        emptied.start(-1)


@pytest.mark.parametrize(
    ("kind", "place"), [("delta", "results"), ("jsonl", "results"), ("sqlite", "results")]
)
def test_a_sink_that_is_taken_away_is_made_anew_and_filled(tmp_path: Path, kind: str, place: str) -> None:
    fed, clock = Fed(tmp_path, f"[{{{kind}: {place}}}]"), HandClock()
    fed.publish(0, "chai")
    with working(fed, clock, complete=0) as keeper:
        eventually(lambda: not keeper.workers[0].behind)
        (tmp_path / place).rename(tmp_path / "elsewhere")
        fed.publish(1, "dosa")
        keeper.announce(1)
        eventually(lambda: keeper.workers[0].outage)
        clock.seconds += 1
        keeper.finish()
    read = {"delta": rows_of_delta, "jsonl": lines_of, "sqlite": lambda path: rows_of_sqlite(path, "totals")}
    assert batches(read[kind](tmp_path / place)) == [0, 1]


def test_a_batch_without_panes_is_no_batch_to_a_sink(tmp_path: Path) -> None:
    fed, clock = Fed(tmp_path, SQLITE), HandClock()
    with working(fed, clock) as keeper:
        for batch, merchants in enumerate((["chai"], [], ["chai"])):
            fed.publish(batch, *merchants)
            keeper.announce(batch)
        keeper.finish()
        assert keeper.workers[0].logic.last_batch() == 2
    assert batches(rows_of_sqlite(tmp_path / "results.db", "totals")) == [0, 2]


def test_whoever_lets_go_waits_for_no_sink_that_is_down(tmp_path: Path) -> None:
    fed, clock = Fed(tmp_path, SQLITE), HandClock()
    fed.publish(0, "chai")
    with working(fed, clock, complete=0) as keeper:
        keeper.finish()
    with locked(tmp_path):
        fed.publish(1, "chai")
        with working(fed, clock, complete=1):
            pass
    with working(fed, clock, complete=1) as keeper:
        keeper.finish()
    assert batches(rows_of_sqlite(tmp_path / "results.db", "totals")) == [0, 1]
