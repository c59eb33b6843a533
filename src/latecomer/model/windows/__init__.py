"""Windows: which intervals of event time an event belongs to.

Pure arithmetic on microseconds. A window `[start, end)` holds the events with `start <= event_time < end`; the
watermark is compared with its end. All windows except sessions depend on the event's own time alone: `assign_all` gives
the windows that hold it, `assign_many` those of many events, `ends` the ends of windows. `reach` is the length that no
window exceeds, `step` the longest time from one window's end to the next, but for clock changes.
"""

from __future__ import annotations

import difflib
from typing import Annotated, get_args

from pydantic import BeforeValidator, SerializeAsAny

from latecomer.model.windows.base import FIRST_MOMENT, FOREVER, Assigned, Window, Windows
from latecomer.model.windows.session import Session
from latecomer.model.windows.side_by_side import Calendar, Global, Tumbling
from latecomer.model.windows.sliding import Sliding

__all__ = [
    "FIRST_MOMENT",
    "FOREVER",
    "KINDS",
    "AnyWindow",
    "Assigned",
    "Calendar",
    "FixedWindow",
    "Global",
    "Session",
    "Sliding",
    "TimedWindow",
    "Tumbling",
    "Window",
    "Windows",
    "zone_of",
]

TimedWindow = Tumbling | Sliding | Calendar
"""The windows whose ends are known in advance."""

FixedWindow = TimedWindow | Global
"""The windows that depend on an event's time alone."""

_Any = FixedWindow | Session
KINDS: dict[str, type[Windows]] = {each.kind: each for each in get_args(_Any)}


def _read_window(written: object) -> object:
    if isinstance(written, Windows):
        return written
    *others, last = (f"{{{each.example}}}" for each in KINDS.values())
    choices = f"write {', '.join(others)} or {last}"
    if not isinstance(written, dict):
        raise ValueError(f"is not a window; {choices}")
    named = [kind for kind in KINDS if kind in written]
    if len(named) > 1:
        raise ValueError(f"is {' and '.join(named)} at once; keep one of them")
    if not named:
        near = [match for key in written for match in difflib.get_close_matches(str(key), KINDS, n=1)]
        raise ValueError(f"names no window; {f'did you mean {near[0]}?' if near else choices}")
    return KINDS[named[0]].model_validate(written)


AnyWindow = Annotated[SerializeAsAny[_Any], BeforeValidator(_read_window)]


def zone_of(window: Windows) -> str:
    """The time zone of the windows; UTC where they have none."""
    zone: str = getattr(window, "zone", "UTC")
    return zone
