"""The streams of the seeds, through the oracle: their figures where they are right, the law where not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from latecomer.config.outputs import Output
from latecomer.model.ledger import unbalanced
from latecomer.model.oracle.interpreter import Arrival, Interpretation, interpret
from latecomer.model.panes import Op, Pane, Timing, surviving
from latecomer.model.strategies import Bounded
from latecomer.model.verdicts import Fate, Verdict
from scenarios import (
    MINUTE,
    SECOND,
    clock,
    cut,
    morning_checkouts,
    one_by_one,
    scrambled_units,
    seven_clicks,
    upi_payments,
)

# First seed: payments a minute, three policies, and where each paisa went

POLICIES: Mapping[str, Mapping[str, str]] = {
    "drop": {"late": "drop", "too_late": "drop"},
    "allowed_lateness": {"late": "update", "too_late": "drop"},
    "side_output": {"late": "side_output", "too_late": "side_output"},
}


@pytest.fixture(scope="module")
def payments() -> list[Arrival]:
    return upi_payments()


@pytest.fixture(scope="module")
def minutes(payments: list[Arrival]) -> Interpretation:
    outputs = {
        name: Output(
            window={"tumbling": "1m"},
            aggregates={"paise": "sum(paise)", "payments": "count(*)"},
            allowed_lateness="5m",
            **policy,
        )
        for name, policy in POLICIES.items()
    }
    strategy = Bounded("30s", every="event")
    return interpret(cut(payments, [100] * 6), strategy, outputs, measures=["paise"], drain=True)


def _paise(outcome: Interpretation, output: str, fate: Fate) -> int:
    return sum(event.arrival.payload["paise"] for event in outcome.with_fate(output, fate))


def _standing(outcome: Interpretation, output: str, value: str = "paise") -> int:
    return sum(pane.values[value] for pane in surviving(outcome.panes(output)).values())


def _sorted_out(payments: list[Arrival]) -> dict[str, list[Arrival]]:
    """On time, late and too late by the seed's own rule: the largest time so far, then the verdict."""
    heaps: dict[str, list[Arrival]] = {"on_time": [], "late": [], "too_late": []}
    for place, payment in enumerate(payments):
        newest = max(before.event_time for before in payments[: place + 1])
        overdue = newest - 30 * SECOND - (payment.event_time // MINUTE + 1) * MINUTE
        heaps["on_time" if overdue < 0 else "late" if overdue < 5 * MINUTE else "too_late"].append(payment)
    return heaps


def test_payments_get_the_verdicts_of_the_seeds_rule(
    payments: list[Arrival], minutes: Interpretation
) -> None:
    heaps = _sorted_out(payments)
    assert {name: len(heap) for name, heap in heaps.items()} == {"on_time": 587, "late": 11, "too_late": 2}
    for verdict in Verdict:
        judged = [event.arrival for event in minutes.judged["drop"] if event.verdict is verdict]
        assert judged == heaps[verdict.value]


@pytest.mark.parametrize(
    ("policy", "standing", "aside", "dropped"),
    [
        ("drop", 14_242_067, 0, 312_715),
        ("allowed_lateness", 14_503_572, 0, 51_210),
        ("side_output", 14_242_067, 312_715, 0),
    ],
)
def test_every_paisa_is_somewhere(
    payments: list[Arrival], minutes: Interpretation, policy: str, standing: int, aside: int, dropped: int
) -> None:
    assert _standing(minutes, policy) == standing
    assert _paise(minutes, policy, Fate.SIDE_OUTPUT) == aside
    assert _paise(minutes, policy, Fate.DROPPED) == dropped
    assert standing + aside + dropped == sum(payment.payload["paise"] for payment in payments)


def test_what_drop_loses_is_what_side_output_keeps(minutes: Interpretation) -> None:
    dropped = minutes.with_fate("drop", Fate.DROPPED)
    aside = minutes.side_output("side_output")
    assert [event.position for event in dropped] == [event.position for event in aside]


def test_the_ledger_of_the_payments_balances(minutes: Interpretation) -> None:
    assert unbalanced(minutes.ledger) == []
    received = sum(
        entry.received for entry in minutes.ledger if (entry.output, entry.unit) == ("drop", "paise")
    )
    assert received == 14_554_782


# Third seed: seven clicks, at the window and at the source


@pytest.fixture(scope="module")
def clicks() -> Interpretation:
    output = Output(window={"tumbling": "5m"}, aggregates={"clicks": "count(*)"})
    return interpret([seven_clicks()], Bounded("60s", every="event"), {"clicks": output})


def test_the_window_of_1400_holds_four_clicks(clicks: Interpretation) -> None:
    (pane,) = clicks.panes("clicks")
    assert (pane.window_start, pane.values) == (clock("14:00:00"), {"clicks": 4})
    assert clicks.watermarks == [clock("14:07:30")]


def test_only_the_click_of_a_closed_window_goes_to_the_side_output(clicks: Interpretation) -> None:
    assert [event.arrival.event_time for event in clicks.side_output("clicks")] == [clock("13:58:45")]


def test_at_the_source_two_clicks_are_late(clicks: Interpretation) -> None:
    late = [event.arrival.event_time for event in clicks.judged["clicks"] if event.late_at_source]
    assert late == [clock("14:03:01"), clock("13:58:45")]


# Fourth seed: latency against completeness


@pytest.fixture(scope="module")
def units() -> list[Arrival]:
    return scrambled_units()


@pytest.mark.parametrize(
    ("bound", "completeness", "dropped", "latency"),
    [
        pytest.param(0, "65.84%", 6832, "0.87", marks=pytest.mark.long),
        pytest.param(2, "75.39%", 4923, "2.90", marks=pytest.mark.long),
        pytest.param(5, "85.00%", 2999, "5.79", marks=pytest.mark.long),
        (10, "93.47%", 1307, "10.87"),
        pytest.param(20, "99.48%", 105, "20.87", marks=pytest.mark.long),
        pytest.param(40, "100.00%", 0, "40.87", marks=pytest.mark.long),
    ],
)
def test_the_sweep_of_the_lateness_bound(
    units: list[Arrival], bound: int, completeness: str, dropped: int, latency: str
) -> None:
    output = Output(window={"tumbling": "10s"}, aggregates={"n": "count(*)"}, late="drop")
    outcome = interpret(one_by_one(units), Bounded(f"{bound}s", every="event"), {"sweep": output})
    assert len(outcome.with_fate("sweep", Fate.DROPPED)) == dropped
    assert f"{len(outcome.with_fate('sweep', Fate.ON_TIME)) / len(units):.2%}" == completeness
    # A window is emitted when the largest event time is the watermark of that batch plus the bound.
    waits = [
        (outcome.watermarks[one.batch] - one.pane.window_end) / SECOND + bound
        for one in outcome.published["sweep"]
    ]
    assert f"{sum(waits) / len(waits):.2f}" == latency


# Fifth seed: on time, slightly late, very late


@pytest.fixture(scope="module")
def checkouts() -> Interpretation:
    output = Output(
        window={"tumbling": "5m"},
        by=("user",),
        aggregates={"total": "sum(amount)"},
        allowed_lateness="60m",
        late="update",
    )
    return interpret(one_by_one(morning_checkouts()), Bounded("60s", every="event"), {"totals": output})


def _of_ann(outcome: Interpretation) -> list[tuple[str, Pane]]:
    """Ann's panes, each with the wall-clock time of the arrival that published it."""
    arrived = {event.batch: event.arrival.arrival_time for event in outcome.judged["totals"]}
    day = clock("00:00:00")
    shown = []
    for one in outcome.published["totals"]:
        if one.pane.key == ("ann",):
            minutes, seconds = divmod((arrived[one.batch] - day) // SECOND, 60)
            shown.append((f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}", one.pane))
    return shown


def test_the_window_of_0900_is_emitted_at_09_06_02_and_again_at_09_34(checkouts: Interpretation) -> None:
    assert [(at, pane.timing, pane.sequence, pane.values["total"]) for at, pane in _of_ann(checkouts)] == [
        ("09:06:02", Timing.ON_TIME, 0, 300),
        ("09:34:00", Timing.LATE, 1, 350),
    ]
    assert all(pane.op is Op.INSERT for _, pane in _of_ann(checkouts))


def test_the_four_checkouts_have_three_fates(checkouts: Interpretation) -> None:
    fates = {e.arrival.event_id: e.fate for e in checkouts.judged["totals"] if e.arrival.event_id}
    assert fates == {
        "E1": Fate.ON_TIME,
        "E2": Fate.ON_TIME,
        "E3": Fate.LATE_ACCEPTED,
        "E4": Fate.SIDE_OUTPUT,
    }
