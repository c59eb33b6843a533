"""Checks of sinks that cannot take their rows, and of secrets that are in plain text or do not exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from latecomer.config.kafka import written_settings
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.config.registered import Registered
from latecomer.config.secrets import reference_problems
from latecomer.config.sinks import IcebergSink, KafkaSink, PostgresSink, Stream
from latecomer.config.views import place_in
from latecomer.errors import Problem


def sinks_that_cannot(name: str, output: Output) -> Iterator[Problem]:
    """Sinks that cannot take the panes of an output."""
    for index, sink in enumerate(output.sinks):
        if sink.takes(output.accumulation, output.replaces):
            continue
        if sink.upserts:
            why = "keeps one pane of each window and key, and discarding panes have to be added up"
            fix = "use accumulation: accumulating or retracting, or a change stream (parquet, jsonl)"
        else:
            what, change = _updates_of(output)
            why = f"is append only and cannot take the updates of {what}"
            fix = f"use {change}, or a sink that upserts (delta, iceberg, sqlite, duckdb, postgres)"
        yield Problem(f"outputs.{name}.sinks.{index}", f"{sink.kind} {why}", {sink.kind: sink.place}, fix)


def _updates_of(output: Output) -> tuple[str, str]:
    """The setting that makes panes of an output replace others, and the change so that none does."""
    if output.window.joinable_after:
        return "sessions with final: after_gap", "accumulation: retracting or discarding"
    if output.trigger.early is not None:
        return "an early trigger", "accumulation: retracting or discarding"
    return f"late: {output.late}", "late: retract, drop or side_output"


def rows_that_go_nowhere(pipeline: Pipeline) -> Iterator[Problem]:
    """Sinks for side output and dead letters that cannot take them, or would never receive any."""
    for listed in pipeline.listed_sinks():
        sink = listed.sink
        if listed.stream is Stream.PANES:
            continue
        if not sink.takes_rows:
            fix = "write takes_rows = True in its class once it can take rows without op and sequence"
            yield Problem(listed.field, f"{sink.kind} takes panes only", {sink.kind: sink.place}, fix)
        if isinstance(sink, PostgresSink) and sink.serving:
            reason = "only the numbers of an output are served"
            yield Problem(f"{listed.field}.serving", reason, True, "leave it out here")
    for name, output in pipeline.outputs.items():
        if output.late_to and not output.sets_aside:
            reason = f"would never get a row: late is {output.late} and too_late is {output.too_late}"
            fix = "use side_output for late or too_late, or leave late_to out"
            yield Problem(f"outputs.{name}.late_to", reason, fix=fix)


def plain_passwords(pipeline: Pipeline) -> list[Problem]:
    """Passwords in plain text, which everyone can read who can read the pipeline file."""
    problems = []
    for listed in pipeline.listed_sinks():
        sink, field = listed.sink, listed.field
        if isinstance(sink, PostgresSink) and sink.has_plain_password:
            fix = "write ${env:NAME} or ${file:PATH} in its place, or leave it to PGPASSFILE"
            problems.append(Problem(f"{field}.target", "holds a password in plain text", sink.target, fix))
        for name in sink.plain_secrets if isinstance(sink, IcebergSink) else ():
            fix = (
                "write ${env:NAME} or ${file:PATH} in its place, or leave it to pyiceberg's own configuration"
            )
            # The value is not shown: not every secret looks like one.
            problems.append(Problem(f"{field}.properties.{name}", "holds a secret in plain text", fix=fix))
    return problems


def missing_secrets(pipeline: Pipeline) -> list[Problem]:
    """References to secrets that do not exist. It is called before a run that writes."""
    return list(reference_problems(_with_secrets(pipeline), pipeline.base))


def _with_secrets(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """The settings that may refer to a secret: field and text."""
    written: dict[str, Mapping[str, str]] = {}
    for name, view in pipeline.views.items():
        if (kafka := view.source.kafka) is not None:
            written[place_in(name, "source.kafka")] = written_settings(kafka.servers, kafka.options)
        if isinstance(view.format, Registered):
            place = "source.files.format" if view.source.files else "source.format"
            written[place_in(name, place)] = view.format.secrets()
    for listed in pipeline.listed_sinks():
        sink = listed.sink
        if isinstance(sink, PostgresSink):
            written[listed.field] = {"target": sink.target}
        elif isinstance(sink, IcebergSink):
            written[f"{listed.field}.properties"] = {
                name: str(text) for name, text in sink.properties.items()
            }
        elif isinstance(sink, KafkaSink):
            written[listed.field] = written_settings(sink.servers, sink.options)
    for place, texts in written.items():
        yield from ((f"{place}.{name}", text) for name, text in texts.items())
