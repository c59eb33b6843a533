"""Advice as one page of HTML and as one picture: plots as SVG, nothing fetched, light and dark, wide and narrow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from latecomer.model.durations import format_duration, shown_duration
from latecomer.model.lateness.sweep import WhatIf
from latecomer.model.markup import escape
from latecomer.observe.advise.plots import HEIGHT, WIDTH, curves, histogram
from latecomer.observe.advise.report import Distribution, OutputReport, Report
from latecomer.observe.advise.words import (
    DELAYS,
    Table,
    about,
    about_estimates,
    about_sample,
    by_group,
    findings,
    measured,
    precision,
    present_setting,
    sentence,
    title_of,
    what_ifs,
)

_MOST_ROWS = 60
_SCALE = "delay, on a scale of logarithms"
_HEAD, _TITLE, _EDGE = 56, 30, 16
_COLOURS = ("one", "three")
"""Of the curves."""

STYLE = """
.advice { --ink:#1b1f24; --pale:#59636e; --paper:#ffffff; --card:#f6f8fa; --rule:#d1d9e0; --one:#0969da; --two:#bc4c00;
  --three:#8250df; --warn:#9a6700; --warn-paper:#fff8c5; color:var(--ink); background:var(--paper);
  font:15px/1.5 system-ui,sans-serif; }
@media (prefers-color-scheme: dark) { .advice { --ink:#e6edf3; --pale:#9198a1; --paper:#0d1117; --card:#151b23;
  --rule:#3d444d; --one:#4493f8; --two:#f0883e; --three:#ab7df8; --warn:#d29922; --warn-paper:#272115; } }
.advice h1 { font-size:1.6rem; margin:0 0 .2rem; overflow-wrap:anywhere }
.advice h2 { font-size:1.15rem; margin:2rem 0 .4rem }
.advice h3 { font-size:1rem; margin:1rem 0 .3rem }
.advice p { margin:.3rem 0 }
.advice .pale { color:var(--pale) }
.advice .pair { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr)); gap:1rem }
.advice .card { background:var(--card); border:1px solid var(--rule); border-radius:8px;
  padding:.8rem 1rem; min-width:0 }
.advice .card h3 { margin-top:0 }
.advice .scroll { overflow-x:auto; margin-top:.4rem }
.advice .scroll > svg { min-width:32rem }
.advice table { border-collapse:collapse;
  font-variant-numeric:tabular-nums; font-size:.9rem }
.advice th,.advice td { padding:.25rem .7rem; text-align:right;
  border-bottom:1px solid var(--rule); white-space:nowrap }
.advice th { color:var(--pale); font-weight:600; vertical-align:bottom }
.advice th:first-child,.advice td:first-child { text-align:left; padding-left:0 }
.advice .setting { margin:.6rem 0 }
.advice .numbers { display:grid; grid-template-columns:repeat(auto-fill,minmax(5.5rem,1fr)); gap:.3rem;
  font-variant-numeric:tabular-nums; font-size:.9rem; margin:.5rem 0 }
.advice .curve svg { max-width:46rem }
.advice details { margin:.5rem 0 }
.advice summary { cursor:pointer; color:var(--one) }
.advice svg .over { fill:var(--pale) }
.advice td.cut { max-width:20rem; overflow:hidden; text-overflow:ellipsis }
.advice tr.advised td { font-weight:600; color:var(--one) }
.advice code { font:.9em ui-monospace,monospace }
.advice .warning { background:var(--warn-paper); border-left:4px solid var(--warn);
  padding:.4rem .8rem; margin:.4rem 0 }
.advice svg { display:block; width:100%; height:auto; font:12px system-ui,sans-serif }
.advice svg .grid { stroke:var(--rule); stroke-width:1 }
.advice svg .tick { fill:var(--pale) }
.advice svg .bar { fill:var(--one) }
.advice svg .ahead { fill:var(--two) }
.advice svg .line { fill:none; stroke-width:2.5 }
.advice svg .dot { stroke:var(--card); stroke-width:1 }
.advice svg .line0 { stroke:var(--one) }
.advice svg .line1 { stroke:var(--three) }
.advice svg circle.line0 { fill:var(--one) }
.advice svg circle.line1 { fill:var(--three) }
.advice svg .mark { stroke:var(--two); stroke-width:1.5;
  stroke-dasharray:5 3 }
.advice svg .mark-name { fill:var(--two) }
.advice svg .now { stroke:var(--ink); stroke-width:1.5; stroke-dasharray:5 3 }
.advice svg .now-name { fill:var(--ink) }
.advice svg .bend { stroke:var(--three); stroke-width:1.5;
  stroke-dasharray:2 3 }
