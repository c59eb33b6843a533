"""`latecomer correct`, `latecomer serving`: the side output added up, and numbers with their corrections as a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.after.reading.choices import Engine, Grain
from latecomer.cli.options import (
    File,
    Format,
    Formatted,
    Limit,
    OutputName,
    WrongUsage,
    Zoned,
    note,
    open_reader,
    range_of,
    show,
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

    reader = open_reader(file, zone, output)
    first, end = range_of(("--since", since), ("--until", until))
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


def serving(
    file: File,
    output: OutputName,
    sql: Annotated[Engine, typer.Option("--sql", help="Whose SQL to write.")],
    view: Annotated[
        str | None, typer.Option(help="The view's name; OUTPUT_serving by default.", metavar="NAME")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(help="postgres: the table that holds the results; OUTPUT by default.", metavar="NAME"),
    ] = None,
) -> None:
    """Print a view that shows each number with its base and its correction, to be run elsewhere."""
    from latecomer.after.serving.views import view as view_of

    if table is not None and sql is not Engine.POSTGRES:
        raise WrongUsage("--table", table, f"has no meaning with --sql {sql}", "leave it out")
    for option, name in (("--view", view), ("--table", table)):
        if name is not None and not all(name.split(".")):
            raise WrongUsage(option, name, "is not a name", "write NAME or SCHEMA.NAME")
    reader = open_reader(file)
    typer.echo(view_of(reader, output, sql, view, table), nl=False)
    note(*reader.notes)
