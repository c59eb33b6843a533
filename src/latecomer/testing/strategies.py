"""Hypothesis strategies: random inputs for a pipeline of your own.

Hypothesis is not a dependency of latecomer; this module needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any, TypeVar

try:
    from hypothesis import strategies as st
except ImportError as error:  # pragma: no cover - the tests have it
    raise ImportError("latecomer.testing.strategies needs Hypothesis: pip install hypothesis") from error

from latecomer.config.all_columns import SOURCE
from latecomer.config.models import Pipeline
from latecomer.errors import PipelineError
from latecomer.model import types
from latecomer.model.durations import parse_duration
from latecomer.model.oracle.arrivals import Drain, Heartbeat, Watermark
from latecomer.testing.rows import Row, SourceShape
from latecomer.testing.scenario import Batch, Restart, Step
from latecomer.testing.shapes import source_problem
from latecomer.testing.times import Times

__all__ = ["batches", "rows", "scenarios", "values"]

_Row = TypeVar("_Row")
_DAY = date(2026, 4, 25)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "double": st.floats(-1e6, 1e6, allow_nan=False),
    "float": st.integers(-1000, 1000).map(float),
    "date": st.integers(-9, 9).map(lambda days: _DAY + timedelta(days)),
    "binary": st.sampled_from((b"a", b"b", b"c")),
    "string": st.sampled_from("abc"),
}
_MOMENTS = st.integers(-9, 9).map(lambda minutes: datetime(2026, 4, 25, 14, 9 + minutes, tzinfo=UTC))


def values(kind: str) -> st.SearchStrategy[Any]:
    """Values of a column of this type, null among them. There are few texts and times, so that keys meet."""
    return _within(types.normal_type(kind))


def _some(kind: str) -> st.SearchStrategy[Any]:
    """Values of this type that are not null."""
    match types.nested_type(kind):
        case "array", {"element": inner}:
            return st.lists(_within(inner), max_size=3)
        case "map", {"value": inner}:
            return st.dictionaries(st.sampled_from("abc"), _within(inner), max_size=3)
        case _, fields:
            return st.fixed_dictionaries({name: _within(inner) for name, inner in fields.items()})
    if kind in types.INTEGERS:
        some: st.SearchStrategy[Any] = st.integers(-100, 100)
    elif types.is_decimal(kind):
        most = min(10_000, 10 ** (types.whole_digits(kind) + types.scale_of(kind)) - 1)
        some = st.integers(-most, most).map(lambda number: _decimal(number, kind))
    else:
        some = _MOMENTS if kind.startswith("timestamp") else _VALUES[kind]
    return some


def _within(kind: str) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), _some(kind))


def _decimal(number: int, kind: str) -> Decimal:
    return Decimal(number).scaleb(-types.scale_of(kind))


def _id(number: int, kind: str) -> Any:
    """The id with this number, as a column of the type has it; small types have few ids."""
    if kind in ("tinyint", "boolean"):
        return number % 100 if kind == "tinyint" else number % 2 == 0
    if types.is_decimal(kind):
        return _decimal(number % 10 ** (types.whole_digits(kind) + types.scale_of(kind)), kind)
    if kind == "date":
        return _DAY + timedelta(number)
    if kind.startswith("timestamp"):
        return datetime(2026, 4, 25, tzinfo=UTC) + timedelta(seconds=number)
    return str(number) if kind in ("string", "binary") else number


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
    source: str = "",
) -> list[Row]:
    """Rows in arrival order for the columns of `source.schema`, some of them late by up to `delay`.

    With several sources, `source` names theirs. They arrive about `step` apart. `columns` has strategies for single
    columns. With `event.id` some rows come twice, and with `corrupt` some have no event time, or one that is a day
    ahead. Times are rounded to what their columns can hold; a column that can hold no time is a ValueError.
    """
    if problem := source_problem(pipeline, source):
        raise PipelineError([replace(problem, field="source", file="rows()")])
    view = pipeline.views[source]
    declared = view.declared_columns or {}
    shape, own = SourceShape(view, declared, name=source), columns or {}
    ids = [name for name in pipeline.event.id_columns if not (source and name == SOURCE)]
    each = {name: values(declared[name]) for name in shape.given}
    each |= {name: st.none() for name in (*ids, shape.time_marker) if name in each}
    named_ids = [name for name in ids if name not in (pipeline.event.time, shape.arrival_column, *own)]
    fields = st.fixed_dictionaries({**each, **own})
    now, longest, apart = Times().read(start), parse_duration(delay), parse_duration(step)
    made: list[Row] = []

    def behind() -> int:
        return draw(st.one_of(st.just(0), st.integers(0, longest // 20), st.integers(0, longest)))

    for number in range(draw(st.integers(0, max_size))):
        now += draw(st.integers(0, 2 * apart))
        arrived = _held(shape, shape.arrival_column, now)
        if ids and made and draw(st.integers(0, 9)) == 0:
            made.append(replace(draw(st.sampled_from(made)), arrival_time=arrived))
            continue
        happened: int | None = now - behind()
        if corrupt and draw(st.integers(0, 19)) == 0:
            happened = draw(st.sampled_from((None, now + parse_duration("1d"))))
        if happened is not None:
            happened = _held(shape, pipeline.event.time, happened)
        values_of = draw(fields)
        for name in named_ids:
            if draw(st.booleans()):
                values_of[name] = _id(number, declared.get(name, "string"))
        if shape.time_marker and shape.time_marker not in own and draw(st.booleans()):
            values_of[shape.time_marker] = _held(shape, shape.time_marker, now - behind())
        made.append(Row(happened, arrived, values_of))
    return made


def _held(shape: SourceShape, column: str, micros: int) -> int:
    try:
        return shape.held(column, micros)
    except ValueError as error:
        raise ValueError(f"{column}: {error}") from None


@st.composite
def batches(draw: st.DrawFn, read: list[Row], source: str = "") -> list[Step]:
    """The rows, cut into batches anywhere."""
    return [Batch(tuple(part), source) for part in _cut(draw, read)]


def _cut(draw: st.DrawFn, rows: list[_Row]) -> Iterator[list[_Row]]:
    """The parts of a list that is cut anywhere."""
    while rows:
        size = draw(st.integers(1, len(rows)))
        yield rows[:size]
        rows = rows[size:]


@st.composite
def _batches_of_all(draw: st.DrawFn, /, pipeline: Pipeline, **of_rows: Any) -> list[Step]:
    """The rows of all sources. Each source is cut anywhere and its batches are sorted by their first arrivals; or all
    rows are in the order of their arrivals, in batches of one source or of several."""
    if not pipeline.sources:
        return draw(rows(pipeline, **of_rows).flatmap(batches))
    own = of_rows.pop("columns", None) or {}
    read = {
        name: draw(
            rows(pipeline, source=name, columns={each: own[each] for each in own if each in seen}, **of_rows)
        )
        for name, seen in ((name, view.declared_columns or own) for name, view in pipeline.views.items())
    }
    if draw(st.booleans()):
        cut = [step for name, each in read.items() for step in draw(batches(each, name))]
        return sorted(cut, key=_first)
    arrived = sorted(
        ((name, row) for name, each in read.items() for row in each), key=lambda each: each[1].arrival_time
    )
    if draw(st.booleans()):
        together = (zip(*part, strict=True) for part in _cut(draw, arrived))
        return [Batch(tuple(read_now), sources=tuple(names)) for names, read_now in together]
    runs = [(name, [row for _, row in run]) for name, run in groupby(arrived, key=lambda each: each[0])]
    return [step for name, run in runs for step in draw(batches(run, name))]


@st.composite
def scenarios(
    draw: st.DrawFn,
    /,
    pipeline: Pipeline,
    *,
    silence: str = "10m",
    restarts: bool = True,
    by_hand: bool = False,
    **of_rows: Any,
) -> list[Step]:
    """Everything that can happen: batches, heartbeats within `silence` after them, restarts, a drain.

    With `by_hand`, steps move the watermark, to somewhere around the arrivals. Further arguments are those of `rows`.
    """
    steps: list[Step] = []
    longest = parse_duration(silence)
    cut = draw(_batches_of_all(pipeline, **of_rows))
    for step, following in zip(cut, [*cut[1:], None], strict=False):
        steps.append(step)
        until = following.rows[0].arrival_time if isinstance(following, Batch) else None
        quiet = _last(step) + draw(st.integers(0, longest))
        if draw(st.booleans()) and (until is None or quiet <= until):
            steps.append(Heartbeat(quiet))
        if by_hand and draw(st.booleans()):
            reached = max([step.to for step in steps if isinstance(step, Watermark)], default=0)
            to = _last(step) + draw(st.integers(-longest, longest))
            steps += [Watermark(to)] if to > reached else []
        if restarts and draw(st.integers(0, 4)) == 0:
            steps.append(Restart())
    return [*steps, *([Drain()] if draw(st.booleans()) else [])]


def _first(step: Step) -> int:
    return step.rows[0].arrival_time if isinstance(step, Batch) else 0


def _last(step: Step) -> int:
    return max(row.arrival_time for row in step.rows) if isinstance(step, Batch) else 0
