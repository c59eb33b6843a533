"""`latecomer advise`: how late events come, what settings would mean, and which are advised."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import Format, Formatted, Outputs, WrongUsage, load, note, show, writing
from latecomer.errors.harmless import harmless

if TYPE_CHECKING:
    import pyarrow as pa

    from latecomer.config.models import Pipeline
    from latecomer.observe.advise.page import Advice

_PIPELINES = (".yaml", ".yml")
_PIXELS = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def advise(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|SOURCE",
            help="The pipeline file; or, with --event-time, files, a folder, a pattern or a Delta table.",
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
        typer.Option(help="Also show it by these columns: region,device.", metavar="COLUMNS"),
    ] = None,
    output: Outputs = None,
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

    For a pipeline that has run, its log and timeline are read; nothing is run, and the store is not changed.
    """
    from latecomer.observe.advise.advising import AdviceOptions, advice_on

    if svg is not None and svg.suffix.lower() in _PIXELS:
        fix = f"write --svg {svg.with_suffix('.svg')}, and save it as pixels from a browser"
        raise WrongUsage("--svg", str(svg), "is a pixel format, and only SVG can be drawn", fix)
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
    question = AdviceOptions(
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
    advice = advice_on(subject, question, raw)
    if form is Format.JSON:
        json.dump(advice.as_json(), sys.stdout, ensure_ascii=False, indent=1, allow_nan=False)
        print()
    elif form is Format.CSV:
        show(_setting_rows(advice), form, "", None)
    else:
        from latecomer.cli.advice_words import advice_in_words

        for line in advice_in_words(advice):
            typer.echo(harmless(line))
    for option, path, make in (("--html", html, advice.html), ("--svg", svg, advice.svg)):
        if path is not None:
            text = make()
            with writing(option, path):
                path.write_text(text, encoding="utf-8")
            print(f"wrote {path}", file=sys.stderr)
    if write and not isinstance(subject, str):
        _write(Path(source), subject, advice)


def _is_raw(source: str, event_time: str | None) -> bool:
    if event_time is not None:
        return True
    path = Path(source)
    return path.suffix.lower() not in (*_PIPELINES, ".json") and (path.is_dir() or bool(path.suffix))


def _split(written: Sequence[str] | None) -> Iterator[str]:
    for each in written or ():
        yield from (part.strip() for part in each.split(",") if part.strip())


# Writing


def _write(file: Path, pipeline: Pipeline, advice: Advice) -> None:
    from latecomer.config.patching import write_patched
    from latecomer.model.strategies import Bounded

    changes = [each for each in advice.advised if each.changes]
    if pipeline.sources or not isinstance(pipeline.watermark, Bounded):
        reason = "each source has its own watermark" if pipeline.sources else "its strategy is not bounded"
        changes = [each for each in changes if not each.field.startswith("watermark.")]
        note(f"watermark is left as it is: {reason}")
    if not changes:
        print(f"{file} has every advised setting already", file=sys.stderr)
        return
    write_patched(file, {_keys(each.field): each.written for each in changes})
    for each in changes:
        print(f"wrote {each.field}: {each.written}", file=sys.stderr)


def _keys(field: str) -> tuple[str, ...]:
    """Where a field is in the file; the name of a partition may have dots."""
    own = "watermark.delays."
    return ("watermark", "delays", field[len(own) :]) if field.startswith(own) else tuple(field.split("."))


def _setting_rows(advice: Advice) -> pa.Table:
    import pyarrow as pa

    rows = [
        {"output": output.name, **row} for output in advice.outputs for row in output.rows(advice.sampled)
    ]
    return pa.Table.from_pylist(rows)
