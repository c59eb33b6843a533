"""The source that the pipeline file names."""

from __future__ import annotations

from collections.abc import Mapping

from latecomer.config.merged import Columns
from latecomer.config.models import Pipeline
from latecomer.source.base import FollowedSource
from latecomer.source.files import FileSource
from latecomer.source.kafka import KafkaReader
from latecomer.source.kafka_in_process import KafkaSource
from latecomer.source.polled import Polled


def sources_of(pipeline: Pipeline, columns: Columns) -> dict[str, FollowedSource]:
    """The sources by name; one that is alone has none."""
    return {name: source_of(view, columns.read_from(name)) for name, view in pipeline.views.items()}


def source_of(pipeline: Pipeline, columns: Mapping[str, str]) -> FollowedSource:
    """The source at work, with the columns pinned for it."""
    source = pipeline.source
    if source.kafka is not None:
        return KafkaSource(pipeline, columns, KafkaReader(topics=source.kafka, base=pipeline.base))
    if source.own is not None:
        return Polled(pipeline, columns, source.own)
    return FileSource(pipeline, columns)
