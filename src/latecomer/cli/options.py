"""The arguments that verbs share, what every verb starts with, and how it prints its answer."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from latecomer.errors import LatecomerError

if TYPE_CHECKING:
    import pyarrow as pa

    from latecomer.after.reading.reader import Reader
    from latecomer.config.models import Pipeline
    from latecomer.config.paths import SourcePath


LOG = logging.getLogger(__name__)
HELP = {"help_option_names": ["-h", "--help"]}
"""The context settings of the command line; all verbs inherit them."""


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


File = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")]
OutputName = Annotated[str, typer.Argument(metavar="OUTPUT", help="The output's name.")]
Formatted = Annotated[Format, typer.Option("--format", "-f", help="How to print rows.")]
ALL = sys.maxsize
"""The limit that lets every row through."""
MOST_ROWS = 100
"""The rows of a table if no limit is given."""
Keys = Annotated[
    list[str] | None,
    typer.Option("--key", help="Only this key, column by column. An empty value is null.", metavar="K=V"),
]
From = Annotated[
    str | None, typer.Option("--from", help="Only windows that start at this moment or later.", metavar="T")
]
To = Annotated[
    str | None, typer.Option("--to", help="Only windows that start before this moment.", metavar="T")
]
Outputs = Annotated[
    list[str] | None, typer.Option("--output", "-o", help="Only this output.", metavar="NAME")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Zoned = Annotated[
    str | None,
    typer.Option(
        "--zone",
        help="Read and print times in this zone; that of the output's windows by default, else UTC.",
        metavar="ZONE",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Where Spark runs its tasks: spark://HOST:PORT, yarn, k8s://URL; all cores of this machine by default. It "
        "wins over LATECOMER_MASTER and over Spark's own settings.",
        metavar="URL",
    ),
]


class WrongUsage(LatecomerError):
    """An option that only the verb can judge: its value is wrong, it cannot be given here, or it is missing."""

    def __init__(self, option: str, value: str | bool, reason: str, fix: str) -> None:
        given = option if isinstance(value, bool) else f"{option} {value!r}"
        super().__init__(f"{given} {reason}\n    fix: {fix}")


def command(*words: object) -> str:
    """A command that can be copied into a shell.

    >>> command("ledger", "Umsatz März.yaml", "--check")
    "latecomer ledger 'Umsatz März.yaml' --check"
    """
    return shlex.join(["latecomer", *map(str, words)])


def limit_of(text: str, option: str = "--limit", of_what: str = "rows") -> int:
    """How many to print, as an option has it: a number, or all."""
    written = text.strip().lower()
    if written == "all":
        return ALL
    if not written.isdecimal():
        raise WrongUsage(option, text, f"is not a number of {of_what}", "write a number such as 20, or all")
    return int(written)


def limit_option(which: str) -> Any:
    """The option --limit of a verb that prints these rows."""
    return typer.Option(
        "--limit",
        "-n",
        parser=lambda text: limit_of(text),
        metavar="N|all",
        help=f"Print {which}, or all. By default, a table has 100, JSON and CSV have all.",
    )


Limit = Annotated[int | None, limit_option("the first N rows")]


def moment_of(option: str, text: str) -> datetime:
    """A moment as it is written in an option: ISO-8601, in the verb's zone unless it has an offset."""
    from latecomer.model.durations import to_moment
    from latecomer.model.zoned import read

    try:
        return to_moment(read(text))
    except (ValueError, OverflowError):
        without = "without an offset it is a time of the output's zone, or of --zone"
        fix = f"write ISO-8601 such as 2026-04-25T14:00:00Z; {without}"
        raise WrongUsage(option, text, "is not a moment", fix) from None


def range_of(since: tuple[str, str | None], until: tuple[str, str | None]) -> list[datetime | None]:
    """Two options and their moments, as a range that is not empty; one that is not given is None."""
    from latecomer.config.arguments import require_order

    first, end = (None if text is None else moment_of(option, text) for option, text in (since, until))
    require_order(first, end, f"{since[0]} {since[1]}", until[0], refusal(dict([since, until])))
    return [first, end]


def refusal(given: Mapping[str, str | None]) -> Callable[[str, str, str], WrongUsage]:
    """A function that makes the error for one of these options. `given` has the value of each option."""

    def refused(option: str, reason: str, fix: str) -> WrongUsage:
        value = given[option]
        return WrongUsage(option, False if value is None else value, reason, fix)

    return refused


def pairs_of(option: str, form: str, example: str, written: Sequence[str]) -> dict[str, str]:
    """The values of an option that is given several times, each time in a form such as KEY=VALUE."""
    pairs: dict[str, str] = {}
    for pair in written:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise WrongUsage(option, pair, f"is not {form}", f"write it such as {option} {example}")
        if key in pairs:
            raise WrongUsage(option, pair, f"gives {key} twice", "give each of them once")
        pairs[key] = value
    return pairs


