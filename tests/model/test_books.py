"""What an output publishes when: overlapping windows, triggers, accumulation, empty windows, silence.

What holds for any input is in `test_books_on_any_input.py`.
"""

from __future__ import annotations

import pytest

from latecomer.config.outputs import Output
from latecomer.model.oracle.arrivals import Arrival, Heartbeat
from latecomer.model.oracle.interpreter import interpret
from latecomer.model.strategies import Bounded
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate, LatePolicy
from model.books_kit import PER_EVENT, TUMBLING, counting, events, outcome_of, shown
from scenarios import cut, one_by_one
from window_kit import AGGREGATES

# Overlapping windows, and the one that is all of time


def test_one_event_can_be_on_time_for_one_window_and_too_late_for_another() -> None:
    output = counting({"sliding": "10us", "every": "5us"}, "side_output")
    outcome = outcome_of([events(12, 7)], output)
    assert [(one.window, one.fate) for one in outcome.judged["out"] if one.position == 1] == [
        ((0, 10), Fate.SIDE_OUTPUT),
        ((5, 15), Fate.ON_TIME),
    ]
    by_unit = {entry.unit: entry for entry in outcome.ledger}
    assert (by_unit["events"].received, by_unit["events"].fates[Fate.ON_TIME]) == (2, 2)
    assert (by_unit["events"].partly_late, by_unit["events"].late_at_source) == (1, 1)
    assert by_unit["assignments"].received == 4
    assert by_unit["assignments"].fates[Fate.SIDE_OUTPUT] == 1
    assert by_unit["assignments"].partly_late == 0


def test_a_global_window_is_told_at_the_drain() -> None:
    outcome = outcome_of([events(1, 2), events(99)], counting({"global": True}), drain=True)
    assert [(one.batch, one.pane.values["rows"], one.pane.is_last) for one in outcome.published["out"]] == [
        (2, 3, True)
    ]


# Early panes


def test_early_by_the_arrival_clock() -> None:
    output = counting(trigger={"early": "10us"})
    read = [Arrival(1, 8), Arrival(2, 9), Arrival(3, 10), Arrival(4, 11), Arrival(5, 35), Arrival(6, 36)]
    assert shown(outcome_of(one_by_one(read), output)) == [
        "2 EARLY [0,10) 0: 2",  # 10 was reached
        "4 EARLY [0,10) 1: 4",
    ]


def test_early_by_the_arrival_clock_once_a_batch() -> None:
    output = counting(trigger={"early": {"every": "10us", "per": "batch"}})
    read = [Arrival(1, 8), Arrival(2, 9), Arrival(3, 10), Arrival(4, 11), Arrival(5, 35), Arrival(6, 36)]
    assert shown(outcome_of(one_by_one(read), output)) == ["2 EARLY [0,10) 0: 3", "4 EARLY [0,10) 1: 5"]
    assert shown(outcome_of([read], output)) == ["0 EARLY [0,10) 0: 6"]


def test_the_first_batch_counts_from_its_own_first_tick() -> None:
    output = counting(trigger={"early": "10us"})
    assert shown(outcome_of([[Arrival(1, 1008), Arrival(2, 1009)]], output)) == []
    assert shown(outcome_of([[Arrival(1, 1008), Arrival(2, 1012)]], output)) == ["0 EARLY [0,10) 0: 1"]


def test_early_by_event_time_counts_from_the_windows_start() -> None:
    output = counting(
        {"tumbling": "100us", "offset": "5us"}, trigger={"early": {"every": "30us", "clock": "event"}}
    )
    outcome = outcome_of(one_by_one(events(7, 30, 34, 35, 64, 70)), output)
    assert shown(outcome) == ["3 EARLY [5,105) 0: 4", "5 EARLY [5,105) 1: 6"]


def test_early_by_count() -> None:
    output = counting(trigger={"early": {"count": 3}})
    outcome = outcome_of(cut(events(1, 2, 3, 4, 5, 6, 7), [2, 2, 1, 2]), output)
    assert shown(outcome) == ["1 EARLY [0,10) 0: 3", "3 EARLY [0,10) 1: 6"]


def test_early_by_count_once_a_batch() -> None:
    output = counting(trigger={"early": {"count": 3, "per": "batch"}})
    outcome = outcome_of(cut(events(1, 2, 3, 4, 5, 6, 7), [2, 2, 1, 2]), output)
    assert shown(outcome) == ["1 EARLY [0,10) 0: 4", "3 EARLY [0,10) 1: 7"]


