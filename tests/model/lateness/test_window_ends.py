"""The ends of many events' windows at once are those that the windows give for each event."""

from __future__ import annotations

import numpy as np
import pytest

from latecomer.model.lateness.sweep import all_ends
from latecomer.model.windows import AnyWindow, Calendar, Session, Sliding, Tumbling

HOUR = 3_600_000_000
BEGIN = 1_792_972_800_000_000
"""26 October 2026; in Berlin, clocks had changed the day before."""
TIMES = np.array([BEGIN - 30 * HOUR + step * (HOUR // 3) + step**3 for step in range(300)], np.int64)


@pytest.mark.parametrize(
    "window",
    [
        Tumbling(tumbling="7m", offset="2m"),
        Tumbling(tumbling="1h", zone="Europe/Berlin"),
        Sliding(sliding="10m", every="3m", offset="1m"),
        Calendar(calendar="day", zone="Europe/Berlin"),
        Calendar(calendar="month"),
    ],
    ids=str,
)
def test_ends_are_those_of_the_window(window: AnyWindow) -> None:
    listed: list[set[int]] = [set() for _ in TIMES]
    for found, which in all_ends(window, TIMES):
        for nth, end in enumerate(found):
            if which is None or which[nth]:
                listed[nth].add(int(end))
    wanted = [{each.end for each in window.assign_all(int(time))} for time in TIMES]
    assert listed == wanted
    assert window.last_ends(TIMES).tolist() == [max(each) for each in wanted]
    assert window.last_ends(TIMES[:0]).tolist() == []


def test_windows_that_the_events_decide() -> None:
    found = Session(session="5m").last_ends(TIMES)
    assert found.tolist() == [time + HOUR // 12 for time in TIMES.tolist()]
