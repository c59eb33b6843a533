"""What Spark says of a streaming query that hands in frames: that it has found nothing new, and that it has ended."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQueryManager

from latecomer.errors import LatecomerError, SourceError
from latecomer.spark.errors import in_words

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

LOG = logging.getLogger(__name__)
_QUERY = "sql.streaming.queryId"
_OVERDUE, _SLACK = 1.5, 5.0
"""A report that takes so much longer than the shortest pause before one is no sign of silence, unless that is within
these seconds: a busy machine is late, too."""
_LAST_REPORTS = 10.0
"""So many seconds a process that ends waits for what Spark still has to say of a query."""
_STOPPED = (
    "the query was stopped, and hands this batch in again when it goes on "
    "(py4j.protocol.Py4JJavaError: An error occurred while calling into: java.lang.InterruptedException)"
)
"""By the words in brackets Spark knows that it is no failure (`StreamExecution.PROXY_ERROR`)."""


@dataclass(frozen=True)
class QueryRun:
    """A run of a streaming query: from its start until it is stopped or fails."""

    query: str
    """What its checkpoint calls the query, whatever runs it has."""
    id: str
    queries: StreamingQueryManager
    """Those of the session that it was started in: they tell of it. The session of a batch is a copy."""
    execution: Any
    """The run, as the JVM has it."""

    @classmethod
    def of(cls, frame: DataFrame) -> QueryRun | None:
        """The run that hands in a frame; None where none does."""
        session: Any = frame.sparkSession
        query = session.sparkContext.getLocalProperty(_QUERY)
        if query is None:
            return None
        known = session._jsparkSession.sharedState().activeStreamingQueries()
        execution = known.get(session._jvm.java.util.UUID.fromString(query))
        if execution is None:
            return None
        queries = StreamingQueryManager(execution.sparkSession().streams())
        return cls(query, str(execution.runId().toString()), queries, execution)

    @property
    def is_active(self) -> bool:
        """Whether it goes on; not while it is being stopped."""
        return bool(self.execution.isActive())

    @property
    def is_cut_off(self) -> bool:
        """Whether Spark was stopped around it: nobody tells of it any more."""
        return bool(self.execution.sparkSession().sparkContext().isStopped())

    def explained(self, error: Exception) -> Exception:
        """An error as Spark is given it: without Java's traces, on which Spark overflows its stack."""
        if not self.is_active:
            return LatecomerError(_STOPPED)
        if isinstance(error, Py4JJavaError):
            return SourceError(f"the DataFrame cannot be taken in: {in_words(error, [])}")
        return error


class Listener(Protocol):
    """Who hears of a query."""

    def beat(self) -> None:
        """Nothing has come for a while."""

    def hear(self) -> None:
        """From here on silence counts."""

    def ended(self, run: QueryRun) -> None:
        """A run has ended."""


class Rhythm:
    """The pauses between reports of which each says that nothing has come. One that is overdue is an outage."""

    def __init__(self, shortest: float | None = None) -> None:
        self._shortest = shortest

    def is_kept(self, pause: float) -> bool:
        """Whether a pause is hardly longer than the shortest one before. The first is a pause that nobody knows.

        >>> rhythm = Rhythm()
        >>> [rhythm.is_kept(pause) for pause in (20.0, 10.0, 10.4, 46.0, 10.1)]
        [False, True, True, False, True]
        >>> [Rhythm(0.3).is_kept(pause) for pause in (5.2, 5.4)]
        [True, False]
        """
        before = self._shortest
        self._shortest = pause if before is None else min(before, pause)
        return before is not None and pause <= max(before * _OVERDUE, before + _SLACK)


class Reports(StreamingQueryListener):
    """What Spark says of a query: when it has asked its sources and found nothing, and when it has ended."""

    def __init__(self, listener: Listener, run: QueryRun) -> None:
        self._listener = listener
        self._run = run
        self._last = time.monotonic()
        self._rhythm = Rhythm()
        self._ended = threading.Event()

    def heard(self) -> None:
        """A frame was handed in: the next report is due from here on."""
        self._last = time.monotonic()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        if str(event.runId) != self._run.id:
            return
        now = time.monotonic()
        pause, self._last = now - self._last, now
        try:
            if self._rhythm.is_kept(pause):
                self._listener.beat()
            else:
                self._listener.hear()
        except LatecomerError as error:  # the next frame raises it
            LOG.warning("%s", error)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        if str(event.runId) == self._run.id:
            threading.Thread(target=self._end, name="latecomer-ended", daemon=False).start()

    def await_end(self) -> None:
        """Wait until Spark has reported the end of a query that has ended, and not to a process that is gone."""
        if not self._run.is_active and not self._run.is_cut_off:
            self._ended.wait(_LAST_REPORTS)

    def _end(self) -> None:
        self.leave()
        self._ended.set()
        try:
            self._listener.ended(self._run)
        except LatecomerError as error:
            LOG.warning("%s", error)

    def leave(self) -> None:
        with suppress(Exception):  # Spark may have been stopped
            self._run.queries.removeListener(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """It has started before it hands anything in."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch has been handed in."""
