"""`latecomer advise`: how late events come, what settings would mean, and which are advised."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latecomer.cli.options import Format, Formatted, WrongUsage, load
from latecomer.cli.terminal import harmless
from latecomer.model.counting import counted
from latecomer.model.durations import format_duration, shown_duration

if TYPE_CHECKING:
    import pyarrow as pa

    from latecomer.after.advise.report import Advice, Distribution, GroupDelays, OutputReport
    from latecomer.config.models import Pipeline
    from latecomer.model.lateness.groups import Interval

_WIDTH = 40
_MOST_LINES = 12
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_PIPELINES = (".yaml", ".yml")


_PIXELS = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def advise(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|SOURCE",
            help="The pipeline file; or, with --event-time, files, a folder, a pattern or a Delta table.",
            show_default=False,
        ),
    ],
    event_time: Annotated[
        str | None,
        typer.Option("--event-time", help="Raw files: the column with the event time.", metavar="COLUMN"),
    ] = None,
    arrival: Annotated[
        str | None,
        typer.Option(
            help="Raw files: the column with the arrival time; a file's modification time by default.",
            metavar="COLUMN",
        ),
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(help="Raw files: the column that names the source partition.", metavar="COLUMN"),
    ] = None,
    producer: Annotated[
        str | None, typer.Option(help="Raw files: the column that names who made an event.", metavar="COLUMN")
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(help="Raw files: a number whose sum and mean may be biased.", metavar="COLUMN"),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="Raw files: the unit of times that are numbers: s, ms, us, ns.", metavar="UNIT"),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(help="Raw files: the zone of times without one; UTC by default.", metavar="ZONE"),
    ] = None,
    every: Annotated[str | None, typer.Option(help="Raw files: the length of a tick; 1s by default.")] = None,
    idle_after: Annotated[
        str | None, typer.Option(help="Raw files: a partition silent for so long holds no other back.")
    ] = None,
    max_future: Annotated[
        str | None,
        typer.Option(help="Raw files: leave out events further ahead of their arrival; 5m by default."),
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="Raw files: the length of the windows to suppose; 1m by default.")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Also tell it by these columns: region,device.", metavar="COLUMNS"),
    ] = None,
    output: Annotated[
        list[str] | None, typer.Option("--output", "-o", help="Only for this output.", metavar="NAME")
    ] = None,
    delay: Annotated[
        list[str] | None, typer.Option(help="Suppose these delays: 0s,30s,2m.", metavar="DURATIONS")
    ] = None,
    lateness: Annotated[
        list[str] | None, typer.Option(help="Suppose these allowed latenesses: 0s,10m.", metavar="DURATIONS")
    ] = None,
    target_completeness: Annotated[
        float | None, typer.Option(help="The share of events that should be on time; 0.99 by default.")
    ] = None,
    max_latency: Annotated[
        str | None,
        typer.Option(
            help="How long after a window's end its first number may come, such as 30s.", metavar="DURATION"
        ),
    ] = None,
    sample: Annotated[
        float | None, typer.Option(help="Look at this share of the events, such as 0.1; all by default.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write a page with plots to this file.", metavar="PAGE")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(help="Also draw the plots into this file, as SVG.", metavar="PATH")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write what is advised into the pipeline file; comments stay.")
    ] = False,
    form: Formatted = Format.TABLE,
) -> None:
    """Measure how late events come, and advise on delay, allowed lateness, idleness and max_future.

    Of a pipeline that has run, the log and the timeline are read; nothing is run, and the store stays as it is.
    """
    from latecomer.after.advise.asking import Asked, advice_on

    if svg is not None and svg.suffix.lower() in _PIXELS:
        fix = f"write --svg {svg.with_suffix('.svg')}, and open it in a browser, which makes pixels of it"
        raise WrongUsage("--svg", str(svg), "is a picture of pixels, which is not drawn here", fix)
    raw = {
        "event_time": event_time,
        "arrival": arrival,
        "partition": partition,
        "producer": producer,
        "measures": tuple(_split(measure)),
        "unit": unit,
        "zone": zone,
        "every": every,
        "idle_after": idle_after,
        "max_future": max_future,
        "window": window,
    }
    asked = Asked(
        tuple(_split(by)),
        tuple(output or ()),
        tuple(_split(delay)),
        tuple(_split(lateness)),
        target_completeness,
        max_latency,
        sample,
    )
    subject: Pipeline | str = source if _is_raw(source, event_time) else load(Path(source))
    if write and isinstance(subject, str):
        raise WrongUsage(
            "--write", source, "is for a pipeline file", "leave --write out, or name the pipeline file"
        )
    found = advice_on(subject, asked, raw)
    if form is Format.JSON:
        json.dump(found.as_json(), sys.stdout, ensure_ascii=False, indent=1, allow_nan=False)
        print()
    elif form is Format.CSV:
        from latecomer.cli.render import show

        show(_setting_rows(found), form, "", None)
    else:
        for line in _lines(found):
            typer.echo(harmless(line))
    for option, path, make in (("--html", html, found.html), ("--svg", svg, found.svg)):
        if path is not None:
            _write_text(option, path, make())
    if write and not isinstance(subject, str):
        _write(Path(source), subject, found)


def _write_text(option: str, path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fix = "name a file in a folder that is there and may be written to"
        raise WrongUsage(option, str(path), f"cannot be written: {error.strerror}", fix) from None
    print(f"wrote {path}", file=sys.stderr)


def _is_raw(source: str, event_time: str | None) -> bool:
    if event_time is not None:
        return True
    path = Path(source)
    return path.suffix.lower() not in (*_PIPELINES, ".json") and (path.is_dir() or bool(path.suffix))


def _split(written: Sequence[str] | None) -> Iterator[str]:
    for each in written or ():
        yield from (part.strip() for part in each.split(",") if part.strip())


# Writing


def _write(file: Path, pipeline: Pipeline, found: Advice) -> None:
    from latecomer.config.patching import write_patched
    from latecomer.model.strategies import Bounded

    changes = [each for each in found.advised if each.changes]
    if pipeline.sources or not isinstance(pipeline.watermark, Bounded):
        kept = "each source has its own watermark" if pipeline.sources else "its strategy is not bounded"
        changes = [each for each in changes if not each.field.startswith("watermark.")]
        print(f"note: watermark is left as it is: {kept}", file=sys.stderr)
    if not changes:
        print(f"{file} says all of it already", file=sys.stderr)
        return
    write_patched(file, {_keys(each.field): each.written for each in changes})
    for each in changes:
        print(f"wrote {each.field}: {each.written}", file=sys.stderr)


def _keys(field: str) -> tuple[str, ...]:
    """Where a field is in the file; the name of a partition may have dots."""
    own = "watermark.delays."
    return ("watermark", "delays", field[len(own) :]) if field.startswith(own) else tuple(field.split("."))


# In words


def _lines(found: Advice) -> Iterator[str]:
    from latecomer.model.zoned import written

    what = "the log of pipeline " if found.kind == "log" else ""
    when = f"from {written(found.since)} to {written(found.until)}"
    yield f"{what}{found.title}: {counted(found.events, 'event')} that arrived {when}"
    if found.sample is not None:
        yield (
            f"a sample of {found.sample:.3g} of {found.of_events:,}; a share is right to within "
            f"{found.sampling_error or 0:.2%} (95 %)"
        )
    yield ""
    yield "how old events are when they come (arrival − event time)"
    yield from _distribution(found.age)
    yield ""
    yield "how far they come behind the newest of their partition (this alone sets the delay)"
    yield from _distribution(found.behind)
    for title, groups in _grouped(found):
        yield ""
        yield title
        yield from _table(_group_rows(groups))
    for output in found.outputs:
        yield ""
        yield from _what_ifs(output, found)
    yield from _who(found)
    yield ""
    yield "advice"
    for each in found.advised:
        now = (
            "as it is"
            if not each.changes
            else f"now {_current_in_words(each.current)}"
            if found.kind == "log"
            else ""
        )
        yield f"  {each.field}: {each.written}" + (f"   ({now})" if now else "")
        yield f"      {each.reason}"
    for caution in found.cautions:
        yield f"warning: {caution}"
    for note in found.notes:
        yield f"note: {note}"
    yield (
        f"note: percentiles are never too small, and too large by {found.precision:.1%} at most "
        f"({found.group_precision:.1%} for partitions and groups)"
    )


def _current_in_words(current: int | None) -> str:
    return "not said" if current is None else format_duration(current)


def _distribution(found: Distribution) -> Iterator[str]:
    from latecomer.model.lateness.advice import percentile

    yield (
        "  "
        + "   ".join(
            f"{percentile(share)} {shown_duration(value)}" for share, value in found.percentiles.items()
        )
        + f"   most {shown_duration(found.most)}"
    )
    if found.negative:
        yield f"  {found.negative:,} are negative, down to {shown_duration(found.least)}: clocks that are ahead"
    bend = found.elbow
    if bend is None:
        yield "  no elbow: waiting longer pays evenly, or there is too little to tell"
    else:
        yield (
            f"  elbow at {shown_duration(bend.delay)} ({shown_duration(bend.low)} to {shown_duration(bend.high)} are "
            f"as good), enough for {bend.completeness:.2%}; sharpness {bend.sharpness:.2f} of 1"
        )
    most = max((count for *_, count in _few(found.bars)), default=1)
    for _, high, count in _few(found.bars):
        name = "below 0" if high < 0 else f"to {shown_duration(high)}" if high else "0"
        yield f"  {name:>14} {_bar(count / most)} {count:,}"


def _few(bars: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """So few bars that they can be looked at."""
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


def _bar(share: float, width: int = _WIDTH) -> str:
    eighths = round(share * width * 8)
    whole, rest = divmod(max(eighths, 1 if share > 0 else 0), 8)
    return ("█" * whole + _EIGHTHS[rest]).ljust(width)


def _grouped(found: Advice) -> Iterator[tuple[str, list[GroupDelays]]]:
    if found.partitions:
        yield f"by partition ({len(found.partitions):,})", list(found.partitions)
    for column in dict.fromkeys(each.column for each in found.groups):
        groups = [each for each in found.groups if each.column == column]
        yield f"by {column} ({len(groups):,})", groups


def _group_rows(groups: Sequence[GroupDelays]) -> list[list[str]]:
    rows = [["", "events", "old: p50", "p99", "p99.9", "behind: p50", "p99", "p99.9", "most"]]
    for each in groups[:_MOST_LINES]:
        age, behind = each.age.percentiles, each.behind.percentiles
        shown = [
            *(age.get(share) for share in (0.5, 0.99, 0.999)),
            *(behind.get(share) for share in (0.5, 0.99, 0.999)),
        ]
        rows.append(
            [
                "(null)" if each.value is None else each.value,
                f"{each.age.count:,}",
                *("-" if value is None else shown_duration(value) for value in shown),
                shown_duration(each.behind.most),
            ]
        )
    if len(groups) > _MOST_LINES:
        rows.append([f"… {len(groups) - _MOST_LINES:,} more, in --format json", *[""] * 8])
    return rows


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table; on a terminal that is too narrow for it, each word of its heads has a line."""
    from rich.cells import cell_len

    cells = [[harmless(cell) for cell in row] for row in rows]
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
    """As wide as the widest cell of each column; what says that there are more rows has the room of all."""
    from rich.cells import cell_len

    last = len(cells) - 1 if cells[-1][0].startswith("…") else len(cells)
    return [max(cell_len(row[nth]) for row in cells[:last]) for nth in range(len(cells[0]))]


