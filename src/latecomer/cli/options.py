"""The arguments that verbs share, and what every verb starts with."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.errors import LatecomerError

if TYPE_CHECKING:
    from latecomer.after.reading.reader import Reader
    from latecomer.config.models import Pipeline


LOG = logging.getLogger(__name__)


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


File = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.", show_default=False)]
OutputName = Annotated[str, typer.Argument(metavar="OUTPUT", help="The output's name.", show_default=False)]
Formatted = Annotated[Format, typer.Option("--format", "-f", help="How to print rows.")]
ALL = sys.maxsize
"""A limit that is none."""


Zoned = Annotated[
    str | None,
    typer.Option(
        "--zone",
        help="Read and print times in this zone; that of the output's windows by default, else UTC.",
        metavar="ZONE",
        show_default=False,
    ),
]


Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Where Spark runs its tasks: spark://HOST:PORT, yarn, k8s://URL; all cores of this machine by default. It "
        "wins over LATECOMER_MASTER and over Spark's own settings.",
        metavar="URL",
        show_default=False,
    ),
]


class WrongUsage(LatecomerError):
    """An option's value that only the verb can judge; of one that has none, that it was given, or is
    missing."""

    def __init__(self, option: str, value: str | bool, reason: str, fix: str) -> None:
        given = option if isinstance(value, bool) else f"{option} {value!r}"
        super().__init__(f"{given} {reason}\n    fix: {fix}")


def limit_of(text: str) -> int:
    """How many rows to print, as it is written in --limit: a number, or all."""
    written = text.strip().lower()
    if written == "all":
        return ALL
    if not written.isdecimal():
        raise WrongUsage("--limit", text, "is not a number of rows", "write a number such as 20, or all")
    return int(written)


Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        "-n",
        parser=limit_of,
        metavar="N|all",
        help="Print the first N rows, or all. By default, a table has some, JSON and CSV have all.",
        show_default=False,
    ),
]


def moment_of(option: str, text: str) -> datetime:
    """A moment as it is written in an option: ISO-8601, in the verb's zone unless it has an offset."""
    from latecomer.model.durations import to_moment
    from latecomer.model.zoned import read

    try:
        return to_moment(read(text))
    except (ValueError, OverflowError):
        fix = "write ISO-8601 such as 2026-04-25T14:00:00Z; without an offset it is a time of --zone"
        raise WrongUsage(option, text, "is not a moment", fix) from None


def choose_zone(asked: str | None, file: Path, output: str | None = None) -> None:
    """Read and print times in the zone asked for, else that of the output's windows, else UTC."""
    from latecomer.model.zoned import use_zone
    from latecomer.model.zones import is_zone

    if asked is None:
        from latecomer.config.load import load_pipeline
        from latecomer.model.windows import zone_of

        known = {} if output is None else load_pipeline(file).outputs
        use_zone(zone_of(known[output].window) if output in known else "UTC")
    elif not is_zone(asked):
        raise WrongUsage(
            "--zone", asked, "is not a time zone", "write an IANA name such as Asia/Kolkata or UTC"
        )
    else:
        use_zone(asked)


def key_of(pairs: Sequence[str]) -> dict[str, str | None]:
    """A key as it is written in --key options, column by column; an empty value is null."""
    key: dict[str, str | None] = {}
    for pair in pairs:
        column, equals, value = pair.partition("=")
        if not equals or not column:
            raise WrongUsage("--key", pair, "is not column=value", "write it such as --key merchant=m1")
        if column in key:
            raise WrongUsage("--key", pair, "names a column twice", "give each column one value")
        key[column] = value or None
    return key


def share_of(option: str, written: str) -> float:
    """A share such as 5% or 0.05."""
    try:
        found = float(written.removesuffix("%")) / (100 if written.endswith("%") else 1)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise WrongUsage(option, written, "is no share", "write it such as 5% or 0.05")
    return found


def hush_spark() -> None:
    """Spark's Python side logs every error with its whole trace; what went wrong is shown in one line."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel("CRITICAL")


def load(file: Path) -> Pipeline:
    """The pipeline in the file. Whatever the verb writes, certificates and pictures too, is private where it is."""
    from latecomer.config.load import load_pipeline
    from latecomer.store.private import write_privately

    LOG.info("reading %s", file)
    pipeline = load_pipeline(file)
    write_privately(pipeline)
    return pipeline


def print_warnings(pipeline: Pipeline, file: Path) -> None:
    """Say what is allowed and may lose events, and what of the source is not read, before anything runs."""
    from latecomer.config.columns import source_warnings
    from latecomer.config.load import warnings

    left_out = [
        warning
        for view in pipeline.views.values()
        if view.source.files
        for warning in source_warnings(view.source_path, view.format, view.source.files.encoding)
    ]
    for warning in (*warnings(pipeline, file), *left_out):
        print(f"warning: {warning}", file=sys.stderr)


def open_reader(file: Path) -> Reader:
    """A reader of the pipeline's store."""
    from latecomer.after.reading.reader import Reader

    pipeline = load(file)
    LOG.info("reading the store")
    return Reader(pipeline)
