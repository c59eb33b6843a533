"""A run keeps its store in shape by itself: now and then, in quiet moments, and nothing it does stops the run."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pytest

from after.reconcile.log_kit import arrivals
from engine.upkeep.upkeep_kit import Days, contents
from latecomer.config.load import load_pipeline
from latecomer.config.operation import Upkeep
from latecomer.config.outputs import Output
from latecomer.engine.intake import Intake
from latecomer.engine.upkeep import scheduled
from latecomer.engine.upkeep.compacting import UPKEEP, UpkeepNote, compact
from latecomer.engine.upkeep.scheduled import ScheduledUpkeep
from latecomer.engine.without_data import drain_input
from latecomer.errors import PipelineError
from latecomer.model.strategies import Bounded
from latecomer.store.holding.lock import BRIEFLY, COMPACT, exclusive
from latecomer.store.notes import read_note
from latecomer.store.store import open_store
from scenarios import cut
from spark_kit import Bench, comparable, require_equal, stored_panes

HOUR = 3600.0
PAYLOAD = {"key": "string", "paise": "bigint"}


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


def upkeep_of(days: Days, clock: Clock, **settings: str) -> ScheduledUpkeep:
    pipeline = days.pipeline.model_copy(update={"upkeep": Upkeep(**settings)})
    return ScheduledUpkeep(pipeline, lambda: None, clock)


def files(days: Days) -> int:
    return len(open_store(days.pipeline).events.files())


def test_the_first_is_an_hour_after_the_first_run_and_not_before(days: Days) -> None:
    clock = Clock()
    upkeep_of(days, clock).rest()
    assert files(days) == 12
    clock.now += HOUR + 1
    again = upkeep_of(days, clock)  # another run: what the first one noted counts
    before = contents(days.store)
    again.rest()
    assert files(days) == 1
    assert contents(days.store) == before
    assert (again.done.times, again.done.at, again.done.failures) == (1, clock.now, 0)
    assert not again.is_due()


def test_what_somebody_did_by_hand_counts(days: Days) -> None:
    clock = Clock()
    upkeep_of(days, clock)
    clock.now += 2 * HOUR
    assert upkeep_of(days, clock).is_due()
    compact(days.pipeline)
    noted = read_note(days.store.root / UPKEEP, UpkeepNote)
    assert noted is not None
    assert noted.done
    clock.now = noted.at + 0.5 * HOUR
    assert not upkeep_of(days, clock).is_due()


def test_off_is_off(days: Days) -> None:
    clock = Clock()
    off = upkeep_of(days, clock, every="off")
    clock.now += 1000 * HOUR
    assert not off.is_due()
    off.rest()
    assert files(days) == 12
    assert read_note(days.store.root / UPKEEP, UpkeepNote) is None


@pytest.mark.parametrize("written", ["off", "{every: off}", "{every: 'off', keep: 2d}"])
def test_it_is_switched_off_in_a_word(days: Days, written: str) -> None:
    days.file.write_text(days.file.read_text() + f"upkeep: {written}\n")
    assert load_pipeline(days.file).upkeep.every is None


def test_less_than_an_hour_is_not_kept(days: Days) -> None:
    days.file.write_text(days.file.read_text() + "upkeep: {keep: 5m}\n")
    with pytest.raises(PipelineError, match=r"upkeep\.keep.*too short"):
        load_pipeline(days.file)


def test_a_quiet_moment_begins_it_beside_the_run(days: Days) -> None:
    clock = Clock()
    upkeep = upkeep_of(days, clock)
    clock.now += HOUR + 1
    upkeep.busy()
    assert not upkeep.done.times
    upkeep.quiet()
    ended(upkeep)
    assert files(days) == 1


def test_a_batch_that_waits_goes_first(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step waits for a quiet moment."""
    monkeypatch.setattr(scheduled, "PATIENCE", 60.0)
    clock = Clock()
    upkeep = upkeep_of(days, clock)
    clock.now += HOUR + 1
    monkeypatch.setattr(upkeep._quiet, "set", lambda: None)  # a batch comes at once
    upkeep.quiet()
    time.sleep(1.5)
    assert files(days) == 12
    monkeypatch.undo()
    upkeep.quiet()
    ended(upkeep)
    assert files(days) == 1