def _what_ifs(output: OutputReport, found: Advice) -> Iterator[str]:
    from latecomer.after.advise.rows import setting_row

    name = output.name if found.kind == "log" else "supposed"
    yield f"what settings would mean: {name} ({output.window})"
    sampled = found.sample is not None
    lost = "dropped" if output.drops_too_late else "set aside"
    rows = [
        [
            "delay",
            "lateness",
            "on time",
            "complete",
            lost,
            "published after",
            "corrections/min",
            "upserts/day",
            "kept",
            "",
        ]
    ]
    bars = []
    for each in _shown(output):
        row = setting_row(each, output, sampled)
        mark = (
            "← advised"
            if each.setting == output.advised
            else "← now"
            if each.setting == output.current
            else ""
        )
        rows.append(
            [
                format_duration(each.setting.delay),
                format_duration(each.setting.lateness) if output.accepts else "-",
                f"{row['on_time_share']:.2%}",
                f"{row['completeness']:.3%}",
                f"{row['side_output'] + row['dropped']:,}",
                "-" if row["published_after"] is None else shown_duration(round(row["published_after"])),
                *(
                    "-" if value is None else value
                    for value in (
                        _number(row["corrections_a_minute"]),
                        _number(row["upserts_a_day"]),
                        _size(row["retained_bytes"]),
                    )
                ),
                mark,
            ]
        )
        if each.setting.lateness == 0 or each.setting == output.advised:
            bars.append((each.setting.delay, 1 - row["on_time_share"]))
    yield from _table(rows)
    error = max((each.error for each in output.settings), default=0.0)
    if error:
        yield f"  panes and states are estimated, to within {2 * error:.1%} (95 %)"
    yield ""
    yield "  late, by delay"
    most = max((share for _, share in bars), default=0.0) or 1.0
    for wait, share in sorted(dict(bars).items()):
        yield f"  {format_duration(wait):>10} {_bar(share / most)} {share:.3%}"


