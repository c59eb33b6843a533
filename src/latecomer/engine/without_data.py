"""Batches without data: the clock moves the timeline forward, and windows close."""

from __future__ import annotations

from latecomer.engine.pipeline import Engine
from latecomer.log.timeline.keeper import Section
from latecomer.model.verdicts import END_OF_TIME
from latecomer.store.failpoints import failpoint
from latecomer.windowing.firing.output import FiringBatch


def heartbeat(engine: Engine, at: int) -> bool:
    """Move the timeline to a moment without data; this becomes a batch only if it publishes anything."""
    engine.await_batch()
    keeper, number = engine.keeper, engine.last + 1
    beat = keeper.heartbeat(at)
    if beat is None or engine.half_logged:
        return False
    section = Section([(number, beat[1])], keeper.reached(engine.last))
    if not engine.firing.would_publish(FiringBatch(number, section), engine.outputs):
        return False
    keeper.timeline = beat[0]
    complete_without_data(engine, keeper.advance(number, beat[1]), "heartbeat")
    return True


def drain_input(engine: Engine) -> None:
    """The input has ended: close every window. A second call changes nothing."""
    engine.await_batch()
    if engine.keeper.timeline.watermark == END_OF_TIME:
        return
    row = engine.keeper.timeline.drain()
    complete_without_data(engine, engine.keeper.advance(engine.last + 1, row), "drain")


def complete_without_data(engine: Engine, section: Section, kind: str) -> None:
    """Complete a batch without data, whose rows are on the timeline already."""
    engine.last += 1
    failpoint("watermarks.committed", engine.last)
    engine.complete(engine.accepted(FiringBatch(engine.last, section), kind), engine.outputs)
