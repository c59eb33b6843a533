"""Applies an output's `where` to events, as it was in each batch. No Spark.

A rebuild may change what an output's numbers mean. Each `where` is evaluated exactly, with the predicates
of the testing kit, or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from latecomer.after.explain.fates import Event, Periods, Predicate, in_force, judged_for
from latecomer.model.verdicts import Fate, OnError
from latecomer.model.windows import Session
from latecomer.store.layout import PaneLayout
from latecomer.store.store import Store

UNFILTERED, FILTERED, NEEDS_SPARK = "none", "applied", "needs_spark"
"""Whether there was a filter, and whether it could be evaluated."""


class Filters:
    """The predicates of an output, by batch."""

    def __init__(self, periods: Periods, types: Mapping[str, str], filed: Collection[Any] = ()) -> None:
        self.periods = periods
        self.types = types
        self.filed = filed
        """The places of events that failed when they came: derived columns are known only as they are now."""
        self._known: dict[str, Predicate | None] = {}
        """Each `where` that was needed; None where only Spark can evaluate it."""
        self._passed: dict[tuple[str, Any], bool] = {}

    def leaves_out(self, event: Event, batch: int) -> Fate | None:
        """The fate of an event that the rules of a batch leave out: filtered, or failed. None where they keep it, or
        where only Spark can tell."""
        rules = in_force(self.periods, batch)
        if rules.columns != self.periods[-1][1].columns and event.place in self.filed:
            return Fate.FAILED
        failed = event.failed if rules.on_error is not OnError.NULL else frozenset()
        if failed.intersection(rules.columns_in_where):
            return Fate.FAILED
        if self._passes_where(event, rules.where) is False:
            return Fate.FILTERED
        return Fate.FAILED if failed.intersection(rules.columns_in_numbers) else None

    def passes(self, event: Event, batch: int) -> bool | None:
        """Whether the rules of a batch keep an event; None where only Spark can tell."""
        if self.leaves_out(event, batch) is not None:
            return False
        return self._passes_where(event, in_force(self.periods, batch).where)

    def _passes_where(self, event: Event, where: str | None) -> bool | None:
        if where is None:
            return True
        if where not in self._known:
            from latecomer.model.simple_predicates import NeedsSpark, predicate

            try:
                self._known[where] = predicate(where, self.types)
            except NeedsSpark:
                self._known[where] = None
        keeps = self._known[where]
        if keeps is None:
            return None
        # It is needed for each pane and event.
        place = where, event.place
        if place not in self._passed:
            self._passed[place] = keeps(event.payload) is True
        return self._passed[place]

    @property
    def any(self) -> bool:
        """Whether the output has ever had a `where`."""
        return any(output.where is not None for _, output in self.periods)

    @property
    def unknown(self) -> list[str]:
        """Each `where` that was needed and that only Spark can evaluate."""
        return [where for where, keeps in self._known.items() if keeps is None]

    @property
    def state(self) -> str:
        """Whether every `where` that was needed could be evaluated."""
        return NEEDS_SPARK if self.unknown else FILTERED if self._known else UNFILTERED


def fates_in_windows(
    store: Store, output: str, events: Sequence[Event]
) -> tuple[list[list[Fate | None]], bool]:
    """The fates of each event, one for each of its windows, and whether a `where` needs Spark: then it has excluded no
    event. Not for sessions, where an event's fate depends on others."""
    rules = store.pipeline.outputs[output]
    windows = rules.window
    assert not isinstance(windows, Session)  # noqa: S101
    periods = store.policies(output) or [(0, rules)]
    filters = Filters(periods, PaneLayout(rules, store.layout).types)
    fates = [
        [
            judged.fate
            for window in windows.assign_all(event.event_time)
            for judged in judged_for(window, [event], periods, filters.leaves_out)
        ]
        for event in events
    ]
    return fates, bool(filters.unknown)
