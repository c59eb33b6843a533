"""Events for which an output cannot be computed, and what is wrong with each (ADR 0057)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.errors import LatecomerError, shortened
from latecomer.model.array_types import Flags
from latecomer.model.arrays import flat
from latecomer.model.dead_letters import FAILED
from latecomer.model.predicates import named_columns
from latecomer.model.simple_predicates import needs_spark
from latecomer.model.verdicts import OnError
from latecomer.model.written_values import json_texts
from latecomer.store.layout import DEAD_LETTERS, EventLayout
from latecomer.windowing.seen import Seen, as_seen, condition
from latecomer.windowing.vectors import Mask, any_of

_LONGEST = 100
"""A longer value is shortened to so many characters."""


class FailedEvent(LatecomerError):
    """An expression of an output with `on_error: fail` cannot be computed for an event. `column` is the derived column;
    None for `where`."""

    def __init__(self, detail: str, column: str | None, sql: str) -> None:
        super().__init__(f"{detail}; on_error is fail")
        self.detail, self.column, self.sql = detail, column, sql


@dataclass(frozen=True)
class _Cause:
    """An expression that cannot be computed, and for which events."""

    column: str | None
    """The derived column; None for `where`."""
    sql: str
    rows: Flags


@dataclass(frozen=True)
class Entering:
    """Which events enter windows, and which fail. The others are filtered."""

    enters: Flags
    failed: Flags
    causes: Sequence[_Cause] = ()


def can_fail(output: Output, types: Mapping[str, str]) -> bool:
    """Whether an output may fail for some events."""
    return bool(output.columns) or needs_spark(output.where, types)


def entering(seen: Seen, output: Output) -> Entering:
    """Which events an output's `where` keeps, and which fail. With `on_error: null` none fails."""
    count = seen.events.num_rows
    none_failed = np.zeros(count, bool)
    holds, where_failed = condition(seen, output)
    if output.on_error is OnError.NULL:
        return Entering(holds, none_failed)
    filtering = _causes(seen, output, output.columns_in_where)
    if where_failed is not None:
        filtering.append(_Cause(None, output.where or "", where_failed))
    undecided = any_of(*(each.rows for each in filtering))
    holds = holds if undecided is None else holds & ~undecided
    counted = [
        _Cause(each.column, each.sql, each.rows & holds)
        for each in _causes(seen, output, output.columns_in_numbers)
    ]
    causes = [each for each in (*filtering, *counted) if each.rows.any()]
    failed = any_of(*(each.rows for each in causes))
    if failed is None:
        return Entering(holds, none_failed)
    result = Entering(holds & ~failed, failed, causes)
    if output.on_error is OnError.FAIL:
        first = int(np.flatnonzero(failed)[0])
        cause = _cause_of(result, first)
        place = f"{_place(seen.events, first)}: " if "origin" in seen.events.schema.names else ""
        raise FailedEvent(f"{place}{_details(seen, result, [first])[0]}", cause.column, cause.sql)
    return result


def _causes(seen: Seen, output: Output, names: Sequence[str]) -> list[_Cause]:
    masks: dict[str, Mask] = {name: seen.failed.get(name) for name in names}
    return [_Cause(name, output.columns[name].sql, mask) for name, mask in masks.items() if mask is not None]


def _cause_of(entering: Entering, row: int) -> _Cause:
    return next(each for each in entering.causes if each.rows[row])


def failed_letters(events: pa.Table, layout: EventLayout, output: Output) -> pa.Table:
    """Events that failed, as dead letters of their output. `events` are these alone, with all columns of the log."""
    seen = as_seen(events, layout, output)
    result = entering(seen, output)
    rows = np.flatnonzero(result.failed).tolist()
    some = events.take(pa.array(rows, pa.int64()))
    columns = {
        "reason": pa.array([FAILED] * len(rows), pa.string()),
        "raw": pa.array(_raw(some, layout), pa.string()),
        "detail": pa.array(_details(seen, result, rows), pa.string()),
        "raw_bytes": pa.nulls(len(rows), pa.binary()),
    }
    same = {field.name: flat(some.column(field.name)) for field in DEAD_LETTERS if field.name not in columns}
    made = {**columns, **same}
    return pa.table({field.name: made[field.name].cast(field.type) for field in DEAD_LETTERS})


def _raw(events: pa.Table, layout: EventLayout) -> list[str]:
    """Each event as JSON, under the source's own names."""
    texts = {
        json_texts(pa.chunked_array([[layout.pipeline.source_name(column)]]))[0]: json_texts(
            events.column(stored)
        )
        for column, stored in layout.view.items()
    }
    listed = zip(*texts.values(), strict=True)
    return ["{" + ",".join(map("%s:%s".__mod__, zip(texts, row, strict=True))) + "}" for row in listed]


def _details(seen: Seen, entering: Entering, rows: Sequence[int]) -> list[str]:
    """What is wrong with each event: the column, the expression, and the values in it."""
    causes = [_cause_of(entering, row) for row in rows]
    details = [""] * len(rows)
    for cause in {id(each): each for each in causes}.values():
        which = [nth for nth, each in enumerate(causes) if each is cause]
        chosen = pa.array([rows[nth] for nth in which], pa.int64())
        names = named_columns(cause.sql, seen.types)
        given = [json_texts(pa.chunked_array([seen.column(name).take(chosen)])) for name in names]
        what = "where" if cause.column is None else f"column {cause.column}"
        for place, nth in enumerate(which):
            values = ", ".join(
                f"{name} is {shortened(texts[place], _LONGEST)}"
                for name, texts in zip(names, given, strict=True)
            )
            details[nth] = f"{what}: {cause.sql} cannot be computed" + (f" where {values}" if values else "")
    return details


def _place(events: pa.Table, row: int) -> str:
    origin, position = (pc.take(events.column(name), [row])[0].as_py() for name in ("origin", "position"))
    return f"{origin}, position {position}"