.advice svg .bend-name { fill:var(--three) }
.advice .key { display:inline-block; width:1.4em; height:.25em; vertical-align:middle; margin-right:.4em }
"""


class Advice(Report):
    """How late events are, what settings would mean, which groups are late, and what is advised."""

    def _repr_html_(self) -> str:
        """A part of a page, for notebooks."""
        return "\n".join([f"<style>{STYLE}</style>", '<div class="advice">', *_body(self), "</div>"])

    def html(self) -> str:
        """One page with plots, which loads nothing else."""
        title = escape(f"How late events come: {self.title}")
        head = (
            '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>{title}</title><style>html{{background:Canvas}}body{{margin:0}}"
            ".advice{max-width:72rem;margin:auto;padding:1.5rem 1rem 3rem}"
            "@media (prefers-color-scheme: dark){html{background:#0d1117}}</style>"
        )
        body = f"<body>\n{self._repr_html_()}\n</body>"
        return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n{body}</html>\n'

    def svg(self) -> str:
        """The plots as one picture, for a document or a slide: in plain colours on white, with no script."""
        plots = list(_plots(self))
        height = _HEAD + len(plots) * (_TITLE + HEIGHT) + _EDGE
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + 2 * _EDGE} {height}" '
            f'width="{WIDTH + 2 * _EDGE}" height="{height}" '
            'font-family="system-ui, sans-serif" font-size="12" role="img">',
            f"<title>{escape(f'How late events come: {self.title}')}</title>",
            f"<style>{_plain_style()}</style>",
            f'<rect width="100%" height="{height}" fill="white"/>',
            f'<text x="{_EDGE}" y="24" font-size="17" font-weight="600">{escape(self.title)}</text>',
            f'<text class="tick" x="{_EDGE}" y="42">{measured(self)}</text>',
        ]
        for nth, (title, plot) in enumerate(plots):
            top = _HEAD + nth * (_TITLE + HEIGHT)
            lines.append(f'<text x="{_EDGE}" y="{top + 20}" font-size="14" font-weight="600">{title}</text>')
            placed = f'<svg x="{_EDGE}" y="{top + _TITLE}" width="{WIDTH}" height="{HEIGHT}" '
            lines.append(plot.replace("<svg ", placed, 1))
        return "\n".join([*lines, "</svg>"]) + "\n"


def _plots(report: Report) -> Iterator[tuple[str, str]]:
    for title, _, _, plot in delay_plots(report):
        yield escape(title), plot
    for output in report.outputs:
        names = " ".join(
            f'<tspan class="line{nth}" font-weight="400" font-size="12">● {escape(name)}</tspan>'
            for nth, (name, _) in enumerate(curves_of(output, report))
        )
        yield f"Completeness by delay: {escape(title_of(output, report))} {names}", curve_plot(output, report)


def _plain_style() -> str:
    """The page's light style for plots, without variables, which many programs that show pictures do not know."""
    colours = dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{6})", STYLE.partition("@media")[0]))
    rules = re.findall(r"^\.advice svg ([^{]*\{[^}]*\})", STYLE, re.MULTILINE)
    plain = [re.sub(r"var\(--([a-z-]+)\)", lambda used: colours[used[1]], rule) for rule in rules]
    named = [f"tspan.line{nth} {{ fill:{colours[name]}; stroke:none }}" for nth, name in enumerate(_COLOURS)]
    return "\n".join([*plain, *named])


# The plots


def delay_plots(report: Report) -> Iterator[tuple[str, str, Distribution, str]]:
    """Both delays: title, what it is, figures, and a plot of how many events are how late. Of the one that sets the
    delay, the plot has the present delay and the advised one."""
    delay = next((each for each in report.advised if each.field == "watermark.delay"), None)
    for (title, means), delays in zip(DELAYS, (report.age, report.behind), strict=True):
        marks = []
        if delay is not None and delays is report.behind:
            marks = _marks(delay.current, delay.value)
        if delays.elbow is not None:
            marks.append((f"elbow {shown_duration(delays.elbow.delay)}", delays.elbow.delay, "bend"))
        plot = histogram(sentence(title), delays.bars, marks, _SCALE)
        yield sentence(title), f"{sentence(means)}.", delays, plot


def _marks(now: int | None, advised: int | None) -> list[tuple[str, int, str]]:
    """Upright lines at the present delay and at the advised one."""
    named = (("now", now, "now"), ("advised", None if advised == now else advised, "mark"))
    return [(f"{name} {format_duration(at)}", at, kind) for name, at, kind in named if at is not None]


