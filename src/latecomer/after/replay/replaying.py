"""Replay: everything computed again from the log, as it was, or under other settings.

    stored log, stored timeline → the engine, on a store of its own → compared with what is stored

Without changes each batch is run again as it was: with the rows it logged, the watermarks that were in
force, the policies that its outputs had. With other watermark settings the timeline is computed anew
from the log. The store itself is only read, and only up to its last complete batch, so a pipeline may be
running on it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from latecomer.after.checked_store import not_computed
from latecomer.after.rebuild.planning import planned
from latecomer.after.replay.comparison import (
    CHANGES,
    COMPARED,
    OutputComparison,
    Side,
    compare_fates,
    compare_output,
)
from latecomer.after.replay.past_log import PastLog
from latecomer.config.arguments import require_flags, require_kind, require_pipeline
from latecomer.config.changed_settings import changed
from latecomer.config.checks import require_output
from latecomer.config.load import check_against
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.config.places import url_problem
from latecomer.engine.pipeline import Engine
from latecomer.engine.rebuilds import complete_rebuild, logic_of, publish_repaired
from latecomer.engine.starting import compute_from_log, use_outputs
from latecomer.engine.without_data import complete_without_data, drain_input, heartbeat
from latecomer.errors import PipelineError, Problem, StoreError, StoreMismatch
from latecomer.log.repeated import came_again
from latecomer.model.durations import to_micros
from latecomer.model.timeline import Timeline, TimelineRow
from latecomer.objects.locations import scheme_of, without_file_scheme
from latecomer.source.base import Slice
from latecomer.spark.base import Runner
from latecomer.spark.errors import explained
from latecomer.spark.predicates import check_predicates
from latecomer.spark.runner import runner_for
from latecomer.spark.session import build_session, own_session
from latecomer.spark.when_needed import when_needed
from latecomer.store.coverage import reached_by_output, require_covered
from latecomer.store.files import Location, exists, is_folder, log_file, make_folder, names, scratch
from latecomer.store.past_store import PastTable, ReplayStore
from latecomer.store.private import keep_private
from latecomer.store.rebuilds import Rebuild, Rebuilds
from latecomer.store.store import Store, joining, open_store

LOG = logging.getLogger(__name__)
RECONCILE = "reconcile what it covers: latecomer reconcile FILE OUTPUT --against log --from T"


@dataclass(frozen=True)
class Replay:
    """What a replay found, side by side with what is stored."""

    pipeline: Pipeline
    """The pipeline as it was replayed. Its store is that of the replay; it exists only if the replay is kept (`to`)."""
    exact: bool
    """Whether nothing was changed: every column is compared."""
    one_shot: bool
    """Whether all events were taken as one batch."""
    batches: int
    outputs: Mapping[str, OutputComparison]
    fates: pa.Table
    """The ledgers' totals: output, unit, fate, stored, replayed, difference."""
    repeated: int = 0
    """How many events the log holds that came again after their ids were forgotten; a replay takes them as events.
    They are counted where a setting was changed or the replay is kept."""

    @property
    def equal(self) -> bool:
        """Whether the replay agrees with the store. In one shot there are fewer EARLY and LATE panes
        than batch by batch, so there only results, late rows and ledger count."""
        compared = COMPARED if not self.one_shot else [what for what in COMPARED if what != "panes"]
        return all(getattr(output, what).equal for output in self.outputs.values() for what in compared)

    @property
    def summary(self) -> pa.Table:
        """One row an output: how many panes, results, late rows and ledger lines are equal or not."""
        counts = {
            f"{what}_{change}": [getattr(output, what).counts[change] for output in self.outputs.values()]
            for what in COMPARED
            for change in CHANGES
        }
        return pa.table({"output": pa.array(list(self.outputs), pa.string())} | counts)


