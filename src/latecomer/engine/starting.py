"""Before the first batch of a run: the work that an interrupted run left is finished."""

from __future__ import annotations

import logging

from latecomer.engine.ledger.book import logged_intake
from latecomer.engine.ledger.report import AcceptedBatch
from latecomer.engine.new_outputs import catch_up
from latecomer.engine.pipeline import Engine
from latecomer.engine.rebuilds import accepted_rebuild, complete_rebuild, refuse_stale_rebuilds
from latecomer.engine.repairs import complete_repair
from latecomer.store.coverage import reached_by_output
from latecomer.store.recovery import require_unbroken
from latecomer.store.repairs import kept_repair
from latecomer.windowing.firing.batch import Batch
from latecomer.windowing.firing.output import OutputLogic

LOG = logging.getLogger(__name__)


def start_engine(engine: Engine) -> None:
    """Finish the work that an interrupted run left, and compute new outputs."""
    require_unbroken(engine.store)
    engine.publications.begin()
    refuse_stale_rebuilds(engine)
    number = engine.last + 1
    rebuild, repair = accepted_rebuild(engine, number), kept_repair(engine.store.root)
    if repair is not None and repair.batch < number:
        repair.tidy()
    elif repair is not None:
        LOG.info("taking in dead letters whose replay was interrupted, as batch %d", repair.batch)
        complete_repair(engine, repair, _known_outputs(engine))
    elif rebuild is not None:
        LOG.info("publishing a rebuild that was interrupted, as batch %d", number)
        complete_rebuild(engine, rebuild, number)
    elif engine.store.watermarks.last_batch() >= number:
        LOG.info("completing batch %d, which was interrupted", number)
        engine.complete(_interrupted(engine, number), _known_outputs(engine))
    catch_up(engine)
    LOG.info("bringing the sinks up to batch %d", engine.last)
    engine.sinks.start(engine.last)
    engine.started = True


def _interrupted(engine: Engine, number: int) -> AcceptedBatch:
    """The batch that an earlier run accepted and did not complete, read from the log and the timeline."""
    section = engine.keeper.section(number, number)
    kind = section.rows[0][1].kind
    engine.last = number
    if kind != "tick":
        return engine.accepted(Batch(number, section), kind)
    logged = engine.log.recount(number)
    batch = Batch.of_logged(number, section, logged, engine.log.batch(number))
    return engine.accepted(batch, "data", received=logged.received, intake=logged_intake(logged))


def _known_outputs(engine: Engine) -> list[OutputLogic]:
    """The outputs that earlier batches had; all of them where there was no batch."""
    reached = reached_by_output(engine.store)
    return [output for output in engine.outputs if not reached or output.name in reached]
