"""Advice in words, as `latecomer advise` prints it."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len

from latecomer.errors.harmless import harmless
from latecomer.model.counting import counted
from latecomer.model.durations import format_duration, shown_duration
from latecomer.model.lateness.advice import percentile
from latecomer.model.zoned import written
from latecomer.observe.advise.report_tables import (
    P99,
    Table,
    biases,
    delays_by_group,
    skews,
    what_ifs,
    who_is_late,
)

if TYPE_CHECKING:
    from latecomer.observe.advise.report import Advice, Distribution, OutputReport

_WIDTH = 40
_MOST_LINES = 12
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


def advice_in_words(advice: Advice) -> Iterator[str]:
    what = "the log of pipeline " if advice.kind == "log" else ""
    when = f"from {written(advice.since)} to {written(advice.until)}"
    yield f"{what}{advice.title}: {counted(advice.events, 'event')} that arrived {when}"
    if advice.sample is not None:
        yield (
            f"a sample of {advice.sample:.3g} of {advice.of_events:,}; a share is right to within "
            f"{advice.sampling_error or 0:.2%} (95 %)"
        )
    yield ""
    yield "how old events are when they come (arrival − event time)"
    yield from _distribution(advice.age)
    yield ""
    yield "how far they come behind the newest of their partition (this alone sets the delay)"
    yield from _distribution(advice.behind)
    for column, table in delays_by_group(advice):
        yield ""
        yield f"by {column} ({len(table) - 1:,})"
        yield from _table(table)
    for output in advice.outputs:
        yield ""
        yield from _what_ifs(output, advice)
    yield from _who(advice)
    yield ""
    yield "advice"
    for each in advice.advised:
        current = "not set" if each.current is None else format_duration(each.current)
        now = "as it is" if not each.changes else f"now {current}" if advice.kind == "log" else ""
        yield f"  {each.field}: {each.written}" + (f"   ({now})" if now else "")
        yield f"      {each.reason}"
    for caution in advice.cautions:
        yield f"warning: {caution}"
    for note in advice.notes:
        yield f"note: {note}"
    yield (
        f"note: percentiles are never too small, and too large by {advice.precision:.1%} at most "
        f"({advice.group_precision:.1%} for partitions and groups)"
    )


def _distribution(distribution: Distribution) -> Iterator[str]:
    yield (
        "  "
        + "   ".join(
            f"{percentile(share)} {shown_duration(value)}"
            for share, value in distribution.percentiles.items()
        )
        + f"   most {shown_duration(distribution.most)}"
    )
    if distribution.negative:
        least = shown_duration(distribution.least)
        yield f"  {distribution.negative:,} are negative, down to {least}: clocks that are ahead"
    bend = distribution.elbow
    if bend is None:
        yield "  no elbow: waiting longer pays evenly, or there is too little to tell"
    else:
        yield (
            f"  elbow at {shown_duration(bend.delay)} ({shown_duration(bend.low)} to {shown_duration(bend.high)} are "
            f"as good), enough for {bend.completeness:.2%}; sharpness {bend.sharpness:.2f} of 1"
        )
    most = max((count for *_, count in _few(distribution.bars)), default=1)
    for _, high, count in _few(distribution.bars):
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


def _what_ifs(output: OutputReport, advice: Advice) -> Iterator[str]:
    name = output.name if advice.kind == "log" else "supposed"
    yield f"what settings would mean: {name} ({output.window})"
    settings = output.usual
    marks = {output.current: "← now", output.advised: "← advised"}
    heads, *rows = what_ifs(output, settings, advice.sample is not None)
    narrow = heads.index(P99)
    marked = [[*heads, ""]]
    marked += [[*row, marks.get(each.setting, "")] for each, row in zip(settings, rows, strict=True)]
    yield from _lines([[*row[:narrow], *row[narrow + 1 :]] for row in marked])
    error = max((each.error for each in output.settings), default=0.0)
    if error:
        yield f"  panes and states are estimated, to within {2 * error:.1%} (95 %)"
    yield ""
    yield "  late, by delay"
    first = [each for each in settings if not each.setting.lateness or each.setting == output.advised]
    bars = {each.setting.delay: 1 - each.on_time_share for each in first}
    most = max(bars.values(), default=0.0) or 1.0
    for wait, share in sorted(bars.items()):
        yield f"  {format_duration(wait):>10} {_bar(share / most)} {share:.3%}"


def _who(advice: Advice) -> Iterator[str]:
    delay = format_duration(advice.late_delay)
    if advice.groups:
        yield ""
        yield f"who is late (more than {delay} behind)"
        if advice.late_groups:
            yield from _table(who_is_late(advice))
        else:
            yield "  no group is late more often than the others, as far as this history tells"
    if len(table := biases(advice)) > 1:
        yield ""
        yield f"bias, if what is late under a delay of {delay} were dropped"
        yield from _table(table)
    if advice.skews:
        yield ""
        yield "clocks that are ahead (events that come before they happen)"
        yield from _table(skews(advice))
