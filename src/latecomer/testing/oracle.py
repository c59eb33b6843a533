"""A scenario through the oracle: the semantics in plain Python, in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal, localcontext

from latecomer.model.arrivals import Arrival, Drain, Heartbeat, Judged, Partitions, Watermark
from latecomer.model.interpreter import interpret
from latecomer.model.panes import Pane
from latecomer.model.simple_predicates import predicate
from latecomer.model.types import scale_of
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.model.written_numbers import fits
from latecomer.testing.notation import Late
from latecomer.testing.outcome import Assigned, Outcome, StepOutcome
from latecomer.testing.rows import Shape
from latecomer.testing.scenario import Batch, Restart, Step, rows_of


def on_oracle(shape: Shape, steps: Sequence[Step]) -> Outcome:
    """What the semantics say. A restart is nothing to the oracle."""
    pipeline, rows = shape.pipeline, rows_of(steps)
    outputs, watermark = pipeline.outputs, pipeline.watermark
    reach = max(output.allowed_lateness + output.window.reach for output in outputs.values())
    marks = watermark.needs.where
    interpreted = interpret(
        [_item(shape, step) for step in steps if not isinstance(step, Restart)],
        watermark,
        outputs,
        where={
            name: predicate(output.where, shape.columns)
            for name, output in outputs.items()
            if output.where is not None
        },
        measures=pipeline.ledger,
        reach=reach if pipeline.event.id else None,
        marks=None if marks is None else predicate(marks, shape.columns),
    )
    numbers = iter(interpreted.numbers)
    told, mark = [], BEGIN_OF_TIME
    for step in steps:
        number = None if isinstance(step, Restart) else next(numbers)
        if number is None:
            told.append(StepOutcome(mark))
            continue
        mark = interpreted.watermarks[number]
        told.append(
            StepOutcome(
                mark,
                {
                    name: [
                        _as_published(each.pane, name, shape) for each in published if each.batch == number
                    ]
                    for name, published in interpreted.published.items()
                },
                {
                    name: [
                        _late(steps, each) for each in interpreted.side_output(name) if each.batch == number
                    ]
                    for name in outputs
                },
                [entry for entry in interpreted.ledger if entry.batch == number],
            )
        )
    fates: dict[str, list[tuple[Assigned, ...] | None]] = {}
    for name, judged in interpreted.judged.items():
        by_row: dict[int, list[Assigned]] = {}
        for each in judged:
            dead = each.fate is Fate.DEAD_LETTER
            reason = shape.reason(rows[each.position]) if dead else None
            by_row.setdefault(each.position, []).append(
                Assigned(each.fate, each.window, each.verdict, reason)
            )
        fates[name] = [tuple(by_row[index]) for index in range(len(rows))]
    return Outcome(pipeline, shape.times, rows, told, fates)


def _as_published(pane: Pane, output: str, shape: Shape) -> Pane:
    """The pane as its columns hold it: averages of decimals rounded, and no sum of more than 38 digits."""
    values = dict(pane.values)
    for name, aggregate in shape.pipeline.outputs[output].aggregates.items():
        if isinstance(values[name], Decimal) and aggregate.function == "sum":
            whole_digits = 38 - scale_of(shape.columns[aggregate.column or ""])
            values[name] = values[name] if fits(values[name], whole_digits) else None
        if isinstance(values[name], Decimal) and aggregate.function == "avg":
            digits = min(scale_of(shape.columns[aggregate.column or ""]) + 4, 20)
            with localcontext(prec=60):
                values[name] = values[name].quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return replace(pane, values=values)


def _item(shape: Shape, step: Step) -> list[Arrival] | Heartbeat | Drain | Watermark | Partitions:
    if isinstance(step, Heartbeat | Drain | Watermark | Partitions):
        return step
    assert isinstance(step, Batch)  # noqa: S101
    return [shape.arrival(row) for row in step.rows]


def _late(steps: Sequence[Step], judged: Judged) -> Late:
    assert judged.window and judged.verdict and judged.watermark is not None  # noqa: S101, PT018
    return Late(rows_of(steps)[judged.position], judged.window, judged.verdict, judged.watermark)
