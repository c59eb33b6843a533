"""`latecomer panes`: the history of every number."""

from __future__ import annotations

from typing import Annotated

import typer

from latecomer.cli.options import (
    File,
    Format,
    Formatted,
    Keys,
    Limit,
    OutputName,
    Zoned,
    choose_zone,
    key_of,
    moment_of,
    open_reader,
)


def panes(
    file: File,
    output: OutputName,
    window: Annotated[
        str | None,
        typer.Option(help="Only the window that holds this moment, such as 2026-04-25T14:00Z.", metavar="T"),
    ] = None,
    key: Keys = None,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
    zone: Zoned = None,
) -> None:
    """Show every number ever published and every one taken back, in order of publication."""
    from latecomer.cli.render import show

    choose_zone(zone, file, output)
    moment = None if window is None else moment_of("--window", window)
    rows = open_reader(file).panes(output, moment, key_of(key))
    nothing = "no panes yet: no window has closed"
    if window or key:
        nothing = "no pane matches; a window that is still open has none (latecomer results --open)"
    show(rows, form, nothing, limit)
