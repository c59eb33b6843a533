"""Partitions that the source itself names: they hold the watermark before they speak, and while more is to be read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.model.oracle.interpreter import Arrival, Heartbeat, Partitions, interpret
from latecomer.model.strategies import Bounded, Strategy
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import BEGIN_OF_TIME
from scenarios import out_of_step, thorough, watermarks
from timeline_kit import Reader

NAMED = st.none() | st.dictionaries(st.sampled_from("abcd"), st.booleans())
COUNTING = Output(window={"tumbling": "1us"}, aggregates={"rows": "count(*)"})


@given(out_of_step(rejects=False), st.lists(NAMED, max_size=8), watermarks(), st.booleans())
@thorough
def test_the_timeline_says_what_the_oracle_says(
    batches: list[list[Arrival]], names: list[dict[str, bool] | None], strategy: Strategy, restarts: bool
) -> None:
    """The watermark of every event, whatever is named before which batch; a restart forgets nothing."""
    reader, results = Reader(strategy), list[object]()
    for nth, batch in enumerate(batches):
        named = names[nth] if nth < len(names) else None
        results += [Partitions(named), batch] if named is not None else [batch]
        reader.read(batch, named)
        if restarts:
            reader.restart()
    marks = {"marks": lambda payload: payload["ok"]} if strategy.needs.where else {}
    judged = interpret(results, strategy, {"out": COUNTING}, **marks).judged["out"]  # type: ignore[arg-type]
    assert reader.in_force == {event.position: event.watermark for event in judged}


@given(out_of_step(rejects=False), NAMED, watermarks(), st.integers(0, 60))
@thorough
def test_silence_says_the_same(
    batches: list[list[Arrival]], named: dict[str, bool] | None, strategy: Strategy, quiet: int
) -> None:
    reader, results = Reader(strategy), list[object](batches)
    for nth, batch in enumerate(batches):
        reader.read(batch, named if nth == len(batches) - 1 else None)
    if named is not None and batches:
        results.insert(-1, Partitions(named))
    at = max((event.arrival_time for batch in batches for event in batch), default=0) + quiet
    row = reader.timeline.heartbeat(at)
    outcome = interpret([*results, Heartbeat(at)], strategy, {"out": COUNTING})  # type: ignore[list-item]
    if row is not None and len(outcome.watermarks) > len(batches):
        assert outcome.watermarks[-1] == row.watermark


def test_a_partition_that_was_removed_is_still_known_and_no_longer_awaited() -> None:
    timeline = Timeline(Bounded("0s", idle_after="5us"))
    timeline.extend([], {"a": True, "b": True})
    assert timeline.watermark == BEGIN_OF_TIME
    timeline.extend([], {"a": False})
    assert timeline.named == {"a": False}
    assert set(timeline.partitions) == {"a", "b"}
    assert Timeline.restore(timeline.strategy, timeline.carry()) == timeline


def test_carries_of_sources_that_name_nothing_are_as_before() -> None:
    timeline = Timeline(Bounded("0s"))
    timeline.extend([])
    assert "named" not in timeline.carry()