def test_a_window_without_news_has_no_early_pane() -> None:
    output = counting(by=("key",), trigger={"early": "10us"})
    read = [
        Arrival(1, 9, payload={"key": "x"}),
        Arrival(1, 10, payload={"key": "y"}),
        Arrival(1, 20, payload={"key": "x"}),
    ]
    outcome = outcome_of(one_by_one(read), output)
    assert [(one.batch, one.pane.key, one.pane.values["rows"]) for one in outcome.published["out"]] == [
        (1, ("x",), 1),
        (2, ("y",), 1),
    ]


def test_once_a_batch_a_window_that_closes_is_told_on_time_only() -> None:
    output = counting(trigger={"early": {"count": 1, "per": "batch"}})
    assert shown(outcome_of([events(1, 12)], output)) == ["0 ON_TIME [0,10) 0: 1!", "0 EARLY [10,20) 0: 1"]


# Late panes


def late_ones(trigger: object, *sizes: int, lateness: str = "90us", **fields: object) -> list[str]:
    """One event on time, then a late one each 4 microseconds, from 12 on."""
    read = [Arrival(1, 0), Arrival(10, 8), *(Arrival(2, 12 + 4 * nth) for nth in range(6))]
    output = counting(lateness=lateness, trigger={"late": trigger}, **fields)
    return shown(outcome_of(cut(read, [2, *sizes]), output, drain=True))


def test_late_once_a_batch() -> None:
    assert late_ones("batch", 2, 4) == [
        "0 ON_TIME [0,10) 0: 1",
        "1 LATE [0,10) 1: 3",
        "2 LATE [0,10) 2: 7",
        "3 ON_TIME [10,20) 0: 1!",
    ]


def test_late_at_most_so_often() -> None:
    assert late_ones("every 10us", 1, 1, 1, 1, 1, 1) == [
        "0 ON_TIME [0,10) 0: 1",
        "3 LATE [0,10) 1: 3",  # the clock reached 20
        "6 LATE [0,10) 2: 6",  # and 32
        "7 ON_TIME [10,20) 0: 1!",
        "7 LATE [0,10) 3: 7!",
    ]
    assert late_ones({"every": "10us", "per": "batch"}, 1, 1, 1, 1, 1, 1) == [
        "0 ON_TIME [0,10) 0: 1",
        "1 LATE [0,10) 1: 2",  # the clock went from 8 to 12
        "3 LATE [0,10) 2: 4",  # 20
        "6 LATE [0,10) 3: 7",  # 32
        "7 ON_TIME [10,20) 0: 1!",
    ]


def test_late_so_many_at_a_time_and_the_rest_at_the_drain() -> None:
    assert late_ones({"count": 4}, 1, 2, 1, 1, 1) == [
        "0 ON_TIME [0,10) 0: 1",
        "3 LATE [0,10) 1: 5",
        "6 ON_TIME [10,20) 0: 1!",
        "6 LATE [0,10) 2: 7!",
    ]


def test_what_waits_is_told_when_the_lateness_is_over() -> None:
    output = counting(lateness="20us", trigger={"late": {"count": 100}})
    outcome = outcome_of(one_by_one(events(1, 10, 2, 29, 30)), output)
    assert shown(outcome) == [
        "1 ON_TIME [0,10) 0: 1",
        "3 ON_TIME [10,20) 0: 1",
        "4 ON_TIME [20,30) 0: 1",
        "4 LATE [0,10) 1: 2!",
    ]


# Accumulation


def story(late: str, accumulation: str | None = None) -> list[str]:
    """Early with one event, closed with two, a third one late."""
    output = counting(late=late, lateness="20us", accumulation=accumulation, trigger={"early": {"count": 1}})
    return [line for line in shown(outcome_of(one_by_one(events(1, 2, 11, 3)), output)) if "[0,10)" in line]


def test_accumulating_panes_hold_everything() -> None:
    assert story("update") == [
        "0 EARLY [0,10) 0: 1",
        "1 EARLY [0,10) 1: 2",
        "2 ON_TIME [0,10) 2: 2",
        "3 LATE [0,10) 3: 3",
    ]


def test_discarding_panes_hold_what_is_new_and_the_close_is_told_anyway() -> None:
    assert story("update", "discarding") == [
        "0 EARLY [0,10) 0: 1",
        "1 EARLY [0,10) 1: 1",
        "2 ON_TIME [0,10) 2: 0",
        "3 LATE [0,10) 3: 1",
    ]


def test_retracting_panes_take_back_what_they_replace() -> None:
    outcome = [
        "0 EARLY [0,10) 0: 1",
        "1 -EARLY [0,10) 0: 1",
        "1 EARLY [0,10) 1: 2",
        "2 -ON_TIME [0,10) 1: 2",
        "2 ON_TIME [0,10) 2: 2",
        "3 -LATE [0,10) 2: 2",
        "3 LATE [0,10) 3: 3",
    ]
    assert story("retract") == story("update", "retracting") == outcome


