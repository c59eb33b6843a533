"""Spark's reports about a streaming query that hands in frames: it found nothing new, or it has ended."""

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
"""How many times as long as the shortest pause, or how many seconds longer, a pause before a report may be. After a
longer pause the report is no sign of silence."""
_LAST_REPORTS = 10.0
"""How many seconds a process that ends waits for Spark's last report of a query."""
_STOPPED = (
    "the query was stopped, and hands this batch in again when it goes on "
    "(py4j.protocol.Py4JJavaError: An error occurred while calling into: java.lang.InterruptedException)"
)
"""By the words in brackets Spark knows that it is no failure (`StreamExecution.PROXY_ERROR`)."""


@dataclass(frozen=True)
class QueryRun:
    """A run of a streaming query: from its start until it is stopped or fails."""

    query: str
    """The id of the query in its checkpoint: the same in all its runs."""
    id: str
    queries: StreamingQueryManager
    """The query manager of the session that started it, which reports on it. The session of a batch is a copy."""
    execution: Any
    """The run in the JVM."""

    @classmethod
    def of(cls, frame: DataFrame) -> QueryRun | None:
        """The run that hands in a frame; None for a frame of no query."""
        session: Any = frame.sparkSession
        query = session.sparkContext.getLocalProperty(_QUERY)
        if query is None:
            return None
        active = session._jsparkSession.sharedState().activeStreamingQueries()
        execution = active.get(session._jvm.java.util.UUID.fromString(query))
        if execution is None:
            return None
        queries = StreamingQueryManager(execution.sparkSession().streams())
        return cls(query, str(execution.runId().toString()), queries, execution)

    @property
    def is_active(self) -> bool:
        """Whether it goes on; False while it is being stopped."""
        return bool(self.execution.isActive())

    @property
    def is_cut_off(self) -> bool:
        """Whether its Spark was stopped: there are no more reports."""
        return bool(self.execution.sparkSession().sparkContext().isStopped())

    def explained(self, error: Exception) -> Exception:
        """An error to raise to Spark: without Java's traces, on which Spark would overflow its stack."""
        if not self.is_active:
            return LatecomerError(_STOPPED)
        if isinstance(error, Py4JJavaError):
            return SourceError(f"the DataFrame cannot be taken in: {in_words(error, [])}")
        return error


class Listener(Protocol):
    """Receives the reports of a query."""

    def beat(self) -> None:
        """The query has found nothing new for a while."""

    def restart_silence(self) -> None:
        """The query is alive; silence counts from here on."""

    def ended(self, run: QueryRun) -> None:
        """A run has ended."""


class ReportPauses:
    """The pauses between reports that nothing new was found. A report that is overdue means an outage."""

    def __init__(self, shortest: float | None = None) -> None:
        self._shortest = shortest

    def is_kept(self, pause: float) -> bool:
        """Whether a pause is hardly longer than the shortest one before. The first pause cannot be judged: False.

        >>> rhythm = ReportPauses()
        >>> [rhythm.is_kept(pause) for pause in (20.0, 10.0, 10.4, 46.0, 10.1)]
        [False, True, True, False, True]
        >>> [ReportPauses(0.3).is_kept(pause) for pause in (5.2, 5.4)]
        [True, False]
        """
        before = self._shortest
        self._shortest = pause if before is None else min(before, pause)
        return before is not None and pause <= max(before * _OVERDUE, before + _SLACK)


class Reports(StreamingQueryListener):
    """Passes Spark's reports on to a listener: a query found nothing new in its sources, or has ended."""

    def __init__(self, listener: Listener, run: QueryRun) -> None:
        self._listener = listener
        self._run = run
        self._last = time.monotonic()
        self._rhythm = ReportPauses()
        self._ended = threading.Event()

    def note_frame(self) -> None:
        """A frame was handed in: the pause before the next report begins."""
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
                self._listener.restart_silence()
        except LatecomerError as error:  # the next frame raises it
            LOG.warning("%s", error)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        if str(event.runId) == self._run.id:
            threading.Thread(target=self._end, name="latecomer-ended", daemon=False).start()

    def await_end(self) -> None:
        """Wait until Spark has reported that the query has ended, so that the process does not end before that."""
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