@explained("the replay")
def replay(
    pipeline: Pipeline,
    *,
    changes: Mapping[str, object] | None = None,
    outputs: Sequence[str] = (),
    to: str | Path | None = None,
    one_shot: bool = False,
    spark: SparkSession | None = None,
) -> Replay:
    """Compute from the log again, and compare with what is stored.

    `changes` maps fields of the pipeline file to other values: `{"watermark.delay": "2m"}`. `outputs`
    are those to replay, all by default. `to` is a new folder in which the replay is kept. `one_shot`
    takes all events as one batch instead of batch by batch: verdicts, ON_TIME panes and the numbers that
    stand must be the same.
    """
    require_pipeline("replay", pipeline)
    require_kind(
        "replay", (Mapping, type(None)), 'fields and values: {"watermark.delay": "2m"}', changes=changes
    )
    require_kind("replay", (list, tuple), 'the names in a list, such as ["totals"]', outputs=outputs)
    require_kind("replay", (str, Path, type(None)), "the path of a new folder", to=to)
    require_flags("replay", one_shot=one_shot)
    require_kind("replay", (SparkSession, type(None)), "a SparkSession, or leave it out", spark=spark)
    require_kind(
        "replay", str, "the name of an output", **{f"outputs {n}": each for n, each in enumerate(outputs)}
    )
    require_kind(
        "replay", str, "the name of a field", **{f"changes {field}": field for field in changes or {}}
    )
    if (problem := url_problem("to", str(to or ""))) is not None:
        raise PipelineError([problem])
    supposed = changed(pipeline, changes or {})
    for name in outputs:
        require_output(pipeline, name)
    new_timeline = any(field.startswith(("watermark", "sources.")) for field in changes or {})
    if one_shot and new_timeline:
        problem = Problem("watermark", "cannot change in one shot", fix="leave one_shot out")
        raise PipelineError([problem])
    origin = open_store(pipeline)
    published = origin.ledger.last_batch()
    if one_shot and any(Rebuilds(origin.root, name).published(published) for name in pipeline.outputs):
        problem = Problem("one_shot", "a store with rebuilds is more than one shot", fix="leave one_shot out")
        raise PipelineError([problem])
    origin.pins()
    last = origin.last_complete_batch()
    require_covered(origin, "a replay", RECONCILE)
    check_against(supposed, origin.columns)
    parts = _parts(origin, supposed, _chosen(origin, last, outputs), changes or {})
    keep_private(supposed)
    with _folder(to, origin) as root:
        store = _computed(supposed, parts, origin, last, root, new_timeline, one_shot, spark)
        LOG.info("comparing with the store")
        sides = Side(origin, last), Side(store, last)
        exact = not changes and not one_shot
        compared = {part.name: compare_output(*sides, part.name, exact) for part in parts}
        fates = compare_fates(*sides, compared)
        repeated = came_again(origin, last) if changes or to is not None else None
        came = repeated.count if repeated is not None else 0
        return Replay(store.pipeline, exact, one_shot, last + 1, compared, fates, came)


@explained("computing results again")
def recompute(
    pipeline: Pipeline,
    output: str,
    last: int,
    to: Location,
    *,
    one_shot: bool,
    spark: SparkSession | None = None,
) -> Pipeline:
    """One output computed again from the log as it stood after batch `last`, into an empty folder.

    The returned pipeline has its store there, to be read.
    """
    origin = open_store(pipeline)
    origin.pins()
    require_covered(origin, "computing results again", RECONCILE)
    parts = _parts(origin, pipeline, _chosen(origin, last, [output]), {})
    return _computed(pipeline, parts, origin, last, to, False, one_shot, spark).pipeline


def _computed(
    supposed: Pipeline,
    parts: Sequence[_Part],
    origin: Store,
    last: int,
    root: Location,
    new_timeline: bool,
    one_shot: bool,
    spark: SparkSession | None,
) -> ReplayStore:
    """A store in the folder `root` with these outputs, computed from the log. Spark starts when it is needed."""
    begun = {part.name: part.at(0) for part in parts if part.joined < 0 and not one_shot}
    replayed = supposed.model_copy(update={"store": str(root), "outputs": begun})
    store = ReplayStore(replayed, origin, last, new_timeline)
    log = log_file(root, "spark.log")
    session = when_needed(lambda: own_session(spark or build_session(supposed.name, log)))
    check_predicates(session, Store(supposed, origin.columns))
    runner = runner_for(origin.events.rows(), session)
    with closing(_Replayer(runner, store, parts)) as replayer:
        if one_shot:
            replayer.in_one_shot(last)
        else:
            replayer.run(_steps(origin, last))
    return store


@dataclass(frozen=True)
class _Part:
    """An output in the replay: its policies, each with its first batch, and the batch after which it joined."""

    name: str
    policies: Sequence[tuple[int, Output]]
    joined: int

    def at(self, batch: int) -> Output:
        return next(output for since, output in reversed(self.policies) if since <= batch)


@dataclass(frozen=True)
class _Step:
    """A batch as the timeline has it."""

    batch: int
    source_batch: int
    kind: str
    at: int
    named: Mapping[str, bool] | None
    """The partitions that the source had then; None where it did not know them."""
    source: str
    """The source of the batch, where there are several."""


