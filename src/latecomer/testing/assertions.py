"""Assertions about an outcome. What fails is shown side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from latecomer.config.merged import SOURCE
from latecomer.config.models import Pipeline
from latecomer.model.ledger import unbalanced
from latecomer.testing.checking import check_statement, compare_cuts
from latecomer.testing.notation import LISTS, read_fates, unknown_name
from latecomer.testing.outcome import Outcome
from latecomer.testing.playing import play, run_transcript
from latecomer.testing.scenario import CUTS, Scenario, Step
from latecomer.testing.transcripts import Statement, Transcript

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
