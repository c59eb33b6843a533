"""The arguments that verbs share, and what every verb starts with."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.errors import LatecomerError

if TYPE_CHECKING:
    from latecomer.config.models import Pipeline
    from latecomer.reader import Reader


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


def hush_spark() -> None:
    """Spark's Python side logs every error with its whole trace; what went wrong is told in one line."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel("CRITICAL")


def load(file: Path) -> Pipeline:
    """The pipeline in the file."""
    from latecomer.config.load import load_pipeline

    return load_pipeline(file)


def open_reader(file: Path) -> Reader:
    """A reader of the pipeline's store."""
    from latecomer.reader import Reader

    return Reader(load(file))
