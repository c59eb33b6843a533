"""Event time against arrival time, as books draw it: SVG, for the page, for `explain` and for notebooks.

The arrival clock runs from left to right, event time upwards. Windows are bands, the watermark is a line. Events above
the line came in time; for those below, colour and shape say what became of them. Shapes have a
class, so that the page can choose its own colours, and a colour for where there is no style sheet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from latecomer.after.explain.picture_axis import TimeAxis
from latecomer.model.durations import format_duration, shown_duration
from latecomer.model.markup import escape
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate
from latecomer.model.windows import Window
from latecomer.model.zoned import current_zone, on_the_wall

FATES = {
    Fate.ON_TIME: ("on time", "#1f5fd0"),
    Fate.LATE_ACCEPTED: ("late, accepted", "#e8a90c"),
    Fate.SIDE_OUTPUT: ("side output", "#a8146a"),
    Fate.DROPPED: ("dropped", "#101418"),
}
"""The fates that are drawn. Their colours differ in lightness too, for readers who do not see all colours."""
MOST_DOTS, MOST_MARKS = 1_500, 400
"""At most so many events are drawn: on time, and late."""
WIDTH, HEIGHT = 920, 430
_LEFT, _RIGHT, _TOP, _BOTTOM = 150, 40, 40, 62
INK, PALE, _RULE, _BAND = "#111827", "#6b7280", "#d1d5db", "#eef2f7"
_BEHIND = f'fill="none" stroke="{PALE}" stroke-width="1.5"'
_ROW = 16
"""The distance between two lines of text."""
_SHAPES = {
    Fate.LATE_ACCEPTED: "M{x},{y}m0,-5l5,9h-10z",
    Fate.SIDE_OUTPUT: "M{x},{y}m-4,-4h8v8h-8z",
    Fate.DROPPED: "M{x},{y}m-4,-4l8,8m0,-8l-8,8",
}

Each = TypeVar("Each")


@dataclass(frozen=True)
class Point:
    """An event that is drawn by itself."""

    arrival: int
    event_time: int
    fate: Fate
    behind: int | None = None
    """How far the watermark was past it."""


@dataclass(frozen=True)
class Diagram:
    """The content of a diagram. All times are microseconds."""

    title: str
    since: int
    until: int
    """The interval of arrivals that is drawn."""
    windows: Sequence[Window] = ()
    watermarks: Sequence[tuple[int, int]] = ()
    """The end of each tick on the arrival clock, and the watermark that judged its events; in order."""
    lateness: int = 0
    """How long windows are open to late events."""
    on_time: Sequence[tuple[int, int]] = ()
    """Arrival and event time."""
    late: Sequence[Point] = ()
    unjudged: Sequence[tuple[int, int]] = ()
    """Events behind the watermark that were not judged: arrival and event time."""

    @cached_property
    def known(self) -> list[tuple[int, int]]:
        """The watermarks but for those before all time and after it."""
        return [(at, mark) for at, mark in self.watermarks if BEGIN_OF_TIME < mark < END_OF_TIME]

    @cached_property
    def heights(self) -> tuple[int, int]:
        """The event times at the bottom and at the top. Events far beyond the rest are drawn at the edge."""
        usual = [at for _, at in self.on_time]
        usual += [bound for window in self.windows for bound in window] or [mark for _, mark in self.known]
        late = [each.event_time for each in self.late] + [at for _, at in self.unjudged]
        if not usual:
            usual = late or [self.since, self.until]
        low, high = min(usual), max(usual)
        room = max(high - low, 1)
        return min([low, *(at for at in late if at >= low - room)]), max(high, low + 1)


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1, kind: str = "") -> str:
    ends = f'x1="{round(x1, 1)}" y1="{round(y1, 1)}" x2="{round(x2, 1)}" y2="{round(y2, 1)}"'
    return f'<line{_class(kind)} {ends} stroke="{colour}" stroke-width="{width}"/>'


def text(
    x: float,
    y: float,
    words: str,
    colour: str = PALE,
    anchor: str = "start",
    size: int = 11,
    weight: str = "400",
    halo: bool = False,
    kind: str = "",
) -> str:
    """Text at a place: values of events are shown, never interpreted."""
    around = ' stroke="white" stroke-width="3" paint-order="stroke"' if halo else ""
    return (
        f'<text{_class(kind)} x="{round(x, 1)}" y="{round(y, 1)}" fill="{colour}" text-anchor="{anchor}" '
        f'font-size="{size}" font-weight="{weight}"{around}>{safe(words)}</text>'
    )


def safe(words: str) -> str:
    """Text as XML can have it."""
    return escape(words).translate({0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD})


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def clock(axis: TimeAxis, y: float, line_kind: str = "", text_kind: str = "") -> Iterator[str]:
    """The moments below a time axis."""
    for tick in axis.ticks():
        yield line(tick.x, y, tick.x, y + 5, PALE, kind=line_kind)
        for row, words in enumerate(each for each in (tick.time, tick.date) if each):
            yield text(tick.x, y + 18 + 14 * row, words, anchor="middle", kind=text_kind)


def some(events: Sequence[Each], most: int) -> list[Each]:
    """At most so many of them, evenly chosen, with the first and the last.

    >>> some(range(10), 4)
    [0, 3, 6, 9]
    """
    if len(events) <= most:
        return list(events)
    return [events[nth * (len(events) - 1) // (most - 1)] for nth in range(most)]


def drawn(diagram: Diagram) -> str:
    """The diagram by itself, as SVG text."""
    counted = [
        f"{sum(each.fate is fate for each in diagram.late)} {name}"
        for fate, (name, _) in FATES.items()
        if fate is not Fate.ON_TIME
    ]
    in_words = f"{diagram.title}: event time against arrival time; {', '.join(counted)}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="{safe(in_words)}">'
    )
    paper = f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    return "\n".join([head, paper, *lines(diagram), "</svg>"]) + "\n"


def lines(diagram: Diagram, top: int = 0, across: TimeAxis | None = None) -> Iterator[str]:
    """The shapes of the diagram, for a larger picture, which may have an axis of its own."""
    until = max(diagram.until, diagram.since + 1)
    axis = across or TimeAxis([diagram.since, until], {}, _LEFT, WIDTH - _RIGHT)
    yield from _Drawing(diagram, top + _TOP, axis).lines()


class _Drawing:
    def __init__(self, diagram: Diagram, top: int, across: TimeAxis) -> None:
        self.of, self.top, self.across = diagram, top, across
        self.left, self.right = across.left, across.right
        self.bottom = top + HEIGHT - _TOP - _BOTTOM
        self.low, self.high = diagram.heights
        self.upwards = TimeAxis([self.low, self.high], {}, 0, self.bottom - top)

    def x(self, arrival: int) -> float:
        return min(max(self.across(arrival), self.left), self.right)

    def y(self, event_time: int) -> float:
        return round(self.bottom - self.upwards(min(max(event_time, self.low), self.high)), 1)

    def lines(self) -> Iterator[str]:
        yield from self._bands()
        yield from self._axes()
        yield from self._diagonal()
        yield from self._watermark()
        yield from self._events()
        yield from self._legend()

    def _bands(self) -> Iterator[str]:
        for nth, window in enumerate(self.of.windows):
            top, bottom = self.y(window.end), self.y(window.start)
            if nth % 2 == 0 and bottom > top:
                size = f'width="{self.right - self.left}" height="{round(bottom - top, 1)}"'
                yield f'<rect class="window" x="{self.left}" y="{top}" {size} fill="{_BAND}"/>'
        for bound in sorted({bound for window in self.of.windows for bound in window}):
            yield line(self.left, self.y(bound), self.right, self.y(bound), _RULE, kind="grid")

    def _axes(self) -> Iterator[str]:
        yield line(self.left, self.top, self.left, self.bottom, PALE, kind="axis")
        yield line(self.left, self.bottom, self.right, self.bottom, PALE, kind="axis")
        yield from clock(self.across, self.bottom, "axis", "tick")
        for y, words in self._heights():
            yield text(self.left - 8, y + 4, words, anchor="end", kind="tick")
        yield text(self.left - 8, self.top - 12, "event time", anchor="end", kind="tick")
        yield text(self.right, self.bottom + 50, f"arrival time, {current_zone()}", anchor="end", kind="tick")

    def _heights(self) -> list[tuple[float, str]]:
        """The labels beside the plot: where windows begin, if there is room for that."""
        bounds = sorted({bound for window in self.of.windows for bound in window})
        places = [(self.y(at), on_the_wall(at)) for at in bounds if self.low <= at <= self.high]
        if len(places) > 1 and all(one - other >= _ROW for (one, _), (other, _) in pairwise(places)):
            seconds = any(moment.second or moment.microsecond for _, moment in places)
            form = "%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"
            return [(y, moment.strftime(form)) for y, moment in places]
        return [(self.bottom - tick.x, f"{tick.date} {tick.time}".strip()) for tick in self.upwards.ticks()]

    def _diagonal(self) -> Iterator[str]:
        """Where an event stands that arrives as it happens."""
        ends = self.across.moments[0], self.across.moments[-1]
        first, last = max(ends[0], self.low), min(ends[1], self.high)
        bends = [first, *(at for at in self.across.moments if first < at < last), last]
        if first < last:
            places = " ".join(f"{self.x(at)},{self.y(at)}" for at in bends)
            yield (
                f'<polyline class="ideal" points="{places}" fill="none" stroke="{PALE}" stroke-dasharray="2 4"/>'
            )

    def _watermark(self) -> Iterator[str]:
        for kind, _, shift, look in self._strokes():
            path, before = "", self.of.since
            for at, mark in self.of.known:
                if mark - shift >= self.low:  # what is below the plot is not drawn along its edge
                    y = self.y(mark - shift)
                    path += f"V{y}H{self.x(at)}" if path else f"M{self.x(before)},{y}H{self.x(at)}"
                before = at
            if path:
                yield f'<path class="{kind}" d="{path}" {look}/>'

    def _strokes(self) -> list[tuple[str, str, int, str]]:
        """The watermark, and where windows are settled: class, words, distance to the watermark, look."""
        solid, dashed = 'stroke-width="2"', 'stroke-width="1.2" stroke-dasharray="6 4"'
        strokes = [("watermark", "watermark", 0, f'fill="none" stroke="{INK}" {solid}')]
        if lateness := self.of.lateness:
            words = f"less allowed lateness ({format_duration(lateness)})"
            strokes.append(("settled", words, lateness, f'fill="none" stroke="{INK}" {dashed}'))
        return strokes

    def _events(self) -> Iterator[str]:
        dots = "".join(f"M{self.x(at)},{self.y(time)}h0" for at, time in self.of.on_time)
        if dots:
            colour = FATES[Fate.ON_TIME][1]
            yield (
                f'<path class="came" d="{dots}" fill="none" stroke="{colour}" stroke-width="4" '
                'stroke-linecap="round" stroke-opacity="0.45"/>'
            )
        crosses = "".join(f"M{self.x(at) - 3},{self.y(time)}h6m-3,-3v6" for at, time in self.of.unjudged)
        if crosses:
            yield f'<path class="behind" d="{crosses}" {_BEHIND}/>'
        for each in self.of.late:
            yield self._mark(each.fate, self.x(each.arrival), self.y(each.event_time), _tip(each))

    def _mark(self, fate: Fate, x: float, y: float, tip: str = "") -> str:
        colour, title = FATES[fate][1], f"<title>{safe(tip)}</title>" if tip else ""
        if fate is Fate.ON_TIME:
            return f'<circle class="mark-{fate}" cx="{x}" cy="{y}" r="3" fill="{colour}">{title}</circle>'
        shape = _SHAPES[fate].format(x=x, y=y)
        look = (
            f'fill="none" stroke="{colour}" stroke-width="2"'
            if fate is Fate.DROPPED
            else f'fill="{colour}" stroke="white"'
        )
        return f'<path class="mark-{fate}" d="{shape}" {look}>{title}</path>'

    def _legend(self) -> Iterator[str]:
        x, y = float(self.left), self.top - 24
        named = [fate for fate in FATES if any(each.fate is fate for each in self.of.late)]
        for fate in [Fate.ON_TIME, *named] if self.of.on_time else named:
            words = FATES[fate][0]
            yield self._mark(fate, x + 5, y)
            yield text(x + 14, y + 4, words, kind="tick")
            x += 30 + 6.6 * len(words)
        if self.of.unjudged:
            words = "behind the watermark"
            yield f'<path class="behind" d="M{x + 2},{y}h6m-3,-3v6" {_BEHIND}/>'
            yield text(x + 14, y + 4, words, kind="tick")
            x += 30 + 6.6 * len(words)
        for kind, words, _, look in self._strokes() if self.of.known else []:
            yield f'<path class="{kind}" d="M{x},{y}h22" {look}/>'
            yield text(x + 28, y + 4, words, kind="tick")
            x += 44 + 6.6 * len(words)


def _tip(each: Point) -> str:
    """The tooltip of an event."""
    happened, came = (on_the_wall(at).strftime("%Y-%m-%d %H:%M:%S") for at in (each.event_time, each.arrival))
    behind = "" if each.behind is None else f", {shown_duration(each.behind)} behind the watermark"
    return f"{FATES[each.fate][0]}: happened {happened}, came {came}{behind}"
