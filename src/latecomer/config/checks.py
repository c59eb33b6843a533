"""Checks that need the whole pipeline: unknown columns, combinations that lose data, names that clash.

Every check returns problems; none raises. The checks run before Spark starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from latecomer.config.column_checks import rename_problems, unusable_names
from latecomer.config.lateness_checks import delays_without_partitions, short_retention, unsafe_lateness
from latecomer.config.models import NAME, Pipeline
from latecomer.config.names import OWN_STATES, PRIVATE, RESERVED, STATE_PARTS
from latecomer.config.outputs import Output
from latecomer.config.places import check_places, unusable_paths
from latecomer.config.renames import fix_by_renaming
from latecomer.config.sink_checks import rows_that_go_nowhere, sinks_that_cannot
from latecomer.config.views import in_each_source
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
    read, event = pipeline.source.in_files, pipeline.event
    if read and read.partition and event.partition and read.partition != event.partition:
        reason = f"says another column than event.partition ({event.partition})"
        fix = "name the source-partition column once"
        yield Problem(f"source.{pipeline.source.key}.partition", reason, read.partition, fix)


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
        in_parts = aggregate.function not in ("count", "max", "min", "sum")
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
