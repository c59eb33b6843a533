"""The report as one page of HTML: plots as SVG, nothing fetched, light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from latecomer.model.counting import counted
from latecomer.model.durations import format_duration, shown_duration
from latecomer.model.lateness.advice import Advised, percentile
from latecomer.model.markup import escape
from latecomer.model.zoned import written
from latecomer.observe.advise.plots import curves, histogram
from latecomer.observe.advise.report_tables import (
    Table,
    biases,
    delays_by_group,
    skews,
    what_ifs,
    who_is_late,
)
from latecomer.observe.advise.rows import setting_row

if TYPE_CHECKING:
    from latecomer.model.lateness.sweep import WhatIf
    from latecomer.observe.advise.report import Advice, Distribution, OutputReport

_MOST_ROWS = 60
AGE = "How old events are when they come"
BEHIND = "How far they come behind the newest of their partition"
BEHIND_MEANS = "This alone sets the delay."
NO_ELBOW = "No elbow: waiting longer pays evenly, or there is too little to tell."
SCALE = "delay, on a scale of logarithms"

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
.advice svg .bend { stroke:var(--three); stroke-width:1.5;
  stroke-dasharray:2 3 }
.advice svg .bend-name { fill:var(--three) }
.advice .key { display:inline-block; width:1.4em; height:.25em; vertical-align:middle; margin-right:.4em }
"""


def page(report: Advice) -> str:
    """A whole page."""
    title = escape(f"How late events come: {report.title}")
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><style>html{{background:Canvas}}body{{margin:0}}"
        ".advice{max-width:72rem;margin:auto;padding:1.5rem 1rem 3rem}"
        "@media (prefers-color-scheme: dark){html{background:#0d1117}}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{fragment(report)}\n</body></html>\n'
    )


def fragment(report: Advice) -> str:
    """The report as a part of a page, for notebooks."""
    return "\n".join([f"<style>{STYLE}</style>", '<div class="advice">', *_body(report), "</div>"])


def _body(report: Advice) -> Iterator[str]:
    what = "the log of pipeline" if report.kind == "log" else "raw files"
    yield f"<h1>{escape(report.title)}</h1>"
    yield (
        f'<p class="pale">How late events come: {what}, {counted(report.events, "event")} that arrived from '
        f"{written(report.since)} to {written(report.until)}</p>"
    )
    if report.sample is not None:
        yield (
            f'<p class="pale">A sample of {report.sample:.3g} of {report.of_events:,} events. A share is right to '
            f"within {report.sampling_error or 0:.2%} (95 %).</p>"
        )
    yield "<h2>Advice</h2>"
    for caution in report.cautions:
        yield f'<p class="warning">{escape(caution)}</p>'
    yield from (_advised(each, report) for each in report.advised)
    yield "<h2>Two delays</h2>"
    yield '<div class="pair">'
    yield from _delay_card(AGE, "arrival − event time. It does not set the delay.", report.age, None)
    yield from _delay_card(BEHIND, BEHIND_MEANS, report.behind, advised_delay(report))
    yield "</div>"
    for column, table in delays_by_group(report):
        yield f"<h2>By {escape(column)}</h2>"
        yield from _table(table)
    for output in report.outputs:
        yield from _output(output, report)
    yield from _who(report)
    yield "<h2>What this rests on</h2>"
    for note in report.notes:
        yield f"<p>{escape(note)}</p>"
    yield (
        f"<p>Percentiles are never too small, and too large by {report.precision:.1%} at most "
        f"({report.group_precision:.1%} for partitions and groups). The elbow is where the share of events that came "
        "in time is furthest above the straight line between no delay and p99.99.</p>"
    )


def _advised(each: Advised, report: Advice) -> str:
    now = "not set" if each.current is None else format_duration(each.current)
    current = "" if report.kind != "log" else "as it is" if not each.changes else f"now {now}"
    return (
        f'<p class="setting"><code>{escape(each.field)}: <b>{each.written}</b></code> <span class="pale">{current}<br>'
        f"{escape(each.reason)}</span></p>"
    )


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
        yield f'<p class="pale">{len(rows) - _MOST_ROWS:,} more are in the JSON.</p>'


def delay_plot(title: str, delays: Distribution, advised: int | None, now: int | None = None) -> str:
    """How many events are how late, with the elbow, the advised delay and the present one."""
    named = (("now", now, "now"), ("advised", advised, "mark"))
    marks = [(f"{name} {format_duration(at)}", at, kind) for name, at, kind in named if at is not None]
    if delays.elbow is not None:
        marks.append((f"elbow {shown_duration(delays.elbow.delay)}", delays.elbow.delay, "bend"))
    return histogram(title, delays.bars, marks, SCALE)


