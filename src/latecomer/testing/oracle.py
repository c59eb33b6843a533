"""Plays a scenario on the oracle: the semantics in plain Python, in milliseconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from latecomer.config.derived import seen_types
from latecomer.model.expressions import Expression, Failed, expression
from latecomer.model.oracle.arrivals import Arrival, Drain, Heartbeat, JudgedArrival, Partitions, Watermark
from latecomer.model.oracle.interpreter import interpret
from latecomer.model.panes import Pane
from latecomer.model.simple_predicates import NeedsSpark, predicate
from latecomer.model.types import scale_of
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.model.written_numbers import fits
from latecomer.testing.notation import Late
from latecomer.testing.outcome import Assigned, Outcome, StepOutcome
from latecomer.testing.rows import Row
from latecomer.testing.scenario import Batch, Step, read_rows, sourced_rows
from latecomer.testing.shapes import Shape

Item = list[Arrival] | Heartbeat | Drain | Watermark | Partitions


def on_oracle(shape: Shape, steps: Sequence[Step]) -> Outcome:
    """What the semantics say. A restart does nothing."""
    pipeline, rows = shape.pipeline, read_rows(steps)
    outputs, watermark = pipeline.outputs, pipeline.watermark
    reach = max(output.allowed_lateness + output.window.reach for output in outputs.values())
    marks = {view.watermark.needs.where for view in pipeline.views.values()} - {None}
    derived = _derived(shape)
    kinds = {**shape.columns, **{name: each.kind for name, each in derived.items()}}
    items = list(_items(shape, steps, derived))
    interpreted = interpret(
        [item for item, _ in items],
        watermark,
        outputs,
        where={
            name: predicate(output.where, kinds)
            for name, output in outputs.items()
            if output.where is not None
        },
        measures=pipeline.ledger,
        reach=reach if pipeline.event.id else None,
        marks={where: predicate(where, shape.columns) for where in marks if where is not None},
        when={sql: predicate(sql, kinds) for output in outputs.values() for sql in output.trigger.whens},
    )
    numbers = {step: number for (_, step), number in zip(items, interpreted.numbers, strict=True)}
    outcomes, mark = [], BEGIN_OF_TIME
    for step in range(len(steps)):
        number = numbers.get(step)
        if number is None:
            outcomes.append(StepOutcome(mark))
            continue
        mark = interpreted.watermarks[number]
        outcomes.append(
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
                        _late(rows, each) for each in interpreted.side_output(name) if each.batch == number
                    ]
                    for name in outputs
                },
                [entry for entry in interpreted.ledger if entry.batch == number],
            )
        )
    reasons = [shape.sources[source].reason(row) for source, row in sourced_rows(steps)]
    fates: dict[str, list[tuple[Assigned, ...] | None]] = {}
    for name, judged in interpreted.judged.items():
        by_row: dict[int, list[Assigned]] = {}
        for each in judged:
            dead = each.fate is Fate.DEAD_LETTER
            reason = reasons[each.position] if dead else None
            by_row.setdefault(each.position, []).append(
                Assigned(each.fate, each.window, each.verdict, reason)
            )
        fates[name] = [tuple(by_row[index]) for index in range(len(rows))]
    return Outcome(pipeline, shape.times, rows, outcomes, fates)


def _derived(shape: Shape) -> dict[str, Expression]:
    seen = seen_types(shape.pipeline, shape.columns)
    expressions: dict[str, Expression] = {}
    for output in shape.pipeline.outputs.values():
        for name, each in output.columns.items():
            parsed = expression(each.sql, seen)
            if parsed.value is None or (output.columns[name] != shape.pipeline.derived.get(name, each)):
                raise NeedsSpark(f"column {name} ({each.sql}) can only be computed by Spark; run it on Spark")
            expressions[name] = parsed
    return expressions


def _with_derived(arrival: Arrival, derived: Mapping[str, Expression]) -> Arrival:
    values: dict[str, Any] = dict.fromkeys(derived)
    failed = set()
    for name, column in derived.items():
        try:
            values[name] = column.computed(arrival.payload)
        except Failed:
            failed.add(name)
    return replace(arrival, payload={**arrival.payload, **values}, failed=frozenset(failed))


def _as_published(pane: Pane, output: str, shape: Shape) -> Pane:
    """The pane as its columns hold it: averages of decimals are rounded, and sums of more than 38 digits are null."""
    values = dict(pane.values)
    for name, aggregate in shape.pipeline.outputs[output].aggregates.items():
        if isinstance(values[name], Decimal) and aggregate.function == "sum":
            whole_digits = 38 - scale_of(shape.columns.get(aggregate.column or "", "bigint"))
            values[name] = values[name] if fits(values[name], whole_digits) else None
        if isinstance(values[name], Decimal) and aggregate.function == "avg":
            digits = min(scale_of(shape.columns.get(aggregate.column or "", "bigint")) + 4, 20)
            with localcontext(prec=60):
                values[name] = values[name].quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return replace(pane, values=values)


def _items(
    shape: Shape, steps: Sequence[Step], derived: Mapping[str, Expression]
) -> Iterator[tuple[Item, int | None]]:
    """The input of the oracle, and the step of each item.

    With several sources, the partitions are named before each batch, also if no step names them.
    """
    sources, named = shape.pipeline.sources, dict[str, bool]()
    for number, step in enumerate(steps):
        match step:
            case Batch():
                if sources:
                    yield Partitions(named, sources.keys()), None
                yield [_with_derived(shape.arrival(*each), derived) for each in step.sourced], number
            case Partitions() if sources:
                named = dict(step.named)
            case Heartbeat() | Drain() | Watermark() | Partitions():
                yield step, number


def _late(rows: Sequence[Row], judged: JudgedArrival) -> Late:
    assert judged.window and judged.verdict and judged.watermark is not None  # noqa: S101, PT018
    return Late(rows[judged.position], judged.window, judged.verdict, judged.watermark)