# The last pane, and the end


def test_an_output_that_takes_no_late_events_is_done_when_it_closes() -> None:
    outcome = outcome_of([events(1, 10)], counting(late="drop", lateness="50us"))
    assert shown(outcome) == ["0 ON_TIME [0,10) 0: 1!"]


def test_of_two_panes_in_one_batch_only_the_second_is_the_last() -> None:
    outcome = outcome_of([events(1, 10, 2, 40)], counting(lateness="20us"))
    assert shown(outcome) == [
        "0 ON_TIME [0,10) 0: 1",
        "0 ON_TIME [10,20) 0: 1!",
        "0 LATE [0,10) 1: 2!",
    ]


def test_a_drain_ends_at_the_end_of_time() -> None:
    assert outcome_of([events(1)], counting(), drain=True).watermarks[-1] == END_OF_TIME


# Empty windows


def test_a_key_that_has_had_events_is_told_for_windows_without_any() -> None:
    output = counting(by=("key",), emit_empty=True)
    read = [
        Arrival(time, time, payload={"key": key}) for time, key in [(1, "x"), (11, "y"), (35, "y"), (45, "x")]
    ]
    outcome = outcome_of(one_by_one(read), output, drain=True)
    assert [
        (one.batch, one.pane.window_start, one.pane.key[0], one.pane.values["rows"])
        for one in outcome.published["out"]
    ] == [
        (1, 0, "x", 1),
        (2, 10, "x", 0),
        (2, 10, "y", 1),
        (2, 20, "x", 0),
        (2, 20, "y", 0),
        (3, 30, "x", 0),
        (3, 30, "y", 1),
        (4, 40, "y", 0),
        (4, 40, "x", 1),
    ]


def test_an_empty_window_counts_and_sums_zero_and_has_no_largest() -> None:
    output = Output(
        window=TUMBLING, aggregates={**AGGREGATES, "payers": "approx_count_distinct(payer)"}, emit_empty=True
    )
    outcome = outcome_of([events(1, 20)], output)
    assert outcome.panes("out")[1].values == {"paise": 0, "rows": 0, "largest": None, "payers": 0}


def test_late_events_come_after_the_empty_pane() -> None:
    outcome = outcome_of([events(1, 25, 12)], counting(lateness="50us", emit_empty=True))
    assert shown(outcome) == ["0 ON_TIME [0,10) 0: 1", "0 ON_TIME [10,20) 0: 0", "0 LATE [10,20) 1: 1"]


# Silence


def test_a_heartbeat_closes_windows_when_all_is_silent() -> None:
    idling = Bounded("3us", every="5us", idle_after="20us")
    outcome = outcome_of([[Arrival(1, 1)], Heartbeat(12), Heartbeat(24), Heartbeat(25)], counting(), idling)
    assert shown(outcome) == ["1 ON_TIME [0,10) 0: 1!"]
    assert outcome.watermarks == [BEGIN_OF_TIME, 22]
    assert [entry.batch for entry in outcome.ledger] == [0, 0, 0]


def test_a_heartbeat_at_which_nothing_fires_is_no_batch() -> None:
    idling = Bounded("0us", every="5us", idle_after="20us")
    outcome = outcome_of([[Arrival(1, 1)], Heartbeat(8), [Arrival(2, 9)]], counting(), idling)
    assert outcome.watermarks == [BEGIN_OF_TIME, 1]


def test_on_idle_hold_lets_a_heartbeat_only_end_the_tick() -> None:
    idling = Bounded("0us", every="5us", idle_after="20us", on_idle="hold")
    outcome = outcome_of([[Arrival(1, 1), Arrival(12, 2)], Heartbeat(100)], counting(), idling)
    assert outcome.watermarks == [BEGIN_OF_TIME, 12]


def test_a_trigger_by_the_arrival_clock_is_due_at_a_heartbeat_too() -> None:
    outcome = outcome_of(
        [[Arrival(1, 1)], Heartbeat(7), Heartbeat(30)],
        counting(trigger={"early": "10us"}),
        Bounded("1h", every="5us"),
    )
    assert shown(outcome) == ["1 EARLY [0,10) 0: 1"]
    assert outcome.watermarks[1] < 0


# The ledger


@pytest.mark.parametrize("late", list(LatePolicy))
def test_late_at_source_counts_filtered_events_too(late: LatePolicy) -> None:
    outcome = interpret(
        [events(20, 5)], PER_EVENT, {"out": counting(late=late)}, where={"out": lambda _: False}
    )
    assert [entry.late_at_source for entry in outcome.ledger] == [1, 0]
