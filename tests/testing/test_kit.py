"""The testing kit itself: what it builds, what its assertions find."""

from __future__ import annotations

import inspect
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given

from examples_kit import drawn
from latecomer import testing
from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import Files, Source
from latecomer.model.ledger import Entry
from latecomer.model.oracle.arrivals import Heartbeat
from latecomer.model.strategies import Bounded
from latecomer.model.verdicts import Fate
from latecomer.testing import (
    Batch,
    ManualClock,
    Row,
    Scenario,
    Times,
    assert_balances,
    assert_fates,
    assert_late,
    assert_panes,
    assert_results,
    assert_same_for_all_cuts,
    assert_watermark,
    play,
)
from latecomer.testing.outcome import Outcome, StepOutcome
from latecomer.testing.strategies import scenarios

relaxed = drawn(15, suppress_health_check=[HealthCheck.too_slow])


def pipeline(**output: object) -> Pipeline:
    rules = {"window": {"tumbling": "1m"}, "aggregates": {"paise": "sum(paise)"}, **output}
    columns = {"at": "string", "seen": "string", "txn": "string", "tower": "string", "paise": "bigint"}
    return Pipeline(
        name="kit",
        store="lake",
        source=Source(files=Files(path="in", order_by="seen"), columns=columns),
        event=Event(time="at", id="txn", partition="tower"),
        watermark=Bounded("0s", every="event", idle_after="5m"),
        outputs={"totals": Output.model_validate(rules)},
        ledger=("paise",),
    )


LATE = (
    Scenario()
    .event("14:00:10", delay="1s", paise=100)
    .event("14:01:00", delay="1s", paise=1)
    .cut()
    .event("14:00:20", delay="1m", paise=7)
)


def test_large_amounts_are_added_up_exactly() -> None:
    amount = Decimal("12345678901234567890123456.123456")
    entry = Entry(0, "totals", "paise", amount, {Fate.ON_TIME: amount})
    steps = [StepOutcome(0, ledger=[entry]), StepOutcome(0, ledger=[entry])]
    (added_up,) = Outcome(pipeline(), Times(), [], steps, {}).ledger()
    assert (added_up.received, added_up.accounted) == (Decimal("24691357802469135780246912.246912"),) * 2


def test_public_names_are_sorted_and_there() -> None:
    assert list(testing.__all__) == sorted(testing.__all__)
    assert all(inspect.isclass(each) or callable(each) for each in map(testing.__dict__.get, testing.__all__))


def test_the_kit_needs_neither_hypothesis_nor_spark() -> None:
    code = "import latecomer.testing, sys; print({'hypothesis', 'pyspark', 'deltalake'} & set(sys.modules))"
    results = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert results.stdout.strip() == "set()"


def test_without_hypothesis_the_strategies_say_so() -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "try:\n    import latecomer.testing.strategies\nexcept ImportError as error:\n    print(error)"
    )
    results = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert results.stdout.strip() == "latecomer.testing.strategies needs Hypothesis: pip install hypothesis"


def test_a_batch_is_read_in_arrival_order() -> None:
    scenario = Scenario().event("14:00:10", delay="5s").event("14:00:12", delay="1s").heartbeat("14:01")
    batch, heartbeat = scenario.steps
    assert isinstance(batch, Batch)
    assert [Times().write(row.arrival_time) for row in batch.rows] == ["14:00:13", "14:00:15"]
    assert heartbeat == Heartbeat(Times().read("14:01"))


def test_rows_are_cut_by_arrival_time() -> None:
    scenario = Scenario().stream("14:00", "14:03", every="30s", silent=("14:01", "14:02")).cut(every="1m")
    assert [len(step.rows) for step in scenario.steps if isinstance(step, Batch)] == [2, 2]


def test_a_manual_clock_does_not_go_back() -> None:
    clock = ManualClock("14:00").advance("90s").set("14:02")
    with pytest.raises(ValueError, match="stands at 14:02"):
        clock.set("14:01")


def test_there_is_nothing_to_repeat_at_first() -> None:
    with pytest.raises(ValueError, match="no row to repeat"):
        Scenario().duplicate()


def test_a_column_that_the_source_does_not_have() -> None:
    with pytest.raises(ValueError, match="did you mean paise"):
        play(pipeline(), Scenario().event("14:00", paisee=1))


