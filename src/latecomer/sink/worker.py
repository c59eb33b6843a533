"""The thread of a sink: it brings the sink up to the last complete batch, and waits while the sink is down.

The store is the queue between the engine and the sink. The engine announces that a batch is complete and goes on. The
thread asks the sink for its last batch and applies those after it. After an outage it does the same as at the start:
open the sink, ask, apply. So nothing is lost and nothing is applied twice, whatever happened meanwhile.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from latecomer.config.sinks import OnOutage, owner_in_words
from latecomer.errors import SinkError, SinkOutage
from latecomer.sink.base import last_sentence
from latecomer.sink.published import FedSink

LOG = logging.getLogger(__name__)
CLOSING_SECONDS = 60.0
"""How long a run that ends waits for the batch that is being applied."""
FIRST_SECONDS = 0.5
"""The longest wait before the first further attempt."""
LONGEST_SECONDS = 60.0
"""The longest wait before any further attempt."""
LAST_SECONDS = 30.0
"""The wait at the end of a run: for so long, a run that is otherwise done waits for a sink that is down."""


class SinkClock:
    """The time and the waits of a sink's thread; tests use a clock of their own."""

    def now(self) -> float:
        """Seconds, from any beginning."""
        return time.monotonic()

    def moment(self) -> datetime:
        """The time of day, for people."""
        return datetime.now(UTC)

    def wait(self, changed: threading.Condition, seconds: float | None) -> None:
        """Wait for a change, for so many seconds at most. It may return early: the caller checks again."""
        changed.wait(seconds)


def seconds_before(attempt: int, share: Callable[[], float] = random.random) -> float:
    """How long to wait before the nth further attempt: doubled each time, and between half and all of that by
    chance, so that sinks that went down together do not retry together.

    >>> [seconds_before(attempt, lambda: 1.0) for attempt in (1, 2, 3, 8, 10_000)]
    [0.5, 1.0, 2.0, 60.0, 60.0]
    >>> seconds_before(2, lambda: 0.0)
    0.5
    """
    longest = min(FIRST_SECONDS * 2.0 ** min(attempt - 1, 30), LONGEST_SECONDS)
    return longest * (0.5 + share() / 2)


@dataclass(frozen=True)
class Outage:
    """A sink that is down."""

    since: datetime
    """When it was first noticed."""
    at_batch: int
    """The last complete batch at that time."""
    attempts: int
    retry_at: float
    reason: str


