"""Whether a backfill runs: then a spike is expected, and nobody is alerted.

history  a new store reads old data: the store is younger than a day, and its lag was never within `alerts.lag`
rebuild  windows are computed again, or the result waits to be published
repair   dead letters are replayed
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from latecomer.observe.history import DAY, MINUTE
from latecomer.store.files import Location, names, written_at
from latecomer.store.rebuilds import Rebuilds

AFTERWARDS = 2 * MINUTE
"""A backfill is still shown for so long after it was published, so that a metrics server sees it at least once."""
ABANDONED = 3600
"""A draft that is older, in seconds, was left by a rebuild that was killed."""
LOAD = DAY
"""The first load of a store counts as a backfill for so long."""


class Backfills:
    """The backfills that a run and its store know of."""

    def __init__(self, root: Location, outputs: Sequence[str], budget: int | None) -> None:
        self._root, self._outputs, self._budget = root, outputs, budget
        self._last: dict[str, int] = {}
        self._loading_since: int | None = None

    def batch(self, kind: str, at: int, lag: int | None) -> None:
        """A batch was published, with this lag of the watermark."""
        if kind in ("rebuild", "repair"):
            self._last[kind] = at
        if lag is not None and (self._budget is None or lag <= self._budget):
            self._loading_since = None

    def begin_load(self, now: int) -> None:
        """The store is new: it begins with the old data of its source."""
        self._loading_since = now

    def under_way(self, now: int) -> set[str]:
        """The kinds of backfill that run now."""
        kinds = {kind for kind, at in self._last.items() if now - at <= AFTERWARDS}
        if self._loading_since is not None and now - self._loading_since <= LOAD:
            kinds.add("history")
        if rebuilding(self._root, self._outputs):
            kinds.add("rebuild")
        return kinds


def rebuilding(root: Location, outputs: Sequence[str]) -> bool:
    """Whether a rebuild is being computed, or waits to be published."""
    for output in outputs:
        rebuilds = Rebuilds(root, output)
        drafts = (rebuilds.root / name for name in names(rebuilds.root) if name.startswith("."))
        if rebuilds.asked() or any(map(_is_young, drafts)):
            return True
    return False


def _is_young(draft: Location) -> bool:
    try:
        return time.time() - written_at(draft) < ABANDONED
    except OSError:
        return False
