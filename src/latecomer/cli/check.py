"""`latecomer check`: the alerts of a pipeline, from its store alone."""

from __future__ import annotations

import typer

from latecomer.cli.options import File, Format, Formatted, Limit, load

EXIT_FIRING = 3
"""The exit code if an alert fires."""


def check(file: File, form: Formatted = Format.TABLE, limit: Limit = None) -> None:
    """Show whether an alert fires, from the store alone. Exit 0: none does; 3: one does; 1: the check failed."""
    from latecomer.cli.render import show
    from latecomer.observe import check as checking

    verdicts = checking.check(load(file))
    rows = checking.as_words(verdicts) if form is Format.TABLE else checking.as_table(verdicts)
    show(rows, form, "there is nothing to check", limit)
    if checking.is_firing(verdicts):
        raise typer.Exit(EXIT_FIRING)
