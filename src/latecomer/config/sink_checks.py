"""Checks of sinks that cannot take their rows, and of secrets that are in plain text or do not exist."""

from __future__ import annotations

from collections.abc import Iterator

from latecomer.config.kafka import KafkaTopics, written_settings
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.config.registered import Registered
from latecomer.config.secrets import reference_problem
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
        if listed.stream is Stream.PANES or listed.sink.takes_rows:
            continue
        yield Problem(
            listed.field,
            f"{listed.sink.kind} takes panes only",
            {listed.sink.kind: listed.sink.place},
            "write takes_rows = True in its class once it can take rows without op and sequence",
        )
    for listed in pipeline.listed_sinks():
        if (
            listed.stream is not Stream.PANES
            and isinstance(listed.sink, PostgresSink)
            and listed.sink.serving
        ):
            yield Problem(
                f"{listed.field}.serving",
                "only the numbers of an output are served",
                True,
                "leave it out here",
            )
    for name, output in pipeline.outputs.items():
        if output.late_to and not output.sets_aside:
            yield Problem(
                f"outputs.{name}.late_to",
                f"would never get a row: late is {output.late} and too_late is {output.too_late}",
                fix="use side_output for late or too_late, or leave late_to out",
            )


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
    checked = (reference_problem(field, text, pipeline.base) for field, text in _with_secrets(pipeline))
    return [problem for problem in checked if problem is not None]


def _with_secrets(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """The settings that may refer to a secret: field and text."""
    servers: list[tuple[str, KafkaTopics | KafkaSink]] = [
        (place_in(name, "source.kafka"), view.source.kafka)
        for name, view in pipeline.views.items()
        if view.source.kafka is not None
    ]
    for name, view in pipeline.views.items():
        if isinstance(view.format, Registered):
            place = place_in(name, "source.files.format" if view.source.files else "source.format")
            yield from ((f"{place}.{field}", text) for field, text in view.format.secrets().items())
    for listed in pipeline.listed_sinks():
        if isinstance(listed.sink, PostgresSink):
            yield f"{listed.field}.target", listed.sink.target
        elif isinstance(listed.sink, IcebergSink):
            yield from (
                (f"{listed.field}.properties.{name}", str(text))
                for name, text in listed.sink.properties.items()
            )
        elif isinstance(listed.sink, KafkaSink):
            servers.append((listed.field, listed.sink))
    for field, each in servers:
        written = written_settings(each.servers, each.options)
        yield from ((f"{field}.{name}", text) for name, text in written.items())
