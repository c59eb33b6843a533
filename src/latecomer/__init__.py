"""The late-data layer for Apache Spark: every late event has a named fate, every number its history.

from latecomer import load_pipeline, run, Reader

pipeline = load_pipeline("pipeline.yaml")
run(pipeline, once=True)
Reader(pipeline).results("minute_totals")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from latecomer.config.load import load_pipeline
from latecomer.config.models import Event, Files, Output, Pipeline, Retention, Source
from latecomer.config.sinks import DeltaSink, JsonlSink, ParquetSink, SqliteSink
from latecomer.errors import (
    LatecomerError,
    LedgerError,
    MachineError,
    NoStore,
    NotCovered,
    PipelineError,
    SinkError,
    SourceError,
    StoreError,
    StoreInUse,
    StoreMismatch,
    TornCheckpoint,
    TornCommit,
)
from latecomer.model.durations import Duration
from latecomer.model.strategies import (
    Adaptive,
    Ascending,
    Bounded,
    Head,
    Needs,
    Percentile,
    Punctuated,
    Strategy,
)
from latecomer.model.triggers import Count, Every, Trigger
from latecomer.model.windows import Calendar, Global, Session, Sliding, Tumbling

if TYPE_CHECKING:
    from latecomer.after.reading.reader import Reader
    from latecomer.after.replay.replaying import Replay, replay
    from latecomer.after.upkeep.compacting import compact
    from latecomer.pipeline import BatchReport
    from latecomer.running import RunReport, run

__all__ = [
    "Adaptive",
    "Ascending",
    "BatchReport",
    "Bounded",
    "Calendar",
    "Count",
    "DeltaSink",
    "Duration",
    "Event",
    "Every",
    "Files",
    "Global",
    "Head",
    "JsonlSink",
    "LatecomerError",
    "LedgerError",
    "MachineError",
    "Needs",
    "NoStore",
    "NotCovered",
    "Output",
    "ParquetSink",
    "Percentile",
    "Pipeline",
    "PipelineError",
    "Punctuated",
    "Reader",
    "Replay",
    "Retention",
    "RunReport",
    "Session",
    "SinkError",
    "Sliding",
    "Source",
    "SourceError",
    "SqliteSink",
    "StoreError",
    "StoreInUse",
    "StoreMismatch",
    "Strategy",
    "TornCheckpoint",
    "TornCommit",
    "Trigger",
    "Tumbling",
    "compact",
    "load_pipeline",
    "replay",
    "run",
]

_WITH_SPARK_OR_DELTA = {
    "BatchReport": "pipeline",
    "Reader": "after.reading.reader",
    "Replay": "after.replay.replaying",
    "RunReport": "running",
    "compact": "after.upkeep.compacting",
    "replay": "after.replay.replaying",
    "run": "running",
}
"""Loaded when asked for: the rest answers without Spark."""


def __getattr__(name: str) -> Any:
    if name in _WITH_SPARK_OR_DELTA:
        from importlib import import_module

        return getattr(import_module(f"latecomer.{_WITH_SPARK_OR_DELTA[name]}"), name)
    raise AttributeError(f"module 'latecomer' has no attribute {name!r}")
