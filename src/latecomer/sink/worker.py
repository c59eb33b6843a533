"""A sink's own life: a thread that brings it up to the last complete batch, and waits while it is down.

The store is the queue between the engine and the sink. The engine announces that a batch is complete and goes on; the
thread asks the sink how far it is and applies what came after. After an outage it does what it does at a start: open
the sink, ask, apply. So nothing is lost and nothing is applied twice, whatever happened meanwhile.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from latecomer.config.contract import SinkLogic
from latecomer.config.sinks import OnOutage, Sink, owner_in_words
from latecomer.errors import SinkError, SinkOutage
from latecomer.sink import waiting
from latecomer.sink.published import Feed
from latecomer.sink.waiting import Clock, Outage, seconds_before

LOG = logging.getLogger(__name__)
CLOSING_SECONDS = 60.0
"""How long a batch that is being applied may take when the run ends."""


class SinkWorker:
    """One sink, its progress and its thread."""

    def __init__(
        self,
        sink: Sink,
        target: str,
        logic: SinkLogic,
        feed: Feed,
        on_change: Callable[[SinkWorker], None] = lambda _: None,
        clock: Clock | None = None,
        require_allowed: Callable[[], None] = lambda: None,
    ) -> None:
        """`require_allowed` refuses to publish where another engine has taken the store over."""
        self.require_allowed = require_allowed
        self.sink, self.target, self.logic, self.feed = sink, target, logic, feed
        self.clock = clock or Clock()
        self.reached = -1
        """The last batch of which the sink has everything."""
        self.complete = -1
        """The last complete batch, as it was announced."""
        self.outage: Outage | None = None
        self.failure: BaseException | None = None
        """What stops the run."""
        self._on_change = on_change
        self._changed = threading.Condition()
        self._is_open = self._busy = self._closing = False
        self._ending_since: float | None = None
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        return f"{self.sink.kind} sink {self.target}"

    @property
    def behind(self) -> int:
        """How many batches are complete and not yet all applied."""
        return max(self.complete - self.reached, 0)

    def open(self, complete: int) -> None:
        """Open the sink and ask how far it is. What cannot pass is raised here; an outage is waited for."""
        self.complete = complete
        try:
            self._open()
        except SinkOutage as error:
            self._note_outage(error)

    def start(self) -> None:
        """Let the thread begin."""
        self._thread = threading.Thread(
            target=self._live, name=f"latecomer-{self.sink.kind}-{self.feed.shape.name}", daemon=True
        )
        self._thread.start()

    def announce(self, batch: int) -> None:
        """A batch is complete in the store: the sink may have it."""
        with self._changed:
            self.complete = max(batch, self.complete)
            if self.outage is not None and self.complete - self.outage.at_batch > self.sink.max_behind:
                self._fail(self._too_far_behind(self.outage))
            self._changed.notify_all()

    def finish(self) -> None:
        """From here on an outage may not last long: the run is done but for the sinks."""
        with self._changed:
            self._ending_since = self.clock.now() if self._ending_since is None else self._ending_since
            self._changed.notify_all()

    def wait_until_finished(self) -> None:
        """Wait until the sink has everything, or the run has to stop for its sake."""
        with self._changed:
            while self._thread is not None and self.failure is None and not self._has_everything:
                self._changed.wait()

    @property
    def _has_everything(self) -> bool:
        return not (self._busy or self.behind or self.outage)

    def close(self) -> None:
        """Let go of the sink after the batch that is being applied; the next run goes on from there."""
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
        self._let_go()

    # What the thread does

    def _live(self) -> None:
        try:
            while (complete := self._next()) is not None:
                try:
                    self._bring_up_to(complete)
                except SinkOutage as error:
                    self._let_go()
                    self._note_outage(error)
        except BaseException as error:  # the run must hear of it, whatever it is
            self._fail(error)

    def _next(self) -> int | None:
        """Wait until there is something to do; the batch to come to, or None where the run lets go."""
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
            retry_at = min(retry_at, self._ending_since + waiting.LAST_SECONDS)
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

    def _let_go(self) -> None:
        self._is_open = False
        with suppress(Exception):  # it is gone, or the next attempt says why not
            self.logic.close()

    def _note_progress(self, batch: int) -> None:
        with self._changed:
            self.reached = max(batch, self.reached)
            over, self.outage = self.outage, None
            self._changed.notify_all()
        if over is not None:
            LOG.warning(
                "%s is back after %s; it is brought up to batch %d",
                self.name,
                _how_long(self, over),
                self.complete,
                extra=self._in_the_log("sink_back"),
            )
        self._on_change(self)

    def _note_outage(self, error: SinkOutage) -> None:
        """Wait for the sink, unless its file says otherwise or it has been waited for long enough."""
        now, before = self.clock.now(), self.outage
        ended = self._ending_since is not None and now - self._ending_since >= waiting.LAST_SECONDS
        if self.sink.on_outage is OnOutage.STOP or ended:
            raise error
        attempts = 1 if before is None else before.attempts + 1
        since, at_batch = (
            (self.clock.moment(), self.complete) if before is None else (before.since, before.at_batch)
        )
        with self._changed:
            self.outage = Outage(since, at_batch, attempts, now + seconds_before(attempts), error.reason)
        if before is None:
            LOG.warning(
                "%s: %s. The run goes on without it, and tries again",
                self.name,
                error.reason,
                extra=self._in_the_log("sink_down", reason=error.reason),
            )
        self._on_change(self)

    def _in_the_log(self, event: str, **more: str) -> dict[str, object]:
        """What a log for programs has besides the sentence."""
        return {"latecomer": {"event": event, "sink": self.feed.listed.field, "kind": self.sink.kind, **more}}

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self.failure = self.failure or error
            self._changed.notify_all()

    def _too_far_behind(self, outage: Outage) -> SinkError:
        return SinkError(
            f"{self.name} is down since {outage.since:%Y-%m-%dT%H:%M:%SZ} ({outage.reason}), and the store has gone on "
            f"by more than max_behind: {self.sink.max_behind} batches; bring it back, or raise max_behind. Nothing is "
            "lost: the next run catches this sink up."
        )


def _how_long(worker: SinkWorker, outage: Outage) -> str:
    seconds = (worker.clock.moment() - outage.since).total_seconds()
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
