"""A pipeline as it is sent to tasks: without the parts that only the driver uses, such as user-defined classes that an
executor may not be able to import."""

from __future__ import annotations

from typing import Any

from latecomer.config.models import Pipeline
from latecomer.config.registered import Registered
from latecomer.config.sources import NamedSource, Source
from latecomer.config.user_classes import Decoder, WrittenDecoder
from latecomer.model.strategies import Strategy


def portable(pipeline: Pipeline) -> Pipeline:
    """The pipeline with a plain strategy of the same ticks, and without sinks and user-defined sources."""
    watermark = pipeline.watermark
    plain = Strategy.model_construct(every=watermark.every, max_future=watermark.max_future)
    return pipeline.without_sinks().model_copy(
        update={
            "watermark": plain,
            # Of several sources, each has its own view of the pipeline.
            "source": pipeline.source and _portable_source(pipeline.source),
            "sources": {name: _portable_source(source) for name, source in pipeline.sources.items()},
        }
    )


def _portable_source(source: Source) -> Source:
    changed: dict[str, Any] = {"own": None, "format": _portable_format(source.format)}
    if source.files is not None:
        changed["files"] = source.files.model_copy(update={"format": _portable_format(source.files.format)})
    if isinstance(source, NamedSource):
        changed["watermark"] = None
    return source.model_copy(update=changed)


def _portable_format(written: Any) -> Any:
    """The format for tasks. A user-defined decoder works in Spark SQL, so tasks need its name only. They never query a
    registry, so they need no token."""
    if isinstance(written, Registered):
        return written.model_copy(update={"token": None})
    if not isinstance(written, Decoder):
        return written
    return WrittenDecoder(name=written.shown, options={})
