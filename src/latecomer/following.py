"""Following a source: what is new is accepted batch by batch, and between batches silence counts.

Files are found by Structured Streaming, which hands in its batches in a thread of its own. A polled source is asked
from here, and each of its answers is a batch.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from latecomer.errors import StoreError
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.pipeline import Engine
from latecomer.source.base import FollowedSource, Slice, StreamedSource
from latecomer.source.checkpoint import next_batch
from latecomer.source.polled import Polled
from latecomer.spark.errors import SPARK_ERRORS
from latecomer.store import files
from latecomer.store.pins import is_store

LOG = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 1.0
_Followed = TypeVar("_Followed", bound=FollowedSource)


def follow(
    engine: Engine, source: FollowedSource, spark: SparkSession, stopping: threading.Event, bounded: bool
) -> None:
    """Accept what is new: all that is there now, where the run is `bounded`; else until it is stopped."""
    LOG.info("looking for what is new")
    if isinstance(source, Polled):
        FollowingAnswers(engine, source, stopping).run(bounded)
    elif isinstance(source, StreamedSource):
        FollowingStream(engine, source, stopping, spark).run(bounded)
    else:
        raise TypeError(f"a {type(source).__name__} cannot be followed")
    engine.settle()


class Following(ABC, Generic[_Followed]):
    """What is done batch by batch, and between batches, whoever hands them in."""

    def __init__(self, engine: Engine, source: _Followed, stopping: threading.Event) -> None:
        self.engine = engine
        self.source = source
        self.stopping = stopping
        self.turn = threading.Lock()
        self._hear()

    @abstractmethod
    def run(self, bounded: bool) -> None:
        """Follow the source."""

    def _accept(self, source_batch: int, piece: Slice, part: int = 0) -> None:
        self._require_store()
        self.engine.publish_rebuilds()
        LOG.info("reading batch %d", self.engine.last + 1)
        self.engine.accept(source_batch, piece, part)

    def _hear(self) -> None:
        """From here on silence counts: nothing more to read, the arrival clock at the last arrival."""
        self.quiet_since = time.monotonic()
        self.quiet_from = self.engine.keeper.timeline.last_at

    def _beat(self) -> None:
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


class FollowingAnswers(Following[Polled]):
    """Asks the source how far it reaches, and accepts what lies between two of its answers."""

    def run(self, bounded: bool) -> None:
        root, keeper = self.engine.store.root, self.engine.keeper
        if files.exists(self.engine.store.checkpoint):
            raise StoreError(
                f"store {root} is of a version that counted the batches of this source in another way; start a new "
                "store, and read the source again"
            )
        self.source.resume(root, keeper.last_source_batch, logged=self.engine.half_logged)
        if bounded:
            self.source.ask_for_all(root)
        while not self.stopping.is_set():
            number = keeper.last_source_batch + 1
            piece = self.source.answered(root, number) or (
                None if bounded else self.source.news(root, number)
            )
            if piece is not None:
                self._accept(number, piece)
                self._hear()
            elif bounded:
                return
            else:
                self._beat()
                self.stopping.wait(0.2)


class FollowingStream(Following[StreamedSource]):
    """Drives the source's stream, one batch at a time."""

    def __init__(
        self, engine: Engine, source: StreamedSource, stopping: threading.Event, spark: SparkSession
    ) -> None:
        super().__init__(engine, source, stopping)
        self.spark = spark
        self.failure: BaseException | None = None

    def run(self, bounded: bool) -> None:
        query = self._start(bounded)
        try:
            while query.isActive and not self.stopping.wait(0.05 if bounded else 0.2):
                if not bounded:
                    self._beat()
            if self.stopping.is_set():
                with self.turn:  # the batch under way is finished first
                    query.stop()
            else:
                query.awaitTermination()
        except (StreamingQueryException, *SPARK_ERRORS) as error:
            raise self.failure or error from None
        finally:
            query.stop()
        if self.failure is not None:
            raise self.failure

    def _start(self, bounded: bool) -> StreamingQuery:
        store, keeper, source = self.engine.store, self.engine.keeper, self.source
        source.repair(store.checkpoint, keeper.last_source_batch, logged=self.engine.half_logged)
        source.require_next(store.root, next_batch(store.checkpoint), keeper.last_source_batch, keeper.parts)
        writer = (
            source.stream(self.spark)
            .writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", str(store.checkpoint))
            .queryName(f"latecomer {store.pipeline.name}")
        )
        writer = (
            writer.trigger(availableNow=True)
            if bounded
            else writer.trigger(processingTime="200 milliseconds")
        )
        return writer.start()

    def _batch(self, _: DataFrame, source_batch: int) -> None:
        with self.turn:
            try:
                whole = self._accept_all(source_batch)
            except BaseException as error:
                # Whatever it is, Spark must hear of it, or it would wait for ever.
                self.failure = error
                raise RuntimeError("the batch failed") from None
            finally:
                self._hear()
            if not whole:
                raise InterruptedError("stopping")

    def _accept_all(self, source_batch: int) -> bool:
        """Accept a batch of the stream, slice by slice; False where a stop came before the last of them, and
        Spark has to hand it in again."""
        store, keeper, source = self.engine.store, self.engine.keeper, self.source
        source.sync(store.checkpoint, source_batch)
        source.require_next(store.root, source_batch, keeper.last_source_batch, keeper.parts)
        for part, piece in enumerate(source.slices(store.checkpoint, store.root, source_batch)):
            if self.stopping.is_set():
                return False
            self._accept(source_batch, piece, part)
        return True
