"""The life of a number as a small picture: SVG, written by hand, with nothing in it but shapes and text.

The arrival clock runs from left to right. Each numeric aggregate has a panel: its published values as
steps, a dot for each pane in the colour of its timing. The band is the window, in event time. Below are the
events as ticks, by when they arrived; and event time against arrival time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from latecomer.after.explain import diagram
from latecomer.after.explain.diagram import FATES, INK, PALE, Diagram, Point, clock, line, safe, some, text
from latecomer.after.explain.fates import JudgedEvent
from latecomer.after.explain.life import NumberHistory, PublishedNumber, is_number
from latecomer.after.explain.picture_axis import TimeAxis
from latecomer.after.explain.places import shown_value
from latecomer.after.reading.choices import Clock
from latecomer.model.durations import UNITS
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Window
from latecomer.model.zoned import current_zone, on_the_wall

COLOURS = {
    Timing.EARLY: "#0891b2",
    Timing.ON_TIME: "#2563eb",
    Timing.LATE: "#d97706",
    Timing.CLOSING: "#475569",
    Timing.CORRECTION: "#7c3aed",
}
_WIDTH, _RIGHT, _TOP = 920, 40, 96
_NARROW, _WIDE = 150, 260
"""How wide the names at the left may be."""
_PANEL, _GAP, _ROW, _BOTTOM = 120, 30, 18, 74
_MOST_PANELS, _MANY = 4, 40
_LARGE = 10**15
"""Labels of larger numbers do not show all digits."""
_AGES = 400 * 365 * UNITS["d"]
"""A longer window is all of time, and is not drawn."""
_BAND = "#dbeafe"


def picture(explanation: NumberHistory) -> str:
    """The picture as SVG text."""
    return "\n".join(_Drawing(explanation).lines()) + "\n"


_Scale = Callable[[float], float]
"""Where a value is on paper."""


@dataclass(frozen=True)
class _Dot:
    x: float
    value: Any
    published: PublishedNumber


class _Drawing:
    def __init__(self, explanation: NumberHistory) -> None:
        self.explanation = explanation
        self.panels = self._numeric()
        self.rows = [fate for fate in FATES if self._events(fate)]
        self.life_height = _TOP + len(self.panels) * (_PANEL + _GAP) + len(self.rows) * _ROW + _BOTTOM
        self.height = self.life_height + (diagram.HEIGHT if self.rows else 0)
        named = [each for name in self.panels for each in (f"{name}___", self._formula(name))]
        longest = max(map(len, [*named, *(self._row_name(fate) for fate in self.rows)]), default=0)
        self.left = int(min(max(LETTER * longest + 16, _NARROW), _WIDE))
        self.right = _WIDTH - _RIGHT
        self.radius = 5 if len(self.explanation.panes) <= _MANY else 3
        self.time = self._time()

    def lines(self) -> Iterator[str]:
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {self.height}" '
            f'width="{_WIDTH}" height="{self.height}" font-family="system-ui, sans-serif" font-size="12" '
            f'role="img">'
        )
        yield f"<title>{safe(self._title())}</title>"
        yield f'<rect width="{_WIDTH}" height="{self.height}" fill="white"/>'
        yield from self._band()
        yield from self._heading()
        for number, name in enumerate(self.panels):
            yield from self._panel(name, _TOP + number * (_PANEL + _GAP))
        yield from self._ticks()
        yield from self._clock()
        if self.rows:
            yield from diagram.lines(self._diagram(), self.life_height, self.time)
        yield "</svg>"

    # What is drawn

    def _numeric(self) -> list[str]:
        inserts = [published.pane for published in self.explanation.panes if published.pane.op is Op.INSERT]
        return [
            name
            for name in self.explanation.rules.aggregates
            if any(is_number(pane.values.get(name)) for pane in inserts)
        ][:_MOST_PANELS]

    def _events(self, fate: Fate) -> Sequence[JudgedEvent]:
        if fate in self.explanation.left_out:
            return self.explanation.left_out[fate]
        accepted = [each for published in self.explanation.panes for each in published.took] + list(
            self.explanation.in_no_pane
        )
        return [each for each in accepted if (each.fate or Fate.ON_TIME) is fate]

    def _time(self) -> TimeAxis:
        """From the first thing that happened to the last; the window too, unless it is all of time."""
        inserts = [published for published in self.explanation.panes if published.pane.op is Op.INSERT]
        dots = [at for published in inserts if (at := self.explanation.drawn_at(published)) is not None]
        arrivals = [[each.event.arrival_time for each in self._events(fate)] for fate in self.rows]
        moments = {*dots, *(bound(row) for row in arrivals for bound in (min, max))}
        start, end = self.explanation.window
        if not moments or end - start < _AGES:
            moments |= {start, end}
        crowd = {at: count for at, count in Counter(dots).items() if count > 1}
        return TimeAxis(sorted(moments), crowd, self.left + 16, self.right - 16)

    def _title(self) -> str:
        key = ", ".join(f"{name}={shown_value(value)}" for name, value in self.explanation.key.items())
        return " · ".join(part for part in (self.explanation.output, key) if part)

    def _heading(self) -> Iterator[str]:
        yield text(_RIGHT, 26, shortened(self._title(), 88), INK, size=16, weight="600")
        start, end = self.explanation.window
        yield text(_RIGHT, 46, f"window {_full(start)} to {_full(end)}", size=12)
        x = float(_RIGHT)
        present = dict.fromkeys(published.pane.timing for published in self.explanation.panes)
        for timing in present:
            yield f'<circle cx="{x + 5}" cy="64" r="5" fill="{COLOURS[timing]}"/>'
            yield text(x + 15, 68, timing.value, size=12)
            x += 34 + 8 * len(timing.value)
        yield f'<rect x="{x}" y="58" width="14" height="12" fill="{_BAND}"/>'
        yield text(x + 20, 68, "the window", size=12)

    def _band(self) -> Iterator[str]:
        left, right = (min(max(self.time(at), self.left), self.right) for at in self.explanation.window)
        height = self.life_height - _TOP - _BOTTOM + 12
        yield (
            f'<rect x="{left}" y="{_TOP - 12}" width="{max(round(right - left, 1), 1)}" height="{height}" '
            f'fill="{_BAND}"/>'
        )

    # Panels

    def _formula(self, name: str) -> str:
        return str(self.explanation.rules.aggregates[name])

    def _panel(self, name: str, top: int) -> Iterator[str]:
        dots = self._dots(name)
        numbers = [float(dot.value) for each in dots.values() for dot in each if dot.value is not None]
        low, high = min([0.0, *numbers]), max([0.0, *numbers])
        height = (high if high > low else low + 1) - low

        def scale(value: float) -> float:
            return round(top + _PANEL + (value - low) / height * (8 - _PANEL), 1)

        most = int((self.left - 16) / LETTER)
        yield text(
            self.left - 12, top + 20, shortened(name, most - 3), INK, anchor="end", size=12, weight="600"
        )
        yield text(self.left - 12, top + 36, shortened(self._formula(name), most), anchor="end")
        zero = scale(0.0)
        yield line(self.left, zero, self.right, zero, "#d1d5db")
        yield text(self.left - 6, zero + 4, "0", anchor="end", size=10)
        for each in dots.values():
            yield from self._steps(each, scale)
        shown = [dot for each in dots.values() for dot in each if dot.value is not None]
        labels = Labels(Box(self.left, top - 14, _WIDTH - 2, top + _PANEL + _GAP - 8))
        labels.boxes += [Box.around(dot.x, scale(float(dot.value)), self.radius) for dot in shown]
        for dot in shown:
            yield self._dot(dot, scale)
        # The number that stands in the end is labelled first.
        for dot in [*shown[-1:], *shown[:-1]]:
            label = _short(dot.value)
            place = labels.place(dot.x, scale(float(dot.value)), label, self.radius)
            if place is not None:
                yield text(*place, label, INK, anchor="middle", halo=True)

    def _dots(self, name: str) -> Mapping[Window, Sequence[_Dot]]:
        """By window, the value after each pane: None where it was taken back. Discarding panes add up."""
        adds = self.explanation.rules.accumulation is Accumulation.DISCARDING
        dots: dict[Window, list[_Dot]] = {}
        beside: Counter[int] = Counter()
        for published in self.explanation.panes:
            pane, at = published.pane, self.explanation.drawn_at(published)
            if at is None:
                continue
            line = dots.setdefault(pane.window, [])
            stated = pane.values.get(name)
            value = stated if is_number(stated) else None
            # Panes of one moment stand side by side. A retract stands where the next pane does.
            x = self.time(at, beside[at])
            if pane.op is Op.RETRACT:
                line.append(_Dot(x, None, published))
                continue
            beside[at] += 1
            if adds and value is not None and line and line[-1].value is not None:
                value = self.explanation.rules.aggregates[name].add_up([line[-1].value, value])
            line.append(_Dot(x, value, published))
        return dots

    def _steps(self, dots: Sequence[_Dot], scale: _Scale) -> Iterator[str]:
        """Each value until the next; the last one to the right edge."""
        following = [*(dot.x for dot in dots[1:]), float(self.right)]
        level: float | None = None
        for dot, until in zip(dots, following, strict=True):
            if dot.value is None:
                # A value that is replaced at once goes on from where it was.
                level = level if until == dot.x else None
                continue
            y = scale(float(dot.value))
            if level is not None and level != y:
                yield line(dot.x, level, dot.x, y, PALE, 1.5)
            yield line(dot.x, y, until, y, PALE, 1.5)
            level = y

    def _dot(self, dot: _Dot, scale: _Scale) -> str:
        pane = dot.published.pane
        at = self.explanation.drawn_at(dot.published)
        tip = f"{_short(dot.value)}: {pane.sequence} {pane.timing}, batch {pane.batch}, {_full(at or 0)}"
        return (
            f'<circle cx="{round(dot.x, 1)}" cy="{scale(float(dot.value))}" r="{self.radius}" '
            f'fill="{COLOURS[pane.timing]}" stroke="white"><title>{safe(tip)}</title></circle>'
        )

    # Events

    def _row_name(self, fate: Fate) -> str:
        return f"{FATES[fate][0]} ({len(self._events(fate))})"

    def _ticks(self) -> Iterator[str]:
        top = _TOP + len(self.panels) * (_PANEL + _GAP)
        for number, fate in enumerate(self.rows):
            colour = FATES[fate][1]
            y = top + number * _ROW
            yield text(self.left - 12, y + 11, self._row_name(fate), anchor="end")
            for x in sorted({self.time(each.event.arrival_time) for each in self._events(fate)}):
                yield line(x, y + 2, x, y + 12, colour, 1.5)

    def _diagram(self) -> Diagram:
        """Event time against arrival time, of its events."""
        explanation, on_time = self.explanation, self._events(Fate.ON_TIME)
        late = [
            Point(each.event.arrival_time, each.event.event_time, fate, each.event.behind)
            for fate in self.rows
            if fate is not Fate.ON_TIME
            for each in self._events(fate)
        ]
        arrivals = [each.event.arrival_time for each in on_time] + [each.arrival for each in late]
        arrivals += [at for at, _ in explanation.watermarks]
        start, end = explanation.window
        return Diagram(
            self._title(),
            min(arrivals),
            max(arrivals),
            [explanation.window] if end - start < _AGES else [],
            explanation.watermarks,
            explanation.rules.allowed_lateness if explanation.rules.late.accepts else 0,
            [(each.event.arrival_time, each.event.event_time) for each in some(on_time, diagram.MOST_DOTS)],
            some(late, diagram.MOST_MARKS),
        )

    def _clock(self) -> Iterator[str]:
        y = self.life_height - _BOTTOM + 6
        yield line(self.left, y, self.right, y, PALE)
        yield from clock(self.time, y)
        gaps = self.time.gaps()
        for gap in gaps:
            yield line(gap.x - 4, y + 4, gap.x, y - 4, "white", 3)
            for shift in (-3, 2):
                yield line(gap.x + shift - 2, y + 4, gap.x + shift + 2, y - 4, PALE)
            yield text(gap.x, y - 7, gap.length, anchor="middle", size=9, halo=True)
        fired = self.explanation.by_arrival or self.explanation.clock is Clock.ARRIVAL
        known = "what fired it had arrived" if fired else "its batch had ended"
        shortening = "; long gaps are shortened" if gaps else ""
        words = f"arrival clock, {current_zone()}; a pane stands where {known}{shortening}"
        yield text(self.right, y + 50, words, anchor="end")


def _short(value: Any) -> str:
    """A value for a label: large numbers in groups of three, without what is after the point.

    >>> _short(1234567), _short(0.123456), _short(Decimal("9012721.22"))
    ('1,234,567', '0.1235', '9,012,721')
    """
    whole = isinstance(value, int) or (isinstance(value, Decimal) and value == value.to_integral_value())
    if whole:
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1000 <= abs(value) < _LARGE else f"{float(value):,.4g}"


def _full(micros: int) -> str:
    moment = on_the_wall(micros)
    whole = moment.replace(microsecond=0) == moment
    return moment.strftime("%Y-%m-%d %H:%M:%S" if whole else "%Y-%m-%d %H:%M:%S.%f")


HEIGHT, LETTER = 11, 7.0
"""The size of a label's letters in wide fonts."""


