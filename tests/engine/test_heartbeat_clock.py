"""The clock of the heartbeat: neither a pause of the pipeline nor an outage is silence of the source."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from latecomer.engine import following
from latecomer.engine.intake import Intake
from latecomer.errors import SourceOutage
from latecomer.model.source_order import ReadTo
from latecomer.model.sources import BySource
from latecomer.model.strategies import Bounded, TickSummary
from latecomer.model.timeline import Timeline
from latecomer.source.base import MergedSlice, Slice
from scenarios import HOUR, MINUTE, SECOND

STRATEGY = Bounded("1s", idle_after="2m")


class Engine:
    """As much of an engine as the heartbeat touches: it keeps its timeline, and restarts from the carry."""

    busy = False
    half_logged = False
    pipeline = SimpleNamespace(sources={})

    def __init__(self, carry: str | None = None, root: Path | None = None) -> None:
        self.keeper = SimpleNamespace(
            timeline=Timeline.restore(STRATEGY, carry),
            accepted=lambda name: self.read_to.get(name, ReadTo(-1)),
        )
        self.read_to: dict[str, ReadTo] = {}
        self.log = None
        self.last = -1
        self.store = SimpleNamespace(root=root or Path(), home=lambda _: root)

    def accept(self, _number: int, slice_: Slice) -> None:
        """The rows of a slice are those of partition a, at its end."""
        timeline = self.keeper.timeline
        timeline.extend(
            [TickSummary(slice_.newest // SECOND, slice_.newest, "a", 1, slice_.newest)], slice_.partitions
        )

    def take(self, _number: int, slice_: MergedSlice) -> None:
        """The rows of several are those of the sources themselves."""
        self.read_to |= slice_.read_to
        at = slice_.newest // SECOND, slice_.newest
        summaries = [TickSummary(*at, f"{each.slice.source}/0", 1, slice_.newest) for each in slice_.parts]
        self.keeper.timeline.extend(summaries, slice_.partitions)

    def await_batch(self) -> None:
        """No batch is ever under way here."""

    def heartbeat(self, at: int) -> bool:
        return self.keeper.timeline.heartbeat(at) is not None


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The machine's clock, in the test's hands."""
    held = SimpleNamespace(seconds=1_000.0)
    monkeypatch.setattr(following.time, "monotonic", lambda: held.seconds)
    monkeypatch.setattr("latecomer.engine.intake.is_store", lambda _: True)
    monkeypatch.setattr("latecomer.engine.intake.heartbeat", lambda engine, at: engine.heartbeat(at))
    monkeypatch.setattr("latecomer.engine.intake.publish_rebuilds", lambda _: None)  # nobody asks for one
    moments = dict.fromkeys(("quiet", "busy", "rest", "close"), lambda: None)
    monkeypatch.setattr(
        "latecomer.engine.intake.ScheduledUpkeep", lambda *_: SimpleNamespace(**moments)
    )  # there are no tables
    return held


def started(engine: Engine) -> Intake:
    return Intake(engine, threading.Event())  # type: ignore[arg-type]


