"""An output that is added to an existing store is computed from the log in one pass."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from latecomer.config.outputs import Output
from latecomer.engine.ledger.amounts import repeated_amounts
from latecomer.engine.ledger.book import Intake, as_table, entries_of, require_balance, with_duplicates
from latecomer.engine.pipeline import Engine
from latecomer.engine.rebuilds import logic_of
from latecomer.log.logged import Logged
from latecomer.log.repeated import Repeated
from latecomer.model.ledger import ASSIGNMENTS, Entry
from latecomer.store.coverage import outputs_to_compute
from latecomer.store.store import as_received_sql
from latecomer.windowing.fates import Counts
from latecomer.windowing.firing.batch import Batch
from latecomer.windowing.firing.choose import output_logic
from latecomer.windowing.firing.output import OutputLogic

LOG = logging.getLogger(__name__)


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
    batch = Batch(last, section, seen if span else None, *(span or (0, 0)), history=True)
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
    engine: Engine, output: OutputLogic, batch: Batch, logged: Logged, repeated: Repeated | None
) -> list[Entry]:
    """The ledger's lines of a new output for every batch so far."""
    store = engine.store
    past = store.past_ledger.query(
        "select distinct batch, unit, received, duplicate, dead_letter from t "
        f"where batch <= {engine.last} and {as_received_sql(store.past_ledger)}"
    )
    intakes: dict[int, Intake] = {}
    for row in past.to_pylist():
        if row["unit"] != ASSIGNMENTS:
            intake = intakes.setdefault(row["batch"], Intake({}, {}, {}))
            for side in ("received", "duplicate", "dead_letter"):
                getattr(intake, side)[row["unit"]] = row[side]
    if repeated is not None:
        duplicates = repeated_amounts(logged, repeated, store.layout.view, store.measures())
        for number, amounts in duplicates.items():
            intakes[number] = with_duplicates(intakes[number], amounts)
    fates = output.fates_by_batch(batch)
    return [
        entry
        for number, intake in sorted(intakes.items())
        for entry in entries_of(number, output.name, intake, fates.get(number, Counts()), output.windows_each)
    ]
