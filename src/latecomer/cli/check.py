"""`latecomer check`: the alerts of a pipeline, from its store alone."""

from __future__ import annotations

import typer

from latecomer.cli.options import File, Format, Formatted, Limit, load

FIRING = 3


def check(file: File, form: Formatted = Format.TABLE, limit: Limit = None) -> None:
    """Show whether an alert fires, from the store alone. Exit 0: none does; 3: one does; 1: it cannot be said."""
    from latecomer.cli.render import show
    from latecomer.observe import check as checking

    verdicts = checking.check(load(file))
    show(checking.as_table(verdicts), form, "there is nothing to check", limit)
    if checking.is_firing(verdicts):
        raise typer.Exit(FIRING)
