"""Chooses the logic of an output by its kind of window."""

from __future__ import annotations

from latecomer.spark.base import Runner
from latecomer.store.store import Store
from latecomer.windowing.firing.output import OutputLogic
from latecomer.windowing.firing.sessions import SessionLogic


def output_logic(runner: Runner, store: Store, name: str) -> OutputLogic:
    """The logic of an output."""
    session = store.pipeline.outputs[name].window.merges
    return (SessionLogic if session else OutputLogic)(runner, store, name)
