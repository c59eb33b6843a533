"""`latecomer compact`: a store kept in shape."""

from __future__ import annotations

from typing import Annotated

import typer

from latecomer.cli.options import DryRun, File, Format, Formatted, load, note


def compact(
    file: File,
    keep: Annotated[
        str | None,
        typer.Option(
            help="How long to keep replaced files for readers that have them open; at most as long as `upkeep` says.",
            metavar="D",
        ),
    ] = None,
    dry_run: DryRun = False,
    form: Formatted = Format.TABLE,
) -> None:
    """Merge small files, delete dead ones, and remove what `retention` no longer keeps.

    Call it at any time, also while the pipeline runs.
    """
    from latecomer.cli.render import show
    from latecomer.engine.upkeep.compacting import compact as run

    report = run(load(file), keep=keep, dry_run=dry_run)
    show(report.rows, form, "nothing to do: the store is in shape")
    if report.rows.num_rows:
        note(report.in_words("would be" if dry_run else "were"))
    note(*report.notes)
