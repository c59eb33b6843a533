"""DataFrames handed in: `into` for a streaming query of the user's own, `append` for a batch.

Spark writes a frame into the store's inbox, in the job and with the settings of the user's session. The frame gets a
receipt (`store/inbox.py`) and is then a batch like any other. A query numbers its batches, and a number is taken once,
also after a crash between the receipt and Spark's own commit.

The store is held from the first frame until the query ends. Between frames silence counts while Spark reports that it
asked the query's sources and found nothing. These reports come in a rhythm: an overdue report is an outage, and no
silence (ADR 0009).
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

from latecomer.after.serving.views import keep_all_served
from latecomer.config.arguments import refused_argument, require_flags, require_kind
from latecomer.config.models import Pipeline
from latecomer.engine.following import Following
from latecomer.engine.intake import Intake
from latecomer.engine.ledger.report import BatchProgress, BatchReport, progress_of
from latecomer.engine.pipeline import Engine
from latecomer.engine.running import RunReport, opened, raise_in_words, report_of
from latecomer.engine.spark_progress import Watch, watch_of
from latecomer.engine.starting import start_engine
from latecomer.engine.without_data import drain_input
from latecomer.errors import LatecomerError, SourceError, first_line
from latecomer.notebook import load_pipeline
from latecomer.source.choose import sources_of
from latecomer.source.frame_source import FrameSource
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
"""The size of a Parquet row group, at most: tasks read a file group by group."""


def into(
    pipeline: Pipeline | str | Path,
    *,
    source: str | None = None,
    watch: Watch | StreamingQueryListener = lambda _: None,
) -> Into:
    """A function for `foreachBatch` that takes in each batch of a streaming query exactly once:

    stream.writeStream.foreachBatch(into("pipeline.yaml")).option("checkpointLocation", …).start()

    The pipeline has `source: {dataframe: {}}`. With several sources, `source` names the one that is handed in. `watch`
    is called after every batch, or is a Spark listener that gets its progress.
    """
    loaded, file = _loaded("into", pipeline)
    report_to = watch_of("into", loaded, watch)
    return Into(loaded, file, _source("into", loaded, source), report_to)


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

    A program that may run again names itself as `app` and numbers its frames: a `version` that is not above its last
    one is skipped.
    """
    loaded, file = _loaded("append", pipeline)
    report_to = watch_of("append", loaded, watch)
    require_flags("append", drain=drain)
    require_kind("append", (str, type(None)), "the name of the program", app=app)
    require_kind("append", (int, type(None)), "a number that grows with each frame", version=version)
    if (app is None) != (version is None):
        raise refused_argument(
            "append", "version" if version is None else "app", "is missing: they go together"
        )
    _require_classic("append", frame)
    source_name = _source("append", loaded, source)
    receiver = _receiver(loaded, file, frame.sparkSession)
    try:
        receiver.take(frame, source_name, app or _APPENDED, version, report_to)
        return receiver.finish(drain)
    finally:
        receiver.release()


class Into:
    """Takes in the batches of a query: a function for `foreachBatch`."""

    def __init__(self, pipeline: Pipeline, file: Path | None, source: str, watch: Watch) -> None:
        self.pipeline = pipeline
        self.progress: BatchProgress | None = None
        """What the last batch did; None before the first."""
        self._file = file
        self._source = source
        self._watch = watch

    def __call__(self, frame: DataFrame, batch: int) -> None:
        _require_classic("into", frame)
        run = QueryRun.of(frame)
        if run is None:
            raise LatecomerError(
                "latecomer.into is for foreachBatch of a streaming query; hand other frames in with "
                "latecomer.append(pipeline, frame, app=…, version=…)"
            )
        receiver = _receiver(self.pipeline, self._file, frame.sparkSession)
        receiver.listen(run)
        try:
            receiver.take(frame, self._source, run.query, batch, self._report)
        except Exception as error:
            LOG.debug("batch %d of query %s", batch, run.query, exc_info=True)
            raise run.explained(error) from None
        receiver.note_frame(run)

    def _report(self, report: BatchReport) -> None:
        self.progress = progress_of(report)
        self._watch(report)

    def close(self) -> None:
        """Let go of the store, once the sinks have everything. The end of the query does the same."""
        if (receiver := _OPEN.get(self.pipeline.store_path)) is not None:
            receiver.close()

    def __reduce__(self) -> NoReturn:
        raise LatecomerError(_CONNECT)


