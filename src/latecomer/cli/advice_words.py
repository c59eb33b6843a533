"""Advice in words, as `latecomer advise` prints it."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from latecomer.errors.harmless import harmless
from latecomer.model.durations import format_duration, shown_duration
from latecomer.observe.advise.report import Distribution, OutputReport, Report
from latecomer.observe.advise.words import (
    DELAYS,
    P99,
    Table,
    about,
    about_estimates,
    about_sample,
    by_group,
    findings,
    measured,
    precision,
    present_setting,
    title_of,
    what_ifs,
)

_WIDTH = 40
_MOST_LINES = 12
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


def advice_in_words(advice: Report) -> Iterator[str]:
    what = "the log of pipeline " if advice.kind == "log" else ""
    yield f"{what}{advice.title}: {measured(advice)}"
    yield from about_sample(advice)
    for (title, means), delays in zip(DELAYS, (advice.age, advice.behind), strict=True):
        yield from ("", f"{title} ({means})")
        yield from _distribution(delays)
    for title, table in by_group(advice):
        yield from ("", title)
        yield from _table(table)
    for output in advice.outputs:
        yield ""
        yield from _what_ifs(output, advice)
    for title, found in findings(advice):
        yield from ("", title)
        yield from [f"  {found}"] if isinstance(found, str) else _table(found)
    yield from ("", "advice")
    for each in advice.advised:
        now = present_setting(each, advice)
        yield f"  {each.field}: {each.written}" + (f"   ({now})" if now else "")
        yield f"      {each.reason}"
    yield from (f"warning: {caution}" for caution in advice.cautions)
    yield from (f"note: {note}" for note in (*advice.notes, precision(advice)))


def _distribution(delays: Distribution) -> Iterator[str]:
    yield "  " + "   ".join(f"{name} {value}" for name, value in delays.figures.items())
    yield from (f"  {text}" for text in about(delays))
    bars = _few(delays.bars)
    most = max((count for *_, count in bars), default=1)
    for _, high, count in bars:
        name = "below 0" if high < 0 else f"to {shown_duration(high)}" if high else "0"
        yield f"  {name:>14} {_bar(count / most)} {count:,}"


def _few(bars: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Neighbouring bars put together, so that there are a dozen or so."""
    step = -(-len(bars) // _MOST_LINES)
    if step < 2:
        return list(bars)
    fixed = [each for each in bars if each[1] <= 0]
    rest = bars[len(fixed) :]
    return fixed + [
        (
            rest[nth][0],
            rest[min(nth + step, len(rest)) - 1][1],
            sum(each[2] for each in rest[nth : nth + step]),
        )
        for nth in range(0, len(rest), step)
    ]


def _bar(share: float) -> str:
    eighths = round(share * _WIDTH * 8)
    whole, rest = divmod(max(eighths, 1 if share > 0 else 0), 8)
    return ("█" * whole + _EIGHTHS[rest]).ljust(_WIDTH)


def _table(table: Table) -> Iterator[str]:
    """The first rows of a table, and how many more there are."""
    shown = table[: _MOST_LINES + 1]
    rest = len(table) - len(shown)
    more = [[f"… {rest:,} more, in --format json", *[""] * (len(shown[0]) - 1)]] if rest else []
    return _lines([*shown, *more])


def _lines(table: Table) -> Iterator[str]:
    """The lines of a table. On a terminal that is too narrow, each word of a heading has a line of its own."""
    cells = [[harmless(cell) for cell in row] for row in table]
    widths = _widths(cells)
    if sys.stdout.isatty() and sum(widths) + 2 * len(widths) > shutil.get_terminal_size().columns:
        words = [re.findall("[^ /]+|/[^ /]+", head) for head in cells[0]]
        tall = max(map(len, words))
        cells[:1] = [
            list(line) for line in zip(*([""] * (tall - len(each)) + each for each in words), strict=True)
        ]
        widths = _widths(cells)
    for row in cells:
        first = row[0] + " " * (widths[0] - cell_len(row[0]))
        rest = [
            " " * (width - cell_len(cell)) + cell for cell, width in zip(row[1:], widths[1:], strict=True)
        ]
        yield ("  " + "  ".join([first, *rest])).rstrip()


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column: that of its widest cell, without the line on how many rows are left out."""
    last = len(cells) - 1 if cells[-1][0].startswith("…") else len(cells)
    return [max(cell_len(row[nth]) for row in cells[:last]) for nth in range(len(cells[0]))]


def _what_ifs(output: OutputReport, advice: Report) -> Iterator[str]:
    yield f"what settings would mean: {title_of(output, advice)} ({output.window})"
    settings = output.usual
    marks = {output.current: "← now", output.advised: "← advised"}
    heads, *rows = what_ifs(output, settings, advice)
    narrow = heads.index(P99)
    marked = [[*heads, ""]]
    marked += [[*row, marks.get(each.setting, "")] for each, row in zip(settings, rows, strict=True)]
    yield from _lines([[*row[:narrow], *row[narrow + 1 :]] for row in marked])
    yield from (f"  {text}" for text in about_estimates(output))
    yield from ("", "  late, by delay")
    first = [each for each in settings if not each.setting.lateness or each.setting == output.advised]
    bars = {each.setting.delay: 1 - each.on_time_share for each in first}
    most = max(bars.values(), default=0.0) or 1.0
    for wait, share in sorted(bars.items()):
        yield f"  {format_duration(wait):>10} {_bar(share / most)} {share:.3%}"
