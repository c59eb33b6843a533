"""One call for both: a scenario or a transcript through the oracle, or through Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from latecomer.config.models import Pipeline
from latecomer.errors import PipelineError, Problem
from latecomer.model.simple_predicates import NeedsSpark
from latecomer.testing.by_hand import backwards, steered
from latecomer.testing.checking import check, compare, compare_cuts
from latecomer.testing.differences import Difference, each_once
from latecomer.testing.oracle import on_oracle
from latecomer.testing.outcome import Outcome
from latecomer.testing.scenario import CUTS, Scenario, Step, sourced_rows
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
    """What the pipeline makes of a scenario: by the oracle in milliseconds, by the engine in less than a second, by the
    engine in Spark's tasks in seconds.

    Its source, store and sinks are not touched, and where a step puts the watermark nothing else moves
    it. `spark` is your session; without one a local session is started, by `engine` only for what Spark's SQL computes.
    Columns are those of `source.schema`, of `columns`, or what the rows show; of several sources, those of each.
    """
    steps = scenario.steps if isinstance(scenario, Scenario) else list(scenario)
    clock = scenario.times if isinstance(scenario, Scenario) else Times()
    if wrong := backwards(steps, clock):
        raise ValueError(f"step {wrong[0]}: {wrong[1]}")
    if mistaken := [_of_step(*each) for each in mistaken_sources(pipeline, steps)]:
        raise PipelineError(mistaken)
    shape = shape_of(steered(pipeline, steps), steps, clock, lambda _, view: view.declared_columns, columns)
    for source, row in sourced_rows(steps):
        if problem := shape.sources[source].problem(row):
            raise ValueError(problem)
    return _played(shape, steps, on, spark)


def _of_step(number: int, problem: Problem) -> Problem:
    return replace(problem, field=f"steps[{number}].{problem.field}")


def run_transcript(
    transcript: Transcript,
    *,
    on: On = "oracle",
    spark: SparkSession | None = None,
    cuts: Sequence[str] = (),
    replayed: bool = False,
) -> list[Difference]:
    """Where the transcript does not hold: on the oracle under every cut, on the engine as written; or, on both,
    under the cuts named.

    What the engine does is also compared with the oracle under the same cut, in everything; with `replayed`,
    the log is then replayed in one shot and must say the same as the tables. What differs in the same way
    more than once is reported once.
    """
    steps, place, found = transcript.steps, str(transcript.file), []
    written = _oracle(transcript, steps, on)
    for cut in cuts or CUTS:
        outcome = written if cut == "as written" else _oracle(transcript, CUTS[cut](steps), on)
        if outcome is not None:
            found += [_under(each, cut) for each in check(transcript, outcome, cut)]
        if outcome is not None and written is not None and cut != "as written":
            found += compare_cuts(written, outcome, steps, ("as written", f"oracle, {cut}"), place)
    for cut in (cuts or ("as written",)) if on != "oracle" else ():
        found += _on_engine(transcript, cut, written, on, spark, replayed)
    return each_once(found)


def _on_engine(
    transcript: Transcript,
    cut: str,
    written: Outcome | None,
    on: On,
    spark: SparkSession | None,
    replayed: bool,
) -> list[Difference]:
    steps, place, recut = transcript.steps, str(transcript.file), CUTS[cut](transcript.steps)
    outcome = _played(transcript.shape, recut, on, spark, replayed)
    found = [_under(each, f"{on}, {cut}") for each in check(transcript, outcome, cut)]
    oracle = _oracle(transcript, recut, on)
    if oracle is not None:
        found += compare(oracle, outcome, ("oracle", f"{on}, {cut}"), place)
    if cut != "as written":
        written = written or _played(transcript.shape, steps, on, spark)
        found += compare_cuts(written, outcome, steps, ("as written", f"{on}, {cut}"), place)
    if outcome.replay:
        found.append(
            Difference(place, f"replayed in one shot, {cut}", outcome.replay, ("stored", "replayed"))
        )
    return found


def _under(difference: Difference, run: str) -> Difference:
    return replace(difference, runs=(run,))


def _oracle(transcript: Transcript, steps: Sequence[Step], on: On) -> Outcome | None:
    """What the oracle says; None where the engine plays too and only Spark can evaluate a predicate."""
    try:
        return on_oracle(transcript.shape, steps)
    except NeedsSpark:
        if on != "oracle":
            return None
        raise


def _played(
    shape: Shape, steps: Sequence[Step], on: On, spark: SparkSession | None, replayed: bool = False
) -> Outcome:
    if on == "oracle":
        return on_oracle(shape, steps)
    from latecomer.testing.engine import on_engine

    return on_engine(shape, steps, spark, replayed, in_tasks=on == "spark")
