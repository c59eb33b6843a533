"""An output's `where`, as it was in each batch, asked of events. No Spark.

A rebuild may change what an output's numbers mean. Each `where` is evaluated exactly, with the predicates
of the testing kit, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latecomer.after.explain.fates import Event, Periods, Predicate, in_force

UNFILTERED, FILTERED, NEEDS_SPARK = "none", "applied", "needs_spark"
"""What became of the filters that were asked."""


class Filters:
    """The predicates of an output, by batch."""

    def __init__(self, periods: Periods, types: Mapping[str, str]) -> None:
        self.periods = periods
        self.types = types
        self._known: dict[str, Predicate | None] = {}
        """Each `where` that was asked; None where only Spark can evaluate it."""
        self._passed: dict[tuple[str, Any], bool] = {}

    def passes(self, event: Event, batch: int) -> bool | None:
        """Whether an event passes the `where` of a batch; None where only Spark can tell."""
        where = in_force(self.periods, batch).where
        if where is None:
            return True
        keeps = self._predicate(where)
        if keeps is None:
            return None
        # Each pane asks it of each event again.
        asked = where, event.place
        if asked not in self._passed:
            self._passed[asked] = keeps(event.payload) is True
        return self._passed[asked]

    @property
    def any(self) -> bool:
        """Whether the output has ever had a `where`."""
        return any(output.where is not None for _, output in self.periods)

    @property
    def unknown(self) -> list[str]:
        """Each `where` that was asked and that only Spark can evaluate."""
        return [where for where, keeps in self._known.items() if keeps is None]

    @property
    def state(self) -> str:
        """What became of all that were asked."""
        return NEEDS_SPARK if self.unknown else FILTERED if self._known else UNFILTERED

    def _predicate(self, where: str) -> Predicate | None:
        if where not in self._known:
            from latecomer.model.simple_predicates import NeedsSpark, predicate

            try:
                self._known[where] = predicate(where, self.types)
            except NeedsSpark:
                self._known[where] = None
        return self._known[where]
