"""Sinks: where panes, side output and dead letters go besides the store, each batch once and whole or not at all."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from latecomer.config.contract import PaneShape, RowShape, Shape, SinkLogic
from latecomer.config.models import Pipeline
from latecomer.config.sinks import FileSink, Sink
from latecomer.errors.redacting import redacted
from latecomer.sink.change_files import JsonlLogic, ParquetLogic
from latecomer.sink.delta import DeltaLogic
from latecomer.sink.duckdb import DuckdbLogic
from latecomer.sink.iceberg import IcebergLogic
from latecomer.sink.kafka import KafkaLogic
from latecomer.sink.own import OwnLogic
from latecomer.sink.postgres import PostgresLogic
from latecomer.sink.sqlite import SqliteLogic

__all__ = ["PaneShape", "RowShape", "SinkLogic", "make_sink", "open_sink", "target_of"]

LOGICS: dict[str, Any] = {
    logic.kind: logic
    for logic in (
        *(DeltaLogic, IcebergLogic, SqliteLogic, DuckdbLogic, PostgresLogic),
        *(ParquetLogic, JsonlLogic, KafkaLogic),
    )
}


def target_of(sink: Sink, pipeline: Pipeline) -> str:
    """Where a sink writes, for people."""
    return str(pipeline.place(sink.path)) if isinstance(sink, FileSink) else redacted(sink.place)


def make_sink(sink: Sink, pipeline: Pipeline, shape: Shape) -> SinkLogic:
    """A sink that is not yet open."""
    if sink.kind not in LOGICS:
        return OwnLogic(sink, pipeline.name, shape)
    path = pipeline.place(sink.path) if isinstance(sink, FileSink) else pipeline.base
    logic: SinkLogic = LOGICS[sink.kind](sink, path, pipeline.name, shape)
    return logic


def open_sink(sink: Sink, path: PurePath, pipeline: str, shape: Shape) -> SinkLogic:
    """Open a built-in sink. What it writes to is made where it is missing, and refused where it is not ours. `path` is
    the sink's file or folder; for any other target, the folder of the pipeline file."""
    logic: SinkLogic = LOGICS[sink.kind](sink, path, pipeline, shape)
    logic.open()
    return logic