@pytest.mark.parametrize("window", [{"calendar": "month", "zone": "Asia/Kolkata"}, {"calendar": "year"}])
def test_a_time_outside_the_calendar_is_a_dead_letter(window: dict[str, str]) -> None:
    strange = [
        Row(Times().read(at), Times().read("14:00")) for at in ("0001-01-01", "9999-12-31", "9998-01-01")
    ]
    outcome = play(pipeline(window=window), [Batch(tuple(strange))])
    assert_fates(outcome, ["dead_letter unreadable_event_time"] * 3)
    with pytest.raises(ValueError, match="-62135616600000000 is outside the calendar"):
        play(pipeline(), Scenario().event("0001-01-01T00:00+05:30"))


def test_assertions_hold_and_fail() -> None:
    outcome = play(pipeline(), LATE)
    assert_fates(outcome, "on_time\non_time\ntoo_late side_output")
    assert_late(outcome, "14:00:20 @14:01:20 14:00..14:01 too_late")
    assert_watermark(outcome, "14:01")
    assert_results(outcome, ["14:00..14:01 paise=100"])
    assert_balances(outcome)
    with pytest.raises(AssertionError, match=r"≠ 14:00..14:01 LATE"):
        assert_panes(outcome, ["14:00..14:01 ON_TIME paise=100", "14:00..14:01 LATE"])
    with pytest.raises(AssertionError, match="≠ 14:02"):
        assert_watermark(outcome, "14:02")
    with pytest.raises(AssertionError, match="2 fates are stated"):
        assert_fates(outcome, ["on_time", "on_time"])
    with pytest.raises(ValueError, match="there is no output other"):
        assert_panes(outcome, [], output="other")


@pytest.mark.parametrize("line", ["14:00..14:01 paisee=1", "14:00..14:01 ON_TIME tower=A"])
def test_a_column_that_the_output_does_not_have_is_a_mistake(line: str) -> None:
    with pytest.raises(ValueError, match="the output has no such column; "):
        assert_panes(play(pipeline(), LATE), line)


def test_a_watermark_put_by_hand_judges_what_comes_after_it() -> None:
    steered = (
        Scenario().event("14:09").watermark("14:01").event("14:00:10").watermark("14:03").event("14:00:20")
    )
    outcome = assert_same_for_all_cuts(pipeline(allowed_lateness="2m", late="update"), steered)
    assert_fates(outcome, ["on_time", "late_accepted", "too_late"])
    assert_watermark(outcome, "14:01", step=2)
    with pytest.raises(ValueError, match="step 1: the watermark is at 14:03 and only goes forward"):
        play(pipeline(), Scenario().watermark("14:03").watermark("14:01"))


def test_the_output_may_be_left_out_where_there_is_one() -> None:
    one = pipeline()
    both = one.model_copy(update={"outputs": {**one.outputs, "again": one.outputs["totals"]}})
    with pytest.raises(ValueError, match="which output"):
        play(both, LATE).panes()
    assert_panes(play(both, LATE), "14:00..14:01 ON_TIME paise=100", output="again")


@given(scenarios(pipeline(allowed_lateness="2m", late="retract")))
@relaxed
def test_random_scenarios_balance_and_do_not_depend_on_cuts(steps: list[testing.Batch]) -> None:
    assert_balances(assert_same_for_all_cuts(pipeline(allowed_lateness="2m", late="retract"), steps))


@given(scenarios(pipeline(allowed_lateness="2m", late="update"), by_hand=True))
@relaxed
def test_random_watermarks_by_hand_do_not_depend_on_cuts(steps: list[testing.Batch]) -> None:
    assert_balances(assert_same_for_all_cuts(pipeline(allowed_lateness="2m", late="update"), steps))


def test_what_events_are_made_of_need_not_be_in_any_row() -> None:
    """Without a schema, and with rows that do not name them, an id and a partition are missing in each row."""
    pipeline = Pipeline(
        name="sparse",
        store="store",
        source={"files": {"path": "in"}},
        event={"time": "at", "id": ["shop", "txn"], "partition": "tower"},
        watermark={"delay": "0s"},
        outputs={"all": {"window": {"tumbling": "1m"}, "aggregates": {"rows": "count(*)"}}},
    )
    scenario = Scenario().event("14:00:10", shop="a").event("14:00:11", shop="a").drain()
    (pane,) = play(pipeline, scenario).panes("all")
    assert pane.values == {"rows": 2}