@dataclass(frozen=True)
class Box:
    """A rectangle on paper."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, x: float, y: float, radius: float) -> Box:
        return cls(x - radius, y - radius, x + radius, y + radius)

    def meets(self, other: Box) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)

    def inside(self, other: Box) -> bool:
        wide = other.left <= self.left and self.right <= other.right
        return wide and other.top <= self.top and self.bottom <= other.bottom


@dataclass
class Labels:
    """The labels of one panel."""

    within: Box
    boxes: list[Box] = field(default_factory=list)

    def place(self, x: float, y: float, text: str, radius: float) -> tuple[float, float] | None:
        """The middle of the label's baseline, above the dot if possible; None where there is no room."""
        half = LETTER * len(text) / 2
        for middle, base in _candidates(x, y, half, radius):
            box = Box(middle - half, base - HEIGHT + 2, middle + half, base + 2)
            if box.inside(self.within) and not any(box.meets(other) for other in self.boxes):
                self.boxes.append(box)
                return round(middle, 1), round(base, 1)
        return None


def _candidates(x: float, y: float, half: float, radius: float) -> Iterator[tuple[float, float]]:
    """Above, below, at the right, at the left; then further away."""
    for away in (radius + 4, radius + 16):
        yield x, y - away
        yield x, y + away + HEIGHT - 3
        yield x + half + away, y + 4
        yield x - half - away, y + 4
        yield x + half, y - away
        yield x - half, y - away


def shortened(text: str, most: int) -> str:
    """A text cut to a length; an ellipsis marks the cut.

    >>> shortened("electronics", 8)
    'elect…cs'
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 3
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"
