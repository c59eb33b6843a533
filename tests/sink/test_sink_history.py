"""Whatever was published, in whatever batches, with whatever crashes and replays: what stands in the
sink is what the model says stands."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from examples_kit import drawn
from latecomer.model.panes import Op, Pane, surviving
from sink.sink_kit import (
    Place,
    apply,
    crashing,
    expected,
    insert,
    let_go,
    opened,
    retract,
    rows_of_delta,
    rows_of_postgres,
    rows_of_sqlite,
)

PLACES = st.tuples(st.integers(0, 2), st.sampled_from([None, "", "chai"]))
Step = tuple[int, list[Pane], bool, int]


@st.composite
def orderly(draw: st.DrawFn) -> list[list[Pane]]:
    """Batches as the engine publishes them: sequences count up, a retract names what stands."""
    sequences: dict[tuple[int, Any], int] = {}
    standing: set[tuple[int, Any]] = set()
    batches = []
    for _ in range(draw(st.integers(1, 5))):
        batch: list[Pane] = []
        for place in draw(st.lists(PLACES, max_size=8)):
            way = draw(st.sampled_from(["update", "correct", "withdraw"]))
            last = sequences.get(place, -1)
            if place in standing and way != "update":
                batch.append(retract(*place, last))
                standing.discard(place)
            if way != "withdraw" or last < 0:
                sequences[place] = last + 1
                batch.append(insert(*place, last + 1, Decimal(draw(st.integers(0, 9))), last + 1))
                standing.add(place)
        batches.append(batch)
    return batches


@st.composite
def disorderly(draw: st.DrawFn) -> list[list[Pane]]:
    """Any panes at all: stale inserts, retracts of what never stood, sequences that go back."""
    ops = st.sampled_from(Op)
    one = st.builds(
        lambda op, place, sequence, paise: (insert if op is Op.INSERT else retract)(
            *place, sequence, Decimal(paise), sequence
        ),
        ops,
        PLACES,
        st.integers(0, 3),
        st.integers(0, 9),
    )
    return draw(st.lists(st.lists(one, max_size=10), min_size=1, max_size=5))


def check(
    kind: str, rows: Callable[[Path], list[dict[str, Any]]], batches: list[list[Pane]], data: Any
) -> None:
    numbers = [3 * index for index in range(len(batches))]
    with tempfile.TemporaryDirectory() as folder:
        place = Place(kind, Path(folder) / "sink", rows)
        sink = opened(kind, place.path)
        for number, panes in zip(numbers, batches, strict=True):
            if panes and data.draw(st.booleans(), label=f"crash in batch {number}"):
                with crashing(kind, number):
                    apply(sink, number, *panes)
                sink = opened(kind, place.path)
            replayed_from = data.draw(st.integers(0, number), label="replayed from batch")
            for earlier, before in zip(numbers, batches, strict=True):
                if replayed_from <= earlier <= number:
                    apply(sink, earlier, *before)
            published = [
                pane for at, batch in zip(numbers, batches, strict=True) if at <= number for pane in batch
            ]
            assert place.standing() == expected(surviving(published))
        let_go()


@given(orderly() | disorderly(), st.data())
@drawn(25)
def test_sqlite_holds_what_survives(batches: list[list[Pane]], data: Any) -> None:
    check("sqlite", rows_of_sqlite, batches, data)


@given(orderly() | disorderly(), st.data())
@drawn(10)
def test_delta_holds_what_survives(batches: list[list[Pane]], data: Any) -> None:
    check("delta", rows_of_delta, batches, data)


@given(orderly() | disorderly(), st.data())
@drawn(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_postgres_holds_what_survives(target: str, batches: list[list[Pane]], data: Any) -> None:
    check("postgres", rows_of_postgres, batches, data)
