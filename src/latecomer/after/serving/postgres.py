"""Serving kept in Postgres: the corrections that count, and the view, beside the table of each sink with `serving`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

from latecomer.after.reading.reader import Reader
from latecomer.after.serving.correcting import corrections_of
from latecomer.after.serving.grains import by_grain, row_schema
from latecomer.after.serving.served import corrections, served_schema
from latecomer.after.serving.views import check_postgres, postgres_statement
from latecomer.config.models import Pipeline
from latecomer.config.sinks import PostgresSink
from latecomer.errors import LatecomerError, NoStore
from latecomer.sink.postgres_serving import CorrectionsLogic

LOG = logging.getLogger(__name__)
_Report = TypeVar("_Report")


def serving_sinks(pipeline: Pipeline, output: str) -> list[PostgresSink]:
    """The sinks of an output with `serving`."""
    return [
        sink for sink in pipeline.outputs[output].sinks if isinstance(sink, PostgresSink) and sink.serving
    ]


def keep_served(reader: Reader, output: str) -> None:
    """Bring the corrections and the view of an output to each of its sinks with `serving`."""
    for sink in serving_sinks(reader.pipeline, output):
        ours = corrections_of(reader, output)
        check_postgres(ours)
        logic = CorrectionsLogic(sink, reader.pipeline.base, reader.pipeline.name, output, row_schema(ours))
        with closing(logic):
            logic.replace(
                lambda table, beside, ours=ours: postgres_statement(ours, table, beside),  # type: ignore[misc]
                served_schema(ours).names,
                lambda batch: by_grain(reader, output, corrections(reader, output, batch)),
            )


def beside_a_run(run: Callable[..., _Report], pipeline: Pipeline, **options: Any) -> _Report:
    """A run that keeps serving up to date: before the run, where there is a store; after its first batch, which makes
    the store; and after the run."""
    watch = options.get("watch", lambda _: None)
    if not callable(watch):
        return run(pipeline, **options)
    served = keep_all_served(pipeline)

    def watched(report: Any) -> None:
        nonlocal served
        watch(report)
        if not served:
            keep_all_served(pipeline)
            served = True

    report = run(pipeline, **{**options, "watch": watched})
    keep_all_served(pipeline)
    return report


def keep_all_served(pipeline: Pipeline) -> bool:
    """Whether serving could be brought up to date everywhere. What is in the way is logged; the run goes on."""
    if not any(serving_sinks(pipeline, output) for output in pipeline.outputs):
        return True
    reader = Reader(pipeline)
    try:
        for output in pipeline.outputs:
            keep_served(reader, output)
    except NoStore:
        return False
    except LatecomerError as error:
        LOG.warning("what is served could not be brought up: %s", error)
        return False
    return True
