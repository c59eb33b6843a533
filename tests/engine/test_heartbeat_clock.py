"""The clock of the heartbeat: a pause of the pipeline is not silence of the source."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from latecomer import following
from latecomer.model.strategies import Bounded, Head
from latecomer.model.timeline import Timeline
from scenarios import HOUR, MINUTE, SECOND

STRATEGY = Bounded("1s", idle_after="2m")


class Engine:
    """As much of an engine as the heartbeat touches: it keeps its timeline, and restarts from the carry."""

    busy = False
    half_logged = False
    pipeline = SimpleNamespace(sources={})

    def __init__(self, carry: str | None = None) -> None:
        self.keeper = SimpleNamespace(timeline=Timeline.restore(STRATEGY, carry))
        self.store = SimpleNamespace(root=Path())

    def settle(self) -> None:
        """No batch is ever under way here."""

    def publish_rebuilds(self) -> None:
        """Nobody asks for a rebuild here."""

    def heartbeat(self, at: int) -> bool:
        return self.keeper.timeline.heartbeat(at) is not None


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The machine's clock, in the test's hands."""
    held = SimpleNamespace(seconds=1_000.0)
    monkeypatch.setattr(following.time, "monotonic", lambda: held.seconds)
    monkeypatch.setattr(following, "is_store", lambda _: True)
    return held


def started(engine: Engine) -> following.Intake:
    return following.Intake(engine, threading.Event())  # type: ignore[arg-type]


def heard(engine: Engine, at: int) -> None:
    engine.keeper.timeline.extend([Head(at // SECOND, at, name, 1, at) for name in ("a", "b")])


def test_silence_counts_from_when_reading_resumed(now: SimpleNamespace) -> None:
    before = Engine()
    heard(before, 10 * HOUR)
    now.seconds += 6 * 3600  # the pipeline is down for six hours
    resumed = Engine(before.keeper.timeline.carry())
    runner = started(resumed)
    now.seconds += 110
    runner.beat()
    timeline = resumed.keeper.timeline
    assert timeline.watermark == 10 * HOUR - SECOND  # the tick is over, and nobody is idle
    now.seconds += 10
    runner.beat()
    assert timeline.watermark == 10 * HOUR - SECOND  # what was heard last may have come a second later
    now.seconds += 1
    runner.beat()
    assert timeline.watermark == 10 * HOUR + 2 * MINUTE  # two minutes of silence that were listened to


def test_silence_starts_over_with_every_batch(now: SimpleNamespace) -> None:
    engine = Engine()
    heard(engine, 10 * HOUR)
    runner = started(engine)
    now.seconds += 110
    heard(engine, 10 * HOUR + MINUTE)
    runner.hear()
    now.seconds += 119
    runner.beat()
    assert engine.keeper.timeline.watermark == 10 * HOUR + MINUTE - SECOND


def test_a_moment_without_data_is_no_heartbeat_yet(now: SimpleNamespace) -> None:
    engine = Engine()
    heard(engine, 10 * HOUR)
    runner = started(engine)
    now.seconds += 0.9
    runner.beat()
    assert engine.keeper.timeline.last_at == 10 * HOUR
