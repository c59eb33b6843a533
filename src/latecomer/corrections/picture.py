"""The life of a number as a small picture: SVG, written by hand, with nothing in it but shapes and text.

The arrival clock runs from left to right. Each numeric aggregate has a panel: its published values as
steps, a dot for each pane in the colour of its timing. The band is the window, in event time. Below are the
events as ticks, by when they arrived.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from html import escape
from typing import Any

from latecomer.corrections.document import plain
from latecomer.corrections.explain import Explanation
from latecomer.corrections.fates import Judged
from latecomer.corrections.life import Told, is_number
from latecomer.model.durations import UNITS, to_moment
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Window

COLOURS = {
    Timing.EARLY: "#0891b2",
    Timing.ON_TIME: "#2563eb",
    Timing.LATE: "#d97706",
    Timing.CLOSING: "#475569",
    Timing.CORRECTION: "#7c3aed",
}
FATES = {
    Fate.ON_TIME: ("on time", "#64748b"),
    Fate.LATE_ACCEPTED: ("late, accepted", "#d97706"),
    Fate.SIDE_OUTPUT: ("side output", "#dc2626"),
    Fate.DROPPED: ("dropped", "#111827"),
}
"""The events that are drawn, each fate in a row of its own."""
_WIDTH, _LEFT, _RIGHT, _TOP = 920, 150, 40, 96
_PANEL, _GAP, _ROW, _BOTTOM = 120, 30, 18, 58
_MOST_PANELS, _NUDGE = 4, 9
_INK, _PALE, _BAND = "#111827", "#6b7280", "#dbeafe"
_STEPS = [
    each * UNITS[unit]
    for unit, several in (
        ("us", (1, 10, 100)),
        ("ms", (1, 10, 100)),
        ("s", (1, 2, 5, 10, 15, 30)),
        ("m", (1, 2, 5, 10, 15, 30)),
        ("h", (1, 2, 3, 6, 12)),
        ("d", (1, 2, 7, 14, 30, 91, 365, 3650, 36500)),
    )
    for each in several
]


def picture(found: Explanation) -> str:
    """The picture as SVG text."""
    return "\n".join(_Drawing(found).lines()) + "\n"


@dataclass(frozen=True)
class _Axis:
    """A stretch of values on a stretch of paper."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


@dataclass(frozen=True)
class _Dot:
    x: float
    value: Any
    told: Told


