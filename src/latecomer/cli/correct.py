"""`latecomer correct`: the side output added up, for readers whose numbers are not updated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.after.reading.choices import Grain
from latecomer.cli.options import (
    File,
    Format,
    Formatted,
    Limit,
    OutputName,
    Zoned,
    choose_zone,
    note,
    open_reader,
    range_of,
)
from latecomer.model.counting import counted

if TYPE_CHECKING:
    from latecomer.after.serving.correcting import Corrected


def correct(
    file: File,
    output: OutputName,
    since: Annotated[
        str | None, typer.Option(help="Only windows that start at this moment or later.", metavar="T")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Only windows that start before this moment.", metavar="T")
    ] = None,
    by: Annotated[Grain, typer.Option(help="How to add up what is printed.")] = Grain.WINDOW,
    everything: Annotated[
        bool, typer.Option("--all", help="Print every correction that counts, not only what is new.")
    ] = False,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Add up the side output by window and key. Every late event is corrected once.

    Call it at any time, also while the pipeline runs: what is corrected already is not changed.
    """
    from latecomer.after.serving import correcting, served
    from latecomer.after.serving.views import keep_served
    from latecomer.cli.render import show

    choose_zone(zone, file, output)
    first, end = range_of(("--since", since), ("--until", until))
    reader = open_reader(file)
    served.check_grain(reader, output, by)
    done = correcting.correct_and_count(reader, output, first, end)
    rows = served.corrections(reader, output) if everything else done.rows
    shown = served.by_grain(reader, output, rows, by)
    show(shown, form, f"nothing to correct: no new event in the side output of {output}", limit)
    if done.rows.num_rows:
        note(_report(done))
    if rows.num_rows:
        note(*reader.notes)
    keep_served(reader, output)


def _report(done: Corrected) -> str:
    """What this call added: how many late events from which batches, and, if windows overlap, to how many windows."""
    batches = set(done.rows["batch"].to_pylist())
    first, last = min(batches), max(batches)
    came = f"batch {first}" if first == last else f"batches {first} to {last}"
    text = f"corrected {counted(done.events, 'late event')} of {came}"
    if done.assignments == done.events:
        return text
    return f"{text}, in {counted(done.assignments, 'window assignment')}"