class _Replayer:
    """Drives an engine by the log instead of a source."""

    def __init__(self, runner: Runner, store: ReplayStore, parts: Sequence[_Part]) -> None:
        self.store = store
        self.engine = Engine(runner, store, log=PastLog(runner, store))
        self.parts = parts

    def close(self) -> None:
        self.engine.close()

    def run(self, steps: Sequence[_Step]) -> None:
        """Every batch once more."""
        for step in steps:
            LOG.info("replaying batch %d of %d", step.batch + 1, len(steps))
            self.store.go_to(step.batch)
            rebuild = self._rebuilt_then(step.batch)
            redefines = rebuild and rebuild.record.definition is not None
            self.store.redefining = rebuild.record.output if rebuild and redefines else None
            taking_part = (part for part in self.parts if part.joined < step.batch)
            use_outputs(self.engine, {part.name: part.at(step.batch) for part in taking_part})
            self._do(step, rebuild)
            self._join([part for part in self.parts if part.joined == step.batch])

    def _do(self, step: _Step, rebuild: Rebuild | None) -> None:
        engine = self.engine
        if step.kind == "tick":
            engine.take(step.source_batch, Slice(0, partitions=step.named, source=step.source))
            engine.await_batch()
        elif step.kind == "repair":
            publish_repaired(engine, step.batch, engine.outputs)
        elif rebuild is not None:
            # The same windows, from the log as it stood then.
            record, logic = rebuild.record, logic_of(engine, rebuild.record.output)
            range_ = record.since, record.until, step.batch - 1
            plan = planned(logic, *range_, record.definition, log=engine.log)
            plan.accept(step.batch)
            complete_rebuild(engine, plan, step.batch)
        elif isinstance(self.store.watermarks, PastTable):
            complete_without_data(engine, engine.keeper.section(step.batch, step.batch), step.kind)
        elif step.kind == "drain":
            drain_input(engine)
        else:
            self._let_silence_count(step)

    def _let_silence_count(self, step: _Step) -> None:
        """A heartbeat, with the partitions as they were then: they may have changed since the batch before."""
        keeper = self.engine.keeper
        timeline = keeper.timeline
        if step.named is not None and step.named != timeline.named:
            timeline.name_partitions(step.named)
        if not heartbeat(self.engine, step.at):
            # It would have closed nothing: the batch is counted, and the clock stays.
            timeline = keeper.timeline
            row = TimelineRow(timeline.last_tick or 0, timeline.last_at, timeline.watermark, kind="heartbeat")
            complete_without_data(self.engine, keeper.advance(self.engine.last + 1, row), "heartbeat")

    def _rebuilt_then(self, batch: int) -> Rebuild | None:
        """The rebuild that a batch published, of an output that is replayed."""
        outputs = [part.name for part in self.parts if part.joined < batch]
        rebuilds = (
            Rebuilds(self.store.replay_of or self.store.root, name).of_batch(batch) for name in outputs
        )
        return next((each for each in rebuilds if each is not None), None)

    def in_one_shot(self, last: int) -> None:
        """All events as one batch, under the policies in force at the end."""
        self.engine.last = last
        LOG.info("computing %d batches at once", last + 1)
        self._join(self.parts)

    def _join(self, parts: Sequence[_Part]) -> None:
        """Outputs that were added after this batch are computed from the log so far, as they were then."""
        engine = self.engine
        for part in parts:
            use_outputs(engine, {**engine.pipeline.outputs, part.name: part.at(engine.last)})
            compute_from_log(engine, engine.outputs[-1], part.joined)


def _steps(origin: Store, last: int) -> list[_Step]:
    rows = origin.watermarks.query(
        "select batch, max(source_batch) as source_batch, max(kind) as kind, max(at) as at, "
        f"max(source) as source, max(carry) as carry from t where batch <= {last} group by batch order by batch"
    )
    return [
        _Step(
            row["batch"],
            row["source_batch"],
            row["kind"],
            to_micros(row["at"]) if row["at"] else 0,
            Timeline.named_in(row["carry"]),
            row["source"] or "",
        )
        for row in rows.to_pylist()
    ]


def _chosen(origin: Store, last: int, wanted: Sequence[str]) -> list[str]:
    """The outputs to replay: those asked for, else all that are computed."""
    reached = reached_by_output(origin, last)
    computed = [name for name in origin.pipeline.outputs if name in reached or not reached]
    for name in wanted or computed:
        if name not in computed:
            raise not_computed(name)
        if reached and reached[name] < max(reached.values()):
            raise StoreMismatch(
                f"output {name} was left out of the pipeline after batch {reached[name]}; replay the others "
                "by name"
            )
    return list(dict.fromkeys(wanted)) or computed


def _parts(
    origin: Store, supposed: Pipeline, names: Sequence[str], changes: Mapping[str, object]
) -> list[_Part]:
    """Each output under the policies it had; a changed output under its changed policy from the first batch on."""
    touched = {field.split(".")[1] for field in changes if field.startswith("outputs.")}
    parts = []
    for name in names:
        policies = [(0, supposed.outputs[name])]
        if name not in touched:
            policies = [(since, output.without_sinks()) for since, output in origin.policies(name)]
        parts.append(_Part(name, policies, origin.ledger.last_batch(joining(name))))
    return parts


@contextmanager
def _folder(to: str | Path | None, origin: Store) -> Iterator[Location]:
    if to is None:
        with scratch("latecomer-replay-") as folder:
            yield folder
        return
    url = scheme_of(str(to)) not in (None, "file")
    root = origin.pipeline.place(str(to)) if url else Path(without_file_scheme(str(to))).resolve()
    if root == origin.root or origin.root in root.parents:
        raise StoreError(f"{root} is in the store that is replayed; name a folder outside it")
    if exists(root) and (not is_folder(root) or names(root)):
        raise StoreError(f"{root} is there already; name a new folder for the replay")
    make_folder(root)
    yield root