_CONNECT = (
    "DataFrames are handed in from the driver's own process, and with Spark Connect that is the server: use a classic "
    "session (SparkSession.builder.master(…)); with Spark Connect only results can be read: "
    'spark.read.format("latecomer")'
)


def _idle(intake: Intake) -> None:
    """Silence counts, and there is time for upkeep."""
    intake.beat()
    intake.rest()


class Receiver:
    """Runs a pipeline on the frames that are handed in, and holds its store."""

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
        """Take in a frame, unless this giver has handed in its number before. Without a number it is the next."""
        with self.lock:
            self.watch = watch
            if not self.is_open:
                keep_private(self.pipeline)
            inbox = Inbox(self.pipeline.store_path, home_of(self.pipeline.store_path, source), source)
            reached = inbox.reached(giver)
            if number is not None and number <= reached:
                LOG.info("frame %d of %s was handed in before", number, giver)
                self._do(lambda _: None)  # completes it, if it was interrupted
                return
            nth = reached + 1 if number is None else number
            placed = inbox.place(_write_parquet(frame, inbox.draft()), giver, nth)
            try:
                self._do(partial(self._receive, inbox, source, placed, giver, nth))
            except BaseException:
                if inbox.reached(giver) < nth:  # left there, it would block a frame with other columns
                    inbox.discard(placed)
                raise

    def _receive(
        self, inbox: Inbox, source: str, placed: list[Location], giver: str, number: int, intake: Intake
    ) -> None:
        handed_in = self._followed[source].source
        if isinstance(handed_in, FrameSource):
            handed_in.require_fitting(placed)
        if any(has_rows(file) for file in placed[:1]):
            batch = inbox.receive(placed, giver, number, time.time_ns() // 1000)
            self._read(source, intake)
            failpoint("inbox.read", batch)
        else:  # an empty frame only makes its columns known
            inbox.discard(placed)

    def _read(self, source: str, intake: Intake) -> None:
        """Accept what has a receipt, and wait until it is published."""
        following = self._followed[source]
        while following.step():
            pass
        intake.engine.await_batch()
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

    def restart_silence(self) -> None:
        """Count silence from now on."""
        with self.lock:
            if self.is_open:
                self._do(Intake.restart_silence)

    def _do(self, what: Callable[[Intake], _Result]) -> _Result:
        """Do something with the engine, and open it first if need be. An error closes the engine: the next call starts
        from the store. A receiver that cannot be opened is forgotten, unless a query follows."""
        fresh = self._engine is None
        try:
            engine = self._engine or self._open()
        except BaseException:
            with suppress(Exception):
                self.release()
            raise
        try:
            for source in self._followed if fresh else ():
                self._read(source, self._intake)
            return what(self._intake)
        except BaseException as error:
            with suppress(Exception):
                self._close(serve=False)
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
        """Have Spark report when a query has found nothing new, and when it has ended."""
        with self.lock:
            if run.id not in self._reports:
                self._reports[run.id] = Reports(self, run)
                run.queries.addListener(self._reports[run.id])

    def note_frame(self, run: QueryRun) -> None:
        """A query has handed in a frame: it is not silent."""
        with self.lock:
            if run.id in self._reports:
                self._reports[run.id].note_frame()

    def ended(self, run: QueryRun) -> None:
        """A run of a query has ended: with the last of them the store is let go."""
        with self.lock:
            if self._reports.pop(run.id, None) is not None:
                self.release()

    def await_reports(self) -> None:
        """Wait until Spark has reported the end of queries that have ended, while this process can still hear it."""
        for reports in list(self._reports.values()):
            reports.await_end()

    def release(self) -> None:
        """Let go of the store, unless a query follows."""
        with self.lock:
            if not self._reports:
                self.close()

    def close(self) -> None:
        """Let go of the store, once the sinks have everything."""
        with self.lock:
            for reports in self._reports.values():
                reports.leave()
            self._reports = {}
            was_open = self.is_open
            try:
                if was_open:
                    self._do(lambda intake: intake.engine.finish())
            finally:
                self._close(serve=was_open)

    def _close(self, serve: bool) -> None:
        self._engine, held = None, self._held
        with _OPENING:
            if _OPEN.get(self.pipeline.store_path) is self:
                del _OPEN[self.pipeline.store_path]
        held.close()
        if serve:
            keep_all_served(self.pipeline)


# The receivers of this process

_OPEN: dict[PurePath, Receiver] = {}
"""By their stores."""
_OPENING = threading.RLock()


def _receiver(pipeline: Pipeline, file: Path | None, spark: SparkSession) -> Receiver:
    """The receiver of a store. One that is at work with another pipeline or another Spark is closed first."""
    with _OPENING:
        current = _OPEN.get(pipeline.store_path)
    if current is not None and (
        current.pipeline != pipeline or current.spark.sparkContext is not spark.sparkContext
    ):
        current.close()
    with _OPENING:
        return _OPEN.setdefault(pipeline.store_path, Receiver(pipeline, file, spark))


@atexit.register
def _close_all() -> None:
    for receiver in list(_OPEN.values()):
        try:
            receiver.await_reports()
            receiver.close()
        except Exception as error:
            LOG.warning("store %s: %s", receiver.pipeline.store_path, error)


# Arguments


def _write_parquet(frame: DataFrame, draft: Location) -> Location:
    """Write a frame as Parquet, without its columns of nulls alone, which have no type."""
    names = Counter(_leaves(frame.schema))
    for name in (name for name, count in names.items() if count > 1):
        raise SourceError(
            f"the DataFrame has a column {name} twice (a field of an object is a column with a dot); rename one of them"
        )
    untyped = [each.name for each in frame.schema.fields if isinstance(each.dataType, NullType)]
    options = {
        "compression": "lz4_raw",
        "parquet.enable.dictionary": "true",
        "parquet.block.size": str(_GROUP_BYTES),
    }
    try:
        if is_url(draft):
            write_frame(frame.drop(*untyped), draft)
        else:
            frame.drop(*untyped).write.options(**options).parquet(uri(draft))
    except AnalysisException as error:  # it has no columns, say, or two of one name
        remove_all(draft)
        raise SourceError(f"the DataFrame cannot be taken in: {first_line(error)}") from None
    except BaseException:
        remove_all(draft)
        raise
    return draft


def _leaves(schema: StructType, around: str = "") -> Iterator[str]:
    """The columns of a frame as a pipeline names them, with dots for the fields of an object."""
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
        raise refused_argument(
            call,
            f"sources.{others[0]}" if others[0] else "source",
            "is not handed in",
            "write source: {dataframe: {}} in the pipeline, instead of where its rows come from today",
        )
    if source is None and len(views) == 1:
        return next(iter(views))
    if source not in views or not source:
        names = ", ".join(name for name in views if name)
        raise refused_argument(
            call,
            "source",
            "names no source of the pipeline",
            f"name one of {names}" if names else "leave it out: there is one source",
            source,
        )
    return source


def _require_classic(call: str, frame: object) -> None:
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        raise LatecomerError(_CONNECT)
    require_kind(call, DataFrame, "a DataFrame", frame=frame)
    if isinstance(frame, DataFrame) and frame.isStreaming:
        raise refused_argument(
            call,
            "frame",
            "is a stream",
            "hand it in with stream.writeStream.foreachBatch(latecomer.into(pipeline))",
        )
