"""`latecomer validate`: the pipeline checked, and shown in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

import typer

from latecomer.cli.options import File, load, print_warnings
from latecomer.cli.terminal import harmless
from latecomer.config.derived import derived_types, seen_types
from latecomer.config.encodings import UTF8
from latecomer.config.own import Decoder
from latecomer.config.profiles import settings
from latecomer.config.registered import SchemaFormat
from latecomer.config.registered_json import RegisteredJson
from latecomer.config.views import place_in
from latecomer.errors.redacting import redacted
from latecomer.model.counting import counted
from latecomer.model.durations import format_duration
from latecomer.model.panes import Accumulation
from latecomer.model.strategies import Adaptive, Ascending, Bounded, Percentile, Punctuated
from latecomer.model.triggers import AfterFirst, AllOf, AnyOf, Count, Every, Rule, Until, When, per_firing
from latecomer.model.windows import AnyWindow, Calendar, Global, Session, Sliding, Tumbling, zone_of

MOST_FILES = 1_000
"""So many files of the log, the last ones, are looked at."""

if TYPE_CHECKING:
    from latecomer.config.merged import Columns
    from latecomer.config.models import Pipeline
    from latecomer.config.operation import Retention
    from latecomer.config.outputs import Output
    from latecomer.config.sinks import Sink
    from latecomer.model.strategies import Strategy


def validate(file: File) -> None:
    """Check the pipeline file and the source's columns, and say in words what the pipeline does."""
    from latecomer.config.load import check_against, check_secrets, doubts
    from latecomer.config.paths import list_files
    from latecomer.store.pins import read_pins
    from latecomer.store.source_columns import columns_known, source_columns
    from latecomer.store.store import Store

    pipeline = load(file)
    check_secrets(pipeline, file)
    pinned = read_pins(pipeline.store_path) is not None
    there = {
        name: len(list_files(view.source_path)) if view.source.files else 0
        for name, view in pipeline.views.items()
    }
    columns: Columns | None = None
    if columns_known(pipeline):
        columns = source_columns(pipeline, file)
        check_against(pipeline, columns, file)
        Store(pipeline, columns).require_harmless()
    for line in _described(pipeline, there, columns, pinned):
        typer.echo(harmless(line))
    print_warnings(pipeline, file)
    for warning in doubts(pipeline, file):
        typer.echo(f"warning: {warning}", err=True)


def _described(
    pipeline: Pipeline, files: Mapping[str, int], columns: Columns | None, pinned: bool
) -> Iterator[str]:
    yield f"pipeline {pipeline.name} is valid"
    yield f"store      {pipeline.store_path}"
    for name, view in pipeline.views.items():
        named = f"{name}: " if name else ""
        yield f"source     {named}{_source(view, files[name])}"
        if columns is None:
            schema = place_in(name, "source.schema")
            yield f"columns    could not be checked yet: there is no file, and {schema} is not declared"
        else:
            yield f"columns    {_types(view, columns.read_from(name))} ({_origin(view, files[name], pinned)})"
            yield from _of_schema(view, columns)
            yield from _unknown_fields(pipeline, name, view, columns, pinned)
            for new, made_from in view.renames.items():
                yield f"           {new} is the source's {made_from}"
        yield f"event      {_event(view)}"
        yield f"watermark  {_watermark(view.watermark, _partition(view))}"
    kinds = {} if columns is None else derived_types(pipeline.derived, seen_types(pipeline, columns))
    for name, kind in kinds.items():
        yield f"derived    {name} {kind} is computed from the log: {pipeline.derived[name]}"
    if pipeline.sources:
        yield "sources    each event says in the column source which one it is of; the slowest of them decides"
    for name, output in pipeline.outputs.items():
        yield f"output     {name}: {_numbers(output)}"
        yield f"           {_lateness(output)}{_firings(output)}; {_sinks(output)}"
        if output.late_to:
            yield f"           side output is written to {_listed(output.late_to)}"
    if pipeline.dead_letters_to:
        yield f"letters    dead letters are written to {_listed(pipeline.dead_letters_to)}"
    if pipeline.profile is not None:
        sessions = any(output.window.merges for output in pipeline.outputs.values())
        yield f"profile    {pipeline.profile} sets, unless written: {settings(pipeline.profile, sessions)}"
    if pipeline.ledger:
        yield f"ledger     also sums {', '.join(pipeline.ledger)}"
    if pipeline.alerts.lag is not None:
        budget = format_duration(pipeline.alerts.lag)
        yield f"alerts     a watermark more than {budget} behind the wall clock, on average over five minutes"
    if kept := _retention(pipeline.retention):
        yield f"retention  {kept}"
    marks = [view.watermark.needs.where for view in pipeline.views.values()]
    if any(marks) or any(output.where or output.trigger.whens for output in pipeline.outputs.values()):
        yield "where      predicates are checked by Spark when the pipeline runs"


