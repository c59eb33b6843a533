"""Asking a strategy of one's own: what it raises, and answers that cannot be meant, are its author's mistakes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from latecomer.errors import PipelineError
from latecomer.model.oracle.clock import OracleClock
from latecomer.model.oracle.interpreter import Arrival
from latecomer.model.strategies import Bounded, State, Strategy, TickSummary
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT

NO_MOMENTS = ["noon", 2**63 - 1, END_OF_TIME, float("nan"), 1.5, True]
NO_DURATIONS = ["1s", -1, None, 0.5, False]


@pytest.mark.parametrize("state", [{1: 2}, (1, 2), {3}, float("nan"), object()])
def test_a_state_that_is_not_json_is_refused(state: State) -> None:
    class Careless(Strategy):
        def advance(self, _: State, summary: TickSummary) -> State:
            return state

        def mark(self, state: State, partition: str) -> int:
            return 0

    timeline = Timeline(Careless(every="event"))
    timeline.extend([TickSummary(1, 10, "p", 1, 10)])
    with pytest.raises(PipelineError) as refused:
        timeline.carry()
    (problem,) = refused.value.problems
    assert problem.field == "watermark.strategy"
    assert "the state of partition 'p' cannot be stored as JSON" in problem.message
    assert problem.value is state
    assert "dicts with text for keys" in str(problem.fix)


@pytest.mark.parametrize("method", ["advance", "mark", "lag"])
def test_a_class_that_fails_is_told_as_its_authors_mistake(method: str) -> None:
    def fails(*_: object) -> int:
        raise ZeroDivisionError("no clocks today")

    steady = {"advance": lambda *_: 1, "mark": lambda *_: 0, "lag": lambda *_: 0}
    own = type("Mine", (Strategy,), {**steady, method: fails, "__module__": "mine"})
    fails.__name__ = method
    timeline = Timeline(own(every="event", idle_after="1us", on_idle="advance"))

    def live() -> None:
        timeline.extend([TickSummary(1, 10, "p", 1, 10)])
        timeline.heartbeat(90)

    with pytest.raises(PipelineError) as refused:
        live()
    (problem,) = refused.value.problems
    assert problem.field == "watermark.strategy"
    assert problem.message == f"Mine.{method} raised ZeroDivisionError: no clocks today"
    assert "nothing is lost" in str(problem.fix)


class Garbled(Strategy):
    """Answers what it is told to."""

    answers: Any = None
    lags: Any = 0

    def mark(self, state: State, partition: str) -> Any:
        return self.answers

    def lag(self, state: State, partition: str) -> Any:
        return self.lags


@pytest.mark.parametrize("through", [Timeline, OracleClock])
@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        *(({"answers": each}, "mark returned for partition 'p' is not a moment") for each in NO_MOMENTS),
        *(({"lags": each}, "lag returned for partition 'p' is not a duration") for each in NO_DURATIONS),
    ],
)
def test_an_answer_that_cannot_be_meant_is_refused(
    through: type[Timeline | OracleClock], fields: dict[str, Any], outcome: str
) -> None:
    asked = through(Garbled(every="10us", idle_after="10us", **fields))

    def live() -> None:
        if isinstance(asked, Timeline):
            asked.extend([TickSummary(0, 0, "p", 1, 5)])
        else:
            asked.in_force_for(Arrival(5, 5, partition="p"))
        asked.heartbeat(500)

    with pytest.raises(PipelineError) as refused:
        live()
    (problem,) = refused.value.problems
    assert problem.field == "watermark.strategy"
    assert problem.message == f"what Garbled.{outcome}"
    assert problem.value in fields.values() or problem.value != problem.value
    assert "return " in str(problem.fix)


@pytest.mark.parametrize("mark", [None, BEGIN_OF_TIME, -(1 << 200), FIRST_MOMENT - 1])
def test_a_mark_before_the_calendar_is_none(mark: int | None) -> None:
    timeline = Timeline(Garbled(every="event", answers=mark))
    timeline.extend([TickSummary(1, 10, "p", 1, 10)])
    assert timeline.watermark == BEGIN_OF_TIME


def test_any_whole_number_is_a_moment() -> None:
    class Whole:
        def __index__(self) -> int:
            return 7

    timeline = Timeline(Garbled(every="event", answers=Whole()))
    timeline.extend([TickSummary(1, 10, "p", 1, 10)])
    assert timeline.watermark == 7
    assert json.loads(timeline.carry())["watermark"] == 7


def test_a_fault_in_a_strategy_of_ours_is_not_told_as_the_users() -> None:
    with pytest.raises(TypeError):
        Timeline(Bounded("1s", every="event")).extend([TickSummary(1, 10, "p", 1, None)])  # type: ignore[arg-type]