def _shown(output: OutputReport) -> list[Any]:
    """With each delay no lateness and the advised one; JSON and the page have all."""
    graces = {0, output.advised.lateness}
    return [
        each
        for each in output.settings
        if each.setting.lateness in graces or each.setting in (output.current, output.advised)
    ]


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _size(count: int | None) -> str | None:
    if count is None:
        return None
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"


def _who(found: Advice) -> Iterator[str]:
    from latecomer.after.advise.rows import in_figures

    beyond = format_duration(found.late_delay)
    if found.groups:
        yield ""
        yield f"who is late (more than {beyond} behind)"
        if not found.late_groups:
            yield "  no group is late more often than the others, as far as this history tells"
        else:
            rows = [["", "times as often", "95 %", "of the late", "of all"]]
            for each in found.late_groups[:_MOST_LINES]:
                value = "(null)" if each.value is None else each.value
                rows.append(
                    [
                        f"{each.column} = {value}",
                        f"{each.times:.3g}",
                        _interval(each.interval, "{:.3g}"),
                        f"{each.share_of_late:.1%}",
                        f"{each.share_of_events:.1%}",
                    ]
                )
            yield from _table(rows)
    biased = [each for each in found.biases if each.relative]
    if biased:
        yield ""
        yield f"bias, if what is late under a delay of {beyond} were dropped"
        rows = [["", "with all", "without", "change", "95 %"]]
        for change in biased:
            aggregate = f"{change.output}: {change.aggregate} = {change.written}"
            rows.append(
                [
                    (aggregate if found.kind == "log" else change.written) + _of_group(change.group),
                    in_figures(change.with_all),
                    in_figures(change.without_late),
                    f"{change.relative:+.3%}",
                    _interval(change.interval, "{:+.3%}"),
                ]
            )
        yield from _table(rows)
    if found.skews:
        yield ""
        yield "clocks that are ahead (events that come before they happen)"
        rows = [["", "events", "negative", "ahead by", "against others"]]
        for clock in found.skews[:_MOST_LINES]:
            rows.append(
                [
                    clock.producer,
                    f"{clock.events:,}",
                    f"{clock.negative:,}",
                    shown_duration(clock.ahead),
                    shown_duration(clock.against_others),
                ]
            )
        yield from _table(rows)


def _of_group(group: tuple[str, str | None] | None) -> str:
    return "" if group is None else f", {group[0]} = {'(null)' if group[1] is None else group[1]}"


def _interval(found: Interval | None, form: str) -> str:
    return "-" if found is None else f"{form.format(found.low)} … {form.format(found.high)}"


def _setting_rows(found: Advice) -> pa.Table:
    import pyarrow as pa

    from latecomer.after.advise.rows import setting_row

    rows = [
        {"output": output.name, **setting_row(each, output, found.sample is not None)}
        for output in found.outputs
        for each in output.settings
    ]
    return pa.Table.from_pylist(rows)
