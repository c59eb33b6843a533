"""A watermark that only the `watermark` steps of a scenario move, as in Beam's TestStream."""

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
    """Events and silence do not move the watermark: it stays where a step has put it."""

    strategy: Literal["by hand"] = "by hand"
    on_idle: Literal["advance", "hold"] = "hold"

    def mark(self, state: State, partition: str) -> int | None:
        return None


def steered(pipeline: Pipeline, steps: Sequence[Step]) -> Pipeline:
    """The pipeline for these steps: if a step puts the watermark, nothing else moves it.

    The ticks and `max_future` of the pipeline's own strategy stay.
    """
    if not any(isinstance(step, Watermark) for step in steps):
        return pipeline
    by_hand = ByHand.model_validate({})
    strategies = {
        name: by_hand.model_copy(
            update={"every": view.watermark.every, "max_future": view.watermark.max_future}
        )
        for name, view in pipeline.views.items()
    }
    strategy = BySource.of_strategies(strategies) if pipeline.sources else strategies[""]
    return pipeline.model_copy(update={"watermark": strategy})


def backwards(steps: Sequence[Step], times: Times) -> tuple[int, str] | None:
    """The first step that does not move the watermark forward: its number, and the problem."""
    reached = BEGIN_OF_TIME
    for number, step in enumerate(steps):
        if isinstance(step, Watermark):
            if step.to <= reached:
                return number, f"the watermark is at {times.write(reached)} and only goes forward"
            reached = step.to
        elif isinstance(step, Drain):
            reached = END_OF_TIME
    return None