class _Drawing:
    def __init__(self, found: Explanation) -> None:
        self.found = found
        self.panels = self._numeric()
        self.rows = [fate for fate in FATES if self._events(fate)]
        self.height = _TOP + len(self.panels) * (_PANEL + _GAP) + len(self.rows) * _ROW + _BOTTOM
        self.time = self._time()

    def lines(self) -> Iterator[str]:
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {self.height}" '
            f'width="{_WIDTH}" height="{self.height}" font-family="system-ui, sans-serif" font-size="12" '
            f'role="img">'
        )
        yield f"<title>{_safe(self._title())}</title>"
        yield f'<rect width="{_WIDTH}" height="{self.height}" fill="white"/>'
        yield from self._band()
        yield from self._heading()
        for number, name in enumerate(self.panels):
            yield from self._panel(name, _TOP + number * (_PANEL + _GAP))
        yield from self._ticks()
        yield from self._clock()
        yield "</svg>"

    # What is drawn

    def _numeric(self) -> list[str]:
        inserts = [told.pane for told in self.found.panes if told.pane.op is Op.INSERT]
        return [
            name
            for name in self.found.rules.aggregates
            if any(is_number(pane.values[name]) for pane in inserts)
        ][:_MOST_PANELS]

    def _events(self, fate: Fate) -> Sequence[Judged]:
        if fate in self.found.left_out:
            return self.found.left_out[fate]
        accepted = [each for told in self.found.panes for each in told.took] + list(self.found.untold)
        return [each for each in accepted if (each.fate or Fate.ON_TIME) is fate]

    def _time(self) -> _Axis:
        """From the first thing that happened to the last; the window too, unless it is all of time."""
        moments = [told.pane.published_at for told in self.found.panes if told.pane.published_at is not None]
        moments += [each.event.arrival_time for fate in self.rows for each in self._events(fate)]
        start, end = self.found.window
        if end - start < 4 * max([max(moments, default=end) - min(moments, default=start), UNITS["d"]]):
            moments += [start, end]
        low, high = (min(moments), max(moments)) if moments else (start, end)
        margin = max((high - low) // 25, 1)
        return _Axis(low - margin, high + margin, _LEFT, _WIDTH - _RIGHT)

    def _title(self) -> str:
        key = ", ".join(f"{name}={plain(value)}" for name, value in self.found.key.items())
        return " · ".join(part for part in (self.found.output, key) if part)

    def _heading(self) -> Iterator[str]:
        yield _text(_LEFT, 26, self._title(), size=16, weight="600")
        start, end = self.found.window
        yield _text(_LEFT, 46, f"window {_full(start)} to {_full(end)}", _PALE)
        x = float(_LEFT)
        present = dict.fromkeys(told.pane.timing for told in self.found.panes)
        for timing in present:
            yield f'<circle cx="{x + 5}" cy="64" r="5" fill="{COLOURS[timing]}"/>'
            yield _text(x + 15, 68, timing.value, _PALE)
            x += 30 + 8 * len(timing.value)
        yield f'<rect x="{x}" y="58" width="14" height="12" fill="{_BAND}"/>'
        yield _text(x + 20, 68, "the window", _PALE)

    def _band(self) -> Iterator[str]:
        left, right = (min(max(self.time(at), _LEFT), _WIDTH - _RIGHT) for at in self.found.window)
        height = self.height - _TOP - _BOTTOM + 12
        yield (
            f'<rect x="{left}" y="{_TOP - 12}" width="{max(round(right - left, 1), 1)}" height="{height}" '
            f'fill="{_BAND}"/>'
        )

    # Panels

    def _panel(self, name: str, top: int) -> Iterator[str]:
        dots = self._dots(name)
        numbers = [float(dot.value) for each in dots.values() for dot in each if dot.value is not None]
        low, high = min([0.0, *numbers]), max([0.0, *numbers])
        scale = _Axis(low, high if high > low else low + 1, top + _PANEL, top + 8)
        yield _text(_LEFT - 12, top + 20, name, _INK, anchor="end", weight="600")
        yield _text(
            _LEFT - 12, top + 36, str(self.found.rules.aggregates[name]), _PALE, anchor="end", size=11
        )
        zero = scale(0.0)
        yield _line(_LEFT, zero, _WIDTH - _RIGHT, zero, "#d1d5db")
        yield _text(_LEFT - 6, zero + 4, "0", _PALE, anchor="end", size=10)
        for each in dots.values():
            yield from self._steps(each, scale)
        taken: list[tuple[float, float]] = []
        for each in dots.values():
            for dot in each:
                yield from self._dot(dot, scale, taken)

    def _dots(self, name: str) -> Mapping[Window, Sequence[_Dot]]:
        """By window, the value after each pane: None where it was taken back. Discarding panes add up."""
        adds = self.found.rules.accumulation is Accumulation.DISCARDING
        dots: dict[Window, list[_Dot]] = {}
        nudges: dict[int, int] = {}
        for told in self.found.panes:
            pane = told.pane
            if pane.published_at is None:
                continue
            line = dots.setdefault(pane.window, [])
            value = pane.values[name] if is_number(pane.values[name]) else None
            if pane.op is Op.RETRACT:
                x = self.time(pane.published_at) + _NUDGE * nudges.get(pane.published_at, 0)
                line.append(_Dot(x, None, told))
                continue
            if adds and value is not None and line and line[-1].value is not None:
                value = self.found.rules.aggregates[name].add_up([line[-1].value, value])
            # Panes of one batch would hide one another.
            nudge = nudges.get(pane.published_at, 0)
            nudges[pane.published_at] = nudge + 1
            line.append(_Dot(self.time(pane.published_at) + _NUDGE * nudge, value, told))
        return dots

    def _steps(self, dots: Sequence[_Dot], scale: _Axis) -> Iterator[str]:
        """Each value until the next; the last one to the right edge."""
        following = [*(dot.x for dot in dots[1:]), float(_WIDTH - _RIGHT)]
        level: float | None = None
        for dot, until in zip(dots, following, strict=True):
            if dot.value is None:
                # What is taken back and replaced at once goes on from where it was.
                level = level if until == dot.x else None
                continue
            y = scale(float(dot.value))
            if level is not None and level != y:
                yield _line(dot.x, level, dot.x, y, _PALE, 1.5)
            yield _line(dot.x, y, until, y, _PALE, 1.5)
            level = y

    def _dot(self, dot: _Dot, scale: _Axis, taken: list[tuple[float, float]]) -> Iterator[str]:
        if dot.value is None:
            return
        pane, y = dot.told.pane, scale(float(dot.value))
        tip = f"{pane.sequence} {pane.timing}, batch {pane.batch}, {_full(pane.published_at or 0)}"
        yield (
            f'<circle cx="{round(dot.x, 1)}" cy="{y}" r="5" fill="{COLOURS[pane.timing]}" stroke="white">'
            f"<title>{_safe(tip)}</title></circle>"
        )
        label = _short(dot.value)
        half = 4 * len(label)
        if all(abs(dot.x - x) > half + 8 or abs(y - other) > 14 for x, other in taken):
            taken.append((dot.x, y))
            yield _text(dot.x, y - 9, label, _INK, anchor="middle", size=11)

    # Events

    def _ticks(self) -> Iterator[str]:
        top = _TOP + len(self.panels) * (_PANEL + _GAP)
        for number, fate in enumerate(self.rows):
            label, colour = FATES[fate]
            y = top + number * _ROW
            events = self._events(fate)
            yield _text(_LEFT - 12, y + 11, f"{label} ({len(events)})", colour, anchor="end", size=11)
            for x in sorted({self.time(each.event.arrival_time) for each in events}):
                yield _line(x, y + 2, x, y + 12, colour, 1.5)

    def _clock(self) -> Iterator[str]:
        y = self.height - _BOTTOM + 6
        yield _line(_LEFT, y, _WIDTH - _RIGHT, y, _PALE)
        span = int(self.time.high - self.time.low)
        step = next((each for each in _STEPS if span // each <= 6), _STEPS[-1])
        first = -(-int(self.time.low) // step) * step
        for at in range(first, int(self.time.high) + 1, step):
            yield _line(self.time(at), y, self.time(at), y + 5, _PALE)
            yield _text(self.time(at), y + 18, _clock_text(at, step, first), _PALE, anchor="middle", size=11)
        yield _text(_WIDTH - _RIGHT, y + 36, "arrival clock, UTC", _PALE, anchor="end", size=11)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    ends = f'x1="{round(x1, 1)}" y1="{round(y1, 1)}" x2="{round(x2, 1)}" y2="{round(y2, 1)}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"/>'


def _text(
    x: float,
    y: float,
    text: str,
    colour: str = _INK,
    anchor: str = "start",
    size: int = 12,
    weight: str = "400",
) -> str:
    return (
        f'<text x="{round(x, 1)}" y="{round(y, 1)}" fill="{colour}" text-anchor="{anchor}" '
        f'font-size="{size}" font-weight="{weight}">{_safe(text)}</text>'
    )


def _safe(text: str) -> str:
    """Text that may stand in XML: what events bring is shown, never obeyed."""
    return escape("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text))


def _short(value: Any) -> str:
    """A value for a label: large numbers in groups of three.

    >>> _short(1234567), _short(0.123456)
    ('1,234,567', '0.1235')
    """
    number = plain(value)
    return f"{number:,}" if isinstance(number, int) else f"{float(number):,.4g}"


def _full(micros: int) -> str:
    moment = to_moment(micros)
    whole = moment.replace(microsecond=0) == moment
    return moment.strftime("%Y-%m-%d %H:%M:%S" if whole else "%Y-%m-%d %H:%M:%S.%f")


def _clock_text(at: int, step: int, first: int) -> str:
    """A moment on the clock; the date where a day begins, and at the very first."""
    moment = to_moment(at)
    if step >= UNITS["d"]:
        return moment.strftime("%Y-%m-%d")
    form = "%H:%M" if step >= UNITS["m"] else "%H:%M:%S" if step >= UNITS["s"] else "%H:%M:%S.%f"
    day = at == first or moment - moment.replace(hour=0, minute=0, second=0, microsecond=0) == timedelta()
    return moment.strftime(f"%b %d {form}" if day else form)