def _types(view: Pipeline, read: Mapping[str, str]) -> str:
    """The columns of a source as they are declared, and what they are read as where that is another type."""
    declared = view.declared_columns or {}
    return ", ".join(
        f"{column} {kind}"
        if (written := declared.get(column, kind)) == kind
        else f"{column} {written} (read as {kind})"
        for column, kind in read.items()
    )


def _unknown_fields(
    pipeline: Pipeline, name: str, view: Pipeline, columns: Columns, pinned: bool
) -> Iterator[str]:
    """What becomes of fields that are no columns, and which there are: in the files, and in the log."""
    if view.source.has_own_decoder:
        return
    rule = view.source.unknown_fields
    known = [view.source_name(column) for column in columns.read_from(name)]
    found = _in_files(view, known) if view.source.files is not None and view.files.header else []
    become = {
        "keep": "are kept with the event",
        "ignore": "are thrown away; unknown_fields: keep would keep them",
        "dead_letter": "make their record a dead letter",
    }
    if found:
        yield f"unknown    fields that are no columns {become[rule]}: {', '.join(found)}"
    elif rule != "keep":
        yield f"unknown    fields that are no columns {become[rule]}"
    if pinned and rule == "keep":
        yield from _kept(pipeline, columns)


def _in_files(view: Pipeline, known: Sequence[str]) -> list[str]:
    """The fields that are no columns, as far as the first rows of the files that are there now have any."""
    from latecomer.config.columns import unknown_in_files
    from latecomer.config.paths import list_files

    read = view.files
    if isinstance(read.format, Decoder):
        return []
    return unknown_in_files(known, list_files(view.source_path), read.format, read.delimiter, read.encoding)


def _kept(pipeline: Pipeline, columns: Columns) -> Iterator[str]:
    from latecomer.store.store import Store
    from latecomer.store.unknown import unknown_seen

    store = Store(pipeline, columns)
    seen = unknown_seen(store, store.events.files()[-MOST_FILES:]) if store.events.exists else None
    if seen is not None and seen.events:
        yield f"           in the log, {seen.in_words}"


def _of_schema(view: Pipeline, columns: Columns) -> Iterator[str]:
    """What the store reads records with, and what of it is no column."""
    from latecomer.store.schemas import key_of, reading_of

    if not isinstance(view.format, SchemaFormat):
        return
    pinned = columns.schemas.get(key_of(view), {})
    if "version" in pinned:
        yield f"           the schema is version {pinned['version']} of {pinned['subject']}, id {pinned['id']}"
    for name in reading_of(view, columns.schemas).left_out:
        yield f"           {name} is left out: it leads back to its own record, or is null alone"


def _origin(view: Pipeline, files: int, pinned: bool) -> str:
    """Where the columns of a source are known from."""
    found = "inferred from the files" if files else "as the source says"
    if isinstance(view.format, SchemaFormat):
        found = f"of its {view.format.SCHEMA}"
    elif isinstance(view.format, RegisteredJson) and view.format.subject is not None:
        found = f"of the JSON Schema of {view.format.subject}"
    return "pinned by the store" if pinned else "declared" if view.source.columns is not None else found


