"""Which events an output cannot compute, and what is said of each (ADR 0057)."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import Files, Source
from latecomer.model.strategies import Bounded
from latecomer.store.layout import DEAD_LETTERS, EventLayout
from latecomer.windowing.visible_events import (
    FailedEvent,
    as_seen,
    can_fail,
    entering,
    failed_letters,
    spark_expressions,
)

COLUMNS = {"at": "string", "n": "bigint", "per": "bigint", "kind": "string", "note": "string"}


def output(**given: Any) -> Output:
    return Output.model_validate({"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}, **given})


def layout_of(made: Output) -> EventLayout:
    pipeline = Pipeline(
        name="failing",
        store="store",
        source=Source(files=Files(path="in"), columns=COLUMNS),
        event=Event(time="at"),
        watermark=Bounded("1s"),
        outputs={"o": made},
        columns={"kind": "`the kind`"},
    )
    return EventLayout(pipeline, COLUMNS)


def logged(layout: EventLayout, rows: list[dict[str, Any]]) -> pa.Table:
    known = {"batch": 3, "origin": "file:///in/1.json"}
    stored = [
        {**known, "position": nth, **{layout.view[name]: value for name, value in row.items()}}
        for nth, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(stored, layout.schema)


def fates(made: Output, rows: list[dict[str, Any]]) -> list[str]:
    layout = layout_of(made)
    found = entering(as_seen(logged(layout, rows), layout, made), made)
    assert not (found.enters & found.failed).any()
    return [
        "enters" if enters else "failed" if failed else "filtered"
        for enters, failed in zip(found.enters, found.failed, strict=True)
    ]


ROWS = [
    {"n": 4, "per": 2, "kind": "sale"},
    {"n": 4, "per": 0, "kind": "sale"},
    {"n": 4, "per": 0, "kind": "gift"},
    {"n": None, "per": 0, "kind": "sale"},
]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"by": ["each"]}, ["enters", "failed", "failed", "enters"]),
        ({"aggregates": {"m": "max(each)"}}, ["enters", "failed", "failed", "enters"]),
        ({}, ["enters", "enters", "enters", "enters"]),
        ({"by": ["each"], "where": "kind = 'sale'"}, ["enters", "failed", "filtered", "enters"]),
        ({"where": "each > 1"}, ["enters", "failed", "failed", "filtered"]),
        ({"where": "each is null"}, ["filtered", "failed", "failed", "enters"]),
        ({"where": "kind = 'sale' and each > 1"}, ["enters", "failed", "failed", "filtered"]),
        ({"where": "kind = 'sale' and n / per > 1"}, ["enters", "failed", "filtered", "filtered"]),
        ({"where": "each is null", "on_error": "null"}, ["filtered", "enters", "enters", "enters"]),
        ({"where": "n / per > 1", "on_error": None}, ["enters", "filtered", "filtered", "filtered"]),
    ],
)
def test_what_fails_and_what_where_leaves_out(given: dict[str, Any], expected: list[str]) -> None:
    assert fates(output(columns={"each": "n / per"}, **given), ROWS) == expected


def test_a_dead_letter_says_column_expression_and_values() -> None:
    made = output(columns={"each": "n / per"}, by=["each"])
    layout = layout_of(made)
    letters = failed_letters(logged(layout, ROWS[1:3]), layout, made)
    assert letters.schema == DEAD_LETTERS
    first = letters.to_pylist()[0]
    assert first["detail"] == "column each: n / per cannot be computed where n is 4, per is 0"
    assert json.loads(first["raw"]) == {"at": None, "n": 4, "per": 0, "the kind": "sale", "note": None}
    assert (first["reason"], first["batch"], first["origin"], first["position"]) == (
        "failed",
        3,
        "file:///in/1.json",
        0,
    )


def test_a_where_that_fails_is_named() -> None:
    made = output(where="n / per > 1 and kind <> ''")
    layout = layout_of(made)
    (letter,) = failed_letters(logged(layout, ROWS[1:2]), layout, made).to_pylist()
    assert letter["detail"] == (
        "where: n / per > 1 and kind <> '' cannot be computed where n is 4, per is 0, kind is \"sale\""
    )


def test_with_fail_the_first_event_is_named() -> None:
    with pytest.raises(
        FailedEvent, match=r"1\.json, position 1: column each: n / per cannot be computed"
    ) as found:
        fates(output(columns={"each": "n / per"}, by=["each"], on_error="fail"), ROWS)
    assert (found.value.column, found.value.sql) == ("each", "n / per")


def test_what_spark_could_not_compute_fails() -> None:
    made = output(columns={"size": "cast(note as int)"}, by=["size"])
    layout = layout_of(made)
    (column,) = spark_expressions(made, layout)
    events = logged(layout, [{"note": "7"}, {"note": "abc"}, {"note": None}])
    events = events.append_column(column, pa.array([{"value": 7}, None, {"value": None}]))
    assert entering(as_seen(events, layout, made), made).failed.tolist() == [False, True, False]
    (letter,) = failed_letters(events.slice(1, 1), layout, made).to_pylist()
    assert letter["detail"] == 'column size: cast(note as int) cannot be computed where note is "abc"'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, False),
        ({"where": "kind = 'sale' and n > 5"}, False),
        ({"where": "n / per > 5"}, True),
        ({"columns": {"each": "n / per"}}, True),
    ],
)
def test_who_can_fail(given: dict[str, Any], expected: bool) -> None:
    assert can_fail(output(**given), COLUMNS) is expected