def test_where_there_is_no_quiet_moment_it_is_done_all_the_same(
    days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduled, "PATIENCE", 0.01)
    clock = Clock()
    upkeep = upkeep_of(days, clock)
    clock.now += 1.5 * HOUR
    upkeep.busy()
    assert upkeep._thread is None
    clock.now += HOUR
    upkeep.busy()
    ended(upkeep)
    assert files(days) == 1


def test_the_end_of_a_run_does_not_wait_for_all_of_it(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduled, "PATIENCE", 60.0)
    clock = Clock()
    upkeep = upkeep_of(days, clock)
    clock.now += 3 * HOUR
    upkeep.busy()
    upkeep.close()
    assert files(days) == 12
    compact(days.pipeline)  # nobody holds it
    assert files(days) == 1


def test_nothing_that_goes_wrong_stops_the_run(
    days: Days, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("latecomer.engine.upkeep.compacting.merge", fails)
    clock = Clock()
    upkeep = upkeep_of(days, clock)
    clock.now += HOUR + 1
    upkeep.rest()
    assert upkeep.done.failures == 1
    assert (
        "upkeep failed: [Errno 28] No space left on device; the run goes on, and tries again in 1h"
        in caplog.text
    )
    assert not upkeep.is_due()


def test_somebody_else_is_at_it(days: Days, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    upkeep = upkeep_of(days, clock)
    clock.now += HOUR + 1
    with exclusive(days.store.root, COMPACT, BRIEFLY):
        upkeep.rest()
    assert "another process does the upkeep of this store" in caplog.text
    assert (upkeep.done.failures, files(days)) == (0, 12)


def ended(upkeep: ScheduledUpkeep) -> None:
    assert upkeep._thread is not None
    upkeep._thread.join(60)
    assert upkeep.done.times == 1


@pytest.mark.long
def test_an_engine_goes_on_with_files_that_upkeep_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After every batch all is merged, and what was replaced is deleted at once: late events still find their panes."""
    outputs = {
        "updates": Output(
            window={"tumbling": "1m"},
            by=["key"],
            aggregates={"paise": "sum(paise)", "n": "count(*)"},
            allowed_lateness="90s",
            late="update",
        ),
        "sessions": Output(
            window={"session": "7s", "max": "1m"},
            by=["key"],
            aggregates={"paise": "sum(paise)"},
            allowed_lateness="30s",
            late="update",
            too_late="drop",
        ),
    }
    batches = cut(arrivals(), [15, 30, 45, 60, 75])
    bench = Bench(None, tmp_path, Bounded("5s"), outputs, PAYLOAD)
    clock = Clock()
    monkeypatch.setattr(ScheduledUpkeep, "__init__", _with(clock, ScheduledUpkeep.__init__))
    with exclusive(bench.pipeline.store_path):
        engine = bench.engine()
        intake = Intake(engine, threading.Event())
        for number, batch in enumerate(batches):
            engine.data(number, bench.write(number, batch))
            for days in (0, 10):  # merged now, and swept when it is long ago
                clock.now, intake.upkeep._since = time.time() + days * 24 * HOUR, 0.0
                intake.upkeep.rest()
        drain_input(engine)
        intake.close()
        engine.close()
    assert intake.upkeep.done.times == 2 * len(batches)
    assert not intake.upkeep.done.failures
    store, outcome = open_store(bench.pipeline), bench.oracle(batches, drain=True)
    for output in outputs:
        published = [(each.batch, each.pane) for each in outcome.published[output]]
        require_equal(comparable(stored_panes(store, output)), comparable(published))
    assert len(list((store.root / "events" / "data").rglob("*.parquet"))) <= 3


def _with(clock: Clock, made: object) -> object:
    return lambda self, pipeline, remember: made(self, pipeline, remember, clock)  # type: ignore[operator]