def _source(pipeline: Pipeline, there: int) -> str:
    own, kind, kafka = pipeline.source.polled, pipeline.format, pipeline.source.kafka
    decoded = f"decoded by {kind.kind}" if isinstance(kind, Decoder) else kind
    if isinstance(kind, SchemaFormat):
        decoded = _of_kind(kind)
    if isinstance(kind, RegisteredJson):
        decoded = _json(kind)
    if kafka is not None:
        return f"kafka {redacted(kafka.servers)}, {kafka.named}, {decoded}"
    if own is not None:
        return f"{own.kind}, {decoded} where it gives records"
    if pipeline.source.dataframe is not None:
        return "DataFrames that a program hands in, with latecomer.into or latecomer.append"
    read = pipeline.files
    encoded = "" if read.encoding == UTF8 else f" in {read.encoding}"
    found = f"{counted(there, 'file') if there else 'no files'} there now"
    if pipeline.source.has_records:
        return f"files of messages {pipeline.source_path} ({found}), {decoded}"
    own_lines = isinstance(kind, Decoder) and not isinstance(kind, SchemaFormat)
    files = f"files {decoded}" if own_lines else f"{decoded} files"
    return f"{files}{encoded} {pipeline.source_path} ({found})"


def _json(registered: RegisteredJson) -> str:
    """Where the ids of schemas are, and whether records are checked."""
    where = "" if registered.id_header is None else f", ids in the header {registered.id_header}"
    if not registered.validates:
        return f"json{where}, not checked"
    return f"json{where}, checked by schemas from {redacted(registered.registry or '')}"


def _of_kind(kind: SchemaFormat) -> str:
    """Which schema the columns follow from, and where the others are."""
    message, file = (getattr(kind, name, None) for name in ("message", "schema_file"))
    text = kind.kind + (f" {message}" if message else "")
    if kind.subject is not None:
        text += f" read as {kind.subject} ({kind.version if kind.version == 'latest' else f'version {kind.version}'})"
    if file is not None:
        text += f" read as {file}"
    return text + (f", schemas from {redacted(kind.registry)}" if kind.registry else "")


def _event(pipeline: Pipeline) -> str:
    event, order_by = pipeline.event, pipeline.order_by
    arrived = f"arrived at {order_by}" if order_by else f"arrived {_arrival(pipeline)}"
    if isinstance(event.id, str):
        repeats = f"repeated {event.id} are duplicates"
    else:
        same = " and ".join(event.id_columns)
        repeats = f"events of the same {same} are duplicates" if same else "duplicates are not looked for"
    counted = ""
    if event.producer and event.producer_seq:
        counted = f"; each {event.producer} counts its events in {event.producer_seq}"
    return f"happened at {event.time}, {arrived}; {repeats}{counted}"


def _partition(pipeline: Pipeline) -> str | None:
    """What a partition is called, where there are several."""
    return pipeline.partition_column or ("partition" if pipeline.source.kafka else None)


def _arrival(pipeline: Pipeline) -> str:
    kafka = pipeline.source.kafka
    if kafka is not None:
        by_topic = "when the broker got it where the topic has LogAppendTime, else when it is read"
        return {"broker": "when the broker got it", "read": "when it is read"}.get(
            kafka.arrival or "", by_topic
        )
    if pipeline.source.dataframe is not None:
        return "when it is handed in"
    return (
        "when its file was last modified" if pipeline.source.files else "when its source says, or it is read"
    )


def _watermark(strategy: Strategy, partition: str | None) -> str:
    text = _followed(strategy)
    if partition:
        text += f", in each {partition}; the slowest {partition} decides"
    for name, delay in getattr(strategy, "delays", {}).items():
        text += f"; {name} is given {format_duration(delay)}"
    if strategy.idle_after is not None:
        silent = f"silent for {format_duration(strategy.idle_after)}"
        text += (
            f"; one that is {silent} no longer holds it back"
            if partition
            else f"; a source {silent} holds nothing back"
        )
        follows = "it follows the clock" if strategy.on_idle == "advance" else "it stays where it is"
        text += f", and when all are silent {follows}"
    if strategy.max_future is not None:
        ahead = format_duration(strategy.max_future)
        text += f"; events more than {ahead} ahead of their arrival are dead letters"
    if strategy.every == "event":
        return f"{text}; it moves with every event"
    return f"{text}; it moves every {format_duration(strategy.every)} of arrival time"


def _followed(strategy: Strategy) -> str:
    """What a partition's own watermark follows."""
    match strategy:
        case Bounded():
            text = "the newest event time seen"
        case Ascending():
            return "the newest event time seen"
        case Percentile():
            text = f"the {strategy.p:g} quantile of the event times of the newest {strategy.of} events"
        case Adaptive():
            least, most = format_duration(strategy.at_least), format_duration(strategy.at_most)
            return (
                f"the newest event time seen less a delay between {least} and {most} that lets "
                f"{strategy.completeness:g} of the newest {strategy.of} events come in time"
            )
        case Punctuated(where=None):
            text = f"the newest mark in {strategy.marker}"
        case Punctuated():
            text = f"the newest event time where {strategy.where}"
        case _:
            return f"as {type(strategy).__module__}:{type(strategy).__qualname__} decides"
    return f"{text} less {format_duration(strategy.delay)}" if strategy.delay else text


