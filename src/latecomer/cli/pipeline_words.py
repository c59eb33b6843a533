"""A pipeline in plain words, as `latecomer validate` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

from latecomer.config.encodings import UTF8
from latecomer.config.registered import RegisteredJson, SchemaFormat
from latecomer.config.user_classes import Decoder
from latecomer.errors.redacting import redacted
from latecomer.model.counting import counted
from latecomer.model.durations import format_duration
from latecomer.model.panes import Accumulation
from latecomer.model.strategies import Adaptive, Ascending, Bounded, Percentile, Punctuated
from latecomer.model.triggers import AfterFirst, AllOf, AnyOf, Count, Every, Rule, Until, When, per_firing
from latecomer.model.windows import AnyWindow, Calendar, Global, Session, Sliding, Tumbling, zone_of

if TYPE_CHECKING:
    from latecomer.config.models import Pipeline
    from latecomer.config.operation import Retention
    from latecomer.config.outputs import Output
    from latecomer.config.sinks import Sink
    from latecomer.model.strategies import Strategy


def source_in_words(pipeline: Pipeline, file_count: int) -> str:
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
    now = f"{counted(file_count, 'file') if file_count else 'no files'} there now"
    if pipeline.source.has_records:
        return f"files of messages {pipeline.source_path} ({now}), {decoded}"
    own_lines = isinstance(kind, Decoder) and not isinstance(kind, SchemaFormat)
    files = f"files {decoded}" if own_lines else f"{decoded} files"
    return f"{files}{encoded} {pipeline.source_path} ({now})"


def _json(registered: RegisteredJson) -> str:
    """Where the ids of schemas are, and whether records are checked."""
    where = "" if registered.id_header is None else f", ids in the header {registered.id_header}"
    if not registered.validates:
        return f"json{where}, not checked"
    return f"json{where}, checked by schemas from {redacted(registered.registry or '')}"


def _of_kind(kind: SchemaFormat) -> str:
    """The schema that gives the columns, and the registry of the others."""
    message, file = (getattr(kind, name, None) for name in ("message", "schema_file"))
    text = kind.kind + (f" {message}" if message else "")
    if kind.subject is not None:
        text += f" read as {kind.subject} ({kind.version if kind.version == 'latest' else f'version {kind.version}'})"
    if file is not None:
        text += f" read as {file}"
    return text + (f", schemas from {redacted(kind.registry)}" if kind.registry else "")


def event_in_words(pipeline: Pipeline) -> str:
    event, order_by = pipeline.event, pipeline.order_by
    arrived = f"arrived at {order_by}" if order_by else f"arrived {_arrival(pipeline)}"
    if isinstance(event.id, str):
        repeats = f"repeated {event.id} are duplicates"
    else:
        same = " and ".join(event.id_columns)
        repeats = f"events of the same {same} are duplicates" if same else "duplicates are not looked for"
    numbered = ""
    if event.producer and event.producer_seq:
        numbered = f"; each {event.producer} counts its events in {event.producer_seq}"
    form = f" (as {event.time_format})" if event.time_format else ""
    zone = f", in {event.zone} where no offset is written" if event.zone != "UTC" else ""
    return f"happened at {event.time}{form}{zone}, {arrived}; {repeats}{numbered}"


def partition_name(pipeline: Pipeline) -> str | None:
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


def watermark_in_words(strategy: Strategy, partition: str | None) -> str:
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


def firings_in_words(output: Output) -> str:
    """What is published in addition to a pane when a window closes and one for each batch of late events."""
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
            return "at each event" if rule.count == 1 else f"at every {counted(rule.count, 'event')}"
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


def numbers_in_words(output: Output) -> str:
    text = _window(output.window)
    if output.by:
        text += f" and {', '.join(output.by)}"
    text += ": " + ", ".join(f"{name} = {aggregate}" for name, aggregate in output.aggregates.items())
    return text + (f", of events where {output.where}" if output.where else "")


def retention_in_words(retention: Retention) -> str:
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


def lateness_in_words(output: Output) -> str:
    beyond = _LATE[output.too_late]
    if not output.allowed_lateness:
        return f"events that come after their window has closed {beyond}"
    allowed = format_duration(output.allowed_lateness)
    return f"events up to {allowed} late {_LATE[output.late]}, later ones {beyond}"


def sinks_in_words(output: Output) -> str:
    if not output.sinks:
        return "no sink, results stay in the store"
    return f"written to {listed_in_words(output.sinks)}"


def listed_in_words(sinks: Sequence[Sink]) -> str:
    return ", ".join(f"{sink.kind} {redacted(sink.place)}" for sink in sinks)
