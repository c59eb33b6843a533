"""Sinks: where an output's panes go besides the store, each batch whole and once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from latecomer.config.models import Pipeline
from latecomer.config.sinks import Sink
from latecomer.sink.base import PaneShape, SinkLogic
from latecomer.sink.changes import JsonlLogic, ParquetLogic
from latecomer.sink.delta import DeltaLogic
from latecomer.sink.sqlite import SqliteLogic

__all__ = ["PaneShape", "SinkLogic", "make_sink", "open_sink"]

_LOGICS: dict[str, Any] = {logic.kind: logic for logic in (DeltaLogic, SqliteLogic, ParquetLogic, JsonlLogic)}


def make_sink(sink: Sink, pipeline: Pipeline, shape: PaneShape) -> SinkLogic:
    """A sink that is not yet open."""
    logic: SinkLogic = _LOGICS[sink.kind](sink, pipeline.resolve(sink.path), pipeline.name, shape)
    return logic


def open_sink(sink: Sink, path: Path, pipeline: str, shape: PaneShape) -> SinkLogic:
    """Open a sink at its resolved path; it is made where there is none, and refused where it is not ours."""
    logic: SinkLogic = _LOGICS[sink.kind](sink, path, pipeline, shape)
    logic.open()
    return logic
