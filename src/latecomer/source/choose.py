"""Makes the source that the pipeline file describes."""

from __future__ import annotations

from collections.abc import Mapping

from latecomer.config.all_columns import Columns
from latecomer.config.models import Pipeline
from latecomer.config.registered import RegisteredJson
from latecomer.source.base import FollowedSource
from latecomer.source.file_source import FileSource
from latecomer.source.frame_source import FrameSource
from latecomer.source.kafka.reader import KafkaReader
from latecomer.source.kafka.source import KafkaSource
from latecomer.source.messages import MessageFiles
from latecomer.source.polled import Polled


def sources_of(pipeline: Pipeline, columns: Columns) -> dict[str, FollowedSource]:
    """The sources by name; an only source has the empty name."""
    return {name: source_of(view, columns.read_from(name), name) for name, view in pipeline.views.items()}


def source_of(pipeline: Pipeline, columns: Mapping[str, str], name: str = "") -> FollowedSource:
    """The source, with the columns pinned for it."""
    source = pipeline.source
    if source.dataframe is not None:
        return FrameSource(pipeline, columns, name)
    if source.kafka is not None:
        header = pipeline.format.id_header if isinstance(pipeline.format, RegisteredJson) else None
        reader = KafkaReader(topics=source.kafka, base=pipeline.base, id_header=header)
        return KafkaSource(pipeline, columns, reader)
    if source.own is not None:
        return Polled(pipeline, columns, source.own)
    if source.has_records:
        return MessageFiles(pipeline, columns)
    return FileSource(pipeline, columns)
