"""The arguments that verbs share, and what every verb starts with."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.errors import LatecomerError

if TYPE_CHECKING:
    from latecomer.config.models import Pipeline
    from latecomer.reader import Reader


LOG = logging.getLogger(__name__)


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


File = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.", show_default=False)]
OutputName = Annotated[str, typer.Argument(metavar="OUTPUT", help="The output's name.", show_default=False)]
Formatted = Annotated[Format, typer.Option("--format", "-f", help="How to print rows.")]
Limit = Annotated[
    int | None, typer.Option("--limit", "-n", min=0, help="Print the first N rows only.", show_default=False)
]


class WrongUsage(LatecomerError):
    """An option's value that only the verb can judge."""

    def __init__(self, option: str, value: str, reason: str, mend: str) -> None:
        super().__init__(f"{option} {value!r} {reason}\n    mend: {mend}")


def moment_of(option: str, text: str) -> datetime:
    """A moment as it is written in an option: ISO-8601, in UTC unless it says otherwise."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        mend = "write ISO-8601, in UTC unless it says otherwise, such as 2026-04-25T14:00:00Z"
        raise WrongUsage(option, text, "is not a moment", mend) from None


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


def hush_spark() -> None:
    """Spark's Python side logs every error with its whole trace; what went wrong is told in one line."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel("CRITICAL")


def load(file: Path) -> Pipeline:
    """The pipeline in the file."""
    from latecomer.config.load import load_pipeline

    LOG.info("reading %s", file)
    return load_pipeline(file)


def open_reader(file: Path) -> Reader:
    """A reader of the pipeline's store."""
    from latecomer.reader import Reader

    pipeline = load(file)
    LOG.info("reading the store")
    return Reader(pipeline)
