"""`latecomer results`: the numbers that stand."""

from __future__ import annotations

from typing import Annotated

import typer

from latecomer.cli.options import File, Format, Formatted, Limit, OutputName, open_reader


def results(
    file: File,
    output: OutputName,
    open_windows: Annotated[bool, typer.Option("--open", help="Also show windows still open.")] = False,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
) -> None:
    """Show the number that stands for each window and key."""
    from latecomer.cli.render import note, show

    reader = open_reader(file)
    rows = reader.results(output, include_open=open_windows)
    nothing = (
        "no windows yet: no event has entered this output"
        if open_windows
        else "no windows have closed yet; --open shows those still open"
    )
    show(rows, form, nothing, limit)
    for remark in reader.notes:
        note(remark)
