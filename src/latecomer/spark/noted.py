"""What Spark has done for a store in all its runs, noted in the store: for `doctor`."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field, replace

from latecomer.errors import LatecomerError
from latecomer.spark.base import TaskTotals
from latecomer.store.files import Location
from latecomer.store.notes import read_note, write_note
from latecomer.store.pins import is_store

WORK = "work.json"
PAUSE = 60.0
"""The seconds between two notes. A run also writes one when it ends."""


@dataclass(frozen=True)
class NotedWork:
    """The work of all runs."""

    runs: int = 0
    work: TaskTotals = field(default_factory=TaskTotals)
    last: TaskTotals = field(default_factory=TaskTotals)
    """That of the last run."""


def noted_work(store: Location) -> NotedWork:
    """The note in the store; an empty one where it cannot be read."""
    return read_note(store / WORK, NotedWork) or NotedWork()


class WorkNotes:
    """Notes what Spark does for a run. Nothing depends on it: where it cannot be written, the run goes on."""

    def __init__(self, store: Location, work: TaskTotals) -> None:
        self._store, self._work = store, work
        self._before = noted_work(store)
        self._at = time.monotonic()

    def now_and_then(self) -> None:
        """Write the note if the last one is old enough."""
        if time.monotonic() - self._at >= PAUSE:
            self.write()

    def write(self) -> None:
        """Write the note."""
        self._at = time.monotonic()
        work, runs = replace(self._work), self._before.runs + 1
        with suppress(OSError, LatecomerError):
            if is_store(self._store):
                write_note(self._store / WORK, NotedWork(runs, self._before.work + work, work))
