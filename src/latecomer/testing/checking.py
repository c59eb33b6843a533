"""Compares an outcome with what a transcript states, and two outcomes with each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from latecomer.config.outputs import Output
from latecomer.model.panes import Accumulation, Op, Pane, Place, Timing
from latecomer.model.triggers import per_firing
from latecomer.model.verdicts import END_OF_TIME, Fate, Verdict
from latecomer.model.windows import Window
from latecomer.testing.differences import Difference, Pair, compared, differs, in_any_order, matched
from latecomer.testing.notation import (
    LISTS,
    Line,
    write_entry,
    write_late,
    write_pane,
    write_result,
    write_row,
)
from latecomer.testing.outcome import Assigned, Outcome
from latecomer.testing.scenario import Step, in_arrival_order, settles
from latecomer.testing.times import Times
from latecomer.testing.transcripts import Statement, Transcript


def check(transcript: Transcript, outcome: Outcome, cut: str = "as written") -> list[Difference]:
    """Where the outcome is not what the transcript states.

    Under a cut that is not the transcript's own, only statements that hold for any cut are checked.
    """
    differences: list[Difference] = []
    for statement in transcript.statements:
        if cut == "as written" or holds_for_any_cut(transcript, statement):
            place = f"{transcript.file}:{statement.line}"
            differences += check_statement(statement, outcome, place, _titled(transcript, statement))
    return differences


def holds_for_any_cut(transcript: Transcript, statement: Statement) -> bool:
    """Whether no cut may change it: fates, and in the end results, ledger, side output and watermark."""
    if not in_arrival_order(transcript.steps):
        return False
    if statement.kind == "fates":
        return True
    if statement.step is not None:
        return False
    if statement.kind == "results":
        return settles(transcript.pipeline.outputs[statement.output or ""], transcript.steps)
    return statement.kind in ("watermark", "ledger", "late")


def check_statement(statement: Statement, outcome: Outcome, place: str, what: str) -> list[Difference]:
    """Where the outcome is not what a statement says."""
    times, step, output = outcome.times, statement.step, statement.output
    pairs: tuple[Pair, ...]
    match statement.kind:
        case "fates":
            pairs = (_fates(statement, outcome),)
        case "watermark":
            actual = outcome.watermark(step)
            pairs = (Pair(times.write(statement.stated), times.write(actual), actual == statement.stated),)
        case kind:
            rules, write = outcome.pipeline.outputs[outcome.only(output)], LISTS[kind][1]
            pairs = matched(
                statement.stated,
                _actual(statement, outcome),
                lambda line, each: line.names(each, rules.by, times),
                lambda each: write(each, rules.by, times),
                in_turn(rules) if kind == "panes" else in_any_order,
            )
    return [Difference(place, what, pairs)] if differs(pairs) else []


def _actual(statement: Statement, outcome: Outcome) -> Sequence[Any]:
    """What the lines of a statement have to say, all of it; of the ledger only the units that they name."""
    output, step = statement.output, statement.step
    match statement.kind:
        case "panes":
            return outcome.panes(output, step)
        case "results":
            return _result_panes(outcome.results(output, step))
        case "late":
            return outcome.late(output, step)
    units = {line.unit for line in statement.stated}
    return [entry for entry in outcome.ledger(output, step) if entry.unit in units]


def in_turn(rules: Output) -> Callable[[Pane, Pane], bool]:
    """Whether it matters which of two panes of an output was published first.

    It does for the panes of one window and key, and for sessions of a key that overlap: one replaces the other.
    Two retractions may come in any order.
    """

    def one_history(one: Pane, other: Pane) -> bool:
        if one.key != other.key or (one.op, other.op) == (Op.RETRACT, Op.RETRACT):
            return False
        windows = [Window(pane.window_start, pane.window_end) for pane in (one, other)]
        return windows[0].overlaps(windows[1]) if sessions else windows[0] == windows[1]

    sessions = rules.window.merges
    return one_history


def _titled(transcript: Transcript, statement: Statement) -> str:
    of = f" of {statement.output}" if statement.output and len(transcript.pipeline.outputs) > 1 else ""
    if statement.step is None:
        return f"{statement.kind}{of} in the end"
    action = type(transcript.steps[statement.step]).__name__.lower()
    return f"{statement.kind}{of} after step {statement.step + 1}, a {action}"


def _result_panes(results: Iterable[tuple[Place, Mapping[str, Any]]]) -> list[Pane]:
    return [Pane(*place, values, 0, Timing.ON_TIME) for place, values in results]


def _fates(statement: Statement, outcome: Outcome) -> Pair:
    row = statement.row or 0
    arrived = write_row(outcome.rows[row], outcome.times)
    expected = ", ".join(" ".join(words) for words in statement.stated)
    fates = outcome.fates[outcome.only(statement.output)][row]
    if fates is None:
        return Pair(f"{arrived} -> {expected}", "(the tables do not tell)", True)
    judged = [fates[-1]] if len(statement.stated) == 1 else list(fates)
    # The tables do not always have the verdict: where they do not, only the fate is compared.
    same = len(judged) == len(statement.stated) and all(
        set(words) <= each.words or (each.window is None and each.fate.value in words)
        for words, each in zip(statement.stated, judged, strict=True)
    )
    return Pair(f"{arrived} -> {expected}", ", ".join(map(_fate, judged)), same)


def _fate(assigned: Assigned) -> str:
    verdict = assigned.verdict if assigned.verdict not in (None, assigned.fate.value) else ""
    return " ".join(filter(None, (verdict, assigned.fate.value, assigned.reason)))


# Two outcomes


def compare(
    expected: Outcome, actual: Outcome, sides: tuple[str, str] = ("expected", "actual"), place: str = ""
) -> list[Difference]:
    """Where two outcomes of the same steps differ: watermarks, fates, panes, side output, ledger."""
    times, both = expected.times, (expected, actual)
    reached = [[times.write(step.watermark) for step in each.steps] for each in both]
    checks = {
        "watermark after each step": compared(
            *([f"{nth}: {mark}" for nth, mark in enumerate(marks, 1)] for marks in reached)
        )
    }
    for name, output in expected.pipeline.outputs.items():
        known = [row for row, fates in enumerate(actual.fates[name]) if fates is not None]
        checks[f"fates of {name}"] = compared(*(_fate_lines(each, name, known, actual) for each in both))
        if name in actual.read:
            results = (expected.results(name), actual.read[name])
            checks[f"results of {name} as they are read"] = compared(
                *(_result_lines(each, output, times) for each in results)
            )
        for step in range(len(expected.steps)):
            after = f"{name} after step {step + 1}"
            checks[f"panes of {after}"] = _panes_in_turn(expected, actual, name, step)
            checks[f"side output of {after}"] = compared(
                *([write_late(late, output.by, times) for late in each.late(name, step)] for each in both)
            )
            checks[f"ledger of {after}"] = compared(
                *(
                    [
                        write_entry(e, output.by, times)
                        for e in each.ledger(name, step)
                        if _received(each, step)
                    ]
                    for each in both
                )
            )
    return _differences(checks, place, sides)


def _differences(
    checks: Mapping[str, tuple[Pair, ...]], place: str, sides: tuple[str, str]
) -> list[Difference]:
    return [Difference(place, what, pairs, sides) for what, pairs in checks.items() if differs(pairs)]


def _result_lines(
    results: Iterable[tuple[Place, Mapping[str, Any]]], output: Output, times: Times
) -> list[str]:
    return [write_result(pane, output.by, times) for pane in _result_panes(results)]


def _panes_in_turn(expected: Outcome, actual: Outcome, name: str, step: int) -> tuple[Pair, ...]:
    rules = expected.pipeline.outputs[name]

    def write(pane: Pane) -> str:
        return write_pane(pane, rules.by, expected.times)

    return matched(
        [Line(write(pane)) for pane in expected.panes(name, step)],
        actual.panes(name, step),
        lambda line, pane: line.line == write(pane),
        write,
        in_turn(rules),
    )


def _received(outcome: Outcome, step: int) -> bool:
    return any(entry.received for entry in outcome.steps[step].ledger)


def _fate_lines(outcome: Outcome, name: str, rows: Sequence[int], coarse: Outcome) -> list[str]:
    """A line for each row; only the fate, where the other side has no more."""
    lines = []
    for row in rows:
        assigned, other = outcome.fates[name][row] or (), coarse.fates[name][row] or ()
        fates_alone = all(each.window is None and each.reason is None for each in other)
        fates = ", ".join(each.fate.value if fates_alone else _fate(each) for each in assigned)
        lines.append(f"{write_row(outcome.rows[row], outcome.times)} -> {fates}")
    return lines


def compare_cuts(
    expected: Outcome, actual: Outcome, steps: Sequence[Step], sides: tuple[str, str], place: str = ""
) -> list[Difference]:
    """Where two cuts of the same rows differ in something that no cut may change."""
    if not in_arrival_order(steps):
        return []
    both, checks = (expected, actual), dict[str, tuple[Pair, ...]]()
    for name, output in expected.pipeline.outputs.items():
        known = [
            row for row in range(len(actual.rows)) if _comparable(*(each.fates[name][row] for each in both))
        ]
        checks[f"fates of {name}"] = compared(*(_fate_lines(each, name, known, actual) for each in both))
        if not output.window.merges and output.trigger.on_time == "always":
            checks[f"ON_TIME panes of {name}"] = compared(*(_on_time(each, name) for each in both))
        if fires_by_itself(output):
            checks[f"panes of {name}"] = compared(*(_panes(each, name) for each in both))
        if settles(output, steps):
            checks[f"results of {name}"] = compared(
                *(_result_lines(each.results(name), output, each.times) for each in both)
            )
    if actual.watermark() != END_OF_TIME:
        checks["watermark in the end"] = compared(*([each.times.write(each.watermark())] for each in both))
    return _differences({f"{what}, whatever the cut": pairs for what, pairs in checks.items()}, place, sides)


def fires_by_itself(output: Output) -> bool:
    """Whether no cut into batches may change the panes: no rule of the output goes by batches."""
    waits = output.late.accepts and not per_firing(output.trigger.late)
    early = output.trigger.early
    return not waits and (early is None or per_firing(early))


def _panes(outcome: Outcome, name: str) -> list[str]:
    """All panes, window by window, each in its order."""
    output = outcome.pipeline.outputs[name]
    panes = sorted(outcome.panes(name), key=lambda pane: (pane.window_start, pane.window_end, str(pane.key)))
    return [write_pane(pane, output.by, outcome.times) for pane in panes]


def _comparable(one: tuple[Assigned, ...] | None, other: tuple[Assigned, ...] | None) -> bool:
    """Whether no cut may change this fate. Between two batches ids may be forgotten: a duplicate that comes after
    that is too late instead, and is not added up either."""
    if one is None or other is None:
        return False
    last = one[-1], other[-1]
    forgotten = {each.fate is Fate.DUPLICATE for each in last} == {True, False}
    return not (forgotten and any(each.verdict is Verdict.TOO_LATE for each in last))


def _on_time(outcome: Outcome, name: str) -> list[str]:
    """The ON_TIME panes without what depends on the panes before them."""
    output = outcome.pipeline.outputs[name]
    discarding = output.accumulation is Accumulation.DISCARDING
    return [
        write_pane(
            Pane(*pane.place, {} if discarding else pane.values, 0, Timing.ON_TIME), output.by, outcome.times
        )
        for pane in outcome.panes(name)
        if pane.timing is Timing.ON_TIME and pane.op is Op.INSERT
    ]
