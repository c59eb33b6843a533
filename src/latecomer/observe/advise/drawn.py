"""The plots of a report as one picture: SVG for a document or a slide, in plain colours on white, with no script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from latecomer.model.counting import counted
from latecomer.model.markup import escape
from latecomer.model.zoned import written
from latecomer.observe.advise.page import (
    AGE,
    BEHIND,
    STYLE,
    advised_delay,
    curve_plot,
    curves_of,
    delay_plot,
    title_of,
)
from latecomer.observe.advise.plots import HEIGHT, WIDTH

if TYPE_CHECKING:
    from latecomer.observe.advise.report import Advice

_HEAD, _TITLE, _EDGE = 56, 30, 16


def drawn(report: Advice) -> str:
    """Both delays, and the curve of each output, one below the other."""
    plots = list(_plots(report))
    height = _HEAD + len(plots) * (_TITLE + HEIGHT) + _EDGE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + 2 * _EDGE} {height}" '
        f'width="{WIDTH + 2 * _EDGE}" height="{height}" font-family="system-ui, sans-serif" font-size="12" role="img">',
        f"<title>{escape(f'How late events come: {report.title}')}</title>",
        f"<style>{_style()}</style>",
        f'<rect width="100%" height="{height}" fill="white"/>',
        f'<text x="{_EDGE}" y="24" font-size="17" font-weight="600">{escape(report.title)}</text>',
        f'<text class="tick" x="{_EDGE}" y="42">{counted(report.events, "event")} that arrived from '
        f"{written(report.since)} to {written(report.until)}</text>",
    ]
    for nth, (title, plot) in enumerate(plots):
        top = _HEAD + nth * (_TITLE + HEIGHT)
        lines.append(f'<text x="{_EDGE}" y="{top + 20}" font-size="14" font-weight="600">{title}</text>')
        placed = f'<svg x="{_EDGE}" y="{top + _TITLE}" width="{WIDTH}" height="{HEIGHT}" '
        lines.append(plot.replace("<svg ", placed, 1))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _plots(report: Advice) -> Iterator[tuple[str, str]]:
    yield escape(AGE), delay_plot(AGE, report.age, None)
    yield escape(BEHIND), delay_plot(BEHIND, report.behind, advised_delay(report))
    for output in report.outputs:
        names = " ".join(
            f'<tspan class="line{nth}" font-weight="400" font-size="12">● {escape(name)}</tspan>'
            for nth, (name, _) in enumerate(curves_of(output, report))
        )
        yield (
            f"{escape(f'Completeness by delay: {title_of(output, report)}')} {names}",
            curve_plot(output, report),
        )


def _style() -> str:
    """The page's light style for plots, without variables, which many programs that show pictures do not know."""
    colours = dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{6})", STYLE.partition("@media")[0]))
    rules = re.findall(r"^\.advice svg ([^{]*\{[^}]*\})", STYLE, re.MULTILINE)
    plain = [re.sub(r"var\(--([a-z-]+)\)", lambda used: colours[used[1]], rule) for rule in rules]
    named = [
        f"tspan.line{nth} {{ fill:{colours[name]}; stroke:none }}"
        for nth, name in enumerate(("one", "three"))
    ]
    return "\n".join([*plain, *named])
