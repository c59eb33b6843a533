"""The oracle itself: small inputs whose outcome can be read off the page, and what always holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.model.ledger import unbalanced
from latecomer.model.oracle.interpreter import Arrival, Interpretation, interpret
from latecomer.model.panes import Op, Timing, surviving
from latecomer.model.strategies import Bounded, Strategy
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate, LatePolicy, Verdict
from latecomer.model.windows import Window
from scenarios import arrivals, cut, cuts, out_of_step, outputs, quick, thorough, watermarks

PER_EVENT = Bounded("0s", every="event")


def counting(
    late: str = "update", lateness: str = "0s", by: tuple[str, ...] = (), **fields: object
) -> Output:
    """Windows of ten, counted."""
    return Output(
        window={"tumbling": "10us"},
        by=by,
        aggregates={"rows": "count(*)"},
        allowed_lateness=lateness,
        late=late,
        **fields,
    )


def events(*times: int, **fields: object) -> list[Arrival]:
    """Events with these times, arriving one microsecond after the other."""
    return [Arrival(time, place, **fields) for place, time in enumerate(times)]  # type: ignore[arg-type]


def fates(results: Interpretation, output: str = "out") -> list[Fate]:
    return [event.fate for event in sorted(results.judged[output], key=lambda event: event.position)]


def shown(results: Interpretation, output: str = "out") -> list[tuple[int, str, str, int, int, int]]:
    """Batch, timing, op, window start, sequence and count of every pane."""
    return [
        (
            one.batch,
            one.pane.timing.value,
            one.pane.op.value,
            one.pane.window_start,
            one.pane.sequence,
            one.pane.values["rows"],
        )
        for one in results.published[output]
    ]


# Verdicts


def test_an_event_never_makes_itself_late() -> None:
    results = interpret([events(100)], PER_EVENT, {"out": counting()})
    assert results.judged["out"][0].watermark == BEGIN_OF_TIME
    assert results.watermarks == [100]


def test_a_window_is_late_from_the_watermark_on_that_equals_its_end() -> None:
    results = interpret([events(5, 9, 8, 10, 7)], PER_EVENT, {"out": counting(lateness="5us")})
    assert [event.verdict for event in results.judged["out"]] == [Verdict.ON_TIME] * 4 + [Verdict.LATE]


def test_allowed_lateness_ends_where_the_watermark_reaches_end_plus_lateness() -> None:
    results = interpret([events(14, 9, 15, 9)], PER_EVENT, {"out": counting(lateness="5us")})
    assert [event.verdict for event in results.judged["out"]] == [
        Verdict.ON_TIME,
        Verdict.LATE,
        Verdict.ON_TIME,
        Verdict.TOO_LATE,
    ]


def test_late_at_the_source_is_not_late_at_the_window() -> None:
    results = interpret([events(8, 5)], PER_EVENT, {"out": counting()})
    second = results.judged["out"][1]
    assert (second.late_at_source, second.verdict) == (True, Verdict.ON_TIME)


def test_a_file_in_any_order_is_taken_in_arrival_order() -> None:
    straight = events(5, 30, 6)
    results = interpret([straight[::-1]], PER_EVENT, {"out": counting(late="drop")})
    assert fates(results) == [Fate.DROPPED, Fate.ON_TIME, Fate.ON_TIME]


def test_arrivals_at_one_instant_keep_their_reading_order() -> None:
    read = [Arrival(30, 0), Arrival(5, 0)]
    assert fates(interpret([read], PER_EVENT, {"out": counting(late="drop")})) == [Fate.ON_TIME, Fate.DROPPED]
    assert fates(interpret([read[::-1]], PER_EVENT, {"out": counting(late="drop")})) == [Fate.ON_TIME] * 2


def test_events_of_one_tick_share_its_watermark() -> None:
    results = interpret([events(30, 5, 6)], Bounded("0s", every="10us"), {"out": counting(late="drop")})
    assert fates(results) == [Fate.ON_TIME] * 3
    assert results.watermarks == [BEGIN_OF_TIME]


def test_a_batch_that_cuts_a_tick_does_not_close_it() -> None:
    read = [*events(30, 5, 6), Arrival(7, 10)]
    results = interpret(cut(read, [1, 1, 1]), Bounded("0s", every="10us"), {"out": counting(late="drop")})
    assert fates(results) == [Fate.ON_TIME, Fate.ON_TIME, Fate.ON_TIME, Fate.DROPPED]
    assert results.watermarks == [BEGIN_OF_TIME, BEGIN_OF_TIME, BEGIN_OF_TIME, 30]


def test_a_tick_read_out_of_step_joins_the_open_one() -> None:
    ahead, behind = Arrival(40, 25), Arrival(50, 3)
    results = interpret(
        [[Arrival(1, 0)], [ahead], [behind], [Arrival(60, 31)]], Bounded("0s", every="10us"), {}
    )
    # Judged with the tick at 20, which closes at 30 with both of them in it.
    assert results.watermarks == [BEGIN_OF_TIME, 1, 1, 50]


def test_the_slowest_partition_holds_the_watermark() -> None:
    read = [Arrival(50, 0, "fast"), Arrival(20, 1, "slow"), Arrival(60, 2, "fast")]
    results = interpret([read], PER_EVENT, {"out": counting()})
    assert [event.watermark for event in results.judged["out"]] == [BEGIN_OF_TIME, 50, 50]
    assert results.watermarks == [50]


def test_a_partition_silent_for_exactly_idle_after_is_idle() -> None:
    idling = Bounded("0s", every="event", idle_after="10us")
    read = [Arrival(20, 0, "slow"), Arrival(50, 1, "fast"), Arrival(60, 9, "fast"), Arrival(61, 10, "fast")]
    results = interpret([read], idling, {"out": counting()})
    assert [event.watermark for event in results.judged["out"]] == [BEGIN_OF_TIME, 20, 20, 60]


def test_when_all_partitions_are_idle_the_furthest_counts() -> None:
    idling = Bounded("0s", every="event", idle_after="10us")
    read = [Arrival(20, 0, "slow"), Arrival(50, 1, "fast"), Arrival(30, 11, "slow")]
    results = interpret([read], idling, {"out": counting()})
    assert results.judged["out"][-1].watermark == 50


@pytest.mark.parametrize(("every", "held", "freed"), [("10us", 10, 150), ("event", 100, 160)])
def test_what_is_read_out_of_step_was_heard_of_when_it_was_read(every: str, held: int, freed: int) -> None:
    fast = [Arrival(time, time, "fast") for time in (100, 130, 140, 150, 160)]
    batches = [fast[:1], [Arrival(10, 10, "slow")], fast[1:3], fast[3:]]
    results = interpret(batches, Bounded("0s", every=every, idle_after="50us"), {})
    assert results.watermarks[2:] == [held, freed]


# Fates without a window


def test_the_first_of_two_with_one_id_counts_in_arrival_order() -> None:
    second, first = Arrival(2, 7, event_id="a"), Arrival(1, 3, event_id="a")
    results = interpret([[second, first]], PER_EVENT, {"out": counting()})
    assert fates(results) == [Fate.DUPLICATE, Fate.ON_TIME]


def test_a_duplicate_moves_nothing() -> None:
    read = [Arrival(1, 0, event_id="a"), Arrival(99, 1, event_id="a"), Arrival(2, 2, event_id="b")]
    results = interpret([read], PER_EVENT, {"out": counting(late="drop")}, drain=True)
    assert fates(results) == [Fate.ON_TIME, Fate.DUPLICATE, Fate.ON_TIME]
    assert results.watermarks == [2, END_OF_TIME]
    assert results.judged["out"][1].watermark is None


def test_a_dead_letter_moves_nothing_and_its_id_stays_free() -> None:
    read = [Arrival(99, 0, event_id="a", dead=True), Arrival(1, 1, event_id="a")]
    results = interpret([read], PER_EVENT, {"out": counting()})
    assert fates(results) == [Fate.DEAD_LETTER, Fate.ON_TIME]
    assert results.watermarks == [1]


@pytest.mark.parametrize("answer", [False, None])
def test_a_filtered_event_still_moves_the_watermark(answer: bool | None) -> None:
    results = interpret(
        [events(99, 1)],
        PER_EVENT,
        {"kept": counting(late="drop"), "filtered": counting()},
        where={"filtered": lambda _: answer},
    )
    assert fates(results, "kept") == [Fate.ON_TIME, Fate.DROPPED]
    assert fates(results, "filtered") == [Fate.FILTERED, Fate.FILTERED]
    assert results.published["filtered"] == []


def test_a_predicate_for_no_output_is_refused() -> None:
    with pytest.raises(ValueError, match="where names no output: typo"):
        interpret([], PER_EVENT, {"out": counting()}, where={"typo": lambda _: True})


# Panes


def test_a_window_fires_once_with_its_on_time_events() -> None:
    results = interpret(cut(events(1, 2, 9, 10, 20), [2, 2, 1]), PER_EVENT, {"out": counting(late="drop")})
    assert shown(results) == [(1, "ON_TIME", "insert", 0, 0, 3), (2, "ON_TIME", "insert", 10, 0, 1)]
    assert results.open_windows["out"] == [(Window(20, 30), ())]


def test_an_event_can_be_late_in_the_batch_that_fires_its_window() -> None:
    results = interpret([events(1, 10, 2, 3)], PER_EVENT, {"out": counting(lateness="20us")})
    assert shown(results) == [(0, "ON_TIME", "insert", 0, 0, 1), (0, "LATE", "insert", 0, 1, 3)]


def test_late_events_of_one_batch_are_one_pane() -> None:
    results = interpret(cut(events(1, 10, 2, 3, 4), [2, 2]), PER_EVENT, {"out": counting(lateness="20us")})
    assert shown(results) == [
        (0, "ON_TIME", "insert", 0, 0, 1),
        (1, "LATE", "insert", 0, 1, 3),
        (2, "LATE", "insert", 0, 2, 4),
    ]


def test_a_window_of_late_events_only_starts_at_sequence_zero() -> None:
    results = interpret(cut(events(10, 2, 3), [1, 1]), PER_EVENT, {"out": counting("retract", "20us")})
    assert shown(results) == [
        (1, "LATE", "insert", 0, 0, 1),
        (2, "LATE", "retract", 0, 0, 1),
        (2, "LATE", "insert", 0, 1, 2),
    ]


def test_a_retract_takes_back_the_last_pane_right_before_its_replacement() -> None:
    read = [
        Arrival(1, 0, payload={"k": "x"}),
        Arrival(2, 1, payload={"k": "y"}),
        Arrival(10, 2, payload={"k": "x"}),
        Arrival(3, 3, payload={"k": "y"}),
        Arrival(4, 4, payload={"k": "x"}),
    ]
    results = interpret(cut(read, [3]), PER_EVENT, {"out": counting("retract", "20us", by=("k",))})
    panes = [
        (one.pane.key, one.pane.op, one.pane.sequence) for one in results.published["out"] if one.batch == 1
    ]
    assert panes == [
        (("y",), Op.RETRACT, 0),
        (("y",), Op.INSERT, 1),
        (("x",), Op.RETRACT, 0),
        (("x",), Op.INSERT, 1),
    ]


def test_on_time_panes_come_before_late_ones_by_window() -> None:
    results = interpret(cut(events(1, 21, 12, 15, 50, 2), [3]), PER_EVENT, {"out": counting(lateness="99us")})
    assert [pane[1:4] for pane in shown(results) if pane[0] == 1] == [
        ("ON_TIME", "insert", 20),
        ("LATE", "insert", 0),
        ("LATE", "insert", 10),
    ]


def test_a_drain_is_one_further_batch_that_closes_every_window() -> None:
    results = interpret([events(1, 2)], PER_EVENT, {"out": counting()}, drain=True)
    assert shown(results) == [(1, "ON_TIME", "insert", 0, 0, 2)]
    assert results.open_windows["out"] == []


def test_one_pipeline_feeds_outputs_of_different_policies() -> None:
    results = interpret(
        [events(1, 10, 2)],
        PER_EVENT,
        {late: counting(late, "20us") for late in ("drop", "update", "retract", "side_output")},
    )
    assert {name: fates(results, name)[-1] for name in results.judged} == {
        "drop": Fate.DROPPED,
        "update": Fate.LATE_ACCEPTED,
        "retract": Fate.LATE_ACCEPTED,
        "side_output": Fate.SIDE_OUTPUT,
    }


# Ledger


def test_the_ledger_counts_events_assignments_and_measures_by_fate() -> None:
    read = [
        Arrival(10, 0, payload={"paise": 5}),
        Arrival(1, 1, payload={"paise": 70}),
        Arrival(11, 2, payload={"paise": None}),
        Arrival(0, 3, payload={"paise": 200}, dead=True),
    ]
    results = interpret([read], PER_EVENT, {"out": counting(late="side_output")}, measures=["paise"])
    by_unit = {entry.unit: entry for entry in results.ledger}
    nothing = dict.fromkeys(Fate, Decimal(0))
    assert by_unit["events"].received == 4
    assert by_unit["events"].fates == nothing | {
        Fate.ON_TIME: Decimal(2),
        Fate.SIDE_OUTPUT: Decimal(1),
        Fate.DEAD_LETTER: Decimal(1),
    }
    assert by_unit["assignments"].fates == by_unit["events"].fates
    assert by_unit["paise"].received == 275
    assert by_unit["paise"].fates == nothing | {
        Fate.ON_TIME: Decimal(5),
        Fate.SIDE_OUTPUT: Decimal(70),
        Fate.DEAD_LETTER: Decimal(200),
    }


# What always holds


def outcome_of(batches: Sequence[Sequence[Arrival]], strategy: Strategy, output: Output) -> Interpretation:
    return interpret(
        batches,
        strategy,
        {"out": output},
        where={"out": lambda payload: payload["ok"]},
        measures=["paise"],
        drain=True,
    )


@given(out_of_step(), watermarks(), outputs())
@quick
def test_every_batch_balances(batches: list[list[Arrival]], strategy: Strategy, output: Output) -> None:
    results = outcome_of(batches, strategy, output)
    assert unbalanced(results.ledger) == []
    assert [entry.received for entry in results.ledger if entry.unit == "events"] == [len(b) for b in batches]


@given(out_of_step(), watermarks(), outputs())
@quick
def test_every_arrival_has_one_fate(batches: list[list[Arrival]], strategy: Strategy, output: Output) -> None:
    results = outcome_of(batches, strategy, output)
    assert sorted(event.position for event in results.judged["out"]) == list(range(sum(map(len, batches))))


@given(out_of_step(), watermarks(), outputs())
@thorough
def test_what_stands_in_the_end_is_what_was_accepted(
    batches: list[list[Arrival]], strategy: Strategy, output: Output
) -> None:
    results = outcome_of(batches, strategy, output)
    accepted = Counter(
        (*event.window, tuple(event.arrival.payload[column] for column in output.by))
        for event in results.judged["out"]
        if event.window and event.fate in (Fate.ON_TIME, Fate.LATE_ACCEPTED)
    )
    assert {place: pane.values["rows"] for place, pane in surviving(results.panes("out")).items()} == dict(
        accepted
    )


@given(out_of_step(), watermarks(), outputs())
@thorough
def test_the_on_time_pane_holds_exactly_the_on_time_events(
    batches: list[list[Arrival]], strategy: Strategy, output: Output
) -> None:
    results = outcome_of(batches, strategy, output)
    on_time = Counter(event.window.start for event in results.with_fate("out", Fate.ON_TIME) if event.window)
    panes = [pane for pane in results.panes("out") if pane.timing is Timing.ON_TIME]
    fired: Counter[int] = Counter()
    for pane in panes:
        fired[pane.window_start] += pane.values["rows"]
    assert fired == on_time
    assert len({(pane.window_start, pane.key) for pane in panes}) == len(panes)


@given(out_of_step(), watermarks(), outputs())
@quick
def test_sequences_count_up_and_a_retract_names_the_pane_before_it(
    batches: list[list[Arrival]], strategy: Strategy, output: Output
) -> None:
    standing: dict[tuple[int, object], int] = {}
    retracted: tuple[int, object] | None = None
    for pane in outcome_of(batches, strategy, output).panes("out"):
        place = (pane.window_start, pane.key)
        if pane.op is Op.RETRACT:
            assert pane.sequence == standing[place]
            retracted = place
        else:
            assert retracted in (None, place)
            assert pane.sequence == standing.get(place, -1) + 1
            standing[place], retracted = pane.sequence, None


@given(out_of_step(), watermarks(), outputs())
@quick
def test_update_and_retract_end_alike(
    batches: list[list[Arrival]], strategy: Strategy, output: Output
) -> None:
    update = output.model_copy(update={"late": LatePolicy.UPDATE})
    retract = output.model_copy(update={"late": LatePolicy.RETRACT})
    one, other = (outcome_of(batches, strategy, each).panes("out") for each in (update, retract))
    assert surviving(one) == surviving(other)


@given(arrivals(), st.randoms(use_true_random=False), cuts(), watermarks(), outputs())
@quick
def test_the_order_within_a_batch_says_nothing(
    read: list[Arrival], rng: Random, sizes: list[int], strategy: Strategy, output: Output
) -> None:
    distinct = list({arrival.arrival_time: arrival for arrival in read}.values())
    straight = cut(distinct, sizes)
    shuffled = [rng.sample(batch, len(batch)) for batch in straight]
    one, other = outcome_of(straight, strategy, output), outcome_of(shuffled, strategy, output)
    assert one.published == other.published
    assert one.ledger == other.ledger
    assert one.watermarks == other.watermarks
