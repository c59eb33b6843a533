"""Several sources: each partition by the strategy of its own source, and a source that says nothing is waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.model.oracle.interpreter import Arrival, Heartbeat, Partitions, interpret
from latecomer.model.sources import BySource, named_partitions
from latecomer.model.strategies import Adaptive, Bounded, Strategy, TickSummary
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import BEGIN_OF_TIME
from scenarios import out_of_step, thorough, watermarks
from timeline_kit import Reader

PARTITIONS = {"a": "app/a", "b": "pos/b", "c": "app"}
NAMED = st.none() | st.dictionaries(
    st.sampled_from(("app", "app/a", "app/x", "pos", "pos/b", "web")), st.booleans()
)
AT_ONCE = {
    "app": Bounded("0s", every="event"),
    "pos": Bounded("0s", every="event"),
    "web": Bounded("0s", every="event", idle_after="1us"),
}
COUNTING = Output(window={"tumbling": "1us"}, aggregates={"rows": "count(*)"})


@st.composite
def by_source(draw: st.DrawFn) -> BySource:
    """Three sources with strategies of any kind, in one rhythm."""
    first = draw(watermarks())
    others = [draw(watermarks()).model_copy(update={"every": first.every}) for _ in range(2)]
    return BySource.of_strategies(dict(zip(("app", "pos", "web"), (first, *others), strict=True)))


def of_sources(batches: list[list[Arrival]]) -> list[list[Arrival]]:
    return [[replace(event, partition=PARTITIONS[event.partition]) for event in batch] for batch in batches]


@given(
    out_of_step(rejects=False),
    st.lists(NAMED, max_size=8),
    by_source(),
    st.booleans(),
    st.integers(0, 60),
    NAMED,
)
@example(  # a source names itself beside a partition that was heard of before
    batches=[[Arrival(0, 0, "a"), Arrival(0, 0, "b")], [Arrival(0, 0, "a")]],
    names=[None, {"pos": False, "pos/b": False}],
    strategy=BySource.of_strategies(AT_ONCE),
    restarts=False,
    quiet=6,
    at_last=None,
)
@thorough
def test_the_timeline_says_what_the_oracle_says(
    batches: list[list[Arrival]],
    names: list[dict[str, bool] | None],
    strategy: BySource,
    restarts: bool,
    quiet: int,
    at_last: dict[str, bool] | None,
) -> None:
    """The watermark of every event, whatever is named before which batch, and that of silence after them."""
    reader, results = Reader(strategy), list[object]()
    for nth, batch in enumerate(of_sources(batches)):
        named = names[nth] if nth < len(names) else None
        results += [Partitions(named), batch] if named is not None else [batch]
        reader.read(batch, named)
        if restarts:
            reader.restart()
    if at_last is not None:
        results.append(Partitions(at_last))
        reader.timeline.name_partitions(at_last)
    at = max((event.arrival_time for batch in batches for event in batch), default=0) + quiet
    outcome = interpret([*results, Heartbeat(at)], strategy, {"out": COUNTING})  # type: ignore[list-item]
    assert reader.in_force == {event.position: event.watermark for event in outcome.judged["out"]}
    row = reader.timeline.heartbeat(at)
    if row is not None and len(outcome.watermarks) > len(batches):
        assert outcome.watermarks[-1] == row.watermark


@given(out_of_step(rejects=False), st.lists(NAMED, max_size=8), by_source(), st.booleans())
@example(  # more of a source was to come as long as only its name was known
    batches=[[Arrival(0, 0, "a")], [Arrival(0, 0, "b"), Arrival(1, 1, "a")]],
    said=[{"app": True}],
    strategy=BySource.of_strategies(AT_ONCE),
    restarts=False,
)
@thorough
def test_the_oracle_itself_knows_which_sources_were_never_heard(
    batches: list[list[Arrival]], said: list[dict[str, bool] | None], strategy: BySource, restarts: bool
) -> None:
    """Told which sources there are, it names what an engine names that has read all of them, but for what is said."""
    reader, results, sources = Reader(strategy), list[object](), tuple(strategy.sources)
    for nth, batch in enumerate(of_sources(batches)):
        more = (said[nth] if nth < len(said) else None) or {}
        known = dict.fromkeys(reader.timeline.known(), False)
        results += [Partitions(more, sources), batch]
        reader.read(batch, {**named_partitions({"app": None}, {**known, **more}, sources, ()), **more})
        if restarts:
            reader.restart()
    outcome = interpret(results, strategy, {"out": COUNTING})  # type: ignore[arg-type]
    assert reader.in_force == {event.position: event.watermark for event in outcome.judged["out"]}


def summary(tick: int, newest: int, partition: str) -> TickSummary:
    return TickSummary(tick, tick * 10, partition, events=1, max_event_time=newest)


def waiting(**strategies: Strategy) -> Timeline:
    return Timeline(BySource.of_strategies(strategies))


def test_each_source_has_its_own_delay_and_the_slowest_decides() -> None:
    timeline = waiting(app=Bounded("1us", every="10us"), pos=Bounded("30us", every="10us"))
    timeline.extend([summary(1, 100, "app/0"), summary(1, 100, "pos"), summary(2, 200, "app/0")])
    (row,) = timeline.extend([summary(3, 200, "app/0")])
    assert (row.watermark, row.held_by) == (70, "pos")


def test_a_source_that_was_never_heard_holds_the_watermark_until_it_is_idle() -> None:
    timeline = waiting(app=Bounded("0s", every="10us"), pos=Bounded("0s", every="10us", idle_after="50us"))
    timeline.extend([summary(1, 10, "app"), summary(2, 20, "app")], {"app": False, "pos": False})
    assert timeline.watermark == BEGIN_OF_TIME
    (row,) = timeline.extend([summary(6, 60, "app")])
    assert row.watermark == 20


@pytest.mark.parametrize("named", [("app", "app/0"), ("app/0", "app")])
def test_the_name_of_a_source_stands_for_none_of_its_partitions_once_one_is_named(
    named: tuple[str, ...],
) -> None:
    """In whichever order they are named."""
    timeline = waiting(app=Bounded("0s", every="10us"))
    timeline.extend([summary(1, 10, "app/1")], dict.fromkeys(named, False))
    assert sorted(timeline.known()) == ["app/0", "app/1"]
    timeline.name_partitions({"app": True})
    assert sorted(timeline.known()) == ["app/0", "app/1"], "nor once one was"


def test_a_source_of_which_there_is_more_is_never_idle() -> None:
    timeline = waiting(app=Bounded("0s", every="10us"), pos=Bounded("0s", every="10us", idle_after="1us"))
    timeline.extend([summary(1, 10, "app"), summary(9, 90, "app")], {"app": False, "pos": True})
    assert timeline.watermark == BEGIN_OF_TIME


def test_the_first_partition_of_a_source_takes_its_place() -> None:
    timeline = waiting(app=Bounded("0s", every="10us"), pos=Bounded("0s", every="10us"))
    timeline.extend([summary(1, 10, "app")], {"app": False, "pos": False})
    timeline.extend([summary(2, 20, "app"), summary(2, 15, "pos/0")])
    (row,) = timeline.extend([summary(3, 30, "app")])
    assert row.watermark == 15
    assert set(timeline.partitions) == {"app", "pos/0"}
    assert Timeline.restore(timeline.strategy, timeline.carry()) == timeline


def test_delays_are_those_of_partitions_as_the_source_calls_them() -> None:
    timeline = waiting(app=Bounded("0s", every="10us", delays={"eu/0": "9us"}))
    timeline.extend([summary(1, 100, "app/eu/0"), summary(2, 100, "app/eu/0")])
    assert timeline.watermark == 91


def test_all_silent_the_clock_counts_only_where_that_is_right_for_each() -> None:
    patient = {"every": "10us", "idle_after": "20us"}
    follows = waiting(app=Bounded("1us", **patient), pos=Bounded("5us", **patient))
    stays = waiting(app=Bounded("1us", **patient), pos=Bounded("5us", **patient, on_idle="hold"))
    for timeline in (follows, stays):
        timeline.extend([summary(1, 10, "app"), summary(1, 10, "pos")])
        timeline.heartbeat(500)
    assert (follows.watermark, stays.watermark) == (495, 9)


def test_the_partitions_of_all_sources_are_named_with_every_slice() -> None:
    known = {"app/0": True, "app/1": False, "pos": True}
    sources = ("app", "pos", "web")
    assert named_partitions({"app": {"0": False, "2": True}}, known, sources, behind=()) == {
        "app/0": False,
        "app/1": False,
        "app/2": True,
        "pos": True,
        "web": False,
    }
    assert named_partitions({"pos": None}, known, sources, behind=("web", "app")) == {
        "app/0": True,
        "app/1": True,
        "pos": False,
        "web": True,
    }


def test_a_strategy_of_another_kind_starts_anew() -> None:
    before = waiting(app=Bounded("0s", every="10us"), pos=Bounded("0s", every="10us"))
    before.extend(
        [summary(1, 10, "app"), summary(2, 20, "app"), summary(2, 20, "pos"), summary(3, 30, "app")]
    )
    other = BySource.of_strategies({"app": Bounded("0s", every="10us"), "pos": Adaptive(every="10us")})
    after = Timeline.restore(other, before.carry())
    assert after.watermark == before.watermark
    assert {progress.state for progress in after.partitions.values()} == {None}