def _delay_card(title: str, below: str, delays: Distribution, delay: int | None) -> Iterator[str]:
    yield f'<div class="card"><h3>{escape(title)}</h3><p class="pale">{escape(below)}</p>'
    yield f'<div class="scroll">{delay_plot(title, delays, delay)}</div>'
    shares = {percentile(share): shown_duration(value) for share, value in delays.percentiles.items()}
    shares["most"] = shown_duration(delays.most)
    numbers = "".join(
        f"<div><span class=pale>{name}</span><br>{value}</div>" for name, value in shares.items()
    )
    yield f'<div class="numbers">{numbers}</div>'
    if delays.negative:
        yield f"<p>{delays.negative:,} are negative, down to {shown_duration(delays.least)}: clocks that are ahead.</p>"
    bend = delays.elbow
    if bend is None:
        yield f'<p class="pale">{NO_ELBOW}</p>'
    else:
        yield (
            f"<p>Elbow at {shown_duration(bend.delay)}; {shown_duration(bend.low)} to {shown_duration(bend.high)} are "
            f"as good. It is enough for {bend.completeness:.2%}. Sharpness {bend.sharpness:.2f} of 1.</p>"
        )
    yield "</div>"


def title_of(output: OutputReport, report: Advice) -> str:
    """The heading of an output's settings."""
    return output.name if report.kind == "log" else "supposed windows"


def curves_of(output: OutputReport, report: Advice) -> list[tuple[str, list[tuple[int, float]]]]:
    """How complete the numbers of an output are, by delay: when they are published, and after corrections."""
    rows = [setting_row(each, output, report.sample is not None) for each in output.settings]
    named = [("on time", sorted({row["delay"]: row["on_time_share"] for row in rows}.items()))]
    if output.accepts and output.advised.lateness:
        grace = output.advised.lateness
        complete = {r["delay"]: r["completeness"] for r in rows if r["allowed_lateness"] == grace}
        named.append((f"with corrections for {format_duration(grace)}", sorted(complete.items())))
    return named


def curve_plot(output: OutputReport, report: Advice) -> str:
    """The curves of an output, with the delay that is advised."""
    marks = [(f"advised {format_duration(output.advised.delay)}", output.advised.delay, "mark")]
    title = f"Completeness by delay: {title_of(output, report)}"
    return curves(title, curves_of(output, report), marks, SCALE)


def advised_delay(report: Advice) -> int | None:
    return next(each.value for each in report.advised if each.field == "watermark.delay")


def _output(output: OutputReport, report: Advice) -> Iterator[str]:
    yield f"<h2>What settings would mean: {escape(title_of(output, report))}</h2>"
    yield f'<div class="card curve"><p class="pale">{escape(output.window)}. '
    for nth, (what, _) in enumerate(curves_of(output, report)):
        colour = ("one", "three")[nth]
        yield f'<span class="key" style="background:var(--{colour})"></span>{escape(what)} '
    yield "</p>"
    yield f'<div class="scroll">{curve_plot(output, report)}</div>'
    yield "</div>"
    usual = output.usual
    yield from _what_ifs(output, usual, report)
    if len(usual) < len(output.settings):
        yield f"<details><summary>All {len(output.settings)} settings</summary>"
        yield from _what_ifs(output, output.settings, report)
        yield "</details>"
    error = max((each.error for each in output.settings), default=0.0)
    if error:
        yield f'<p class="pale">Panes and states are estimated, to within {2 * error:.1%} (95 %).</p>'


def _what_ifs(output: OutputReport, settings: Sequence[WhatIf], report: Advice) -> Iterator[str]:
    marked = [each.setting == output.advised for each in settings]
    return _table(what_ifs(output, settings, report.sample is not None), marked)


def _who(report: Advice) -> Iterator[str]:
    beyond = format_duration(report.late_delay)
    if report.groups:
        yield f"<h2>Who is late</h2><p class=pale>More than {beyond} behind the newest of their partition.</p>"
        if report.late_groups:
            yield from _table(who_is_late(report))
        else:
            yield "<p>No group is late more often than the others, as far as this history tells.</p>"
    if len(table := biases(report)) > 1:
        yield f"<h2>Bias, if what is late under a delay of {beyond} were dropped</h2>"
        yield from _table(table)
    if report.skews:
        yield "<h2>Clocks that are ahead</h2><p class=pale>Events that come before they happen.</p>"
        yield from _table(skews(report))
