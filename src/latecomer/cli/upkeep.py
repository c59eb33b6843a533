"""`latecomer compact`, `latecomer snapshot`, `latecomer move`, `latecomer upgrade`: kept in shape, copied."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import DryRun, File, Format, Formatted, WrongUsage, load, note, show
from latecomer.objects.locations import Url, scheme_of, without_file_scheme

if TYPE_CHECKING:
    from latecomer.config.models import Pipeline
    from latecomer.engine.upkeep.copies import Copied
    from latecomer.store.files import Location

StoreOrFile = Annotated[
    str, typer.Argument(metavar="STORE|FILE", help="A store, or the pipeline file that names it.")
]
To = Annotated[str, typer.Argument(metavar="TO", help="A folder or URL where nothing is yet.")]


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
    from latecomer.engine.upkeep.compacting import compact as run

    report = run(load(file), keep=keep, dry_run=dry_run)
    show(report.rows, form, "nothing to do: the store is in shape")
    if report.rows.num_rows:
        note(report.in_words("would be" if dry_run else "were"))
    note(*report.notes)


def snapshot(store: StoreOrFile, to: To, form: Formatted = Format.TABLE) -> None:
    """Copy a store as of its last complete batch, beside a run or not: a store like any other.

    To go back to the copy, name it in `store:` of the pipeline file, or copy it to the place named there.
    """
    from latecomer.engine.upkeep.copies import snapshot as copy

    root, pipeline = root_of(store)
    print_copied(copy(root, place_of(to, pipeline)), form)


def move(file: File, to: To, form: Formatted = Format.TABLE) -> None:
    """Move a store to another place, and print the line that the pipeline file needs.

    No run may hold the store meanwhile. The old place cannot be used from then on; nothing in it is deleted.
    """
    from latecomer.engine.upkeep.copies import move as moved
    from latecomer.store.files import url

    pipeline = load(file)
    before = pipeline.store_path
    copied = moved(before, place_of(to, pipeline))
    print_copied(copied, form)
    print(f"in {file}, write\n    store: {url(copied.place)}", file=sys.stderr)
    print(f"then {before} can be deleted", file=sys.stderr)


def upgrade(store: StoreOrFile, dry_run: DryRun = False, form: Formatted = Format.TABLE) -> None:
    """Bring a store of an earlier version to the format of this one, step by step.

    The next run does the same by itself. An earlier latecomer does not read the store afterwards: take a snapshot
    first.
    """
    import pyarrow as pa

    from latecomer.engine.upkeep.upgrading import upgrade as upgraded

    steps = upgraded(root_of(store)[0], dry_run=dry_run)
    rows = [
        {"step": f"{each.before} to {each.before + 1}", "what": each.what, "changes": each.changes}
        for each in steps
    ]
    show(pa.Table.from_pylist(rows), form, "nothing to do: the store has the format of this version")


def root_of(store: str) -> tuple[Location, Pipeline | None]:
    """The store that is named, itself or by a pipeline file."""
    if scheme_of(store) is not None or Path(store).is_dir():
        return place_of(store, None), None
    pipeline = load(Path(store))
    return pipeline.store_path, pipeline


def place_of(written: str, pipeline: Pipeline | None) -> Location:
    """A place on the command line: a path relative to the current folder, or a URL with the pipeline's settings."""
    if scheme_of(written) in (None, "file"):
        from latecomer.config.encodings import is_text
        from latecomer.config.places import why_no_path

        path = without_file_scheme(written)
        wrong = why_no_path(path)
        if wrong is None and not is_text(path):
            wrong = "tables cannot be in a path that is not UTF-8", "name another folder"
        if wrong is not None:
            raise WrongUsage("STORE or TO", written, f"cannot be used: {wrong[0]}", wrong[1])
        return Path(path).expanduser().absolute()
    return Url(written) if pipeline is None else pipeline.place(written)


def print_copied(copied: Copied, form: Format) -> None:
    import pyarrow as pa

    from latecomer.store.files import url

    row = {"store": url(copied.place), "batch": copied.batch, "tables": copied.tables}
    show(pa.Table.from_pylist([{**row, "files": copied.files, "bytes": copied.bytes}]), form, "")
