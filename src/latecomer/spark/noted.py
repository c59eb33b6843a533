"""What Spark has done for a store in all its runs, as it is written down there: for `doctor`."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

from latecomer.errors import LatecomerError
from latecomer.spark.base import Work
from latecomer.store.files import Location, read_text, replace_text
from latecomer.store.pins import is_store

WORK = "work.json"
PAUSE = 60.0
"""It is written down so many seconds apart, and when a run ends."""


@dataclass(frozen=True)
class NotedWork:
    """The work of all runs."""

    runs: int = 0
    work: Work = field(default_factory=Work)
    last: Work = field(default_factory=Work)
    """Of the last of them."""


def noted_work(store: Location) -> NotedWork:
    """What is written down: nothing where nothing is that can be read."""
    with suppress(OSError, LatecomerError, ValueError, KeyError, TypeError):
        found = json.loads(read_text(store / WORK))
        return NotedWork(int(found["runs"]), Work(**found["work"]), Work(**found["last"]))
    return NotedWork()


class WorkNotes:
    """Writes down what Spark does for a run. Nothing rests on it: where it cannot be written, the run goes on."""

    def __init__(self, store: Location, work: Work) -> None:
        self._store, self._work = store, work
        self._before = noted_work(store)
        self._at = time.monotonic()

    def now_and_then(self) -> None:
        """A batch is done."""
        if time.monotonic() - self._at >= PAUSE:
            self.write()

    def write(self) -> None:
        """Write it down as it is now."""
        self._at = time.monotonic()
        work, runs = replace(self._work), self._before.runs + 1
        with suppress(OSError, LatecomerError):
            if is_store(self._store):
                noted = NotedWork(runs, self._before.work + work, work)
                replace_text(self._store / WORK, json.dumps(asdict(noted)))
