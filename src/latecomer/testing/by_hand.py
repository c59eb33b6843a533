"""A watermark that moves by hand alone: by the `watermark` steps of a scenario, as in Beam's TestStream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from latecomer.config.models import Pipeline
from latecomer.model.arrivals import Drain, Watermark
from latecomer.model.sources import BySource
from latecomer.model.strategies import State, Strategy
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.testing.scenario import Step
from latecomer.testing.times import Times


class ByHand(Strategy):
    """Whatever arrives and however long it is silent, the watermark stays where a step has put it."""

    strategy: Literal["by hand"] = "by hand"
    on_idle: Literal["advance", "hold"] = "hold"

    def mark(self, state: State, partition: str) -> int | None:
        return None


def steered(pipeline: Pipeline, steps: Sequence[Step]) -> Pipeline:
    """The pipeline as the steps want it: where one of them puts the watermark, nothing else moves it.

    Of the pipeline's own strategy, the ticks and `max_future` stay.
    """
    if not any(isinstance(step, Watermark) for step in steps):
        return pipeline
    strategies = {name: _by_hand(view.watermark) for name, view in pipeline.views.items()}
    strategy = BySource.of_strategies(strategies) if pipeline.sources else strategies[""]
    return pipeline.model_copy(update={"watermark": strategy})


def _by_hand(own: Strategy) -> Strategy:
    return ByHand.model_validate({}).model_copy(update={"every": own.every, "max_future": own.max_future})


def backwards(steps: Sequence[Step], times: Times) -> tuple[int, str] | None:
    """The first step that would put the watermark back, or where it is already: its number, and why not."""
    reached = BEGIN_OF_TIME
    for number, step in enumerate(steps):
        if isinstance(step, Watermark):
            if step.to <= reached:
                return number, f"the watermark is at {times.write(reached)} and goes forward alone"
            reached = step.to
        elif isinstance(step, Drain):
            reached = END_OF_TIME
    return None
