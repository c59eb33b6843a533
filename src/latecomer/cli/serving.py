"""`latecomer serving`: base and corrections as a view for another engine."""

from __future__ import annotations

from typing import Annotated

import typer

from latecomer.after.reading.choices import Engine
from latecomer.cli.options import File, OutputName, WrongUsage, note, open_reader


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