def _window(window: AnyWindow) -> str:
    match window:
        case Tumbling():
            text = f"each {format_duration(window.size)}"
        case Sliding():
            text = f"each {format_duration(window.size)}, every {format_duration(window.every)}"
        case Session():
            gaps = "gaps of at most" if window.joins else "gaps under"
            text = f"each session with {gaps} {format_duration(window.gap)}"
            text += f", cut at multiples of {format_duration(window.max)} (UTC)" if window.max else ""
            text += " (final a gap after its lateness)" if window.joinable_after else ""
        case Calendar():
            text = f"each {window.calendar}"
        case Global():
            text = "all of time, published in full at a drain"
        case _:
            assert_never(window)
    if zone_of(window) != "UTC":
        text += f" in {zone_of(window)}"
    if isinstance(window, Tumbling | Sliding) and window.offset:
        text += f" moved by {format_duration(window.offset)}"
    return text


def _firings(output: Output) -> str:
    """What is published besides one pane when a window closes and one for each batch of late events."""
    early, late, text = output.trigger.early, output.trigger.late, ""
    for what, rule in (("open windows", early), ("late events", late)):
        if isinstance(rule, Rule):
            each = "" if per_firing(rule) else ", at most once a batch"
            text += f"; {what} are published {rule_in_words(rule)}{each}"
    if output.accumulation is Accumulation.DISCARDING:
        text += "; panes are to be added up"
    if output.closes_silently:
        text += "; a window closes without a pane where the last early one says it all"
    if output.trigger.closing:
        text += "; a last pane is published when nothing more can come"
    if output.emit_empty:
        text += "; windows without events are published too"
    return text


def rule_in_words(rule: Rule) -> str:
    """When a rule fires."""
    match rule:
        case Every():
            return f"every {format_duration(rule.every)} of {rule.clock} time"
        case Count():
            return "at each event" if rule.count == 1 else f"at every {rule.count} events"
        case AfterFirst():
            return f"{format_duration(rule.after_first)} after the first event that is not published"
        case When():
            return f"at each event where {rule.when}"
        case AnyOf():
            return " or ".join(map(rule_in_words, rule.any))
        case AllOf():
            return " and ".join(map(rule_in_words, rule.all))
        case Until(until=Count(count=count)):
            return f"{rule_in_words(rule.repeat)}, until the window has {count} of them"
        case Until():
            return f"{rule_in_words(rule.repeat)}, and for the last time {rule_in_words(rule.until)}"
    raise TypeError(f"no rule: {rule!r}")


def _numbers(output: Output) -> str:
    text = _window(output.window)
    if output.by:
        text += f" and {', '.join(output.by)}"
    text += ": " + ", ".join(f"{name} = {aggregate}" for name, aggregate in output.aggregates.items())
    return text + (f", of events where {output.where}" if output.where else "")


def _retention(retention: Retention) -> str:
    removed = []
    if retention.events is not None:
        removed.append(f"events that are {format_duration(retention.events)} behind the watermark")
    if retention.late is not None:
        removed.append(f"side output and dead letters that came {format_duration(retention.late)} ago")
    return f"upkeep removes {' and '.join(removed)}" if removed else ""


_LATE = {
    "update": "update the number",
    "retract": "retract the number and publish it anew",
    "side_output": "go to the side output",
    "drop": "are dropped",
}


def _lateness(output: Output) -> str:
    beyond = _LATE[output.too_late]
    if not output.allowed_lateness:
        return f"events that come after their window has closed {beyond}"
    allowed = format_duration(output.allowed_lateness)
    return f"events up to {allowed} late {_LATE[output.late]}, later ones {beyond}"


def _sinks(output: Output) -> str:
    if not output.sinks:
        return "no sink, results stay in the store"
    return f"written to {_listed(output.sinks)}"


def _listed(sinks: Sequence[Sink]) -> str:
    return ", ".join(f"{sink.kind} {redacted(sink.place)}" for sink in sinks)
