"""Upkeep by itself: what `compact` does, now and then, begun by a run in a quiet moment.

It works in a thread beside the batches, and step by step. Each step waits for a quiet moment of its own, so that a
batch that waits has the machine. Where there is none for a while, it goes on all the same, for a store that is never
kept in shape makes every batch slower. Whatever goes wrong is reported, and the run goes on.
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
from latecomer.engine.upkeep.compacting import Report, in_run
from latecomer.engine.upkeep.noted import Noted, note_upkeep, noted_upkeep
from latecomer.errors import LatecomerError, StoreInUse
from latecomer.model.durations import UNITS, format_duration
from latecomer.store.store import open_store

LOG = logging.getLogger(__name__)
PATIENCE = 10.0
"""So many seconds a step waits for a quiet moment."""


@dataclass
class Done:
    """What a run has done of it so far, for its metrics."""

    times: int = 0
    failures: int = 0
    seconds: float = 0.0
    at: float | None = None
    """When the store was last kept in shape, by whomever."""


class ScheduledUpkeep:
    """The upkeep of one run. `remember` has whoever remembers names of files forget them."""

    def __init__(
        self,
        pipeline: Pipeline,
        remember: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.pipeline = pipeline
        self.done = Done()
        self._remember = remember
        self._clock = clock
        every = pipeline.upkeep.every
        self._every = None if every is None else every / UNITS["s"]
        self._root = pipeline.store_path
        self._quiet, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._since = self._begun()

    def _begun(self) -> float:
        """From when on it is counted: a store that nobody has kept in shape begins now."""
        noted = noted_upkeep(self._root) or Noted(self._clock(), done=False)
        self.done.at = noted.at if noted.done else None
        if not noted.done and self._every is not None:
            note_upkeep(self._root, noted)
        return noted.at

    def is_due(self, times: float = 1.0) -> bool:
        """Whether it is time for another; or, overdue, whether so many are due."""
        if self._every is None or (self._thread is not None and self._thread.is_alive()):
            return False
        return self._clock() - self._since >= times * self._every

    def quiet(self) -> None:
        """Nothing waits, and no batch is under way: begin, if it is time."""
        if self.is_due():
            self._begin()
        self._quiet.set()

    def busy(self) -> None:
        """A batch is about to begin. Where no quiet moment has come for as long again, this one has to do."""
        self._quiet.clear()
        if self.is_due(2):
            self._begin()

    def rest(self) -> None:
        """All that was there is read: do it now, if it is time."""
        if self.is_due():
            self._remember()
            self._quiet.set()
            self._work()

    def close(self) -> None:
        """The run ends: after the step under way nothing more is done."""
        self._stopping.set()
        self._quiet.set()
        if self._thread is not None:
            self._thread.join()

    def _begin(self) -> None:
        self._remember()
        self._thread = threading.Thread(target=self._work, name="latecomer-upkeep", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        self._since = began = self._clock()
        try:
            report = self._steps()
        except StoreInUse:
            LOG.info("upkeep: somebody else keeps the store in shape")
        except (LatecomerError, OSError) as error:
            self._failed(str(error))
        except Exception as error:
            self._failed(f"{type(error).__name__}: {error}")
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
        again = format_duration(self.pipeline.upkeep.every or 0)
        LOG.warning(
            "upkeep failed: %s; the run goes on, and tries again in %s. By hand: latecomer compact FILE",
            why,
            again,
        )
