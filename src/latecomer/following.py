"""Following sources: what is new is accepted batch by batch, and between batches silence counts.

Files are found by Structured Streaming, which hands in its batches in a thread of its own. A polled source is asked
from here, and each of its answers is a batch.

Several sources are asked before anything is read, and each is read to its end, one after the other; a run that goes on
follows all of them from there. As long as one has something that was not read, its partitions are not idle, however far
the others have moved the arrival clock.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Generic, TypeVar

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from latecomer.decode.retrying import waits
from latecomer.errors import SchemaOutage, StoreError
from latecomer.model.sources import named_partitions
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.pipeline import Engine
from latecomer.source.base import FollowedSource, Slice, StreamedSource
from latecomer.source.checkpoint import next_batch
from latecomer.source.choose import sources_of
from latecomer.source.polled import Polled
from latecomer.spark.errors import SPARK_ERRORS
from latecomer.store import files
from latecomer.store.pins import is_store
from latecomer.store.turns import take_turn, whose_turn

LOG = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 1.0
_Followed = TypeVar("_Followed", bound=FollowedSource)


def follow(engine: Engine, spark: SparkSession, stopping: threading.Event, bounded: bool) -> None:
    """Accept what is new: all that is there now, where the run is `bounded`; else until it is stopped."""
    LOG.info("looking for what is new")
    intake = Intake(engine, stopping)
    sources = sources_of(engine.pipeline, engine.store.columns)
    followed = [_following(intake, name, source, spark) for name, source in sources.items()]
    if len(followed) > 1:
        _catch_up(followed, intake)
    if not stopping.is_set() and not (bounded and len(followed) > 1):
        _follow(followed, intake, bounded)
    engine.settle()


def _following(intake: Intake, name: str, source: FollowedSource, spark: SparkSession) -> Following[Any]:
    if isinstance(source, Polled):
        return FollowingAnswers(intake, name, source)
    if isinstance(source, StreamedSource):
        return FollowingStream(intake, name, source, spark)
    raise TypeError(f"a {type(source).__name__} cannot be followed")


def _catch_up(followed: Sequence[Following[Any]], intake: Intake) -> None:
    """Read all that is there of several sources; first of the one whose batch was interrupted, if one was."""
    first = intake.interrupted
    in_order = sorted(followed, key=lambda each: each.name != first)
    with ExitStack() as stack:
        for each in in_order:
            stack.enter_context(each.begun(bounded=True))
        intake.behind = {each.name for each in in_order if each.has_news()}
        for each in in_order:
            each.allowed.set()
            while each.step() and not intake.stopping.wait(0.05):
                pass
            if intake.stopping.is_set():
                return
            intake.caught_up(each.name)


def _follow(followed: Sequence[Following[Any]], intake: Intake, bounded: bool) -> None:
    """Follow all of them until one ends, or the run is stopped."""
    with ExitStack() as stack:
        for each in followed:
            each.allowed.set()
            stack.enter_context(each.begun(bounded))
        pause = 0.05 if bounded else 0.2
        while all(each.step() for each in followed) and not intake.stopping.wait(pause):
            if not bounded:
                intake.beat()


class Intake:
    """What is done batch by batch, and between batches, whoever hands them in."""

    def __init__(self, engine: Engine, stopping: threading.Event) -> None:
        self.engine = engine
        self.stopping = stopping
        self.turn = threading.Lock()
        """Held by whoever hands in a batch."""
        self.several = engine.pipeline.sources
        self.behind: set[str] = set()
        """Of several sources, those that have something which was not read."""
        self.half_logged = engine.half_logged
        self.interrupted = whose_turn(engine.store.root) if self.half_logged and self.several else ""
        """The source that a batch belongs to which was interrupted while it was logged."""
        self.hear()

    def is_logged(self, name: str) -> bool:
        """Whether the next batch of a source is in the log already."""
        return self.half_logged and self.interrupted == name

    def accept(self, name: str, source_batch: int, piece: Slice, part: int = 0, more: bool = False) -> bool:
        """Accept a slice of a source, of which there may be more that is known. False where the run was stopped while
        the slice waited for a schema."""
        self._require_store()
        self.engine.publish_rebuilds()
        LOG.info("reading batch %d", self.engine.last + 1)
        if self.several:
            if not more:
                self.behind.discard(name)
            piece = replace(piece, source=name, partitions=self._named(name, piece))
            take_turn(self.engine.store.root, name)
        try:
            return self._patiently(source_batch, piece, part)
        finally:
            self.hear()

    def _patiently(self, source_batch: int, piece: Slice, part: int) -> bool:
        """Nothing of a batch is in the log before every schema that it needs can be had."""
        for wait in waits():
            try:
                self.engine.accept(source_batch, piece, part)
                break
            except SchemaOutage as error:
                LOG.warning(
                    "batch %d waits: %s. Asking again in %g s",
                    self.engine.last + 1,
                    error,
                    wait,
                )
                if self.stopping.wait(wait):
                    return False
        return True

    def lags(self, name: str) -> None:
        """A source has something that waits for its turn: it is not idle."""
        if self.several:
            self.behind.add(name)

    def caught_up(self, name: str) -> None:
        """A source has been read as far as it reached: from here on its silence counts."""
        if name in self.behind:
            self.behind.discard(name)
            self.engine.keeper.timeline.name(self._named(name))

    def _named(self, name: str, piece: Slice | None = None) -> dict[str, bool]:
        """The partitions of all sources, and whether there is more of them."""
        known = self.engine.keeper.timeline.known()
        return named_partitions(name, piece.partitions if piece else None, known, self.several, self.behind)

    def hear(self) -> None:
        """From here on silence counts: nothing more to read, the arrival clock at the last arrival."""
        self.quiet_since = time.monotonic()
        self.quiet_from = self.engine.keeper.timeline.last_at

    def beat(self) -> None:
        """A heartbeat, while no batch runs: the arrival clock has gone on since the last arrival."""
        if self.engine.busy or not self.turn.acquire(blocking=False):
            return
        try:
            self._require_store()
            self.engine.settle()
            self.engine.publish_rebuilds()
            silent = time.monotonic() - self.quiet_since
            if silent >= HEARTBEAT_SECONDS and self.quiet_from != BEGIN_OF_TIME:
                self.engine.heartbeat(self.quiet_from + int(silent * 1_000_000))
        finally:
            self.turn.release()

    def _require_store(self) -> None:
        """Tables that are open would be written on where nobody reads them."""
        if not is_store(self.engine.store.root):
            raise StoreError(f"store {self.engine.store.root} is not there any more")


class Following(ABC, Generic[_Followed]):
    """A source that is followed. Nothing of it is read before that is `allowed`."""

    def __init__(self, intake: Intake, name: str, source: _Followed) -> None:
        self.intake = intake
        self.name = name
        self.source = source
        self.store = intake.engine.store
        self.keeper = intake.engine.keeper
        self.home = self.store.home(name)
        self.allowed = threading.Event()

    @contextmanager
    @abstractmethod
    def begun(self, bounded: bool) -> Iterator[None]:
        """Find out what is new, for as long as this lasts; where it is `bounded`, nothing that comes later."""
        yield

    @abstractmethod
    def has_news(self) -> bool:
        """Whether a bounded source has anything to read."""

    @abstractmethod
    def step(self) -> bool:
        """Go on; False at the end."""


class FollowingAnswers(Following[Polled]):
    """Asks the source how far it reaches, and accepts what lies between two of its answers."""

    bounded = True

    @contextmanager
    def begun(self, bounded: bool) -> Iterator[None]:
        if files.exists(self.store.checkpoint(self.name)):
            raise StoreError(
                f"store {self.store.root} is of a version that counted the batches of this source in another way; "
                "start a new store, and read the source again"
            )
        logged = self.intake.is_logged(self.name)
        self.source.resume(self.home, self.keeper.accepted(self.name).batch, logged=logged)
        if bounded:
            self.source.ask_for_all(self.home)
        self.bounded = bounded
        yield

    def has_news(self) -> bool:
        return self.source.has_answered(self.home, self.keeper.accepted(self.name).batch + 1)

    def step(self) -> bool:
        number = self.keeper.accepted(self.name).batch + 1
        piece = self.source.answered(self.home, number) or (
            None if self.bounded else self.source.news(self.home, number)
        )
        if piece is None:
            return not self.bounded
        self.intake.lags(self.name)
        with self.intake.turn:
            self.intake.accept(self.name, number, piece)
        return True


class FollowingStream(Following[StreamedSource]):
    """Drives the source's stream, one batch at a time."""

    query: StreamingQuery

    def __init__(self, intake: Intake, name: str, source: StreamedSource, spark: SparkSession) -> None:
        super().__init__(intake, name, source)
        self.spark = spark
        self.found = threading.Event()
        self.closing = threading.Event()
        self.failure: BaseException | None = None

    @contextmanager
    def begun(self, bounded: bool) -> Iterator[None]:
        self.closing.clear()
        self.query = self._start(bounded)
        try:
            yield
            if self.intake.stopping.is_set():
                self.closing.set()
                with self.intake.turn:  # the batch under way is finished first
                    self.query.stop()
            else:
                self.query.awaitTermination()
        except (StreamingQueryException, *SPARK_ERRORS) as error:
            raise self.failure or error from None
        finally:
            self.closing.set()
            self.query.stop()
        if self.failure is not None:
            raise self.failure

    def has_news(self) -> bool:
        while self.query.isActive and not self.found.wait(0.02):
            pass
        return self.found.is_set()

    def step(self) -> bool:
        if self.query.isActive:
            return True
        self.query.awaitTermination()  # raises what ended it, if anything went wrong
        return False

    def _start(self, bounded: bool) -> StreamingQuery:
        checkpoint, there = self.store.checkpoint(self.name), self.keeper.accepted(self.name)
        self.source.repair(checkpoint, there.batch, logged=self.intake.is_logged(self.name))
        self.source.require_next(self.home, next_batch(checkpoint), there.batch, there.parts)
        named = f" {self.name}" if self.name else ""
        writer = (
            self.source.stream(self.spark)
            .writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", str(checkpoint))
            .queryName(f"latecomer {self.store.pipeline.name}{named}")
        )
        writer = (
            writer.trigger(availableNow=True)
            if bounded
            else writer.trigger(processingTime="200 milliseconds")
        )
        return writer.start()

    def _batch(self, _: DataFrame, source_batch: int) -> None:
        self.intake.lags(self.name)
        self.found.set()
        while not self.allowed.wait(0.05):
            if self.closing.is_set():
                raise InterruptedError("stopping")
        with self.intake.turn:
            try:
                whole = self._accept_all(source_batch)
            except BaseException as error:
                # Whatever it is, Spark must hear of it, or it would wait for ever.
                self.failure = error
                raise RuntimeError("the batch failed") from None
            if not whole:
                raise InterruptedError("stopping")

    def _accept_all(self, source_batch: int) -> bool:
        """Accept a batch of the stream, slice by slice; False where a stop came before the last of them, and
        Spark has to hand it in again."""
        checkpoint, there = self.store.checkpoint(self.name), self.keeper.accepted(self.name)
        self.source.sync(checkpoint, source_batch)
        self.source.require_next(self.home, source_batch, there.batch, there.parts)
        pieces = self.source.slices(checkpoint, self.home, source_batch)
        for part, piece in enumerate(pieces):
            if self.intake.stopping.is_set():
                return False
            if not self.intake.accept(self.name, source_batch, piece, part, more=part < len(pieces) - 1):
                return False
        self.intake.caught_up(self.name)
        return True
