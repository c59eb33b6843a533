"""Hypothesis strategies: random inputs for a pipeline of your own, and random pipelines for its rules.

Hypothesis is not a dependency of latecomer; this module needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

try:
    from hypothesis import strategies as st
except ImportError as error:  # pragma: no cover - the tests have it
    raise ImportError("latecomer.testing.strategies needs Hypothesis: pip install hypothesis") from error

from latecomer.config import columns as types
from latecomer.config.models import Pipeline
from latecomer.model.arrivals import Drain, Heartbeat
from latecomer.model.durations import parse_duration
from latecomer.testing.rows import Row
from latecomer.testing.scenario import Batch, Restart, Step
from latecomer.testing.times import Times

__all__ = ["batches", "rows", "scenarios", "values"]

_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "double": st.floats(-1e6, 1e6, allow_nan=False),
    "float": st.integers(-1000, 1000).map(float),
    "date": st.dates(),
}


def values(kind: str) -> st.SearchStrategy[Any]:
    """Values of a column of this type, null among them. Text is one of a few, so that keys meet."""
    if kind in types.INTEGERS:
        some: st.SearchStrategy[Any] = st.integers(-100, 100)
    elif types.is_decimal(kind):
        some = st.integers(-10_000, 10_000).map(lambda number: f"{number / 100:.2f}")
    else:
        some = _VALUES.get(kind, st.sampled_from("abc"))
    return st.one_of(st.none(), some)


@st.composite
def rows(
    draw: st.DrawFn,
    pipeline: Pipeline,
    *,
    columns: Mapping[str, st.SearchStrategy[Any]] | None = None,
    start: str = "2026-04-25T14:00",
    step: str = "20s",
    delay: str = "10m",
    max_size: int = 30,
    corrupt: bool = True,
) -> list[Row]:
    """Rows in arrival order for the columns of `source.schema`, some of them late by up to `delay`.

    `step` is about how far apart they arrive. `columns` has strategies for columns of its own. With
    `event.id` some rows come twice, and with `corrupt` some have no event time, or one from a day ahead.
    """
    declared = pipeline.source.columns or {}
    taken = (pipeline.event.time, pipeline.source.files.order_by)
    each = {name: values(kind) for name, kind in declared.items() if name not in taken}
    if pipeline.event.id in each:
        each[pipeline.event.id] = st.none()
    fields = st.fixed_dictionaries({**each, **(columns or {})})
    now, longest, apart = Times().read(start), parse_duration(delay), parse_duration(step)
    found: list[Row] = []
    for number in range(draw(st.integers(0, max_size))):
        now += draw(st.integers(0, 2 * apart))
        if pipeline.event.id and found and draw(st.integers(0, 9)) == 0:
            found.append(replace(draw(st.sampled_from(found)), arrival_time=now))
            continue
        late = draw(st.one_of(st.just(0), st.integers(0, longest // 20), st.integers(0, longest)))
        happened: int | None = now - late
        if corrupt and draw(st.integers(0, 19)) == 0:
            happened = draw(st.sampled_from((None, now + parse_duration("1d"))))
        named = {pipeline.event.id: number} if pipeline.event.id and draw(st.booleans()) else {}
        found.append(Row(happened, now, {**draw(fields), **named}))
    return found


@st.composite
def batches(draw: st.DrawFn, read: list[Row]) -> list[Step]:
    """The rows cut into batches anywhere."""
    cut: list[Step] = []
    while read:
        size = draw(st.integers(1, len(read)))
        cut.append(Batch(tuple(read[:size])))
        read = read[size:]
    return cut


@st.composite
def scenarios(
    draw: st.DrawFn, /, pipeline: Pipeline, *, silence: str = "10m", restarts: bool = True, **of_rows: Any
) -> list[Step]:
    """Everything that can happen: batches, heartbeats within `silence` after them, restarts, a drain.

    Further arguments are those of `rows`.
    """
    steps: list[Step] = []
    longest = parse_duration(silence)
    cut = draw(rows(pipeline, **of_rows).flatmap(batches))
    for step, following in zip(cut, [*cut[1:], None], strict=False):
        steps.append(step)
        until = following.rows[0].arrival_time if isinstance(following, Batch) else None
        quiet = _last(step) + draw(st.integers(0, longest))
        if draw(st.booleans()) and (until is None or quiet <= until):
            steps.append(Heartbeat(quiet))
        if restarts and draw(st.integers(0, 4)) == 0:
            steps.append(Restart())
    return [*steps, *([Drain()] if draw(st.booleans()) else [])]


def _last(step: Step) -> int:
    return max(row.arrival_time for row in step.rows) if isinstance(step, Batch) else 0
