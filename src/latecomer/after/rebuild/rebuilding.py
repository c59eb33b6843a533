"""Rebuild: windows of a range computed anew from the log, and what changed published as CORRECTION panes.

    plan:   log → windows of the range → what differs from what stands → a plan, kept in the store
    apply:  a plan → published by the run that holds the store, between two batches; else by this process

A plan is made from the batches up to one. If later batches change the same windows before it is published, it is not
published, but computed again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from latecomer.after.checked_store import checked_store, not_computed
from latecomer.after.rebuild.planning import planned, require_range
from latecomer.config import checks
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.report import BatchReport
from latecomer.engine.pipeline import Engine
from latecomer.engine.rebuilds import publish_rebuild_now
from latecomer.engine.starting import start_engine
from latecomer.errors import PipelineError, Problem, StoreError, StoreInUse
from latecomer.log.filling import fill, new_columns
from latecomer.log.progress import Watch
from latecomer.model.panes import Accumulation
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.spark.base import Runner
from latecomer.spark.errors import explained
from latecomer.spark.predicates import check_predicates
from latecomer.spark.runner import runner_for
from latecomer.spark.session import build_session, own_session
from latecomer.spark.when_needed import when_needed
from latecomer.store.definitions import definition_of, with_definition
from latecomer.store.files import Location, is_writable, log_file, scratch
from latecomer.store.holding.lock import require_writable
from latecomer.store.layout import PaneLayout
from latecomer.store.pins import read_pins
from latecomer.store.rebuilds import Rebuild, Rebuilds
from latecomer.store.recovery import held_for_run
from latecomer.store.source_columns import source_columns
from latecomer.store.store import Store, open_store
from latecomer.windowing.firing.session_output import output_logic
from latecomer.windowing.merge import Merger
from latecomer.windowing.widening import require_widenable

ATTEMPTS = 20
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Applied:
    """What became of a rebuild."""

    rebuild: Rebuild
    batch: int | None
    """The batch that published it; None where nothing changes."""
    beside: bool
    """Whether a running pipeline published it."""
    before: bool = False
    """Whether it had been published before, and nothing was done now."""


@explained("the rebuild")
def plan(
    pipeline: Pipeline,
    output: str,
    since: int | None = None,
    until: int | None = None,
    *,
    spark: SparkSession | None = None,
    watch: Watch = lambda _: None,
) -> Rebuild:
    """A plan of what computing the windows that start in [since, until) anew would change. Nothing is published.

    The plan is kept in the store, where that can be written.
    """
    store = opened_to_rebuild(pipeline, output)
    range_ = _range(since, until)
    require_range(store, output, range_[0])
    runner = _runner(pipeline, store, spark)
    with scratch("latecomer-plan-") as folder:
        home = store.root if is_writable(store.root) else folder
        return _Planner(runner, store, output, watch, home).plan(*range_)


@explained("the rebuild")
def apply(
    pipeline: Pipeline,
    output: str,
    since: int | None = None,
    until: int | None = None,
    *,
    plan_id: str | None = None,
    spark: SparkSession | None = None,
    watch: Watch = lambda _: None,
) -> Applied:
    """Execute a plan: the one that is named, else one for the range, else one that is made now.

    If a pipeline is running, its run publishes the plan; else this process does.
    """
    store = opened_to_rebuild(pipeline, output)
    require_writable(store.root)
    range_ = _range(since, until)
    if plan_id is None:
        require_range(store, output, range_[0])
    runner = _runner(pipeline, store, spark)
    planner = _Planner(runner, store, output, watch)
    rebuild = planner.of_range(*range_) if plan_id is None else planner.named(plan_id)
    for _ in range(ATTEMPTS):
        applied = _publish(runner, planner, rebuild)
        if applied is not None:
            return applied
        if plan_id is not None:
            raise StoreError(
                f"plan {plan_id} is out of date: the pipeline has published windows in its range since batch "
                f"{rebuild.record.through}; plan again, or apply the range without --plan"
            )
        rebuild.remove()
        rebuild = planner.plan(rebuild.record.since, rebuild.record.until)
    raise StoreError(
        f"the range kept getting new events while it was computed, {ATTEMPTS} times in a row; nothing was "
        "changed; rebuild it when fewer come, or stop the pipeline first"
    )


def _range(since: int | None, until: int | None) -> tuple[int, int]:
    return BEGIN_OF_TIME if since is None else since, END_OF_TIME if until is None else until


def opened_to_rebuild(pipeline: Pipeline, output: str) -> Store:
    """The store, checked to be rebuilt; every reason why it cannot be is an error before Spark starts."""
    checks.require_output(pipeline, output)
    store = checked_store(
        pipeline, lambda given: _with_declared_columns(open_store(_with_others_as_they_were(given, output)))
    )
    pinned = store.pinned_definition(output)
    if pinned is None:
        raise not_computed(output)
    if pinned != definition_of(pipeline.outputs[output]):
        _require_redefinable(store, output, pinned)
        store.redefining = output
    store.pins()
    return store


def _with_others_as_they_were(pipeline: Pipeline, output: str) -> Pipeline:
    """The pipeline, with the other outputs as they were computed: several outputs may change together, and are rebuilt
    one after the other."""
    pinned = (read_pins(pipeline.store_path) or {}).get("outputs", {})
    outputs = {
        name: each
        if name == output or pinned.get(name, definition_of(each)) == definition_of(each)
        else with_definition(each, pinned[name])
        for name, each in pipeline.outputs.items()
    }
    return pipeline.model_copy(update={"outputs": outputs})


def _with_declared_columns(store: Store) -> Store:
    """The store with the columns that the file declares, which may be more than those of its log."""
    declared = Store(store.pipeline, source_columns(store.pipeline))
    return declared if new_columns(declared) else store


def _take_in_columns(runner: Runner, store: Store) -> None:
    """Add to the log the columns that it lacks, with the values that were kept of them."""
    if not new_columns(store):
        return
    try:
        with held_for_run(store.root):
            require_widenable(store)
            fill(runner, store)
            store.pin()
    except StoreInUse:
        raise StoreInUse(
            "the file declares columns that the log does not have, and a pipeline is running without them; stop that "
            "first (kill -INT), or start it again with the file as it is now"
        ) from None


def _require_redefinable(store: Store, name: str, pinned: Mapping[str, Any]) -> None:
    """Refuse a new definition that changes more than the filter and the aggregates, or columns that the output has.
    Columns may be added: they are null in panes that were published before."""
    output = store.pipeline.outputs[name]
    before = with_definition(output, pinned)
    old, new = (PaneLayout(each, store.layout) for each in (before, output))
    states = [Merger(layout, store.measures()).state_columns for layout in (old, new)]
    wrong = [
        key
        for key, changed in {
            "window": before.window != output.window,
            "by": before.by != output.by or old.keys != new.keys,
            "accumulation": pinned["discarding"] != (output.accumulation is Accumulation.DISCARDING),
            "aggregates": any(new.values.get(column) != kind for column, kind in old.values.items())
            or any(states[1].get(column, kind) != kind for column, kind in states[0].items()),
        }.items()
        if changed
    ]
    reason = f"changed its {' and '.join(wrong)}" if wrong else ""
    if not wrong and output.window.merges:
        reason = "has session windows"
    if not wrong and output.accumulation is Accumulation.DISCARDING:
        reason = "is discarding"
    if reason:
        message = f"cannot be rebuilt under another definition: it {reason}"
        fix = "give the changed output a new name, and it is computed from the log"
        raise PipelineError([Problem(f"outputs.{name}", message, fix=fix)])


def _runner(pipeline: Pipeline, store: Store, spark: SparkSession | None) -> Runner:
    log = log_file(store.root, "rebuild.log")
    session = when_needed(lambda: own_session(spark or build_session(pipeline.name, log)))
    check_predicates(session, store, None)
    runner = runner_for(store.events.rows(), session)
    _take_in_columns(runner, store)
    return runner


class _Planner:
    """Computes plans for one output."""

    def __init__(
        self, runner: Runner, store: Store, output: str, watch: Watch, home: Location | None = None
    ) -> None:
        self.runner = runner
        self.store = store
        self.name = output
        self.watch = watch
        self.rebuilds = Rebuilds(home or store.root, output)

    @property
    def definition(self) -> Mapping[str, Any] | None:
        """The new definition of the output, where it changes."""
        return definition_of(self.store.pipeline.outputs[self.name]) if self.store.redefining else None

    def named(self, plan: str) -> Rebuild:
        """The plan whose id begins so."""
        matching = [each for each in self.rebuilds if each.id.startswith(plan)] if plan else []
        if len(matching) != 1:
            waiting = ", ".join(each.id for each in self.rebuilds if each.batch is None) or "none"
            raise StoreError(
                f"{'no plan' if not matching else 'more than one plan'} of output {self.name} is called {plan}; "
                f"there are: {waiting}"
            )
        return matching[0]

    def of_range(self, since: int, until: int) -> Rebuild:
        """A plan for a range: an existing one, if it is by the last batch and has the same definition; else a new one,
        as other windows of the range may have got events."""
        self.store.ledger.refresh()
        wanted = since, until, self.store.ledger.last_batch(), self.definition
        for each in self.rebuilds:
            record = each.record
            of = record.since, record.until, record.through, record.definition
            if each.batch is None and of == wanted:
                return each
        return self.plan(since, until)

    def plan(self, since: int, until: int) -> Rebuild:
        """A new plan, by the log as it is now."""
        store = open_store(self.store.pipeline)
        store.redefining = self.store.redefining
        logic = output_logic(self.runner, store, self.name)
        through = store.ledger.last_batch()
        return planned(logic, since, until, through, self.definition, self.watch, rebuilds=self.rebuilds)


# Publishing


def _publish(runner: Runner, planner: _Planner, rebuild: Rebuild) -> Applied | None:
    """Have a plan published; None where later batches have changed its windows."""
    store = planner.store
    if rebuild.batch is None and not rebuild.record.changes and rebuild.record.definition is None:
        rebuild.remove()
        _finish_interrupted(runner, store)
        return Applied(rebuild, None, False)
    if rebuild.batch is not None and _complete(store, rebuild.batch):
        _finish_interrupted(runner, store)
        return Applied(rebuild, rebuild.batch, False, before=True)
    asked = False
    while True:
        try:
            with held_for_run(store.root):
                return _publish_in_this_process(runner, planner, rebuild)
        except StoreInUse:
            if store.redefining:
                raise StoreInUse(
                    f"output {planner.name} is to mean something else, and a pipeline is running with what it "
                    "meant before; stop that first (kill -INT), then apply"
                ) from None
        if rebuild.stale:
            return None
        if not asked:
            rebuild.ask()
            asked = True
        batch = rebuild.batch
        if batch is not None and _complete(store, batch):
            return Applied(rebuild, batch, True)
        time.sleep(POLL_SECONDS)


def _finish_interrupted(runner: Runner, store: Store) -> None:
    """Catch up the sinks that an interrupted rebuild did not reach. A running pipeline does so itself."""
    try:
        with held_for_run(store.root), closing(Engine(runner, open_store(store.pipeline))) as engine:
            start_engine(engine)
            engine.finish()
    except StoreInUse:
        return


def _complete(store: Store, batch: int) -> bool:
    store.ledger.refresh()
    return store.ledger.last_batch() >= batch


def _publish_in_this_process(runner: Runner, planner: _Planner, rebuild: Rebuild) -> Applied | None:
    store = open_store(planner.store.pipeline)
    store.redefining = planner.store.redefining if rebuild.batch is None else None
    reports: list[BatchReport] = []
    with closing(Engine(runner, store, reports.append)) as engine:
        start_engine(engine)
        if rebuild.batch is None and not publish_rebuild_now(engine, rebuild):
            return None
        engine.finish()
    planner.store.redefining = None
    return Applied(rebuild, rebuild.batch, not any(report.kind == "rebuild" for report in reports))
