"""Plots as SVG, written by hand: shapes and text, colours by class, so that the page decides how they look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor as floor_of
from math import log10

from latecomer.model.counting import counted
from latecomer.model.durations import UNITS, shown_duration
from latecomer.model.markup import escape
from latecomer.model.written_values import in_percent

WIDTH, HEIGHT = 640, 310
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 20, 70, 40
_ROW = 15
"""The distance of the names of upright lines, one above the other, so that none covers another."""
_LETTER = 6.5
"""The width of a letter, about."""
_LEAST_ROOM = 1e-4
"""The axis of shares is at least so long: on a finer one there is no room for the digits."""
_ALL_ROOM = 0.01
"""The length of the axis where every share is 100 %."""
_MARKS = [
    *(each * UNITS["ms"] for each in (1, 10, 100)),
    *(each * UNITS["s"] for each in (1, 10)),
    *(each * UNITS["m"] for each in (1, 10)),
    *(each * UNITS["h"] for each in (1, 6)),
    *(each * UNITS["d"] for each in (1, 7, 30)),
]
_FINER = [
    each * UNITS[unit] for unit, each in (("s", 30), ("m", 5), ("m", 30), ("h", 3), ("h", 12), ("d", 3))
]
"""Also marked, where there is room in between."""


class _Time:
    """A scale of durations: logarithms above a first step, with room for zero at the left."""

    def __init__(self, least: int, most: int) -> None:
        self.least = max(least, 1)
        self.most = max(most, self.least * 10)
        self._span = log10(self.most / self.least)

    def __call__(self, duration: float) -> float:
        start = _LEFT + 30
        if duration < self.least:
            return float(_LEFT + 8)
        share = log10(duration / self.least) / self._span
        return round(start + min(share, 1.0) * (WIDTH - _RIGHT - start), 1)

    def marks(self) -> Iterator[tuple[float, str]]:
        yield self(0), "0"
        places = [self(0)]
        for mark in (*_MARKS, *_FINER):
            x = self(mark)
            if self.least <= mark <= self.most and all(abs(x - other) > 44 for other in places):
                places.append(x)
                yield x, shown_duration(mark)


def _y(share: float) -> float:
    return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)


def _frame(title: str, scale: _Time, levels: Sequence[tuple[float, str]], below: str) -> Iterator[str]:
    yield f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
    for share, name in levels:
        yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{_y(share)}" y2="{_y(share)}"/>'
        yield f'<text class="tick" x="{_LEFT - 6}" y="{_y(share) + 4}" text-anchor="end">{escape(name)}</text>'
    for x, name in scale.marks():
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{_y(1)}" y2="{_y(0)}"/>'
        yield f'<text class="tick" x="{x}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">{escape(name)}</text>'
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    yield f'<text class="tick" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(below)}</text>'
    yield f'<text class="tick" x="4" y="{_TOP - 10}">share of events</text>'


def _uprights(scale: _Time, marks: Sequence[tuple[str, int, str]]) -> Iterator[str]:
    """Lines at durations, with their names above the plot, where there are no bars. No line crosses a name: a name is
    left of its line, and lines further left begin below it. A name without room at the left is at the right of its
    line, above all other names there."""
    placed = [(scale(at), name, kind) for name, at, kind in marks]
    with_room = [(x > _LEFT + 10 + _LETTER * len(name), x, name, kind) for x, name, kind in placed]
    rows = sorted(with_room, key=lambda mark: (mark[0], -mark[1] if mark[0] else mark[1]))
    for row, (_, x, _, kind) in enumerate(rows):
        yield f'<line class="{kind}" x1="{x}" x2="{x}" y1="{4 + row * _ROW}" y2="{_y(0)}"/>'
    for row, (room, x, name, kind) in enumerate(rows):
        at, anchor = (x - 5, "end") if room else (x + 5, "start")
        above = 12 + row * _ROW
        yield f'<text class="{kind}-name" x="{at}" y="{above}" text-anchor="{anchor}">{escape(name)}</text>'


def histogram(
    title: str, bars: Sequence[tuple[int, int, int]], marks: Sequence[tuple[str, int, str]], below: str
) -> str:
    """Bars of growing width: how many events are how late. `marks` are upright lines: name, duration and class."""
    positive = [each for each in bars if each[0] > 0]
    scale = _Time(positive[0][0] if positive else 1, bars[-1][1] if bars else 1)
    total = sum(count for *_, count in bars) or 1
    counts = sorted((count for *_, count in bars), reverse=True)
    # One bar that is far above all others is cut off, so that the others can be seen.
    cut = len(counts) > 1 and counts[0] > 3 * counts[1]
    most = (counts[1] * 1.25 if cut else counts[0] if counts else 1) / total
    levels = [(share, in_percent(share * most, 0 if most >= 0.1 else 1)) for share in (0, 0.5, 1)]
    lines = list(_frame(title, scale, levels, below))
    for low, high, count in bars:
        if low <= 0:
            left, width, kind = scale(0) - 5, 10.0, "bar ahead" if high < 0 else "bar"
            left += -9 if high < 0 else 0
        else:
            left = scale(low)
            width, kind = max(scale(high + 1) - left - 1, 1.5), "bar"
        top = _y(min(count / total / most, 1.0))
        height = round(max(_y(0) - top, 1 if count else 0), 1)
        tip = f"{shown_duration(low)} to {shown_duration(high)}: {counted(count, 'event')}"
        lines.append(
            f'<rect class="{kind}" x="{left:.1f}" y="{_y(0) - height:.1f}" width="{width:.1f}" height="{height}">'
            f"<title>{escape(tip)}</title></rect>"
        )
        if cut and count == counts[0]:
            whole = f"{in_percent(count / total, 0)}, cut off"
            lines.append(f'<text class="over" x="{left + width + 4:.1f}" y="{_y(1) + 10}">{whole}</text>')
    lines += _uprights(scale, marks)
    return "\n".join([*lines, "</svg>"])


def curves(
    title: str,
    named: Sequence[tuple[str, Sequence[tuple[int, float]]]],
    marks: Sequence[tuple[str, int, str]],
    below: str,
) -> str:
    """Curves of shares over a delay, on an axis from the smallest share to 100 %."""
    delays = [delay for _, points in named for delay, _ in points]
    positive = sorted(each for each in delays if each > 0)
    scale = _Time(positive[0] if positive else 1, max(delays, default=1))
    least = min((share for _, points in named for _, share in points), default=0.0)
    room = _ALL_ROOM if least >= 1 else min(max((1 - least) * 1.1, _LEAST_ROOM), 1.0)
    floor = 1 - room
    digits = max(0, 1 - floor_of(log10(room * 25)))
    levels = [(nth / 4, in_percent(floor + room * nth / 4, digits)) for nth in range(4)] + [(1.0, "100 %")]
    lines = list(_frame(title, scale, levels, below))
    lines += _uprights(scale, marks)
    for nth, (name, points) in enumerate(named):
        placed = [(scale(delay), _y((share - floor) / room)) for delay, share in points]
        path = " ".join(f"{x},{y}" for x, y in placed)
        lines.append(f'<polyline class="line line{nth}" points="{path}"/>')
        for (x, y), (delay, share) in zip(placed, points, strict=True):
            tip = f"{name}, delay {shown_duration(delay)}: {in_percent(share, 3)}"
            lines.append(
                f'<circle class="dot line{nth}" cx="{x}" cy="{y}" r="3.5"><title>{escape(tip)}</title></circle>'
            )
    return "\n".join([*lines, "</svg>"])
