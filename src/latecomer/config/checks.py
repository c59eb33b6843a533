"""What only the whole pipeline can show: columns that do not exist, pairs that lose data, names that clash.

Every check returns problems; none raises. They run before Spark starts.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from latecomer.config.columns import clashing_names
from latecomer.config.derived import derived_problems, not_from_the_log, output_types, seen_types
from latecomer.config.merged import Columns, differing
from latecomer.config.models import NAME, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.places import check_places, unusable_paths
from latecomer.config.renames import fix_by_renaming
from latecomer.config.sink_checks import plain_passwords, rows_that_go_nowhere, sinks_that_cannot
from latecomer.config.views import in_each_source, in_source
from latecomer.errors import PipelineError, Problem, did_you_mean
from latecomer.model import types
from latecomer.model.aggregates import ADDITIVE, NUMERIC, Aggregate, is_expression
from latecomer.model.durations import format_duration
from latecomer.model.ledger import ASSIGNMENTS, EVENTS
from latecomer.model.panes import Accumulation
from latecomer.model.predicates import column_mistake
from latecomer.model.triggers import Rule
from latecomer.model.verdicts import LatePolicy, TooLatePolicy
from latecomer.model.windows import FOREVER, AnyWindow, Session

RESERVED = (
    "window_start",
    "window_end",
    "sequence",
    "timing",
    "op",
    "is_last",
    "batch",
    "fired_at",
    "published_at",
    "watermark",
)
_OF_PANES = f"every pane has {', '.join(RESERVED)}"
PRIVATE = "_lc_"
OWN_STATES = ("new_events", "new_behind", "new_assignments", "new_partly")
"""What a state has of its own, beside the measures of the ledger, whose names begin with `measure_`."""
STATE_PARTS = (
    *(
        "beyond",
        "count",
        "event",
        "events",
        "high",
        "low",
        "mean",
        "merged",
        "rough_squares",
        "rough_sum",
        "single",
    ),
    *("sketch", "spread", "squares", "states", "sum", "tally"),
)
"""What the parts of an aggregate's state are called, after its name."""
UNSTORABLE = re.compile(r"[ ,;{}()\n\t=]")
"""What no column of a Delta table may have in its name."""


def check(pipeline: Pipeline) -> list[Problem]:
    """Problems that need no columns."""
    if unusable := unusable_paths(pipeline):
        return unusable
    problems = [*check_places(pipeline), *_common_renames(pipeline), *in_each_source(pipeline, _of_source)]
    problems += [*_retention(pipeline), *_schedules(pipeline), *rows_that_go_nowhere(pipeline)]
    for name, output in pipeline.outputs.items():
        problems += _unsafe_lateness(pipeline, name, output)
        problems += _accumulation(name, output)
        problems += _empty_windows(name, output)
        problems += _session_triggers(name, output)
        problems += sinks_that_cannot(name, output)
        problems += _output_names(name, output, pipeline.ledger)
    return problems


def _of_source(pipeline: Pipeline) -> Iterator[Problem]:
    """Problems of a source and its watermark."""
    yield from _delays_without_partitions(pipeline)
    yield from _renames(pipeline)
    read, event = pipeline.source.in_files, pipeline.event
    if read and read.partition and event.partition and read.partition != event.partition:
        yield Problem(
            f"source.{pipeline.source.key}.partition",
            f"says another column than event.partition ({event.partition})",
            read.partition,
            "name the source-partition column once",
        )


def _common_renames(pipeline: Pipeline) -> Iterator[Problem]:
    if pipeline.sources and pipeline.renames:
        first = next(iter(pipeline.sources))
        yield Problem(
            "columns",
            "each of several sources has its own names",
            ", ".join(pipeline.renames),
            f"move them to the sources: sources: {{{first}: {{columns: {{…}}}}}}",
        )


def check_renames(pipeline: Pipeline, columns: Mapping[str, str]) -> list[Problem]:
    """Problems with `columns`: what the source does not have, and names that it has already."""
    problems = []
    renamed = {made_from.name for made_from in pipeline.renames.values()}
    for new, made_from in pipeline.renames.items():
        if made_from.name not in columns:
            problems.append(_unknown_column(f"columns.{new}", made_from.name, columns))
        elif new in columns and new not in renamed:
            fix = f"choose another name, or rename that one too: columns: {{…: {new}}}"
            problems.append(Problem(f"columns.{new}", "the source has a column of this name", new, fix))
    return problems


