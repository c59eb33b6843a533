"""`latecomer snapshot`: a copy of a store that can be used like the store itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import Format, Formatted, WrongUsage, load
from latecomer.objects.locations import Url, scheme_of, without_file_scheme

if TYPE_CHECKING:
    from latecomer.config.models import Pipeline
    from latecomer.engine.upkeep.copies import Copied
    from latecomer.store.files import Location

StoreOrFile = Annotated[
    str, typer.Argument(metavar="STORE|FILE", help="A store, or the pipeline file that names it.")
]
To = Annotated[str, typer.Argument(metavar="TO", help="A folder or URL where nothing is yet.")]


def snapshot(store: StoreOrFile, to: To, form: Formatted = Format.TABLE) -> None:
    """Copy a store as of its last complete batch, beside a run or not: a store like any other.

    To go back to the copy, name it in `store:` of the pipeline file, or copy it to the place named there.
    """
    from latecomer.engine.upkeep.copies import snapshot as copy

    root, pipeline = root_of(store)
    print_copied(copy(root, place_of(to, pipeline)), form)


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

    from latecomer.cli.render import show
    from latecomer.store.files import url

    row = {"store": url(copied.place), "batch": copied.batch, "tables": copied.tables}
    show(pa.Table.from_pylist([{**row, "files": copied.files, "bytes": copied.bytes}]), form, "")
