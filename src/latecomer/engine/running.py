"""Running a pipeline: until it is stopped, once over the data that the sources have now, or to the end of the input."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from latecomer.config import checks
from latecomer.config.all_columns import Columns
from latecomer.config.arguments import require_flags, require_kind, require_pipeline
from latecomer.config.load import check_against, check_secrets
from latecomer.config.models import Pipeline
from latecomer.config.paths import SourcePath
from latecomer.config.views import place_in
from latecomer.engine.following import follow
from latecomer.engine.ledger.report import BatchProgress, BatchReport, progress_of
from latecomer.engine.pipeline import Engine
from latecomer.engine.spark_progress import Watch, watch_of, watched
from latecomer.engine.starting import start_engine
from latecomer.engine.without_data import drain_input
from latecomer.errors import PipelineError, Problem, RegistryOutage, SourceError, StoreError
from latecomer.log.filling import NOTHING_FILLED, FilledColumns
from latecomer.log.timeline.keeper import TimelineKeeper
from latecomer.model.verdicts import END_OF_TIME
from latecomer.model.windows import zone_of
from latecomer.sink.keeper import check_sinks
from latecomer.source.choose import sources_of
from latecomer.source.decode.retrying import waits
from latecomer.spark.base import TaskTotals
from latecomer.spark.errors import SPARK_ERRORS, first_line, refusal
from latecomer.spark.noted import WorkNotes
from latecomer.spark.predicates import check_predicates
from latecomer.spark.runner import SparkRunner
from latecomer.spark.session import build_session, joined, own_session
from latecomer.store.coverage import outputs_to_compute
from latecomer.store.files import is_url, log_file, on_this_machine
from latecomer.store.pins import is_store
from latecomer.store.private import keep_private
from latecomer.store.recovery import held_for_run
from latecomer.store.source_columns import source_columns
from latecomer.store.store import Store
from latecomer.store.unknown_fields import NONE_SEEN, UnknownSeen
from latecomer.windowing.widening import require_widenable

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunReport:
    """The state of the store after a run."""

    batches: int
    """How many batches are complete, of this run and all before it."""
    watermark: int
    newest_arrival: int
    computed: Mapping[str, float]
    """New outputs that were computed from the log, and how many seconds each took."""
    work: TaskTotals = field(default_factory=TaskTotals)
    """The jobs and tasks that Spark ran for this run."""
    unknown: UnknownSeen = NONE_SEEN
    """The fields without a column that this run has kept."""
    filled: FilledColumns = NOTHING_FILLED
    """How many past events got values in new columns."""
    progress: BatchProgress | None = None
    """What the last batch did; None where there was none."""

    @property
    def drained(self) -> bool:
        """Whether the input has ended: every window is closed."""
        return self.watermark == END_OF_TIME


def run(
    pipeline: Pipeline,
    *,
    once: bool = False,
    drain: bool = False,
    standby: bool = False,
    spark: SparkSession | None = None,
    watch: Watch | StreamingQueryListener = lambda _: None,
    stop: threading.Event | None = None,
    file: str | Path | None = None,
    begin: Callable[[Engine], None] = lambda _: None,
) -> RunReport:
    """Run the pipeline: `latecomer.run` says how. That also keeps up what is served from Postgres."""
    require_pipeline("run", pipeline)
    require_flags("run", once=once, drain=drain, standby=standby)
    report_to = watch_of("run", pipeline, watch)
    require_kind("run", (threading.Event, type(None)), "a threading.Event", stop=stop)
    require_kind("run", (SparkSession, type(None)), "a SparkSession, or leave it out", spark=spark)
    require_kind("run", (str, Path, type(None)), "the path of the pipeline file", file=file)
    require_kind("run", Callable, "a function of one Engine", begin=begin)  # type: ignore[arg-type]
    if not (once or drain):
        _require_followed(pipeline)
    stopping = stop or threading.Event()
    with opened(pipeline, spark, report_to, stopping, file, drain=drain, standby=standby) as engine:
        begin(engine)
        return _run(engine, stopping, once or drain, drain)


def _require_followed(pipeline: Pipeline) -> None:
    """Refuse to follow a source that only a program can give rows to."""
    for name, view in pipeline.views.items():
        if view.source.dataframe is not None:
            raise PipelineError(
                [
                    Problem(
                        place_in(name, "source.dataframe"),
                        "gets its rows from a program, so a run cannot follow it",
                        fix="use latecomer.into in it, or run with once=True (--once) to finish what was interrupted",
                    )
                ]
            )


@contextmanager
def opened(
    pipeline: Pipeline,
    spark: SparkSession | None,
    watch: Watch,
    stopping: threading.Event,
    file: str | Path | None,
    *,
    drain: bool = False,
    standby: bool = False,
    signals: bool = True,
) -> Iterator[Engine]:
    """The engine of a pipeline, with its store locked until the block ends. Signals set `stopping`."""

    def by_signals() -> AbstractContextManager[None]:
        return _stopped_by_signals(stopping) if signals else nullcontext()

    with ExitStack() as stack:
        if standby:  # before the store is read: the other run may change it meanwhile
            keep_private(pipeline)
            with by_signals():
                stack.enter_context(_held(pipeline, stopping))
        LOG.info("checking the pipeline and its store")
        problems = checks.check(pipeline)
        if problems:
            raise PipelineError(problems)
        check_secrets(pipeline, file)
        for view in pipeline.views.values():
            if view.source.files:
                SourcePath(view.source_path).require_reached()
        keep_private(pipeline)
        columns = _columns(pipeline, file, stopping)
        check_against(pipeline, columns, file)
        store = Store(pipeline, columns)
        stack.enter_context(_refusals_in_words(store))
        if not standby:
            stack.enter_context(_held(pipeline, None))
        check_store(store, drain)
        sources = () if spark else sources_of(pipeline, columns).values()
        needed = joined(source.session() for source in sources)
        session = own_session(
            spark or build_session(pipeline.name, log_file(store.root, "spark.log"), **needed)
        )
        runner = SparkRunner(session)
        runner.warm_up()
        # PySpark replaces the handler of SIGINT when it starts, so ours comes after.
        stack.enter_context(by_signals())
        LOG.info("preparing the run")
        check_zones(session, pipeline, file)
        check_predicates(session, store, file)
        notes, report_to = WorkNotes(store.root, runner.work), watched(pipeline, session, watch)
        stack.callback(notes.write)

        def report_batch(report: BatchReport) -> None:
            report_to(report)
            notes.now_and_then()

        yield Engine(runner, store, report_batch)


def _held(pipeline: Pipeline, standby: threading.Event | None) -> AbstractContextManager[object]:
    """The lock or the lease of the store, for this run alone."""
    takeover = None if pipeline.lease is None else pipeline.lease.seconds
    return held_for_run(pipeline.store_path, takeover=takeover, standby=standby)


def _columns(pipeline: Pipeline, file: str | Path | None, stopping: threading.Event) -> Columns:
    """The columns. Where they come from a schema that the store does not have yet, wait for the registry."""
    for wait in waits():
        try:
            return source_columns(pipeline, file)
        except RegistryOutage as error:
            LOG.warning("the run waits: %s. Asking again in %g s", error, wait)
            if stopping.wait(wait):
                raise
    raise AssertionError  # `waits` never ends


def check_store(store: Store, drain: bool = False) -> None:
    """All checks of the store, the sources and the sinks that need no Spark: they run before Spark starts."""
    store.pins()
    outputs_to_compute(store)
    for source in sources_of(store.pipeline, store.columns).values():
        source.require()
    require_widenable(store)  # before the sinks' tables are widened
    check_sinks(store)
    last = store.ledger.last_batch()
    reached = TimelineKeeper(store.watermarks, store.pipeline.watermark).reached(last) if last >= 0 else None
    if reached is not None and reached.watermark == END_OF_TIME:
        LOG.warning(
            "the input of store %s was drained: every window is closed, and events that are read now are too "
            "late for all of them; start a new store to go on with new input",
            store.root,
        )
    elif drain:
        LOG.warning(
            "a drain ends the input: it closes every window, and events that are read by a later run are too "
            "late for all of them"
        )


def _run(engine: Engine, stopping: threading.Event, bounded: bool, drain: bool) -> RunReport:
    try:
        start_engine(engine)
        follow(engine, stopping, bounded)
        if drain and not stopping.is_set():
            LOG.info("closing every window")
            drain_input(engine)
        LOG.info("waiting for the sinks")
        engine.finish()
        return report_of(engine)
    except Exception as error:
        raise_in_words(error, engine.store)
    finally:
        engine.close()


def report_of(engine: Engine) -> RunReport:
    """The state of the store that an engine leaves."""
    timeline = engine.keeper.timeline
    return RunReport(
        engine.last + 1,
        timeline.watermark,
        timeline.last_at,
        engine.computed,
        engine.runner.work,
        engine.log.unknown,
        engine.filled,
        None if engine.last_report is None else progress_of(engine.last_report),
    )


def raise_in_words(error: Exception, store: Store) -> NoReturn:
    """Raise an error of a run. What the operating system refused is put into one sentence. Else, if the store is gone,
    that is reported in place of any error. Else errors of Spark and of the file system become one sentence, and all
    others stay as they are."""
    of_the_system = isinstance(error, (*SPARK_ERRORS, OSError))
    if of_the_system and (sentence := refusal(error, places_of(store))):
        raise StoreError(sentence) from error
    if not is_store(store.root):
        raise StoreError(
            f"store {store.root} was moved or removed while it was in use; put it back and run again, or run "
            "again to start a new one"
        ) from error
    if not of_the_system:
        raise error
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        raise StoreError(f"the run failed: {where}{error.strerror or error}") from error
    log = str(log_file(store.root, "spark.log")) if is_url(store.root) else "logs/spark.log of the store"
    raise SourceError(f"Spark stopped the batch: {first_line(error)} (details in {log})") from error


@contextmanager
def _refusals_in_words(store: Store) -> Iterator[None]:
    """Put what the operating system refuses while a run is prepared into one sentence."""
    try:
        yield
    except (*SPARK_ERRORS, OSError) as error:
        sentence = refusal(error, places_of(store))
        if sentence is None:
            raise
        raise StoreError(sentence) from error


def places_of(store: Store) -> list[Path]:
    """Every folder that a run writes to, besides those of Spark."""
    return [on_this_machine(store.root), *store.pipeline.sink_paths]


def check_zones(spark: SparkSession, pipeline: Pipeline, file: str | Path | None) -> None:
    """Refuse zones that Spark's Java does not know: its list may be older than Python's."""
    written = {"event.zone": pipeline.event.zone}
    for name, output in pipeline.outputs.items():
        written[f"outputs.{name}.window.zone"] = zone_of(output.window)
    fix = "update Java, or name a zone with the same clock"
    place = str(file) if file else None
    problems = [
        Problem(field, "the Java that runs Spark does not know this time zone", zone, fix, place)
        for field, zone in written.items()
        if not _known_to_java(spark, zone)
    ]
    if problems:
        raise PipelineError(problems)


def _known_to_java(spark: SparkSession, zone: str) -> bool:
    jvm: Any = spark._jvm
    try:
        jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(zone)
    except SPARK_ERRORS:
        return False
    return True


@contextmanager
def _stopped_by_signals(stopping: threading.Event) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(_: int, __: FrameType | None) -> None:
        stopping.set()

    before: dict[int, Any] = {name: signal.signal(name, handler) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, previous in before.items():
            signal.signal(name, previous)
