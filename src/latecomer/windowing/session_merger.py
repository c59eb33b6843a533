"""The Arrow merger with the states of sessions: what it lacks until it knows every state itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.fast import Declined
from latecomer.model import types
from latecomer.model.verdicts import Fate
from latecomer.store.columns import (
    EVENTS,
    HELD,
    NEW_BEHIND,
    SINCE,
    UNSETTLED,
    WAITING_EVENTS,
    late_column,
    measure_column,
    new_column,
)
from latecomer.store.layout import arrow_type
from latecomer.windowing.exact_arrow import unscaled
from latecomer.windowing.judge import CODES
from latecomer.windowing.judge_in_process import Flags, Judged
from latecomer.windowing.merge import Merger
from latecomer.windowing.merge_in_process import ArrowMerger
from latecomer.windowing.states_in_process import (
    ArrowState,
    _all,
    _counted,
    _exact_sum,
    _measured,
    _of_aggregate,
)


class SessionMerger(ArrowMerger):
    """`ArrowMerger`, which declines sessions, with their states."""

    def __post_init__(self) -> None:
        if any(kind in types.FLOATS for kind in self.merger.layout.keys.values()):
            raise Declined("a key of floating point numbers")
        object.__setattr__(self, "states", _states_of(self.merger))


def _states_of(merger: Merger) -> list[ArrowState]:
    layout, output = merger.layout, merger.output
    logics = [_counted(EVENTS, _all), _counted(new_column(EVENTS), _all, new=True)]
    for measure, kind in merger.measures.items():
        logics += _measured(measure, kind, layout)
    logics += [
        _counted(NEW_BEHIND, lambda events: events.time < events.watermark, new=True),
        _counted(HELD, _all),
        _counted(SINCE, _all),
        _counted(UNSETTLED, lambda events: events.fate == CODES[Fate.ON_TIME]),
        _counted(WAITING_EVENTS, _late),
        _counted(late_column(EVENTS), _late, new=True),
    ]
    logics += [_late_measure(measure, kind) for measure, kind in merger.measures.items()]
    return [*logics, *(_of_aggregate(name, each, layout) for name, each in output.aggregates.items())]


def _late(events: Judged) -> Flags:
    return np.equal(events.fate, CODES[Fate.LATE_ACCEPTED])


def _late_measure(measure: str, kind: str) -> ArrowState:
    held = arrow_type(f"decimal(38,{types.scale_of(kind)})")

    def amount(events: Judged) -> pa.Array:
        return pc.if_else(pa.array(_late(events)), pc.fill_null(unscaled(events.columns[measure]), 0), 0)

    return _exact_sum(late_column(measure_column(measure)), held, amount, new=True, none=False)
