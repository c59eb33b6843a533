"""Sessions that are computed anew: whole, and chosen together with all that they touch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from latecomer.log.logged import Logged
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.windowing.firing.output import OutputLogic
from latecomer.windowing.firing.sessions import SessionLogic
from latecomer.windowing.judge import Flags
from latecomer.windowing.session_judge import session_of
from latecomer.windowing.sessions import Places, key_codes, numbered

if TYPE_CHECKING:
    from latecomer.after.rebuild.rebuilt import Range


def whole_sessions(logic: OutputLogic, events: Logged) -> pa.Table:
    """Every session of these events, as if nothing had ever been late: START, END, keys, values and states."""
    assert isinstance(logic, SessionLogic)  # noqa: S101
    return logic.whole(events)


def chosen_sessions(range_: Range, rows: pa.Table) -> Flags:
    """Whether each session, with all that it touches, has closed and reaches into the range."""
    window = session_of(range_.logic.output)
    places = Places.of_merged(rows, list(range_.logic.layout.keys))
    (codes,) = key_codes([places])
    sessions = numbered(codes, places.start, places.end, window)
    within = np.zeros(len(sessions.starts), bool)
    within[sessions.session[(places.start < range_.until) & (places.end > range_.since)]] = True
    gap = window.gap if range_.whole > BEGIN_OF_TIME else 0
    closed = (sessions.ends <= range_.watermark) & (sessions.starts >= range_.whole + gap)
    return np.asarray((within & closed)[sessions.session], bool)
