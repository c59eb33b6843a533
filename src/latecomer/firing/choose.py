"""Which logic computes an output: that of its kind of window."""

from __future__ import annotations

from latecomer.firing.output import OutputLogic
from latecomer.firing.sessions import SessionLogic
from latecomer.spark.base import Runner
from latecomer.store.store import Store


def output_logic(runner: Runner, store: Store, name: str) -> OutputLogic:
    """The logic of an output."""
    session = store.pipeline.outputs[name].window.merges
    return (SessionLogic if session else OutputLogic)(runner, store, name)