def key_of(written: Sequence[str] | None) -> dict[str, str | None]:
    """A key as it is written in --key options, column by column; an empty value is null."""
    pairs = pairs_of("--key", "column=value", "merchant=m1", written or ())
    return {column: value or None for column, value in pairs.items()}


def share_of(option: str, written: str) -> float:
    """A share such as 5% or 0.05."""
    try:
        share = float(written.removesuffix("%")) / (100 if written.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise WrongUsage(option, written, "is not a share", "write it such as 5% or 0.05")
    return share


def address_of(option: str, written: str, usual: int) -> tuple[str, int]:
    """The host and the port of an option."""
    from latecomer.observe import server

    try:
        return server.address_of(written)
    except ValueError as error:
        fix = f"write a port such as {usual}, or a host and a port such as 0.0.0.0:{usual}"
        raise WrongUsage(option, written, str(error), fix) from None


@contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """Raise a `WrongUsage` of the option if the block cannot write the file that the option names."""
    try:
        yield
    except OSError as error:
        fix = "name a file in an existing folder that you may write to"
        raise WrongUsage(option, str(path), f"cannot be written: {error.strerror}", fix) from None


def note(*remarks: str) -> None:
    """Print remarks beside the answer, on standard error."""
    for remark in remarks:
        print(f"note: {remark}", file=sys.stderr)


def hush_spark() -> None:
    """Silence the stack traces that Spark's Python side logs: errors are printed in one line."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel("CRITICAL")


def load(file: Path, zone: str | None = None, output: str | None = None) -> Pipeline:
    """The pipeline in the file. If it is private, so is every file that the verb writes from here on.

    Times are read and printed in this zone, else in that of the output's windows, else in UTC.
    """
    from latecomer.config.load import load_pipeline
    from latecomer.model.windows import zone_of
    from latecomer.model.zoned import use_zone
    from latecomer.model.zones import is_zone, zone_fix
    from latecomer.store.private import write_privately

    if zone is not None and not is_zone(zone):
        raise WrongUsage("--zone", zone, "is not a time zone", zone_fix(zone))
    LOG.info("reading %s", file)
    pipeline = load_pipeline(file)
    write_privately(pipeline)
    use_zone(zone or (zone_of(pipeline.outputs[output].window) if output in pipeline.outputs else "UTC"))
    return pipeline


def source_paths(pipeline: Pipeline) -> dict[str, SourcePath]:
    """The path of each source that reads files. Its files are listed once."""
    from latecomer.config.paths import SourcePath

    return {name: SourcePath(view.source_path) for name, view in pipeline.views.items() if view.source.files}


def print_warnings(pipeline: Pipeline, file: Path, paths: Mapping[str, SourcePath]) -> None:
    """Warn of settings that may lose events and of files that are not read, before anything runs."""
    from latecomer.config.columns import view_warnings
    from latecomer.config.load import warnings

    views = pipeline.views
    left_out = [warning for name, path in paths.items() for warning in view_warnings(views[name], path)]
    for warning in (*warnings(pipeline, file), *left_out):
        print(f"warning: {warning}", file=sys.stderr)


def open_reader(file: Path, zone: str | None = None, output: str | None = None) -> Reader:
    """A reader of the pipeline's store; times as `load` says."""
    from latecomer.after.reading.reader import Reader

    pipeline = load(file, zone, output)
    LOG.info("reading the store")
    return Reader(pipeline)


# The answer


def show(
    rows: pa.Table,
    form: Format,
    empty: str,
    limit: int | None = ALL,
    out: TextIO | None = None,
    scales: Mapping[str, int] | None = None,
    newest: bool = False,
    scaled_by: str | None = "unit",
) -> None:
    """Print the rows on standard output, or the sentence that says why there are none.

    Without a limit (None), a table has a hundred rows and a last line that says how many there are; JSON and CSV have
    all. A limit keeps the first rows, or with `newest` the last ones. `scales` and `scaled_by` are those of
    `print_table`.
    """
    from latecomer.cli.render import print_csv, print_json_rows, print_table

    out = out or sys.stdout
    most = limit if limit is not None else MOST_ROWS if form is Format.TABLE else ALL
    shown = rows.slice(max(rows.num_rows - most, 0) if newest else 0, most)
    if form is Format.JSON:
        print_json_rows(shown, out)
    elif form is Format.CSV:
        print_csv(shown, out)
    elif not rows.num_rows:
        print(empty, file=out)
    else:
        print_table(shown, out, scales, scaled_by)
    if shown.num_rows < rows.num_rows:
        some = f"the {'newest' if newest else 'first'} {shown.num_rows:,} of {rows.num_rows:,} rows"
        if form is Format.TABLE:
            print(f"{some}; --limit all shows every one", file=out)
        else:
            note(some)


def print_json(document: Mapping[str, Any]) -> None:
    """Print an answer that is more than rows as one document."""
    print(json.dumps(document, ensure_ascii=False, indent=1, default=str))
