"""`latecomer panes`: the history of every number."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from latecomer.cli.options import File, Format, Formatted, Limit, OutputName, WrongUsage, open_reader


def panes(
    file: File,
    output: OutputName,
    window: Annotated[
        str | None,
        typer.Option(help="Only the window that holds this moment, such as 2026-04-25T14:00Z.", metavar="T"),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(help="Only this key, column by column. An empty value is null.", metavar="K=V"),
    ] = None,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
) -> None:
    """Show every number ever published and every one taken back, in order of publication."""
    from latecomer.cli.render import show

    moment = None if window is None else _moment(window)
    rows = open_reader(file).panes(output, moment, _key(key or []))
    nothing = "no pane matches" if window or key else "no panes yet: no window has closed"
    show(rows, form, nothing, limit)


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        mend = "write ISO-8601, in UTC unless it says otherwise, such as 2026-04-25T14:00:00Z"
        raise WrongUsage("--window", text, "is not a moment", mend) from None


def _key(pairs: list[str]) -> dict[str, str | None]:
    key: dict[str, str | None] = {}
    for pair in pairs:
        column, equals, value = pair.partition("=")
        if not equals or not column:
            raise WrongUsage("--key", pair, "is not column=value", "write it such as --key merchant=m1")
        if column in key:
            raise WrongUsage("--key", pair, "names a column twice", "give each column one value")
        key[column] = value or None
    return key
