"""The signals of a pipeline, read from its store: they need no metrics server and no Spark, so cron can check them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pyarrow as pa

from latecomer.config.models import Pipeline
from latecomer.observe.alerts import RecordedWeeks, SignalState, SignalVerdict, judge
from latecomer.observe.history import DAY, HOUR, KEPT, MINUTE, PipelineHistory
from latecomer.observe.recorded import differences, read_history, read_recent, was_within
from latecomer.store.files import Location, names, written_at
from latecomer.store.publications import wall_clock
from latecomer.store.rebuilds import Rebuilds
from latecomer.store.store import Store, open_store

AFTERWARDS = 2 * MINUTE
"""A backfill is still shown for so long after it was published, so that a metrics server sees it at least once."""
ABANDONED = 3600
"""A draft that is older, in seconds, was left by a rebuild that was killed."""
LOAD = DAY
"""The first load of a store counts as a backfill for so long."""
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


def check(pipeline: Pipeline, now: int | None = None) -> list[SignalVerdict]:
    """Every signal of a pipeline as it is now, or as it was at an earlier moment of the wall clock."""
    moment = wall_clock() if now is None else now
    return judge(recorded_by(open_store(pipeline), moment), moment)


def recorded_by(store: Store, now: int, kept: int = KEPT + DAY) -> RecordedWeeks:
    """The past of a pipeline, in its store; as far back as `kept`."""
    outputs, budget, history = list(store.pipeline.outputs), store.pipeline.alerts.lag, PipelineHistory()
    for output, at, sums in read_history(store, now, store.ledger.last_batch(), kept):
        history.add(output, at, sums)
    recent = read_recent(store, now - 2 * HOUR)
    working = ["rebuild"] if rebuilding(store.root, outputs) else []
    new = recent.first_batch is not None and now - recent.first_batch <= LOAD
    if new and budget is not None and not was_within(store, budget):
        working.append("history")
    return RecordedWeeks(
        outputs, budget, history, recent.steps, recent.backfills, working, differences(store)
    )


def as_table(verdicts: list[SignalVerdict]) -> pa.Table:
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


def as_words(verdicts: list[SignalVerdict]) -> pa.Table:
    """Verdicts as rows for people: value and limit as in the reason, with their units."""
    rows = as_table(verdicts)
    for name in ("value", "limit"):
        figures = zip(verdicts, rows[name].to_pylist(), strict=True)
        words = [None if figure is None else each.alert.in_words(figure) for each, figure in figures]
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(words, pa.string()))
    return rows


def is_firing(verdicts: list[SignalVerdict]) -> bool:
    """Whether any signal is firing."""
    return any(each.state is SignalState.FIRING for each in verdicts)


# Whether a backfill runs: then a spike is expected, and nobody is alerted


class Backfills:
    """The backfills that a run and its store know of.

    history  a new store reads old data: the store is younger than a day, and its lag was never within `alerts.lag`
    rebuild  windows are computed again, or the result waits to be published
    repair   dead letters are replayed
    """

    def __init__(self, root: Location, outputs: Sequence[str], budget: int | None) -> None:
        self._root, self._outputs, self._budget = root, outputs, budget
        self._last: dict[str, int] = {}
        self._loading_since: int | None = None

    def batch(self, kind: str, at: int, lag: int | None) -> None:
        """A batch was published, with this lag of the watermark."""
        if kind in ("rebuild", "repair"):
            self._last[kind] = at
        if lag is not None and (self._budget is None or lag <= self._budget):
            self._loading_since = None

    def begin_load(self, now: int) -> None:
        """The store is new: it begins with the old data of its source."""
        self._loading_since = now

    def under_way(self, now: int) -> set[str]:
        """The kinds of backfill that run now."""
        kinds = {kind for kind, at in self._last.items() if now - at <= AFTERWARDS}
        if self._loading_since is not None and now - self._loading_since <= LOAD:
            kinds.add("history")
        if rebuilding(self._root, self._outputs):
            kinds.add("rebuild")
        return kinds


def rebuilding(root: Location, outputs: Sequence[str]) -> bool:
    """Whether a rebuild is being computed, or waits to be published."""
    for output in outputs:
        rebuilds = Rebuilds(root, output)
        drafts = (rebuilds.root / name for name in names(rebuilds.root) if name.startswith("."))
        if rebuilds.asked() or any(map(_is_young, drafts)):
            return True
    return False


def _is_young(draft: Location) -> bool:
    try:
        return time.time() - written_at(draft) < ABANDONED
    except OSError:
        return False
