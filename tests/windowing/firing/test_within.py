"""Triggers that fire within a batch: the engine publishes what the oracle does, whatever the rule and the cut."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.panes import Pane
from latecomer.model.strategies import Bounded, Strategy
from latecomer.model.triggers import AllOf, AnyOf, Count, Every, Rule, When
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.testing.checking import fires_by_itself
from latecomer.windowing.firing.clocks import Clocks, Turns
from latecomer.windowing.firing.clocks import cuts as cuts_of
from scenarios import arrivals, cut, cuts, duplicates_of, watermarks
from spark_kit import PAYLOAD, Batch, Bench, assert_same, stored_panes
from window_kit import any_outputs, micros, quiet_batches, sessions, sliding


def firing_within() -> st.SearchStrategy[Output]:
    tumbling = st.fixed_dictionaries({"tumbling": micros(1, 15), "offset": micros(0, 9)})
    windows = tumbling | sliding() | st.just({"global": True}) | sessions()
    return any_outputs(window=windows).filter(lambda output: output.fires_within)


@given(quiet_batches(), watermarks(), firing_within(), st.booleans(), st.booleans())
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_rule_fires_as_the_oracle_says(
    batches: list[Batch], strategy: Strategy, output: Output, drain: bool, restart: bool
) -> None:
    few = [*batches[:4], *batches[-1:]]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(None, Path(folder), strategy, {"out": output}, PAYLOAD, spread=True)  # type: ignore[arg-type]
        store = bench.run(few, drain=drain, restart=restart)
        assert_same(bench, store, bench.oracle(few, drain=drain), few)
        assert check_ledger(bench.pipeline) == []


@pytest.mark.long
@given(arrivals(), watermarks(), any_outputs(sessions()), cuts(), cuts())
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
def test_panes_of_sessions_are_the_same_wherever_batches_are_cut(
    read: list[Arrival], strategy: Strategy, output: Output, one: list[int], other: list[int]
) -> None:
    """It follows from the test above, and from the same property of the oracle, which is in
    tests/model/test_books_on_any_input.py."""
    # A closing pane comes at the end of a batch; the others fire by themselves.
    trigger = output.trigger.model_copy(update={"closing": False})
    output = output.model_copy(update={"trigger": trigger})
    assume(fires_by_itself(output) and output.fires_within)
    in_order, found = sorted(read, key=lambda arrival: arrival.arrival_time), []
    duplicates = []
    for sizes in (one[:3], other[:3]):
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(None, Path(folder), strategy, {"out": output}, PAYLOAD, spread=True)  # type: ignore[arg-type]
            places: dict[object, list[Pane]] = {}
            duplicates.append(duplicates_of(bench.oracle(cut(in_order, sizes), drain=True)))
            for _, pane in stored_panes(bench.run(cut(in_order, sizes), drain=True), "out"):
                places.setdefault(pane.place, []).append(pane)
            found.append(places)
    assume(duplicates[0] == duplicates[1])
    assert found[0] == found[1]


def panes(rule: Rule, clocks: list[int], paid: list[int], now: int = 0) -> list[str]:
    """The events of each pane of one window; in brackets where it does not fire."""
    count = len(clocks)
    turns = Turns(
        np.zeros(count, np.int64),
        np.ones(count, np.int64),
        np.array(clocks),
        np.full(count, BEGIN_OF_TIME),
        {"paise > 3": np.array(paid) > 3},
        np.zeros(1, np.int64),
        np.array([now]),
        np.array([1000]),
        Clocks(
            0,
            BEGIN_OF_TIME,
            BEGIN_OF_TIME,
            BEGIN_OF_TIME,
            now,
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
            False,
            False,
        ),
        False,
    )
    found = cuts_of(rule, turns)
    groups: dict[int, list[int]] = {}
    for nth, pane in enumerate(found.pane.tolist()):
        groups.setdefault(pane, []).append(nth)
    text = ("".join(map(str, rows)) for rows in groups.values())
    return [
        each if found.fires[rows[0]] else f"({each})"
        for each, rows in zip(text, groups.values(), strict=True)
    ]


def test_where_panes_are_cut() -> None:
    clocks, paid = [1, 2, 11, 12, 13, 25], [1, 5, 1, 1, 9, 1]
    assert panes(Count(4), clocks, paid) == ["0123", "(45)"]
    assert panes(Every("10us"), clocks, paid, now=25) == ["01", "234", "(5)"]
    assert panes(Every("10us"), clocks, paid, now=30) == ["01", "234", "5"]
    assert panes(When("paise > 3"), clocks, paid) == ["01", "234", "(5)"]
    assert panes(AnyOf([Count(2), Every("10us")]), clocks, paid, now=25) == ["01", "23", "4", "(5)"]
    assert panes(AllOf([Count(3), Every("10us")]), clocks, paid, now=25) == ["012", "345"]


def test_sessions_of_all_events_beside_sessions_of_a_key() -> None:
    """Keys are shared out to buckets; an output without a key has all its events in one."""
    chance = Random(1)
    moments = [(nth // 4, chance.choice((0, 0, 1, 3, 8, 20)), str(chance.randrange(9))) for nth in range(120)]
    read = [
        Arrival(now - behind, now, "a", {"key": key, "paise": 1, "ok": True}) for now, behind, key in moments
    ]
    session = {"window": {"session": "2us"}, "aggregates": {"rows": "count(*)"}, "late": "update"}
    outputs = {
        name: Output(**session, by=by, allowed_lateness="20us")
        for name, by in (("keyed", ("key",)), ("all", ()))
    }
    batches: list[Batch] = [read[:50], read[50:]]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(None, Path(folder), Bounded("1us", every="1us"), outputs, PAYLOAD, spread=True)  # type: ignore[arg-type]
        store = bench.run(batches, drain=True)
        assert_same(bench, store, bench.oracle(batches, drain=True), batches)
