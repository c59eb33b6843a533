"""Rebuilds and repaired dead letters: each is published as a batch of its own, whose number is kept with its plan."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from latecomer.engine.ledger.book import repaired_amounts
from latecomer.engine.ledger.report import Stopwatch
from latecomer.engine.pipeline import Engine
from latecomer.errors import StoreError, StoreMismatch
from latecomer.log.repairs import RepairLog
from latecomer.model.timeline import TimelineRow
from latecomer.source.fixes import Fix
from latecomer.store.definitions import definition_of
from latecomer.store.failpoints import failpoint
from latecomer.store.files import names
from latecomer.store.holding.fences import lease_over
from latecomer.store.rebuilds import Rebuild, RebuildRecord, Rebuilds
from latecomer.store.repairs import Repair, moved_letters
from latecomer.windowing.firing.output import FiringBatch, OutputLogic
from latecomer.windowing.firing.republish import changed_since, publish_rebuild

LOG = logging.getLogger(__name__)


def publish_rebuilds(engine: Engine) -> None:
    """Publish the rebuilds that wait to be published."""
    for name in engine.pipeline.outputs:
        for rebuild in Rebuilds(engine.store.root, name).asked():
            publish_rebuild_now(engine, rebuild)


def publish_rebuild_now(engine: Engine, rebuild: Rebuild) -> bool:
    """Publish a rebuild that was computed elsewhere, as the next batch.

    False where the store has changed the same windows since: then it has to be computed again.
    """
    engine.await_batch()
    record = rebuild.record
    require_whole_log(engine, "rebuild")
    if (
        not rebuild.whole
        or not _is_of_definition(engine, record)
        or changed_since(logic_of(engine, record.output), record)
    ):
        rebuild.refuse()
        return False
    number = engine.last + 1
    rebuild.accept(number)
    failpoint("rebuild.accepted", number)
    complete_rebuild(engine, rebuild, number)
    return True


def complete_rebuild(engine: Engine, rebuild: Rebuild, number: int) -> None:
    """Publish a rebuild that has a batch number: from the beginning, or from where it was interrupted."""
    logic, keeper = logic_of(engine, rebuild.record.output), engine.keeper
    if not _is_of_definition(engine, rebuild.record):
        raise StoreMismatch(
            f"a rebuild that gives output {logic.name} another meaning was interrupted; put the pipeline "
            "file back as it was then, and run again"
        )
    engine.store.redefining = None
    engine.store.pin()
    watch, reached = Stopwatch(), keeper.reached(number - 1)
    assert reached is not None  # noqa: S101
    row = TimelineRow(keeper.timeline.last_tick or 0, reached.at, reached.watermark, kind="rebuild")
    section = keeper.advance(number, row)
    failpoint("watermarks.committed", number)
    engine.last = number
    watch.end("timeline")
    accepted = engine.accepted(FiringBatch(number, section), "rebuild", watch)
    published = publish_rebuild(logic, number, rebuild, section)
    accepted.watch.end("firing")
    engine.publish(accepted, [], {logic.name: published})
    rebuild.tidy(time.monotonic() - watch.began)


def refuse_stale_rebuilds(engine: Engine) -> None:
    """Refuse rebuilds whose batch number came from an engine that had lost the store: the number belongs to another
    batch."""
    store, number = engine.store, engine.last + 1
    if lease_over(store.root) is None:
        return
    marked = [
        (each, each.batch)
        for name in names(store.root / "outputs")
        for each in Rebuilds(store.root, name)
        if each.batch is not None
    ]
    if not marked:
        return
    kinds = store.watermarks.query_rows("select distinct batch, kind from t")
    rebuilds = {row["batch"] for row in kinds if row["kind"] == "rebuild"}
    others = {row["batch"] for row in kinds} - rebuilds | ({number} if engine.half_logged else set())
    for rebuild, batch in marked:
        if batch not in rebuilds and (batch in others or batch > number):
            LOG.warning(
                "rebuild %s was given batch %d by an engine that had lost the store; it is not published, and can be "
                "computed again",
                rebuild.id,
                batch,
            )
            rebuild.refuse()


def accepted_rebuild(engine: Engine, batch: int) -> Rebuild | None:
    """The rebuild that a batch publishes, or None."""
    root = engine.store.root
    rebuilds = (Rebuilds(root, name).of_batch(batch) for name in names(root / "outputs"))
    return next((each for each in rebuilds if each is not None), None)


def require_whole_log(engine: Engine, what: str) -> None:
    """Refuse a new batch while an interrupted one is in the log only: that one has the next number."""
    if engine.half_logged:
        raise StoreError(
            f"batch {engine.last + 1} was interrupted while it was logged, and must be completed before a {what}; "
            "run the pipeline once (latecomer run FILE --once), and then try again"
        )


def logic_of(engine: Engine, name: str) -> OutputLogic:
    """The output with this name, of which an interrupted rebuild was."""
    logic = next((output for output in engine.outputs if output.name == name), None)
    if logic is None:
        raise StoreMismatch(
            f"a rebuild of output {name} was interrupted, and the pipeline file no longer has that output; "
            "put it back, and run again"
        )
    return logic


def _is_of_definition(engine: Engine, record: RebuildRecord) -> bool:
    """Whether a rebuild was computed with the output's present definition."""
    expected = record.definition or engine.store.pinned_definition(record.output)
    return definition_of(logic_of(engine, record.output).output) == expected


# Repaired dead letters


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
    watch.end("log")
    moved = {
        unit: each for (batch, unit), each in moved_letters(engine.store.repairs).items() if batch == number
    }
    section = engine.keeper.repair(number, [summary.tick for summary in logged.ticks.summaries])
    failpoint("watermarks.committed", number)
    engine.last = number
    watch.end("timeline")
    batch = FiringBatch.of_logged(number, section, logged, engine.log.batch(number))
    accepted = engine.accepted(batch, "repair", watch, logged)
    if accepted.amounts is not None:
        accepted.amounts = repaired_amounts(logged.received, logged.ticks.measures, logged.duplicates, moved)
    engine.complete(accepted, outputs)
