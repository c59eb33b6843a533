"""The signals of a pipeline, read from its store: they need no metrics server and no Spark, so cron can check them."""

from __future__ import annotations

import pyarrow as pa

from latecomer.config.models import Pipeline
from latecomer.observe.alerts import Recorded, State, Verdict, judge
from latecomer.observe.backfills import LOAD, rebuilding
from latecomer.observe.history import DAY, HOUR, KEPT, History
from latecomer.observe.recorded import differences, read_history, read_recent, was_within
from latecomer.store.publications import wall_clock
from latecomer.store.store import Store, open_store

SCHEMA = pa.schema(
    [
        ("alert", pa.string()),
        ("output", pa.string()),
        ("state", pa.string()),
        ("severity", pa.string()),
        ("value", pa.float64()),
        ("limit", pa.float64()),
        ("reason", pa.string()),
    ]
)


def check(pipeline: Pipeline, now: int | None = None) -> list[Verdict]:
    """Every signal of a pipeline as it is now, or as it was at an earlier moment of the wall clock."""
    moment = wall_clock() if now is None else now
    return judge(recorded_by(open_store(pipeline), moment), moment)


def recorded_by(store: Store, now: int, kept: int = KEPT + DAY) -> Recorded:
    """The past of a pipeline, in its store; as far back as `kept`."""
    outputs, budget, history = list(store.pipeline.outputs), store.pipeline.alerts.lag, History()
    read_history(store, now, store.ledger.last_batch(), history.add, kept)
    recent = read_recent(store, now - 2 * HOUR)
    working = ["rebuild"] if rebuilding(store.root, outputs) else []
    new = recent.first_batch is not None and now - recent.first_batch <= LOAD
    if new and budget is not None and not was_within(store, budget):
        working.append("history")
    return Recorded(outputs, budget, history, recent.steps, recent.backfills, working, differences(store))


def as_table(verdicts: list[Verdict]) -> pa.Table:
    """Verdicts as rows."""
    rows = [
        {
            "alert": each.alert.name,
            "output": each.output,
            "state": each.state.value,
            "severity": each.alert.severity.value,
            "value": each.value,
            "limit": each.limit,
            "reason": each.reason,
        }
        for each in verdicts
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def as_words(verdicts: list[Verdict]) -> pa.Table:
    """Verdicts as rows for people: value and limit as in the reason, with their units."""
    rows = as_table(verdicts)
    for name in ("value", "limit"):
        figures = zip(verdicts, rows[name].to_pylist(), strict=True)
        words = [None if figure is None else each.alert.in_words(figure) for each, figure in figures]
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(words, pa.string()))
    return rows


def is_firing(verdicts: list[Verdict]) -> bool:
    """Whether any signal is firing."""
    return any(each.state is State.FIRING for each in verdicts)
