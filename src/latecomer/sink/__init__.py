"""Sinks: where an output's panes go besides the store, each batch whole and once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from latecomer.config.sinks import Sink
from latecomer.sink.base import PaneShape, SinkLogic
from latecomer.sink.changes import JsonlLogic, ParquetLogic
from latecomer.sink.delta import DeltaLogic
from latecomer.sink.sqlite import SqliteLogic

__all__ = ["PaneShape", "SinkLogic", "open_sink"]

_LOGICS: dict[str, Any] = {logic.kind: logic for logic in (DeltaLogic, SqliteLogic, ParquetLogic, JsonlLogic)}


def open_sink(sink: Sink, path: Path, pipeline: str, shape: PaneShape) -> SinkLogic:
    """Open a sink at its resolved path; it is made where there is none, and refused where it is not ours."""
    logic: SinkLogic = _LOGICS[sink.kind](sink, path, pipeline, shape)
    return logic
