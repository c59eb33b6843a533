"""DataFrames handed in: `into` for a streaming query of the user's own, `append` for a batch.

A frame is written into the store's inbox by Spark, in the job and with the settings of the user's session, and gets a
receipt (`store/inbox.py`). From there on it is a batch like any other. A query counts its batches, and what it has
handed in once is not taken again: not after a crash between the receipt and Spark's own commit either.

The store is held from the first frame until the query ends. Between frames silence counts, as far as Spark says that it
has asked the query's sources and found nothing: it reports that in a rhythm, and a report that is overdue is an outage,
which is no silence (ADR 0009).
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path, PurePath
from typing import NoReturn, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.types import NullType, StructType

from latecomer.after.serving.postgres import keep_all_served
from latecomer.config.arguments import require_flags, require_kind
from latecomer.config.load import load_pipeline
from latecomer.config.models import Pipeline
from latecomer.engine.following import Following, Intake
from latecomer.engine.ledger.report import BatchReport
from latecomer.engine.pipeline import Engine
from latecomer.engine.progress import Progress, progress_of
from latecomer.engine.quiet import drain_input
from latecomer.engine.running import RunReport, opened, raise_in_words, report_of
from latecomer.engine.starting import start_engine
from latecomer.engine.watching import Watch, watch_of
from latecomer.errors import LatecomerError, PipelineError, Problem, SourceError, first_line
from latecomer.source.choose import sources_of
from latecomer.source.handed_in import HandedIn
from latecomer.spark.at_url import write_frame
from latecomer.spark.reports import QueryRun, Reports
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location, is_url, remove_all, uri
from latecomer.store.inbox import Inbox, has_rows
from latecomer.store.private import keep_private
from latecomer.store.store import home_of

LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_APPENDED = "append"
_GROUP_BYTES = 16 << 20
"""A group of rows is not larger: tasks read a file group by group."""


def into(
    pipeline: Pipeline | str | Path,
    *,
    source: str | None = None,
    watch: Watch | StreamingQueryListener = lambda _: None,
) -> Into:
    """What takes in the batches of a streaming query, each exactly once:

    stream.writeStream.foreachBatch(into("pipeline.yaml")).option("checkpointLocation", …).start()

    The pipeline has `source: {dataframe: {}}`; of several, `source` names the one that is handed in. `watch` is called
    after every batch, or is a listener of Spark's that hears of its progress.
    """
    made, file = _loaded("into", pipeline)
    report_to = watch_of("into", made, watch)
    return Into(made, file, _source("into", made, source), report_to)


def append(
    pipeline: Pipeline | str | Path,
    frame: DataFrame,
    *,
    source: str | None = None,
    app: str | None = None,
    version: int | None = None,
    drain: bool = False,
    watch: Watch | StreamingQueryListener = lambda _: None,
) -> RunReport:
    """Take in a DataFrame as one batch; with `drain`, close every window after it.

    A program that may be repeated names itself as `app` and counts what it hands in: a `version` that is not above its
    last one is not taken again.
    """
    made, file = _loaded("append", pipeline)
    report_to = watch_of("append", made, watch)
    require_flags("append", drain=drain)
    require_kind("append", (str, type(None)), "the name of the program", app=app)
    require_kind("append", (int, type(None)), "a number that grows with each frame", version=version)
    if (app is None) != (version is None):
        raise _refused("append", "version" if version is None else "app", "is missing: they go together")
    _require_classic("append", frame)
    named = _source("append", made, source)
    shared = made.store_path in _OPEN
    receiver = _receiver(made, file, frame.sparkSession)
    try:
        receiver.take(frame, named, app or _APPENDED, version, report_to)
        return receiver.finish(drain)
    finally:
        if not shared:
            receiver.close()


class Into:
    """Takes in the batches of a query: a function for `foreachBatch`."""

    def __init__(self, pipeline: Pipeline, file: Path | None, source: str, watch: Watch) -> None:
        self.pipeline = pipeline
        self.progress: Progress | None = None
        """What the last batch did; None before the first."""
        self._file = file
        self._source = source
        self._watch = watch

    def __call__(self, frame: DataFrame, batch: int) -> None:
        _require_classic("into", frame)
        run = QueryRun.of(frame)
        if run is None:
            raise LatecomerError(
                "latecomer.into is for foreachBatch of a streaming query, which says its id; hand other frames in with "
                "latecomer.append(pipeline, frame, app=…, version=…)"
            )
        receiver = _receiver(self.pipeline, self._file, frame.sparkSession)
        receiver.listen(run)
        try:
            receiver.take(frame, self._source, run.query, batch, self._report)
        except Exception as error:
            LOG.debug("batch %d of query %s", batch, run.query, exc_info=True)
            raise run.explained(error) from None
        receiver.heard(run)

    def _report(self, report: BatchReport) -> None:
        self.progress = progress_of(report)
        self._watch(report)

    def close(self) -> None:
        """Let go of the store, once the sinks have everything. It happens by itself when the query ends."""
        if (receiver := _OPEN.get(self.pipeline.store_path)) is not None:
            receiver.close()

    def __reduce__(self) -> NoReturn:
        raise LatecomerError(_CONNECT)


_CONNECT = (
    "DataFrames are handed in from the driver's own process, and with Spark Connect that is the server: use a classic "
    "session (SparkSession.builder.master(…)); with Spark Connect results can be read, as "
    'spark.read.format("latecomer")'
)


def _idle(intake: Intake) -> None:
    """Silence counts, and there is time for upkeep."""
    intake.beat()
    intake.rest()


class Receiver:
    """A pipeline at work on what is handed in, on a store that it holds."""

    def __init__(self, pipeline: Pipeline, file: Path | None, spark: SparkSession) -> None:
        self.pipeline = pipeline
        self.file = file
        self.spark = spark
        self.watch: Watch = lambda _: None
        self.lock = threading.RLock()
        self._held = ExitStack()
        self._engine: Engine | None = None
        self._reports: dict[str, Reports] = {}

    @property
    def is_open(self) -> bool:
        return self._engine is not None

    def take(self, frame: DataFrame, source: str, giver: str, number: int | None, watch: Watch) -> None:
        """Take in a frame that a giver has given a number, unless it did so before. Without one it is the next."""
        with self.lock:
            self.watch = watch
            if not self.is_open:
                keep_private(self.pipeline)
            inbox = Inbox(self.pipeline.store_path, home_of(self.pipeline.store_path, source), source)
            reached = inbox.reached(giver)
            if number is not None and number <= reached:
                LOG.info("frame %d of %s was handed in before", number, giver)
                self._do(lambda _: None)  # if it was interrupted then, it is finished now
                return
            nth = reached + 1 if number is None else number
            placed = inbox.place(_written(frame, inbox.draft()), giver, nth)
            try:
                self._do(partial(self._receive, inbox, source, placed, giver, nth))
            except BaseException:
                if inbox.reached(giver) < nth:  # it would be in the way of a frame with other columns
                    inbox.discard(placed)
                raise

    def _receive(
        self, inbox: Inbox, source: str, placed: list[Location], giver: str, number: int, intake: Intake
    ) -> None:
        handed_in = self._followed[source].source
        if isinstance(handed_in, HandedIn):
            handed_in.require_fitting(placed)
        if any(has_rows(file) for file in placed[:1]):
            batch = inbox.receive(placed, giver, number, time.time_ns() // 1000)
            self._read(source, intake)
            failpoint("inbox.read", batch)
        else:  # its columns are known now, and that is all
            inbox.discard(placed)

    def _read(self, source: str, intake: Intake) -> None:
        """Accept what has a receipt, and wait until it is published."""
        following = self._followed[source]
        while following.step():
            pass
        intake.engine.settle()
        following.source.resume(following.home, following.number - 1, logged=False)

    def finish(self, drain: bool) -> RunReport:
        """Wait until the sinks have everything."""
        with self.lock:

            def end(intake: Intake) -> RunReport:
                if drain:
                    drain_input(intake.engine)
                intake.upkeep.rest()
                intake.engine.finish()
                return report_of(intake.engine)

            return self._do(end)

    def beat(self) -> None:
        """Nothing has come for a while: silence counts."""
        with self.lock:
            if self.is_open:
                self._do(_idle)

    def hear(self) -> None:
        """From here on silence counts."""
        with self.lock:
            if self.is_open:
                self._do(Intake.hear)

    def _do(self, what: Callable[[Intake], _Result]) -> _Result:
        """Do something with the engine, which is opened if need be. After an error it is let go, and the next to use it
        starts from what is in the store."""
        fresh = self._engine is None
        engine = self._engine or self._open()
        try:
            for source in self._followed if fresh else ():
                self._read(source, self._intake)
            return what(self._intake)
        except BaseException as error:
            with suppress(Exception):
                self._close(wait=False)
            if isinstance(error, Exception):
                raise_in_words(error, engine.store)
            raise

    def _open(self) -> Engine:
        with ExitStack() as held:
            engine = held.enter_context(
                opened(self.pipeline, self.spark, self._watched, threading.Event(), self.file, signals=False)
            )
            held.callback(engine.close)
            start_engine(engine)
            self._intake = Intake(engine, threading.Event())
            held.callback(self._intake.close)
            self._followed = {
                name: Following(self._intake, name, source)
                for name, source in sources_of(self.pipeline, engine.store.columns).items()
            }
            for each in self._followed.values():
                each.begin(bounded=True)
            self._engine, self._held = engine, held.pop_all()
        with _OPENING:
            _OPEN[self.pipeline.store_path] = self
        keep_all_served(self.pipeline)
        return engine

    def _watched(self, report: BatchReport) -> None:
        self.watch(report)

    # Silence, and the end

    def listen(self, run: QueryRun) -> None:
        """Have Spark say when a query has found nothing new, and when it has ended."""
        with self.lock:
            if run.id not in self._reports:
                self._reports[run.id] = Reports(self, run)
                run.queries.addListener(self._reports[run.id])

    def heard(self, run: QueryRun) -> None:
        """A query has handed in a frame: it is not silent."""
        with self.lock:
            if run.id in self._reports:
                self._reports[run.id].heard()

    def ended(self, run: QueryRun) -> None:
        """A run of a query has ended: with the last of them the store is let go."""
        with self.lock:
            reports = self._reports.pop(run.id, None)
            if reports is not None and not self._reports:
                self.close()

    def await_reports(self) -> None:
        """Wait until Spark has reported the end of queries that have ended, and not to a process that is gone."""
        for reports in list(self._reports.values()):
            reports.await_end()

    def close(self) -> None:
        """Let go of the store, once the sinks have everything."""
        with self.lock:
            for reports in self._reports.values():
                reports.leave()
            self._reports = {}
            if self.is_open:
                try:
                    self._do(lambda intake: intake.engine.finish())
                finally:
                    self._close(wait=True)

    def _close(self, wait: bool) -> None:
        self._engine, held = None, self._held
        with _OPENING:
            if _OPEN.get(self.pipeline.store_path) is self:
                del _OPEN[self.pipeline.store_path]
        held.close()
        if wait:
            keep_all_served(self.pipeline)


# The receivers of this process

_OPEN: dict[PurePath, Receiver] = {}
"""By their stores."""
_OPENING = threading.RLock()


def _receiver(pipeline: Pipeline, file: Path | None, spark: SparkSession) -> Receiver:
    """The receiver of a store: the one that is at work, if it does the same."""
    with _OPENING:
        found = _OPEN.get(pipeline.store_path)
    if found is not None and (
        found.pipeline != pipeline or found.spark.sparkContext is not spark.sparkContext
    ):
        found.close()
        found = None
    with _OPENING:
        return found or _OPEN.setdefault(pipeline.store_path, Receiver(pipeline, file, spark))


@atexit.register
def _close_all() -> None:
    for receiver in list(_OPEN.values()):
        try:
            receiver.await_reports()
            receiver.close()
        except Exception as error:
            LOG.warning("store %s: %s", receiver.pipeline.store_path, error)


# Arguments


def _written(frame: DataFrame, draft: Location) -> Location:
    """A frame as Parquet. A column without a type holds nothing."""
    names = Counter(_leaves(frame.schema))
    for name in (name for name, count in names.items() if count > 1):
        raise SourceError(
            f"the DataFrame has a column {name} twice (a field of an object is a column with a dot); rename one of them"
        )
    nothing = [each.name for each in frame.schema.fields if isinstance(each.dataType, NullType)]
    options = {
        "compression": "lz4_raw",
        "parquet.enable.dictionary": "true",
        "parquet.block.size": str(_GROUP_BYTES),
    }
    try:
        if is_url(draft):
            write_frame(frame.drop(*nothing), draft)
        else:
            frame.drop(*nothing).write.options(**options).parquet(uri(draft))
    except AnalysisException as error:  # it has no columns, say, or two of one name
        remove_all(draft)
        raise SourceError(f"the DataFrame cannot be taken in: {first_line(error)}") from None
    except BaseException:
        remove_all(draft)
        raise
    return draft


def _leaves(schema: StructType, around: str = "") -> Iterator[str]:
    """The columns of a frame as a pipeline names them: fields of an object have dots."""
    for each in schema.fields:
        if isinstance(each.dataType, StructType):
            yield from _leaves(each.dataType, f"{around}{each.name}.")
        else:
            yield f"{around}{each.name}"


def _loaded(call: str, pipeline: Pipeline | str | Path) -> tuple[Pipeline, Path | None]:
    wanted = 'a Pipeline, or the path of its file, such as "pipeline.yaml"'
    require_kind(call, (Pipeline, str, Path), wanted, pipeline=pipeline)
    if isinstance(pipeline, Pipeline):
        return pipeline, None
    return load_pipeline(pipeline), Path(pipeline)


def _source(call: str, pipeline: Pipeline, source: str | None) -> str:
    """The source that is handed in."""
    require_kind(call, (str, type(None)), "the name of a source", source=source)
    views = pipeline.views
    others = [name for name, view in views.items() if view.source.dataframe is None]
    if others:
        raise _refused(
            call,
            f"sources.{others[0]}" if others[0] else "source",
            "is not handed in",
            "write source: {dataframe: {}} in the pipeline, in the place of where its rows come from today",
        )
    if source is None and len(views) == 1:
        return next(iter(views))
    if source not in views or not source:
        named = ", ".join(name for name in views if name)
        raise _refused(
            call,
            "source",
            "names no source of the pipeline",
            f"name one of {named}" if named else "leave it out: there is one source",
            source,
        )
    return source


def _require_classic(call: str, frame: object) -> None:
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        raise LatecomerError(_CONNECT)
    require_kind(call, DataFrame, "a DataFrame", frame=frame)
    if isinstance(frame, DataFrame) and frame.isStreaming:
        raise _refused(
            call,
            "frame",
            "is a stream",
            "hand it in with stream.writeStream.foreachBatch(latecomer.into(pipeline))",
        )


def _refused(
    call: str, name: str, reason: str, fix: str | None = None, value: object = None
) -> PipelineError:
    return PipelineError([Problem(name, reason, value, fix, f"{call}()")])