class SinkWorker:
    """One sink, its progress and its thread."""

    def __init__(
        self,
        fed: FedSink,
        on_change: Callable[[SinkWorker], None] = lambda _: None,
        clock: SinkClock | None = None,
        require_allowed: Callable[[], None] = lambda: None,
    ) -> None:
        """`require_allowed` raises an error where another engine has taken the store over."""
        self.require_allowed = require_allowed
        self.feed, self.target, self.logic = fed
        self.sink, self.name = fed.sink, fed.name
        self.clock = clock or SinkClock()
        self.reached = -1
        """The last batch that the sink has."""
        self.complete = -1
        """The last complete batch, as it was announced."""
        self.outage: Outage | None = None
        self.failure: BaseException | None = None
        """The error that stops the run."""
        self._on_change = on_change
        self._changed = threading.Condition()
        self._is_open = self._busy = self._closing = False
        self._ending_since: float | None = None
        self._thread: threading.Thread | None = None

    @property
    def behind(self) -> int:
        """How many complete batches the sink does not have yet."""
        return max(self.complete - self.reached, 0)

    def open(self, complete: int) -> None:
        """Open the sink and ask for its last batch. An outage is only noted: the thread tries again."""
        self.complete = complete
        try:
            self._open()
        except SinkOutage as error:
            self._note_outage(error)

    def start(self) -> None:
        self._thread = threading.Thread(
            target=self._work, name=f"latecomer-{self.sink.kind}-{self.feed.shape.name}", daemon=True
        )
        self._thread.start()

    def announce(self, batch: int) -> None:
        """A batch is complete in the store: the thread may apply it."""
        with self._changed:
            self.complete = max(batch, self.complete)
            if self.outage is not None and self.complete - self.outage.at_batch > self.sink.max_behind:
                self._fail(self._too_far_behind(self.outage))
            self._changed.notify_all()

    def finish(self) -> None:
        """The run is done except for the sinks: from here on an outage may not last long."""
        with self._changed:
            self._ending_since = self.clock.now() if self._ending_since is None else self._ending_since
            self._changed.notify_all()

    def wait_until_finished(self) -> None:
        """Wait until the sink has every batch, or its error has to stop the run."""
        with self._changed:
            while self._thread and self.failure is None and (self._busy or self.behind or self.outage):
                self._changed.wait()

    def close(self) -> None:
        """Close the sink after the batch that is being applied; the next run goes on from there."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)
            if self._thread.is_alive():
                LOG.warning(
                    "%s is still busy and is left to itself; the next run asks how far it came", self.name
                )
                return
        self._close_sink()

    # In the thread

    def _work(self) -> None:
        try:
            while (complete := self._next()) is not None:
                try:
                    self._bring_up_to(complete)
                except SinkOutage as error:
                    self._close_sink()
                    self._note_outage(error)
        except BaseException as error:  # any error has to reach the run
            self._fail(error)

    def _next(self) -> int | None:
        """Wait for work. Gives the batch to reach, or None where the sink is to be closed."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not self._closing:
                seconds = self._seconds_to_wait()
                if seconds is not None and seconds <= 0:
                    self._busy = True
                    return self.complete
                self.clock.wait(self._changed, seconds)
            return None

    def _seconds_to_wait(self) -> float | None:
        if self.outage is None:
            return 0.0 if self.behind else None
        retry_at = self.outage.retry_at
        if self._ending_since is not None:
            retry_at = min(retry_at, self._ending_since + LAST_SECONDS)
        return retry_at - self.clock.now()

    def _bring_up_to(self, complete: int) -> None:
        self._open()
        for batch in self.feed.batches(self.reached, complete):
            rows = self.feed.rows(batch)
            self.require_allowed()
            if rows.num_rows:
                self.logic.apply(batch, rows)
            else:
                self.logic.skip(batch)
            self._note_progress(batch)
            if self._closing:
                return
        self._note_progress(complete)

    def _open(self) -> None:
        if self._is_open:
            return
        self.logic.open()
        reached = self.logic.last_batch()
        if reached > self.complete:
            raise SinkError(
                f"{self.name} holds batch {reached} of {owner_in_words(self.feed.shape.owner)}, and the store has only "
                f"come to batch {self.complete}: it was filled from another store; give the sink another path, or "
                "remove what it holds"
            )
        self._is_open, self.reached = True, reached

    def _close_sink(self) -> None:
        self._is_open = False
        with suppress(Exception):  # an error is not new, or the next attempt reports it
            self.logic.close()

    def _note_progress(self, batch: int) -> None:
        with self._changed:
            self.reached = max(batch, self.reached)
            ended, self.outage = self.outage, None
            self._changed.notify_all()
        if ended is not None:
            LOG.warning(
                "%s is back after %s; it is brought up to batch %d",
                self.name,
                _how_long(self, ended),
                self.complete,
                extra=self._in_the_log("sink_back"),
            )
        self._on_change(self)

    def _note_outage(self, error: SinkOutage) -> None:
        """Note the outage, so that the sink is tried again. Raise it where `on_outage` is stop, and LAST_SECONDS after
        the run is done."""
        now, before = self.clock.now(), self.outage
        gives_up = self._ending_since is not None and now - self._ending_since >= LAST_SECONDS
        if self.sink.on_outage is OnOutage.STOP or gives_up:
            raise error
        earlier = before or Outage(self.clock.moment(), self.complete, 0, now, error.reason)
        attempts = earlier.attempts + 1
        retry_at = now + seconds_before(attempts)
        with self._changed:
            self.outage = replace(earlier, attempts=attempts, retry_at=retry_at, reason=error.reason)
        if before is None:
            LOG.warning(
                "%s: %s. The run goes on without it, and tries again",
                self.name,
                error.reason,
                extra=self._in_the_log("sink_down", reason=error.reason),
            )
        self._on_change(self)

    def _in_the_log(self, event: str, **more: str) -> dict[str, object]:
        """The fields of a JSON log besides the sentence."""
        return {"latecomer": {"event": event, "sink": self.feed.listed.field, "kind": self.sink.kind, **more}}

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self.failure = self.failure or error
            self._changed.notify_all()

    def _too_far_behind(self, outage: Outage) -> SinkError:
        return SinkError(
            f"{self.name} is down since {outage.since:%Y-%m-%dT%H:%M:%SZ} ({outage.reason}), and the store has gone on "
            f"by more than max_behind: {self.sink.max_behind} batches; bring it back, or raise max_behind. "
            + last_sentence(None)
        )


def _how_long(worker: SinkWorker, outage: Outage) -> str:
    seconds = (worker.clock.moment() - outage.since).total_seconds()
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