def heard(engine: Engine, at: int) -> None:
    engine.keeper.timeline.extend([TickSummary(at // SECOND, at, name, 1, at) for name in ("a", "b")])


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
    runner.restart_silence()
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


class Source:
    """A source that can be asked, or cannot, and has something new or has not."""

    pause = 1.0

    def __init__(self) -> None:
        self.down, self.asked, self.new = False, 0, list[Slice]()

    def has_slice(self, *_: object) -> bool:
        return False

    def slice_of(self, *_: object) -> None:
        return None

    def next_slice(self, *_: object) -> Slice | None:
        self.asked += 1
        if self.down:
            raise SourceOutage("nobody there")
        return self.new.pop(0) if self.new else None


@pytest.fixture
def down(now: SimpleNamespace, tmp_path: Path) -> tuple[Engine, following.Following, Source]:
    """Two partitions are heard of at ten o'clock; an hour later the source is still down."""
    engine, source = Engine(root=tmp_path), Source()
    heard(engine, 10 * HOUR)
    followed = following.Following(started(engine), "", source)  # type: ignore[arg-type]
    followed.bounded = False
    source.down = True
    for _ in range(3600):
        now.seconds += 1
        assert not followed.step()
        followed.intake.beat()
    return engine, followed, source


def test_an_outage_is_not_silence(
    now: SimpleNamespace,
    down: tuple[Engine, following.Following, Source],
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine, followed, source = down
    timeline = engine.keeper.timeline
    assert source.asked == 3600
    assert timeline.last_at == 10 * HOUR  # the clock has not gone on
    (warned,) = caplog.get_records("setup")
    assert "nobody there; it is asked again and again" in warned.getMessage()
    source.down = False
    source.new = [
        Slice(11 * HOUR, partitions={"a": True, "b": False}),
        Slice(11 * HOUR + MINUTE, partitions={"a": False, "b": False}),
    ]
    now.seconds += 1
    assert followed.step()
    assert timeline.named == {"a": True, "b": True}  # it has not caught up
    now.seconds += 1
    assert followed.step()
    assert timeline.named == {"a": False, "b": False}
    now.seconds += 119
    followed.intake.beat()
    assert timeline.watermark == 10 * HOUR - SECOND  # b holds it: its silence counts since then
    now.seconds += 1
    followed.intake.beat()
    assert timeline.watermark == 11 * HOUR + MINUTE - SECOND


def test_a_source_with_nothing_new_has_caught_up(
    now: SimpleNamespace, down: tuple[Engine, following.Following, Source]
) -> None:
    engine, followed, source = down
    source.down = False
    now.seconds += 1
    assert not followed.step()
    assert not followed.intake.away
    now.seconds += 121
    followed.intake.beat()
    assert engine.keeper.timeline.watermark == 10 * HOUR + 2 * MINUTE


def test_an_outage_outlasts_the_run(
    now: SimpleNamespace, down: tuple[Engine, following.Following, Source], tmp_path: Path
) -> None:
    before, _, source = down
    engine = Engine(before.keeper.timeline.carry(), tmp_path)
    followed = following.Following(started(engine), "", source)  # type: ignore[arg-type]
    followed.bounded = source.down = False
    assert followed.intake.away == {""}
    source.new = [Slice(11 * HOUR)]  # it names no partitions
    assert followed.step()
    assert not followed.intake.away
    assert not started(engine).away
    now.seconds += 119
    followed.intake.beat()
    assert engine.keeper.timeline.watermark == 10 * HOUR - SECOND


def test_one_of_several_sources_is_away(now: SimpleNamespace, tmp_path: Path) -> None:
    engine = Engine(root=tmp_path)
    engine.pipeline = SimpleNamespace(sources={"app": None, "pos": None})
    engine.keeper.timeline = Timeline(BySource.of_strategies({"app": STRATEGY, "pos": STRATEGY}))
    names = ("app", "pos")
    engine.keeper.timeline.extend([TickSummary(36_000, 10 * HOUR, name, 1, 10 * HOUR) for name in names])
    intake = started(engine)
    intake.goes_away("pos")
    now.seconds += 3600
    intake.beat()
    assert engine.keeper.timeline.last_at == 10 * HOUR
    engine.keeper.timeline.extend(
        [TickSummary(39_600, 11 * HOUR, "app", 1, 11 * HOUR)], intake._unread_by_partition({"app": None})
    )
    assert engine.keeper.timeline.watermark == 10 * HOUR - SECOND  # pos holds it
    intake.came_back("pos")
    now.seconds += 122
    intake.beat()
    assert engine.keeper.timeline.watermark == 11 * HOUR + 2 * MINUTE + SECOND


def test_of_several_sources_one_that_has_more_than_was_asked_for_is_not_idle(
    now: SimpleNamespace, tmp_path: Path
) -> None:
    """It is away, and has not come back before all of it is read; both are read in one batch."""
    engine, topic, folder = Engine(root=tmp_path), Source(), Source()
    engine.pipeline = SimpleNamespace(sources={"app": None, "pos": None})
    engine.keeper.timeline = timeline = Timeline(BySource.of_strategies({"app": STRATEGY, "pos": STRATEGY}))
    intake = started(engine)
    intake.goes_away("app")
    both = {"app": topic, "pos": folder}
    followed = [following.Following(intake, *each) for each in both.items()]  # type: ignore[arg-type]
    for each in followed:
        each.bounded = False
    in_order = following.InOrder(intake, followed)
    topic.new = [Slice(10 * HOUR, partitions={"0": True}), Slice(11 * HOUR, partitions={"0": False})]
    folder.new = [Slice(10 * HOUR)]
    assert in_order.step()
    assert timeline.named == {"app": True, "app/0": True, "pos": False}
    assert intake.away == {"app"}
    now.seconds += 1
    assert in_order.step()
    assert timeline.named == {"app/0": False, "pos/0": False}
    assert not intake.away
    topic.new, folder.new = [Slice(12 * HOUR, partitions={"0": True})], [Slice(12 * HOUR)]
    now.seconds += 1
    assert in_order.step()
    assert timeline.named == {"app/0": True, "pos/0": False}
    assert not in_order.step()
