"""Repaired dead letters become a batch of their own."""

from __future__ import annotations

from collections.abc import Sequence

from latecomer.engine.ledger.book import repaired_amounts
from latecomer.engine.ledger.report import Stopwatch
from latecomer.engine.pipeline import Engine
from latecomer.log.repairs import RepairLog
from latecomer.source.fixes import Fix
from latecomer.store.failpoints import failpoint
from latecomer.store.repairs import Repair, moved_letters
from latecomer.windowing.firing.batch import Batch
from latecomer.windowing.firing.output import OutputLogic


def accept_repair(engine: Engine, repair: Repair) -> None:
    """Accept repaired dead letters, as the batch whose number the repair has."""
    engine.await_batch()
    failpoint("repair.accepted", repair.batch)
    complete_repair(engine, repair, engine.outputs)


def complete_repair(engine: Engine, repair: Repair, outputs: Sequence[OutputLogic]) -> None:
    """Complete a repair that has a batch number: from the beginning, or from where it was interrupted."""
    view = engine.pipeline.views[repair.source]
    fix = Fix.restored(repair.fix, view, engine.store.columns.read_from(repair.source))
    RepairLog(engine.log, fix, repair.source).take_in(repair, engine.keeper.timeline)
    publish_repaired(engine, repair.batch, outputs)
    repair.tidy()


def publish_repaired(engine: Engine, number: int, outputs: Sequence[OutputLogic]) -> None:
    """Judge and publish repaired dead letters that are in the log as events, and count them in the ledger."""
    watch, logged = Stopwatch(), engine.log.recount(number)
    moved = {
        unit: each for (batch, unit), each in moved_letters(engine.store.repairs).items() if batch == number
    }
    section = engine.keeper.repair(number, [summary.tick for summary in logged.ticks.summaries])
    failpoint("watermarks.committed", number)
    engine.last = number
    batch = Batch.of_logged(number, section, logged, engine.log.batch(number))
    amounts = repaired_amounts(logged.received, logged.ticks.measures, logged.duplicates, moved)
    engine.complete(engine.accepted(batch, "repair", watch, logged.received, amounts), outputs)