def check_columns(pipeline: Pipeline, found: Mapping[str, str]) -> list[Problem]:
    """Problems with columns that there are not, that have the wrong type, or a name that cannot be used."""
    columns = Columns.of(found)
    seen = seen_types(pipeline, columns)
    problems = [*differing(pipeline, columns)]
    problems += [
        in_source(name, problem)
        for name, view in pipeline.views.items()
        for problem in _read_columns(view, columns.of_source(name))
    ]
    problems += derived_problems(pipeline, columns)
    problems += _measures(pipeline, columns)
    for name, output in pipeline.outputs.items():
        problems += _output_columns(f"outputs.{name}", output, {**columns, **output_types(output, seen)})
    return problems


def _output_columns(place: str, output: Output, columns: Mapping[str, str]) -> Iterator[Problem]:
    """Problems with the columns that an output is computed from; its derived ones are among them."""
    # A derived column that has a mistake is reported where it is written.
    known = {**dict.fromkeys(output.columns, ""), **columns}
    keys = [(f"{place}.by.{nth}", column) for nth, column in enumerate(output.by)]
    yield from _unusable(keys, known)
    yield from _whole_lists(keys, known, "a key is one value")
    yield from _misread({f"{place}.where": output.where}, known)
    yield from _misread({f"{place}.trigger": sql for sql in output.trigger.whens}, known)
    yield from _aggregated_columns(place, output, known)
    yield from _aggregate_types(place, output, columns)


def _read_columns(pipeline: Pipeline, columns: Mapping[str, str]) -> list[Problem]:
    """Problems with the columns of a source, and with those that its events are made of."""
    problems = []
    for one, other in clashing_names(columns):
        field = f"columns.{other}" if other in pipeline.columns else "source.schema"
        fix = fix_by_renaming(pipeline.source_name(other), columns)
        problems.append(Problem(field, "columns differ only in case", f"{one}, {other}", fix))
    problems += [
        Problem(
            "source.schema",
            f"names that begin with {PRIVATE} are latecomer's own" if column else "a column has no name",
            column,
            "declare source.schema without it, and columns() of a source of your own",
        )
        for column in columns
        if _is_private(column) or not column
    ]
    named = list(_read_for_events(pipeline))
    problems += not_from_the_log(pipeline, named)
    problems += [
        _unknown_column(field, column, columns)
        for field, column in named
        if column not in columns and column not in pipeline.derived
    ]
    problems += _whole_lists(named, columns, "it is one value")
    problems += _lists_in_csv(pipeline, columns)
    problems += _misread({"watermark.where": pipeline.watermark.needs.where}, columns)
    problems += _time_columns(pipeline, columns)
    problems += _sequence_column(pipeline, columns)
    return problems


def _unusable(used: Iterable[tuple[str, str]], columns: Mapping[str, str]) -> Iterator[Problem]:
    for field, column in used:
        if column not in columns:
            yield _unknown_column(field, column, columns)
        elif UNSTORABLE.search(column):
            fix = fix_by_renaming(column, columns)
            yield Problem(field, "a table cannot have a column of this name", column, fix)


def _whole_lists(used: Iterable[tuple[str, str]], columns: Mapping[str, str], why: str) -> Iterator[Problem]:
    """Where a list or a map stands for one value."""
    for field, column in used:
        if types.is_nested(columns.get(column, "")):
            yield Problem(
                field, f"is {columns[column]}, and {why}", column, _part_of(column, columns[column])
            )


def _part_of(column: str, kind: str) -> str:
    """What can be written in the place of a list or a map."""
    part = f"{column}[0]" if kind.startswith("array<") else f"{column}['key']"
    return f'name a column that is computed from it, such as columns: {{{UNSTORABLE.sub("_", column)}_part: "{part}"}}'


def _lists_in_csv(pipeline: Pipeline, columns: Mapping[str, str]) -> Iterator[Problem]:
    for column, kind in columns.items():
        if pipeline.format == "csv" and types.is_nested(kind):
            yield Problem(
                f"source.schema.{pipeline.source_name(column)}",
                "a field of CSV is text, and no list or map",
                kind,
                "declare it as string",
            )


def _misread(written: Mapping[str, str | None], columns: Mapping[str, str]) -> Iterator[Problem]:
    for field, where in written.items():
        mistake = column_mistake(where, columns) if where is not None else None
        if mistake is not None:
            reason, _, fix = mistake.partition("; ")
            yield Problem(field, reason, where, fix)


