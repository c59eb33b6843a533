"""`latecomer compact`: a store kept in shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import File, Format, Formatted, load

if TYPE_CHECKING:
    from latecomer.after.upkeep.compacting import Report


def compact(
    file: File,
    keep: Annotated[
        str,
        typer.Option(help="Keep what was replaced for so long: who opened it may still read.", metavar="D"),
    ] = "7d",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    form: Formatted = Format.TABLE,
) -> None:
    """Merge small files, delete dead ones, and remove what `retention` no longer keeps.

    It can be called at any time, also while the pipeline runs.
    """
    from latecomer.after.upkeep.compacting import compact as run
    from latecomer.cli.render import note, show

    report = run(load(file), keep=keep, dry_run=dry_run)
    show(report.rows, form, "nothing to do: the store is in shape")
    if report.rows.num_rows:
        note(_report(report, "would be" if dry_run else "were"))
    for remark in report.notes:
        note(remark)


def _report(report: Report, were: str) -> str:
    files, after = report.total("files"), report.total("files_after")
    text = f"{files} files {were} merged into {after}" if files != after else f"no files {were} merged"
    if removed := report.total("rows_removed"):
        text += f", {removed} rows {were} removed by retention"
    if swept := report.total("swept_files"):
        text += f", {swept} dead files ({size(report.total('swept_bytes'))}) {were} deleted"
    return text


def size(count: int) -> str:
    """Bytes, for people.

    >>> size(700), size(1_500_000)
    ('700 B', '1.5 MB')
    """
    if count < 1000:
        return f"{count} B"
    amount, units = count / 1000, ["kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.1f} {units[0]}"
