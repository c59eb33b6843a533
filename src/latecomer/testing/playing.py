"""Plays a scenario or a transcript on the oracle or on the engine, and asserts what must come of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from latecomer.config.all_columns import SOURCE
from latecomer.config.models import Pipeline
from latecomer.errors import PipelineError
from latecomer.model.ledger import unbalanced
from latecomer.model.simple_predicates import NeedsSpark
from latecomer.testing.checking import check, check_statement, compare, compare_cuts
from latecomer.testing.differences import Difference, each_once
from latecomer.testing.notation import LISTS, read_fates, unknown_name
from latecomer.testing.oracle import on_oracle
from latecomer.testing.outcome import Outcome
from latecomer.testing.scenario import CUTS, Scenario, Step, backwards, sourced_rows, steered
from latecomer.testing.shapes import Shape, mistaken_sources, shape_of
from latecomer.testing.times import Times
from latecomer.testing.transcripts import Statement, Transcript

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
    replayed: bool = False,
) -> list[Difference]:
    """Where the transcript does not hold: on the oracle under every cut, on the engine as written; or, on both, under
    `cuts`.

    The engine is also compared with the oracle under the same cut, in everything. With `replayed`, the log is then
    replayed in one shot and must equal the tables. Equal differences are reported once.
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
        differences += _on_engine(transcript, cut, written, on, spark, replayed)
    return each_once(differences)


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
    run = f"{on}, {cut}"
    differences = [replace(each, runs=(run,)) for each in check(transcript, outcome, cut)]
    oracle = _oracle(transcript, recut, on)
    if oracle is not None:
        differences += compare(oracle, outcome, ("oracle", run), place)
    if cut != "as written":
        written = written or _played(transcript.shape, steps, on, spark)
        differences += compare_cuts(written, outcome, steps, ("as written", run), place)
    if outcome.replay:
        differences.append(
            Difference(place, f"replayed in one shot, {cut}", outcome.replay, ("stored", "replayed"))
        )
    return differences


def _oracle(transcript: Transcript, steps: Sequence[Step], on: On) -> Outcome | None:
    """The outcome on the oracle; None if only Spark can evaluate a predicate and the engine plays, too."""
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


# Assertions about an outcome. What fails is shown side by side


Lines = str | Sequence[str]


def assert_panes(outcome: Outcome, lines: Lines, output: str | None = None, step: int | None = None) -> None:
    """Exactly these panes were published, by a step (counted from 0) or by all; those of one window and key
    in this order."""
    _assert_lines("panes", outcome, lines, output, step)


def assert_results(
    outcome: Outcome, lines: Lines, output: str | None = None, step: int | None = None
) -> None:
    """Exactly these numbers stand after a step, or in the end."""
    _assert_lines("results", outcome, lines, output, step)


def assert_late(outcome: Outcome, lines: Lines, output: str | None = None, step: int | None = None) -> None:
    """Exactly these rows are in the side output."""
    _assert_lines("late", outcome, lines, output, step)


def assert_ledger(outcome: Outcome, lines: Lines, output: str | None = None, step: int | None = None) -> None:
    """The ledger has these lines, in the units that are named; a fate that a line leaves out is zero."""
    _assert_lines("ledger", outcome, lines, output, step)


def assert_fates(outcome: Outcome, fates: Lines, output: str | None = None) -> None:
    """What became of each row, in reading order: one line for each, `late_accepted` or `dropped, on_time`."""
    stated = _listed(fates)
    if len(stated) != len(outcome.rows):
        raise AssertionError(f"{len(stated)} fates are stated, and there are {len(outcome.rows)} rows")
    for row, words in enumerate(stated):
        _assert(outcome, Statement("fates", None, read_fates(words), outcome.only(output), None, row))


def assert_watermark(outcome: Outcome, watermark: str, step: int | None = None) -> None:
    """Where the watermark stands after a step, or in the end: `14:01`, `none` or `end`."""
    moment = outcome.times.read_watermark(watermark)
    _assert(outcome, Statement("watermark", None, moment, None, step))


def assert_balances(outcome: Outcome) -> None:
    """What was received is the sum of all fates, in every batch, output and unit."""
    entries = [entry for step in outcome.steps for entry in step.ledger]
    if wrong := unbalanced(entries):
        raise AssertionError("\n".join(str(entry) for entry in wrong))


def assert_same_for_all_cuts(pipeline: Pipeline, scenario: Scenario | Sequence[Step], **how: Any) -> Outcome:
    """However the rows are cut into batches, fates, ON_TIME panes and results are the same. Returns the outcome
    of the scenario as it is cut; `how` goes to `play`."""
    steps = scenario.steps if isinstance(scenario, Scenario) else list(scenario)
    written = play(pipeline, scenario, **how)
    for cut in ("one by one", "all in one"):
        recut = play(pipeline, CUTS[cut](steps), **how)
        _require_none(compare_cuts(written, recut, steps, ("as it is cut", cut), "scenario"))
    return written


def assert_transcript(transcript: Transcript, **how: Any) -> None:
    """The transcript holds; `how` goes to `run_transcript`."""
    _require_none(run_transcript(transcript, **how))


def _assert_lines(kind: str, outcome: Outcome, lines: Lines, output: str | None, step: int | None) -> None:
    read, _ = LISTS[kind]
    stated = [read(line, outcome.times) for line in _listed(lines)]
    rules = outcome.pipeline.outputs[outcome.only(output)]
    columns = {
        *(name for view in outcome.pipeline.views.values() for name in view.declared_columns or ()),
        *([SOURCE] if outcome.pipeline.sources else []),
        *(name for row in outcome.rows for name in row.fields),
    }
    for each in stated:
        if problem := unknown_name(each, rules, columns, outcome.pipeline.ledger):
            raise ValueError(problem)
    _assert(outcome, Statement(kind, None, stated, outcome.only(output), step))


def _assert(outcome: Outcome, statement: Statement) -> None:
    _require_none(check_statement(statement, outcome, "outcome", statement.kind))


def _listed(lines: Lines) -> list[str]:
    """A list of lines, from text or from a list."""
    listed = lines.splitlines() if isinstance(lines, str) else lines
    return [line.strip() for line in listed if line.strip()]


def _require_none(differences: Sequence[object]) -> None:
    if differences:
        raise AssertionError("\n\n".join(str(difference) for difference in differences))