def _is_private(column: str) -> bool:
    return column.lower().startswith(PRIVATE)


def _renames(pipeline: Pipeline) -> Iterator[Problem]:
    """What is wrong with `columns`, whatever the source has."""
    seen: dict[str, str] = {}
    for new in pipeline.columns:
        if not new or _is_private(new):
            fix = f"choose a name that does not begin with {PRIVATE}"
            yield Problem(f"columns.{new}", "is not a usable name", new, fix)
    for new, made_from in pipeline.renames.items():
        field = f"columns.{new}"
        if _is_private(made_from.name):
            fix = "leave it out, and declare source.schema without it"
            yield Problem(field, "names beginning with _lc_ are latecomer's own", str(made_from), fix)
        if new == made_from.name:
            continue  # kept under its own name too
        other = seen.setdefault(made_from.name, new)
        if other != new:
            fix = f"keep one of {other} and {new}"
            yield Problem(field, f"is another name for what {other} names already", str(made_from), fix)
    for one, other in clashing_names(pipeline.columns):
        yield Problem(
            f"columns.{other}", "columns differ only in case", f"{one}, {other}", "rename one of them"
        )


def _read_for_events(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """The columns that events are made of, and their place in the file."""
    event, read, key = pipeline.event, pipeline.source.in_files, pipeline.source.key
    named = {
        "event.time": event.time,
        "event.partition": event.partition,
        "event.producer": event.producer,
        "event.producer_seq": event.producer_seq,
        f"source.{key}.order_by": pipeline.order_by,
        f"source.{key}.partition": None if read is None else read.partition,
        "watermark.marker": pipeline.watermark.needs.marker,
    }
    yield from ((field, column) for field, column in named.items() if column is not None)
    several = len(event.id_columns) > 1
    yield from (
        (f"event.id.{nth}" if several else "event.id", column) for nth, column in enumerate(event.id_columns)
    )


def _aggregated_columns(place: str, output: Output, columns: Mapping[str, str]) -> Iterator[Problem]:
    for name, aggregate in output.aggregates.items():
        column, field = aggregate.column, f"{place}.aggregates.{name}"
        if column is None or column in columns:
            continue
        if is_expression(column):
            yield _expression(field, aggregate, columns)
        else:
            yield _unknown_column(field, column, columns)


def _expression(field: str, aggregate: Aggregate, columns: Iterable[str]) -> Problem:
    """What stands for a column has to be computed first: say what can be written instead."""
    written = aggregate.column or ""
    named = [column for column in columns if re.search(rf"\b{re.escape(column)}\b", written)]
    plain = aggregate.model_copy(update={"column": named[0] if named else "column"})
    return Problem(
        field,
        f"{aggregate.called} takes one column, not an expression",
        written,
        f'write {plain}, or name what is computed: columns: {{NAME: "{written}"}}',
    )


def _unknown_column(field: str, used: str, columns: Iterable[str]) -> Problem:
    known = list(columns)
    near = difflib.get_close_matches(used, known, n=1)
    fix = f"did you mean {near[0]}?" if near else f"the source has {', '.join(known)}"
    return Problem(field, "the source has no such column", used, fix)


def _time_columns(pipeline: Pipeline, columns: Mapping[str, str]) -> Iterator[Problem]:
    arrival = f"source.{pipeline.source.key}"
    for field, column, unit in (
        ("event.time", pipeline.event.time, pipeline.event.unit),
        (f"{arrival}.order_by", pipeline.order_by, pipeline.arrival_unit),
        ("watermark.marker", pipeline.watermark.needs.marker, pipeline.event.unit),
    ):
        kind = columns.get(column) if column else None
        if kind is None or (field == "watermark.marker" and kind == "boolean"):
            continue
        if types.is_numeric(kind) and unit is None:
            home = f"{arrival}.unit" if field.startswith(arrival) else "event.unit"
            yield Problem(
                field, f"is a number ({kind}) without a unit", column, f"add {home}: s, ms, us or ns"
            )
        elif kind in ("boolean", "binary"):
            yield Problem(field, f"a {kind} column holds no time", column, "name a column that does")


def _sequence_column(pipeline: Pipeline, columns: Mapping[str, str]) -> Iterator[Problem]:
    """A producer counts its events in whole numbers; of anything else nobody can say what is missing."""
    column = pipeline.event.producer_seq
    kind = columns.get(column) if column else None
    if kind is not None and kind not in types.INTEGERS:
        yield Problem(
            "event.producer_seq",
            f"is a {kind} column, and only whole numbers can be counted",
            column,
            f"declare it in source.schema as {column}: bigint, or leave producer_seq out",
        )


def _measures(pipeline: Pipeline, columns: Mapping[str, str]) -> Iterator[Problem]:
    measures = [(f"ledger.{index}", column) for index, column in enumerate(pipeline.ledger)]
    instead = (
        "name a column of the source; an amount that is written another way is read by source.numbers, and "
    )
    instead += "what is computed is added up by an aggregate, such as sum(NAME)"
    yield from not_from_the_log(pipeline, measures, instead)
    yield from _unusable([each for each in measures if each[1] not in pipeline.derived], columns)
    for index, column in enumerate(pipeline.ledger):
        kind = columns.get(column)
        if column in (EVENTS, ASSIGNMENTS):
            fix = fix_by_renaming(pipeline.source_name(column), columns)
            yield Problem(f"ledger.{index}", "is counted by the ledger anyway", column, fix)
        if kind is not None and not types.is_exact(kind):
            yield Problem(
                f"ledger.{index}",
                f"a {kind} column cannot be summed exactly, so the ledger could not balance",
                column,
                f"declare it in source.schema as an integer or a decimal, such as {column}: decimal(18,2)",
            )
        elif kind is not None and (types.scale_of(kind) > 6 or types.whole_digits(kind) > 32):
            yield Problem(
                f"ledger.{index}",
                f"a {kind} column has more digits than the ledger keeps (32 before the point, 6 after)",
                column,
                "leave it out of the ledger, or declare fewer digits",
            )


def _aggregate_types(place: str, output: Output, columns: Mapping[str, str]) -> Iterator[Problem]:
    for name, aggregate in output.aggregates.items():
        kind, field = columns.get(aggregate.column or ""), f"{place}.aggregates.{name}"
        if kind is not None and types.is_nested(kind):
            yield Problem(
                field,
                f"{aggregate.called} takes one value of each event, and {aggregate.column} is {kind}",
                str(aggregate),
                _part_of(aggregate.column or "", kind),
            )
        elif kind is not None and aggregate.function in NUMERIC and not types.is_numeric(kind):
            yield Problem(
                field,
                f"{aggregate.called} needs a number, and {aggregate.column} is {kind}",
                str(aggregate),
                "declare the column as a number in source.schema, or use count, min or max",
            )
        elif aggregate.function == "median" and kind is not None and _digits(kind) > 35:
            yield Problem(
                field,
                f"the mean of two values of {kind} may need more than 38 digits",
                str(aggregate),
                "declare the column with 35 digits or fewer in source.schema, or use "
                f"approx_percentile({aggregate.column}, 0.5)",
            )


def _digits(kind: str) -> int:
    return types.whole_digits(kind) + types.scale_of(kind)


def _longest_silence(pipeline: Pipeline) -> int | None:
    """How long a partition may be silent at most before it holds nobody back; None if it may for ever."""
    lengths = [view.watermark.idle_after for view in pipeline.views.values()]
    return max((length for length in lengths if length is not None), default=None)


def _unsafe_lateness(pipeline: Pipeline, name: str, output: Output) -> Iterator[Problem]:
    idle_after = _longest_silence(pipeline)
    if (
        idle_after is not None
        and output.late is not LatePolicy.DROP
        and output.too_late is TooLatePolicy.DROP
        and output.allowed_lateness < idle_after
    ):
        yield Problem(
            f"outputs.{name}.allowed_lateness",
            "is shorter than watermark.idle_after "
            f"({format_duration(idle_after)}): what a partition brings when it returns from silence would be "
            "dropped as too late",
            format_duration(output.allowed_lateness),
            f"set allowed_lateness: {format_duration(idle_after)} or more, or too_late: side_output",
        )


def warnings(pipeline: Pipeline) -> list[Problem]:
    """What is allowed and loses events, or shows a secret, in certain circumstances, each with the line to change."""
    idle_after, problems = _longest_silence(pipeline), [*plain_passwords(pipeline), *_never_late(pipeline)]
    if idle_after is None:
        return problems
    what = "partition" if any(view.partition_column for view in pipeline.views.values()) else "source"
    return problems + [
        Problem(
            f"outputs.{name}.{'too_late' if output.late is not LatePolicy.DROP else 'late'}",
            f"a {what} that is silent for longer than watermark.idle_after ({format_duration(idle_after)}) no "
            "longer holds the watermark: what it brings when it returns may be too late, and is dropped (the "
            "ledger counts it)",
            "drop",
            "write too_late: side_output to keep it, or leave idle_after out",
        )
        for name, output in pipeline.outputs.items()
        if output.too_late is TooLatePolicy.DROP
    ]


def _never_late(pipeline: Pipeline) -> Iterator[Problem]:
    """What is written for late events and never happens: without an allowed lateness, none is late and not too late."""
    for name, output in pipeline.outputs.items():
        if output.allowed_lateness or output.window.endless:
            continue
        retracts_others = output.late is LatePolicy.RETRACT and (output.trigger.early or output.window.merges)
        written = "late" in output.model_fields_set and output.late.value != output.too_late.value
        if written and not retracts_others:
            field, value = "late", output.late.value
        elif output.trigger.late != "batch":
            field, value = "trigger.late", output.trigger.model_dump()["late"]
        else:
            continue
        yield Problem(
            f"outputs.{name}.{field}",
            f"never happens: without allowed_lateness, events that come after their window has closed "
            f"{_LEAVES[output.too_late]}",
            value,
            f"write allowed_lateness: 1h, or as long as they may be late, or leave {field} out",
        )


_LEAVES = {TooLatePolicy.DROP: "are dropped", TooLatePolicy.SIDE_OUTPUT: "go to the side output"}


def without_effect(pipeline: Pipeline) -> list[Problem]:
    """An allowed lateness that changes nothing: late events go where later ones go. It does say how long ids are
    remembered, where there are any."""
    return [
        Problem(
            f"outputs.{name}.allowed_lateness",
            f"changes nothing: late events {_LEAVES[output.too_late]}, however late they are",
            format_duration(output.allowed_lateness),
            "write late: update (or retract) to have them counted, or leave allowed_lateness out",
        )
        for name, output in pipeline.outputs.items()
        if output.allowed_lateness
        and output.late.value == output.too_late.value
        and all(view.event.id is None for view in pipeline.views.values())
    ]


def missed_by_schedules(pipeline: Pipeline) -> list[Problem]:
    """Schedules that reach less far back than the run before: windows that end in between are never rebuilt."""
    return [
        Problem(
            f"schedule.{name}.last",
            f"is shorter than the longest pause between two runs ({format_duration(pause)}): of windows that end in "
            "between, some are never rebuilt",
            format_duration(each.last),
            f"write last: {format_duration(pause)} or more",
        )
        for name, each in pipeline.schedule.items()
        if each.last < (pause := each.longest_pause())
    ]


def waits_for_ever(pipeline: Pipeline) -> list[Problem]:
    """Partitions without `idle_after`: one row with a new name, or an empty partition, holds the watermark."""
    return in_each_source(pipeline, partial(_waits_for_ever, len(pipeline.sources) > 1))


def _waits_for_ever(several: bool, pipeline: Pipeline) -> list[Problem]:
    partition, kafka = pipeline.partition_column, pipeline.source.kafka
    if pipeline.watermark.idle_after is not None or (partition is None and kafka is None and not several):
        return []
    waits = (
        f"for every {partition} that was ever heard of: one that falls silent, were it a single row with a wrong name,"
        if partition is not None
        else "for every partition of the topics: one that has no records, or falls silent,"
        if kafka is not None
        else "for this source: once it has nothing more to bring, it"
    )
    return [
        Problem(
            "watermark.idle_after",
            f"is not set, so the watermark waits {waits} holds it for ever, and no window closes",
            None,
            "write idle_after: 5m or longer than any usual pause, and whoever is silent for so long holds nobody back",
        )
    ]


def _delays_without_partitions(pipeline: Pipeline) -> Iterator[Problem]:
    delays = getattr(pipeline.watermark, "delays", {})
    if delays and pipeline.partition_column is None:
        yield Problem(
            "watermark.delays",
            "names partitions, and there is no partition column",
            sorted(delays),
            "name the column in event.partition, or leave delays out",
        )


def looks_back(window: AnyWindow) -> int:
    """How far before the watermark a window may begin that is not over; of sessions without an end, a gap."""
    return window.gap if isinstance(window, Session) and window.max is None else window.reach


def _retention(pipeline: Pipeline) -> Iterator[Problem]:
    """The log must be kept for as long as an output may look into it."""
    kept = pipeline.retention.events
    if kept is None:
        return
    for name, output in pipeline.outputs.items():
        window = output.window
        remembers = pipeline.event.id is not None and window.reach >= FOREVER
        if window.endless or remembers:
            reason = "is never over" if window.endless else "without max remembers every id"
            yield Problem(
                "retention.events",
                f"output {name} needs the log for ever: a {window.kind} window {reason}",
                format_duration(kept),
                "leave retention.events out"
                + (f", or give outputs.{name}.window a max" if window.merges else ""),
            )
            continue
        needed = output.allowed_lateness + window.joinable_after + looks_back(window)
        if kept < needed:
            yield Problem(
                "retention.events",
                f"is shorter than output {name} may look back: its window and allowed lateness are "
                f"{format_duration(needed)}",
                format_duration(kept),
                f"set retention.events: {format_duration(needed)} or more",
            )


def _accumulation(name: str, output: Output) -> Iterator[Problem]:
    if output.late is LatePolicy.RETRACT and output.accumulation is not Accumulation.RETRACTING:
        yield Problem(
            f"outputs.{name}.accumulation",
            "late: retract takes back every pane it replaces",
            output.accumulation.value,
            "leave accumulation out, or use late: update",
        )
    if output.accumulation is Accumulation.DISCARDING:
        for aggregate_name, aggregate in output.aggregates.items():
            if aggregate.function not in ADDITIVE:
                yield Problem(
                    f"outputs.{name}.aggregates.{aggregate_name}",
                    f"{aggregate.called} cannot be added up from the panes of accumulation: discarding",
                    str(aggregate),
                    "use sum, count, min or max, or accumulation: accumulating",
                )


def require_output(pipeline: Pipeline, name: str) -> None:
    """Refuse an output that the pipeline does not have, and say which one may be meant."""
    if name not in pipeline.outputs:
        fix, place = did_you_mean(name, pipeline.outputs), f"pipeline {pipeline.name}"
        raise PipelineError([Problem("output", "the pipeline has no such output", name, fix, place)])


def _schedules(pipeline: Pipeline) -> Iterator[Problem]:
    for name in pipeline.schedule:
        if name not in pipeline.outputs:
            fix = did_you_mean(name, pipeline.outputs)
            yield Problem(f"schedule.{name}", "the pipeline has no such output", name, fix)


def _session_triggers(name: str, output: Output) -> Iterator[Problem]:
    """Sessions fire when a batch ends: where they begin and end depends on all of its events."""
    trigger = output.trigger
    for field, rule in (("early", trigger.early), ("late", trigger.late)):
        if output.window.merges and isinstance(rule, Rule) and rule.cadence == "firing":
            written = trigger.model_dump(mode="json")[field]
            fix = "write every or count, and leave per out or write per: batch"
            yield Problem(f"outputs.{name}.trigger.{field}", "a session fires once a batch", written, fix)


def _empty_windows(name: str, output: Output) -> Iterator[Problem]:
    if output.emit_empty and output.closes_silently:
        yield Problem(
            f"outputs.{name}.trigger.on_time",
            "a window that closes without a pane cannot be told from one without events",
            output.trigger.on_time,
            "leave on_time out, or emit_empty",
        )
    if output.emit_empty and (output.window.merges or output.window.endless):
        yield Problem(
            f"outputs.{name}.emit_empty",
            f"there are no empty windows where the window is {output.window.kind}",
            True,
            "leave emit_empty out, or use tumbling, sliding or calendar windows",
        )


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
            yield Problem(
                f"{field}.aggregates.{aggregate_name}",
                f"would keep a part of its state as {min(parts & states)}, which there is already",
                aggregate_name,
                "choose another name for the aggregate",
            )
        states |= parts
        if not NAME.fullmatch(aggregate_name) or aggregate_name.startswith(PRIVATE):
            yield Problem(
                f"{field}.aggregates.{aggregate_name}",
                "is not a usable name",
                aggregate_name,
                "use letters, digits and _ only",
            )
        elif aggregate_name.lower() in taken:
            yield Problem(
                f"{field}.aggregates.{aggregate_name}",
                f"clashes with {taken[aggregate_name.lower()]}",
                aggregate_name,
                "choose another name for the aggregate"
                + (f"; {_OF_PANES}" if aggregate_name.lower() in RESERVED else ""),
            )
        taken[aggregate_name.lower()] = "another aggregate"
