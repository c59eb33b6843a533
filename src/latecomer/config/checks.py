"""Checks that need the whole pipeline: unknown columns, combinations that lose data, names that clash, sinks that
cannot take their rows, secrets in plain text.

Every check returns problems; none raises. The checks run before Spark starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from latecomer.config.column_checks import rename_problems, unusable_names
from latecomer.config.kafka import written_settings
from latecomer.config.lateness_checks import delays_without_partitions, short_retention, unsafe_lateness
from latecomer.config.models import NAME, Pipeline
from latecomer.config.names import OWN_STATES, PRIVATE, RESERVED, STATE_PARTS
from latecomer.config.outputs import Output
from latecomer.config.places import check_places, unusable_paths
from latecomer.config.registered import Registered
from latecomer.config.renames import fix_by_renaming
from latecomer.config.secrets import reference_problems
from latecomer.config.sinks import IcebergSink, KafkaSink, PostgresSink, Stream
from latecomer.config.views import in_each_source, place_in
from latecomer.errors import PipelineError, Problem, did_you_mean
from latecomer.model.aggregates import ADDITIVE
from latecomer.model.panes import Accumulation
from latecomer.model.verdicts import LatePolicy

_OF_PANES = f"every pane has {', '.join(RESERVED)}"


def check(pipeline: Pipeline) -> list[Problem]:
    """The problems that can be found without the source's columns."""
    if unusable := unusable_paths(pipeline):
        return unusable
    problems = [*check_places(pipeline), *_common_renames(pipeline), *in_each_source(pipeline, _of_source)]
    problems += [*short_retention(pipeline), *_schedules(pipeline), *rows_that_go_nowhere(pipeline)]
    for name, output in pipeline.outputs.items():
        problems += unsafe_lateness(pipeline, name, output)
        problems += _accumulation(name, output)
        problems += _empty_windows(name, output)
        problems += sinks_that_cannot(name, output)
        problems += _output_names(name, output, pipeline.ledger)
        own_columns = (column for column in output.columns if column not in pipeline.columns)
        problems += unusable_names(f"outputs.{name}.columns", own_columns)
    return problems


def _of_source(pipeline: Pipeline) -> Iterator[Problem]:
    """Problems of a source and its watermark."""
    yield from delays_without_partitions(pipeline)
    yield from rename_problems(pipeline)
    partition, named = pipeline.source.arrivals.partition, pipeline.event.partition
    if partition and named and partition != named:
        reason = f"says another column than event.partition ({named})"
        fix = "name the source-partition column once"
        yield Problem(f"source.{pipeline.source.key}.partition", reason, partition, fix)


def _common_renames(pipeline: Pipeline) -> Iterator[Problem]:
    if pipeline.sources and pipeline.renames:
        first = next(iter(pipeline.sources))
        reason = "each of several sources has its own names"
        fix = f"move them to the sources: sources: {{{first}: {{columns: {{…}}}}}}"
        yield Problem("columns", reason, ", ".join(pipeline.renames), fix)


def _accumulation(name: str, output: Output) -> Iterator[Problem]:
    if output.late is LatePolicy.RETRACT and output.accumulation is not Accumulation.RETRACTING:
        reason = "late: retract takes back every pane it replaces"
        fix = "leave accumulation out, or use late: update"
        yield Problem(f"outputs.{name}.accumulation", reason, output.accumulation.value, fix)
    if output.accumulation is Accumulation.DISCARDING:
        for aggregate_name, aggregate in output.aggregates.items():
            if aggregate.function not in ADDITIVE:
                reason = f"{aggregate.called} cannot be added up from the panes of accumulation: discarding"
                fix = "use sum, count, min or max, or accumulation: accumulating"
                yield Problem(f"outputs.{name}.aggregates.{aggregate_name}", reason, str(aggregate), fix)


def require_output(pipeline: Pipeline, name: str) -> None:
    """Refuse the name of an output that the pipeline does not have, and suggest a similar one."""
    if name not in pipeline.outputs:
        fix, place = did_you_mean(name, pipeline.outputs), f"pipeline {pipeline.name}"
        raise PipelineError([Problem("output", "the pipeline has no such output", name, fix, place)])


def _schedules(pipeline: Pipeline) -> Iterator[Problem]:
    for name in pipeline.schedule:
        if name not in pipeline.outputs:
            fix = did_you_mean(name, pipeline.outputs)
            yield Problem(f"schedule.{name}", "the pipeline has no such output", name, fix)


def _empty_windows(name: str, output: Output) -> Iterator[Problem]:
    if output.emit_empty and output.closes_silently:
        reason = "a window that closes without a pane cannot be told from one without events"
        fix = "leave on_time out, or emit_empty"
        yield Problem(f"outputs.{name}.trigger.on_time", reason, output.trigger.on_time, fix)
    if output.emit_empty and (output.window.merges or output.window.endless):
        reason = f"there are no empty windows where the window is {output.window.kind}"
        fix = "leave emit_empty out, or use tumbling, sliding or calendar windows"
        yield Problem(f"outputs.{name}.emit_empty", reason, True, fix)


def _output_names(name: str, output: Output, measures: Iterable[str]) -> Iterator[Problem]:
    field = f"outputs.{name}"
    taken = {column.lower(): "a column of every pane" for column in RESERVED}
    for index, column in enumerate(output.by):
        if column.lower() in taken:
            twice = column.lower() not in RESERVED
            fix = "name it once" if twice else f"{fix_by_renaming(column)}; {_OF_PANES}"
            yield Problem(f"{field}.by.{index}", f"clashes with {taken[column.lower()]}", column, fix)
        taken[column.lower()] = "a column in `by`"
    states = {*OWN_STATES, *(f"measure_{each}" for each in measures)}
    for aggregate_name, aggregate in output.aggregates.items():
        in_parts = aggregate.function not in ADDITIVE
        parts = {f"{aggregate_name}_{part}" for part in STATE_PARTS} if in_parts else set()
        if parts & states:
            reason = f"would keep a part of its state as {min(parts & states)}, which there is already"
            fix = "choose another name for the aggregate"
            yield Problem(f"{field}.aggregates.{aggregate_name}", reason, aggregate_name, fix)
        states |= parts
        if not NAME.fullmatch(aggregate_name) or aggregate_name.startswith(PRIVATE):
            fix = "use a-z, A-Z, 0-9 and _ only"
            yield Problem(f"{field}.aggregates.{aggregate_name}", "is not a usable name", aggregate_name, fix)
        elif aggregate_name.lower() in taken:
            yield Problem(
                f"{field}.aggregates.{aggregate_name}",
                f"clashes with {taken[aggregate_name.lower()]}",
                aggregate_name,
                "choose another name for the aggregate"
                + (f"; {_OF_PANES}" if aggregate_name.lower() in RESERVED else ""),
            )
        taken[aggregate_name.lower()] = "another aggregate"


# Sinks and secrets


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
