"""Scheduled upkeep: a run does from time to time what `compact` does, and begins in a quiet moment.

It works in a thread beside the batches, step by step. Each step waits for a quiet moment, so that batches come first.
If none comes within `PATIENCE`, the step is done all the same, because without upkeep every batch gets slower. Errors
are logged, and the run goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime

from latecomer.config.models import Pipeline
from latecomer.engine.upkeep.compacting import UPKEEP, Report, UpkeepNote, in_run
from latecomer.errors import LatecomerError, StoreInUse
from latecomer.model.durations import UNITS, format_duration
from latecomer.store.notes import read_note, write_note
from latecomer.store.store import open_store

LOG = logging.getLogger(__name__)
PATIENCE = 10.0
"""A step waits at most so many seconds for a quiet moment."""


@dataclass
class UpkeepDone:
    """The upkeep that a run has done so far, for its metrics."""

    times: int = 0
    failures: int = 0
    seconds: float = 0.0
    at: float | None = None
    """When the last upkeep of the store was, by this run or by another."""


class ScheduledUpkeep:
    """The upkeep of one run. `refresh` makes the engine read again which files its tables have."""

    def __init__(
        self,
        pipeline: Pipeline,
        refresh: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.pipeline = pipeline
        self.done = UpkeepDone()
        self._refresh = refresh
        self._clock = clock
        every = pipeline.upkeep.every
        self._every = None if every is None else every / UNITS["s"]
        self._root = pipeline.store_path
        self._quiet, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._since = self._begun()

    def _begun(self) -> float:
        """The moment from which the time to the next upkeep is counted; now, for a store that had none yet."""
        file = self._root / UPKEEP
        noted = read_note(file, UpkeepNote) or UpkeepNote(self._clock(), done=False)
        self.done.at = noted.at if noted.done else None
        if not noted.done and self._every is not None:
            write_note(file, noted)
        return noted.at

    def is_due(self, times: float = 1.0) -> bool:
        """Whether the next upkeep is due; with `times`, whether so many intervals have passed."""
        if self._every is None or (self._thread is not None and self._thread.is_alive()):
            return False
        return self._clock() - self._since >= times * self._every

    def quiet(self) -> None:
        """No data waits, and no batch is under way: begin, if upkeep is due."""
        if self.is_due():
            self._begin()
        self._quiet.set()

    def busy(self) -> None:
        """A batch is about to begin. If upkeep is overdue by a whole interval, it begins all the same."""
        self._quiet.clear()
        if self.is_due(2):
            self._begin()

    def rest(self) -> None:
        """The sources are read to their ends: do the upkeep now, if it is due."""
        if self.is_due():
            self._refresh()
            self._quiet.set()
            self._work()

    def close(self) -> None:
        """The run ends: wait for the step under way, and do no more."""
        self._stopping.set()
        self._quiet.set()
        if self._thread is not None:
            self._thread.join()

    def _begin(self) -> None:
        self._refresh()
        self._thread = threading.Thread(target=self._work, name="latecomer-upkeep", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        self._since = began = self._clock()
        try:
            report = self._steps()
        except StoreInUse:
            LOG.info("upkeep: another process does the upkeep of this store")
        except Exception as error:
            is_clear = isinstance(error, (LatecomerError, OSError))
            self._failed(str(error) if is_clear else f"{type(error).__name__}: {error}")
        else:
            self.done.times += 1
            self.done.at = began
            if report.rows.num_rows:
                LOG.info("upkeep: %s, in %.1f s", report.in_words("were"), self._clock() - began)
        self.done.seconds += self._clock() - began

    def _steps(self) -> Report:
        store = open_store(self.pipeline)
        report = Report()
        with closing(
            in_run(store, store.ledger.last_batch(), datetime.fromtimestamp(self._clock(), UTC))
        ) as steps:
            for done in steps:
                report = done
                if self._stopping.is_set():
                    break
                self._quiet.wait(PATIENCE)
        for note in report.notes:
            LOG.info("upkeep: %s", note)
        return report

    def _failed(self, why: str) -> None:
        self.done.failures += 1
        interval = format_duration(self.pipeline.upkeep.every or 0)
        LOG.warning(
            "upkeep failed: %s; the run goes on, and tries again in %s. By hand: latecomer compact FILE",
            why,
            interval,
        )