def curve_plot(output: OutputReport, report: Report) -> str:
    """The curves of an output, with its present delay and the one that is advised."""
    marks = _marks(None if output.current is None else output.current.delay, output.advised.delay)
    title = f"Completeness by delay: {title_of(output, report)}"
    return curves(title, curves_of(output, report), marks, _SCALE)


def curves_of(output: OutputReport, report: Report) -> list[tuple[str, list[tuple[int, float]]]]:
    """How complete the numbers of an output are, by delay: when they are published, and after corrections."""
    rows = output.rows(report.sampled)
    named = [("on time", sorted({row["delay"]: row["on_time_share"] for row in rows}.items()))]
    if output.accepts and output.advised.lateness:
        grace = output.advised.lateness
        complete = {r["delay"]: r["completeness"] for r in rows if r["allowed_lateness"] == grace}
        named.append((f"with corrections for {format_duration(grace)}", sorted(complete.items())))
    return named


# The page


def _body(report: Report) -> Iterator[str]:
    what = "the log of pipeline" if report.kind == "log" else "raw files"
    yield f"<h1>{escape(report.title)}</h1>"
    yield _pale(f"How late events come: {what}, {measured(report)}")
    yield from (_pale(f"{sentence(text)}.") for text in about_sample(report))
    yield "<h2>Advice</h2>"
    for caution in report.cautions:
        yield f'<p class="warning">{escape(caution)}</p>'
    for each in report.advised:
        yield (
            f'<p class="setting"><code>{escape(each.field)}: <b>{each.written}</b></code> '
            f'<span class="pale">{present_setting(each, report)}<br>{escape(each.reason)}</span></p>'
        )
    yield "<h2>Two delays</h2>"
    yield '<div class="pair">'
    for title, means, delays, plot in delay_plots(report):
        yield f'<div class="card"><h3>{title}</h3>{_pale(means)}<div class="scroll">{plot}</div>'
        numbers = (
            f"<div><span class=pale>{name}</span><br>{value}</div>" for name, value in delays.figures.items()
        )
        yield f'<div class="numbers">{"".join(numbers)}</div>'
        yield from (f"<p>{sentence(text)}.</p>" for text in about(delays))
        yield "</div>"
    yield "</div>"
    for title, table in by_group(report):
        yield f"<h2>{escape(sentence(title))}</h2>"
        yield from _table(table)
    for output in report.outputs:
        yield from _output(output, report)
    for title, found in findings(report):
        yield f"<h2>{escape(sentence(title))}</h2>"
        yield from [f"<p>{sentence(found)}.</p>"] if isinstance(found, str) else _table(found)
    yield "<h2>What this rests on</h2>"
    for note in report.notes:
        yield f"<p>{escape(note)}</p>"
    yield (
        f"<p>{sentence(precision(report))}. The elbow is where the share of events that came in time is furthest above "
        "the straight line between no delay and p99.99.</p>"
    )


def _pale(text: str) -> str:
    return f'<p class="pale">{escape(text)}</p>'


def _table(table: Table, marked: Sequence[bool] = ()) -> Iterator[str]:
    heads, *rows = table
    yield '<div class="scroll"><table>'
    yield "<tr>" + "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr>"
    for nth, row in enumerate(rows[:_MOST_ROWS]):
        cells = [
            f"<td{' class=cut' if not place else ''}>{escape(cell)}</td>" for place, cell in enumerate(row)
        ]
        yield f"<tr{' class=advised' if nth < len(marked) and marked[nth] else ''}>{''.join(cells)}</tr>"
    yield "</table></div>"
    if len(rows) > _MOST_ROWS:
        yield _pale(f"{len(rows) - _MOST_ROWS:,} more are in the JSON.")


def _output(output: OutputReport, report: Report) -> Iterator[str]:
    yield f"<h2>What settings would mean: {escape(title_of(output, report))}</h2>"
    keys = (
        f'<span class="key" style="background:var(--{colour})"></span>{escape(what)} '
        for colour, (what, _) in zip(_COLOURS, curves_of(output, report), strict=False)
    )
    yield f'<div class="card curve"><p class="pale">{escape(output.window)}. {"".join(keys)}</p>'
    yield f'<div class="scroll">{curve_plot(output, report)}</div></div>'
    usual = output.usual
    yield from _what_ifs(output, usual, report)
    if len(usual) < len(output.settings):
        yield f"<details><summary>All {len(output.settings)} settings</summary>"
        yield from _what_ifs(output, output.settings, report)
        yield "</details>"
    yield from (_pale(f"{sentence(text)}.") for text in about_estimates(output))


def _what_ifs(output: OutputReport, settings: Sequence[WhatIf], report: Report) -> Iterator[str]:
    marked = [each.setting == output.advised for each in settings]
    return _table(what_ifs(output, settings, report), marked)
