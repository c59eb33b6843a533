"""The merger as the steps without Spark use it: `Declined` for outputs whose events they cannot judge."""

from __future__ import annotations

from latecomer.fast import Declined
from latecomer.model.aggregates import ORDERED
from latecomer.windowing import merge, merging
from latecomer.windowing.derived_in_process import expressions_of
from latecomer.windowing.merging import replaced

__all__ = ["ArrowMerger", "replaced"]


class ArrowMerger(merging.Merger):
    """The merger of an output."""

    def __init__(self, merger: merge.Merger) -> None:
        super().__init__(merger.layout, merger.measures)
        if merger.output.window.merges:
            raise Declined("sessions")
        for aggregate in merger.output.aggregates.values():
            if aggregate.function in ORDERED:
                raise Declined(f"{aggregate}, which goes by the order of events")
        expressions_of(merger.output, merger.layout.events.types)
