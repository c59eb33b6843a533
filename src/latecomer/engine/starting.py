"""Before the first batch of a run: the work that an interrupted run left is finished, and outputs that were added to
the store are computed from the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from latecomer.config.outputs import Output
from latecomer.engine.ledger.book import (
    AcceptedBatch,
    ReceivedAmounts,
    as_table,
    entries_of,
    repeated_amounts,
    require_balance,
    with_duplicates,
)
from latecomer.engine.pipeline import Engine
from latecomer.engine.rebuilds import (
    accepted_rebuild,
    complete_rebuild,
    complete_repair,
    logic_of,
    refuse_stale_rebuilds,
)
from latecomer.log.logged_events import Logged, Repeated
from latecomer.model.ledger import ASSIGNMENTS, Entry
from latecomer.store.coverage import outputs_to_compute, reached_by_output
from latecomer.store.recovery import require_unbroken
from latecomer.store.repairs import kept_repair
from latecomer.store.store import as_received_sql
from latecomer.windowing.fate_counts import Counts
from latecomer.windowing.firing.output import FiringBatch, OutputLogic
from latecomer.windowing.firing.session_output import output_logic

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
        return engine.accepted(FiringBatch(number, section), kind)
    logged = engine.log.recount(number)
    batch = FiringBatch.of_logged(number, section, logged, engine.log.batch(number))
    return engine.accepted(batch, "data", logged=logged)


def _known_outputs(engine: Engine) -> list[OutputLogic]:
    """The outputs that earlier batches had; all of them where there was no batch."""
    reached = reached_by_output(engine.store)
    return [output for output in engine.outputs if not reached or output.name in reached]


# New outputs


def catch_up(engine: Engine) -> None:
    """Compute the outputs that were added to an existing store."""
    for name in outputs_to_compute(engine.store):
        began, rows = time.monotonic(), sum(file.rows for file in engine.store.events.files())
        LOG.info("computing the new output %s from the log: %s events", name, f"{rows:,}")
        compute_from_log(engine, logic_of(engine, name), engine.last)
        engine.computed[name] = time.monotonic() - began


def compute_from_log(engine: Engine, output: OutputLogic, joined: int) -> None:
    """Compute an output that joined after batch `joined`. Events that were delivered twice by then count once."""
    logged, repeated = engine.log.everything(), engine.log.repeated(joined)
    seen = logged if repeated is None else logged.without(repeated)
    span, last = seen.span(), engine.last
    section = engine.keeper.section(0, last)
    batch = FiringBatch(last, section, seen if span else None, *(span or (0, 0)), history=True)
    with engine.firing.derived(batch, [output]) as whole:
        (prepared,) = engine.firing.run(whole, [output])
        entries = _past_entries(engine, output, whole, logged, repeated)
        require_balance(entries)
        output.commit(whole, prepared)
    engine.publications.close(last, as_table(entries), engine.reached, output.name)


def use_outputs(engine: Engine, outputs: Mapping[str, Output]) -> None:
    """Continue with these outputs; one that has changed starts from its tables, as after a restart."""
    before = engine.pipeline.outputs
    if outputs == before and len(engine.outputs) == len(outputs):
        return
    known = {logic.name: logic for logic in engine.outputs}
    store = engine.store
    store.pipeline = engine.pipeline.model_copy(update={"outputs": dict(outputs)})
    store.pin()
    engine.outputs = [
        known[name] if before.get(name) == output else output_logic(engine.runner, store, name)
        for name, output in outputs.items()
    ]


def _past_entries(
    engine: Engine, output: OutputLogic, batch: FiringBatch, logged: Logged, repeated: Repeated | None
) -> list[Entry]:
    """The ledger's lines of a new output for every batch so far."""
    store = engine.store
    past = store.past_ledger.query(
        "select distinct batch, unit, received, duplicate, dead_letter from t "
        f"where batch <= {engine.last} and {as_received_sql(store.past_ledger)}"
    )
    received: dict[int, ReceivedAmounts] = {}
    for row in past.to_pylist():
        if row["unit"] != ASSIGNMENTS:
            amounts = received.setdefault(row["batch"], ReceivedAmounts({}, {}, {}))
            for side in ("received", "duplicate", "dead_letter"):
                getattr(amounts, side)[row["unit"]] = row[side]
    if repeated is not None:
        duplicates = repeated_amounts(logged, repeated, store.layout.view, store.measures())
        for number, more in duplicates.items():
            received[number] = with_duplicates(received[number], more)
    fates = output.fates_by_batch(batch)
    return [
        entry
        for number, amounts in sorted(received.items())
        for entry in entries_of(
            number, output.name, amounts, fates.get(number, Counts()), output.windows_each
        )
    ]
