"""`latecomer test`: transcripts of one's own, run against the pipeline."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import WrongUsage, hush_spark, load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from latecomer.config.models import Pipeline
    from latecomer.testing import Difference, Transcript

LOG = logging.getLogger(__name__)
PASS, FAIL, NEEDS_SPARK = "pass", "FAIL", "needs --spark"

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", help="Transcripts, or folders that hold some.", show_default=False),
]


def verify(
    files: Files,
    pipeline: Annotated[
        Path | None,
        typer.Option("--pipeline", "-p", help="The pipeline file that the transcripts are about."),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Run them through the engine on Spark, not the oracle alone.")
    ] = False,
) -> None:
    """Run transcripts: what must come of an input, checked in milliseconds. Exit 1 if one does not hold."""
    import pyarrow as pa

    from latecomer.cli.render import print_table

    transcripts = _loaded(list(_transcripts(files)), load(pipeline) if pipeline else None)
    session = _session() if spark else None
    found = []
    for nth, transcript in enumerate(transcripts, start=1):
        LOG.info("transcript %d of %d: %s", nth, len(transcripts), transcript.name)
        found.append(_run(transcript, session))
    rows = {
        "transcript": [transcript.name for transcript in transcripts],
        "result": [result for result, _, _ in found],
        "seconds": [f"{seconds:.3f}" for _, _, seconds in found],
        "rule": [transcript.rule for transcript in transcripts],
    }
    print_table(pa.table(rows))
    for _, told, _ in found:
        for line in told:
            typer.echo(f"\n{line}")
    passed = sum(result == PASS for result, _, _ in found)
    typer.echo(f"\n{passed} of {len(found)} hold")
    if passed < len(found):
        raise typer.Exit(1)


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


def _loaded(files: Sequence[Path], pipeline: Pipeline | None) -> list[Transcript]:
    """All of them, or every problem in any."""
    from latecomer.errors import PipelineError, Problem
    from latecomer.testing import load_transcript

    transcripts: list[Transcript] = []
    problems: list[Problem] = []
    for file in files:
        try:
            transcripts.append(load_transcript(file, pipeline))
        except PipelineError as error:
            problems += error.problems
    if problems:
        raise PipelineError(problems)
    return transcripts


def _run(transcript: Transcript, spark: SparkSession | None) -> tuple[str, list[Difference | str], float]:
    from latecomer.testing import NeedsSpark, run_transcript

    began = time.monotonic()
    told: list[Difference | str]
    try:
        told = [*run_transcript(transcript, on="spark" if spark else "oracle", spark=spark)]
        result = FAIL if told else PASS
    except NeedsSpark as error:
        result, told = NEEDS_SPARK, [f"{transcript.file}: {error}"]
    return result, told, time.monotonic() - began


def _session() -> SparkSession:
    from latecomer.session import build_session

    hush_spark()
    return build_session("test")
