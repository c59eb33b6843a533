"""Plays a scenario or a transcript on the oracle or on the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from latecomer.config.models import Pipeline
from latecomer.errors import PipelineError
from latecomer.model.simple_predicates import NeedsSpark
from latecomer.testing.checking import check, compare, compare_cuts
from latecomer.testing.differences import Difference, each_once
from latecomer.testing.oracle import on_oracle
from latecomer.testing.outcome import Outcome
from latecomer.testing.scenario import CUTS, Scenario, Step, backwards, sourced_rows, steered
from latecomer.testing.shapes import Shape, mistaken_sources, shape_of
from latecomer.testing.times import Times
from latecomer.testing.transcripts import Transcript

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

On = Literal["oracle", "engine", "spark"]
"""Who plays: the oracle; the engine in this process; the engine in Spark's tasks."""


def play(
    pipeline: Pipeline,
    scenario: Scenario | Sequence[Step],
    *,
    on: On = "oracle",
    spark: SparkSession | None = None,
    columns: Mapping[str, str] | None = None,
) -> Outcome:
    """What the pipeline makes of a scenario: on the oracle in milliseconds, on the engine in less than a second, in
    Spark's tasks in seconds.

    Its source, store and sinks are not touched. If a step puts the watermark, nothing else moves it. `spark` is your
    session; without one a local session is started, which `engine` needs only for what Spark's SQL computes. Columns
    are those of `source.schema`, else of `columns`, else what the rows show; each source has its own.
    """
    steps = scenario.steps if isinstance(scenario, Scenario) else list(scenario)
    clock = scenario.times if isinstance(scenario, Scenario) else Times()
    if wrong := backwards(steps, clock):
        raise ValueError(f"step {wrong[0]}: {wrong[1]}")
    if mistaken := list(mistaken_sources(pipeline, steps)):
        raise PipelineError([replace(each, field=f"steps[{step}].{each.field}") for step, each in mistaken])
    shape = shape_of(steered(pipeline, steps), steps, clock, lambda _, view: view.declared_columns, columns)
    for source, row in sourced_rows(steps):
        if problem := shape.sources[source].problem(row):
            raise ValueError(problem)
    return _played(shape, steps, on, spark)


def run_transcript(
    transcript: Transcript,
    *,
    on: On = "oracle",
    spark: SparkSession | None = None,
    cuts: Sequence[str] = (),
) -> list[Difference]:
    """Where the transcript does not hold: on the oracle under every cut, on the engine as written; or, on both, under
    `cuts`.

    The engine is also compared with the oracle under the same cut, in everything. Equal differences are reported once.
    """
    steps, place, differences = transcript.steps, str(transcript.file), []
    written = _oracle(transcript, steps, on)
    for cut in cuts or CUTS:
        outcome = written if cut == "as written" else _oracle(transcript, CUTS[cut](steps), on)
        if outcome is not None:
            differences += [replace(each, runs=(cut,)) for each in check(transcript, outcome, cut)]
        if outcome is not None and written is not None and cut != "as written":
            differences += compare_cuts(written, outcome, steps, ("as written", f"oracle, {cut}"), place)
    for cut in (cuts or ("as written",)) if on != "oracle" else ():
        differences += _on_engine(transcript, cut, written, on, spark)
    return each_once(differences)


def _on_engine(
    transcript: Transcript, cut: str, written: Outcome | None, on: On, spark: SparkSession | None
) -> list[Difference]:
    steps, place, recut = transcript.steps, str(transcript.file), CUTS[cut](transcript.steps)
    outcome = _played(transcript.shape, recut, on, spark)
    run = f"{on}, {cut}"
    differences = [replace(each, runs=(run,)) for each in check(transcript, outcome, cut)]
    oracle = _oracle(transcript, recut, on)
    if oracle is not None:
        differences += compare(oracle, outcome, ("oracle", run), place)
    if cut != "as written":
        written = written or _played(transcript.shape, steps, on, spark)
        differences += compare_cuts(written, outcome, steps, ("as written", run), place)
    return differences


def _oracle(transcript: Transcript, steps: Sequence[Step], on: On) -> Outcome | None:
    """The outcome on the oracle; None if only Spark can evaluate a predicate and the engine plays, too."""
    try:
        return on_oracle(transcript.shape, steps)
    except NeedsSpark:
        if on != "oracle":
            return None
        raise


def _played(shape: Shape, steps: Sequence[Step], on: On, spark: SparkSession | None) -> Outcome:
    if on == "oracle":
        return on_oracle(shape, steps)
    from latecomer.testing.engine import on_engine

    return on_engine(shape, steps, spark, in_tasks=on == "spark")
