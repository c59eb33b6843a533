"""`latecomer test`: runs transcripts against a pipeline."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import WrongUsage, hush_spark, load
from latecomer.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from latecomer.config.models import Pipeline
    from latecomer.testing import Difference, Transcript

LOG = logging.getLogger(__name__)
PASS, FAIL, NEEDS_SPARK, UNREADABLE = "pass", "FAIL", "needs --spark", "UNREADABLE"
USAGE = 2

Files = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Transcripts, or folders that hold some.")]


def test(
    files: Files,
    pipeline: Annotated[
        Path | None,
        typer.Option("--pipeline", "-p", help="The pipeline file that the transcripts are about."),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Run them through the engine on Spark, not the oracle alone.")
    ] = False,
) -> None:
    """Run transcripts: what must come of an input, checked in milliseconds.

    Exit 1 if a transcript does not hold, 2 if one cannot be read.
    """
    import pyarrow as pa

    from latecomer.cli.render import print_table

    tested = load(pipeline) if pipeline else None
    loaded = [_loaded(file, tested) for file in _transcripts(files)]
    readable = any(not isinstance(each, Unreadable) for each in loaded)
    session = None
    if spark and readable:
        from latecomer.spark.session import build_session

        hush_spark()
        session = build_session("test")
    names = [each.name.encode(errors="backslashreplace").decode() for each in loaded]
    outcomes = []
    for nth, (name, each) in enumerate(zip(names, loaded, strict=True), start=1):
        LOG.info("transcript %d of %d: %s", nth, len(loaded), name)
        outcomes.append(_run(each, session))
    rows = {
        "transcript": names,
        "result": [result for result, _, _ in outcomes],
        "seconds": [f"{seconds:.3f}" for _, _, seconds in outcomes],
        "rule": [each.rule for each in loaded],
    }
    print_table(pa.table(rows))
    for _, differences, _ in outcomes:
        for line in differences:
            typer.echo(f"\n{line}")
    passed = sum(result == PASS for result, _, _ in outcomes)
    typer.echo(f"\n{passed} of {len(outcomes)} hold")
    if passed < len(outcomes):
        raise typer.Exit(USAGE if any(result == UNREADABLE for result, _, _ in outcomes) else 1)


@dataclass(frozen=True)
class Unreadable:
    """A file that cannot be read as a transcript, and why. The others are run all the same."""

    file: Path
    error: PipelineError
    rule: str = ""

    @property
    def name(self) -> str:
        return self.file.stem


def _transcripts(files: Sequence[Path]) -> Iterator[Path]:
    for file in files:
        if not file.is_dir():
            yield file
            continue
        inside = sorted(file.glob("*.yaml"))
        if not inside:
            raise WrongUsage(
                "FILE", str(file), "holds no transcripts", "name a folder with .yaml files in it"
            )
        yield from inside


def _loaded(file: Path, pipeline: Pipeline | None) -> Transcript | Unreadable:
    from latecomer.testing import load_transcript

    try:
        return load_transcript(file, pipeline)
    except PipelineError as error:
        return Unreadable(file, error)


def _run(
    transcript: Transcript | Unreadable, spark: SparkSession | None
) -> tuple[str, list[Difference | str], float]:
    from latecomer.testing import NeedsSpark, run_transcript

    if isinstance(transcript, Unreadable):
        return UNREADABLE, [*map(str, transcript.error.problems)], 0.0
    began = time.monotonic()
    differences: list[Difference | str]
    try:
        differences = [*run_transcript(transcript, on="spark" if spark else "oracle", spark=spark)]
        result = FAIL if differences else PASS
    except NeedsSpark as error:
        result, differences = NEEDS_SPARK, [f"{transcript.file}: {error}"]
    return result, differences, time.monotonic() - began
