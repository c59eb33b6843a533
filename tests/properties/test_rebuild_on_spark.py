"""Whatever was streamed, corrected, rebuilt and interrupted: what is served is a batch job over the log."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.after.rebuild import rebuilding
from latecomer.after.replay.replaying import replay
from latecomer.after.serving.correcting import correct
from latecomer.after.serving.served import serving
from latecomer.config.checks import check
from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.without_data import drain_input, heartbeat
from latecomer.log.timeline.keeper import TimelineKeeper
from latecomer.model.durations import to_micros, to_moment
from latecomer.model.oracle.arrivals import Arrival, Heartbeat
from latecomer.model.panes import Accumulation, Op, Pane, Place, Timing, summed, surviving
from latecomer.model.strategies import Strategy
from latecomer.model.windows import Session, Window
from latecomer.store import failpoints
from latecomer.store.store import Store, open_store
from scenarios import watermarks
from spark_kit import (
    PAYLOAD,
    Batch,
    Bench,
    filtered,
    many_on_spark,
    on_spark,
    pipeline_over,
    require_explained,
    stored_panes,
)
from window_kit import accepted, any_outputs, quiet_batches

Within = tuple[int, int]
Example = tuple[list[Batch], Strategy, Output, tuple[Within, Within], str | None, bool]
PLACES = (
    "rebuild.accepted",
    "watermarks.committed",
    "one.panes.written",
    "one.panes.committed",
    "one.partials.committed",
    "ledger.committed",
)


class Died(BaseException):
    """Stands for the end of the process."""


@st.composite
def delivered_again(draw: st.DrawFn, batches: list[Batch]) -> list[Batch]:
    """The batches, each event with an id of its own, and in each some events of those before once more: as
    duplicates, or as events that nobody remembers."""
    found: list[Batch] = []
    before: list[Arrival] = []
    now = 0
    for batch in batches:
        if isinstance(batch, Heartbeat):
            now = max(now, batch.at)
            found.append(batch)
            continue
        named = [replace(row, event_id=f"{len(before)}-{nth}") for nth, row in enumerate(batch)]
        again = draw(st.lists(st.sampled_from(before), max_size=4)) if before else []
        now = max([now, *(row.arrival_time for row in named)])
        found.append([*named, *(replace(row, arrival_time=now) for row in again)])
        before += named
    return found


def examples() -> st.SearchStrategy[Example]:
    few = quiet_batches(rejects=False).map(lambda batches: [*batches[:3], *batches[-1:]])
    few = few.flatmap(delivered_again)
    ranges = st.tuples(st.integers(-40, 60), st.integers(1, 100)).map(lambda two: (two[0], two[0] + two[1]))
    kills = st.one_of(st.none(), st.sampled_from(PLACES))
    drawn = st.tuples(few, watermarks(), rebuilt_outputs(), st.tuples(ranges, ranges), kills, st.booleans())
    return drawn.map(lambda each: (*each[:2], accepted(each[1], each[2]), *each[3:]))


def rebuilt_outputs() -> st.SearchStrategy[Output]:
    """Any output, with and without a predicate."""
    return st.tuples(any_outputs(), st.booleans()).map(lambda two: filtered(two[0]) if two[1] else two[0])


def with_fewer() -> st.SearchStrategy[tuple[Example, Output]]:
    """Likewise, and the output with fewer aggregates: one that a rebuild can add the others to."""

    def may_get_more(example: Example) -> bool:
        output = example[2]
        return not output.window.merges and output.accumulation is not Accumulation.DISCARDING

    def fewer(two: tuple[Example, list[str]]) -> tuple[Example, Output]:
        output, left = two[0][2], two[1]
        kept = {name: each for name, each in output.aggregates.items() if name in ("rows", *left)}
        return two[0], output.model_copy(update={"aggregates": kept})

    left = st.sampled_from([[], ["paise"], ["largest"]])
    return st.tuples(examples().filter(may_get_more), left).map(fewer)


def rebuild_and_compare(
    spark: SparkSession,
    batches: list[Batch],
    strategy: Strategy,
    output: Output,
    ranges: tuple[Within, Within],
    kill: str | None,
    drain: bool,
    first: Output | None = None,
) -> None:
    """`first` is what the output is until it is rebuilt for the first time."""
    within, overlapping = ranges
    with tempfile.TemporaryDirectory() as folder:
        begun, bench = (
            Bench(spark, Path(folder), strategy, {"one": each}, PAYLOAD) for each in (first or output, output)
        )
        store = begun.run(batches[:2])
        read = [row for batch in batches[:2] if not isinstance(batch, Heartbeat) for row in batch]
        if store.ledger.last_batch() < 0:
            return
        correct(Reader(begun.pipeline), "one")
        reader = Reader(bench.pipeline)
        killed(bench, within, kill)
        for each in (within, overlapping):
            rebuilding.apply(bench.pipeline, "one", *each, spark=spark)
            require_right(open_store(bench.pipeline), "one", output, read, each)
        assert check_ledger(bench.pipeline, spark) == []
        engine = bench.engine()
        for nth, batch in enumerate(batches[2:], start=2):
            if isinstance(batch, Heartbeat):
                heartbeat(engine, batch.at)
            else:
                engine.data(nth, bench.write(nth, batch))
                read += batch
        if drain:
            drain_input(engine)
        engine.close()
        correct(reader, "one", to_moment(within[0]), to_moment(within[1]))
        rebuilding.apply(bench.pipeline, "one", spark=spark)
        correct(reader, "one")
        require_right(open_store(bench.pipeline), "one", output, read)
        require_served(bench, output, read)
        assert rebuilding.apply(bench.pipeline, "one", spark=spark).batch is None
        assert check_ledger(bench.pipeline, spark) == []
        require_explained(bench.pipeline, "one")
        again = replay(bench.pipeline, spark=spark)
        assert again.equal, again.outputs["one"].panes.rows.to_pylist()


def killed(bench: Bench, within: Within, place: str | None) -> None:
    """Ask for a rebuild that dies on its way, if it gets as far as there."""
    if place is None:
        return
    number = open_store(bench.pipeline).ledger.last_batch() + 1
    with (
        patch.object(failpoints.os, "kill", side_effect=Died),
        patch.dict(os.environ, {failpoints.VARIABLE: f"{place}@{number}"}),
        suppress(Died),
    ):
        rebuilding.apply(bench.pipeline, "one", *within, spark=bench.spark)


def require_right(
    store: Store,
    name: str,
    output: Output,
    read: Sequence[Arrival],
    within: Within | None = None,
) -> None:
    """Every closed window of the range says what a batch job over all events says, and nothing is missing."""
    store = open_store(store.pipeline)
    panes = [pane for _, pane in stored_panes(store, name)]
    require_gap_free(panes)
    if output.accumulation is Accumulation.DISCARDING:
        found: Mapping[Place, Mapping[str, Any]] = summed(panes, output.aggregates)
    else:
        found = {place: pane.values for place, pane in surviving(panes).items()}
    reached = TimelineKeeper(store.watermarks, store.pipeline.watermark).reached(store.ledger.last_batch())
    assert reached is not None
    expected = grouped(read, output)

    def wanted(place: Place) -> bool:
        if within is not None and isinstance(output.window, Session):
            return within[0] <= place[0] and place[1] <= min(within[1], reached.watermark)
        return place[1] <= reached.watermark and (within is None or within[0] <= place[0] < within[1])

    outcome = {place: values for place, values in found.items() if wanted(place) and values["rows"]}
    assert outcome == {place: values for place, values in expected.items() if wanted(place)}


def require_served(bench: Bench, output: Output, read: Sequence[Arrival]) -> None:
    """What is served of closed windows is what a batch job says, too: nothing is corrected twice."""
    served = serving(Reader(bench.pipeline), "one").to_pylist()
    found = {
        (
            to_micros(row["window_start"]),
            to_micros(row["window_end"]),
            tuple(row[name] for name in output.by),
        ): {name: row[name] for name in output.aggregates}
        for row in served
        if row["rows"] and row["timing"] != Timing.EARLY
    }
    assert found == {place: values for place, values in grouped(read, output).items() if place in found}


def require_gap_free(panes: Sequence[Pane]) -> None:
    """The panes of a window and key are numbered from 0 on, and only what was told is taken back."""
    outcome: dict[Place, list[int]] = {}
    for pane in panes:
        if pane.op is Op.INSERT:
            outcome.setdefault(pane.place, []).append(pane.sequence)
        else:
            assert pane.sequence in outcome[pane.place]
    assert {place: each for place, each in outcome.items() if each != list(range(len(each)))} == {}


def grouped(read: Sequence[Arrival], output: Output) -> dict[Place, dict[str, Any]]:
    """The batch job: every event into its windows, whenever it came, and however often."""
    events: dict[tuple[Window, tuple[Any, ...]], list[Arrival]] = {}
    once: dict[Any, Arrival] = {}
    for row in read:  # of two events at one time, the one that was read first is the first
        once.setdefault(row.event_id, row)
    in_order = sorted(once.values(), key=lambda row: (row.event_time, row.arrival_time))
    kept = [row for row in in_order if output.where is None or row.payload["ok"]]
    for key in {tuple(row.payload[name] for name in output.by) for row in kept}:
        ours = [row for row in kept if tuple(row.payload[name] for name in output.by) == key]
        for window, row in placed(ours, output):
            events.setdefault((window, key), []).append(row)
    return {
        (window.start, window.end, key): {
            name: aggregate.evaluate([row.payload.get(aggregate.column or "", 1) for row in rows])
            for name, aggregate in output.aggregates.items()
        }
        for (window, key), rows in events.items()
    }


def placed(rows: Sequence[Arrival], output: Output) -> list[tuple[Window, Arrival]]:
    window = output.window
    if not isinstance(window, Session):
        return [(each, row) for row in rows for each in window.assign_all(row.event_time)]
    found: list[tuple[Window, list[Arrival]]] = []
    for row in sorted(rows, key=lambda row: row.event_time):
        span = window.span(row.event_time)
        if found and window.meet(found[-1][0], span):
            before, members = found.pop()
            found.append((Window(before.start, max(before.end, span.end)), [*members, row]))
        else:
            found.append((span, [row]))
    return [(each, row) for each, members in found for row in members]


@given(st.tuples(watermarks(), rebuilt_outputs()).map(lambda two: (two[0], accepted(*two))))
def test_every_example_is_a_pipeline_that_may_run(drawn: tuple[Strategy, Output]) -> None:
    """A rebuild checks its pipeline first, and refuses one that may lose events."""
    strategy, output = drawn
    assert check(pipeline_over(Path("/nowhere"), strategy, {"one": output}, PAYLOAD)) == []


@given(examples())
@settings(on_spark, max_examples=1)
def test_a_rebuilt_window_is_a_batch_job_over_the_log(spark: SparkSession, example: Example) -> None:
    rebuild_and_compare(spark, *example)


@pytest.mark.long
@given(examples())
@many_on_spark
def test_many_rebuilt_windows_are_a_batch_job_over_the_log(spark: SparkSession, example: Example) -> None:
    rebuild_and_compare(spark, *example)


@pytest.mark.long
@given(with_fewer())
@settings(on_spark, max_examples=8)
def test_aggregates_that_come_are_a_batch_job_over_the_log(
    spark: SparkSession, example: tuple[Example, Output]
) -> None:
    rebuild_and_compare(spark, *example[0], first=example[1])
