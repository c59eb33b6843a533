"""`latecomer validate`, `latecomer schema`: the pipeline file checked, in words, and for editors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import File, load, print_warnings, source_paths
from latecomer.cli.pipeline_words import (
    event_in_words,
    firings_in_words,
    lateness_in_words,
    listed_in_words,
    numbers_in_words,
    partition_name,
    retention_in_words,
    sinks_in_words,
    source_in_words,
    watermark_in_words,
)
from latecomer.config.derived import derived_types, seen_types
from latecomer.config.profiles import settings
from latecomer.config.registered import RegisteredJson, SchemaFormat
from latecomer.config.user_classes import Decoder
from latecomer.config.views import place_in
from latecomer.errors import StoreMismatch
from latecomer.errors.harmless import harmless
from latecomer.model.durations import format_duration

MOST_FILES = 1_000
"""How many of the newest files of the log are read for unknown fields."""

if TYPE_CHECKING:
    from latecomer.config.all_columns import Columns
    from latecomer.config.models import Pipeline
    from latecomer.config.paths import SourcePath
    from latecomer.store.store import Store


def validate(file: File) -> None:
    """Check the pipeline file and the source's columns, and say in words what the pipeline does."""
    from latecomer.config.load import check_against, check_secrets, doubts
    from latecomer.store.pins import read_pins
    from latecomer.store.source_columns import columns_known, source_columns
    from latecomer.store.store import Store

    pipeline = load(file)
    check_secrets(pipeline, file)
    pinned = read_pins(pipeline.store_path) is not None
    paths = source_paths(pipeline)
    columns: Columns | None = None
    refused: list[str] = []
    if columns_known(pipeline):
        columns = source_columns(pipeline, file)
        check_against(pipeline, columns, file)
        store = Store(pipeline, columns)
        store.require_harmless()
        refused = _refused(store)
    for line in _described(pipeline, paths, columns, pinned):
        typer.echo(harmless(line))
    print_warnings(pipeline, file, paths)
    hindrances = [harmless(sentence) for path in paths.values() for sentence in path.hindrances()]
    for warning in (*doubts(pipeline, file), *refused, *hindrances):
        typer.echo(f"warning: {warning}", err=True)


def _refused(store: Store) -> list[str]:
    """Why a run refuses the file: the store was made with other settings."""
    try:
        store.pins()
    except StoreMismatch as error:
        return [harmless(f"a run refuses this file: {error}")]
    return []


def _described(
    pipeline: Pipeline, paths: Mapping[str, SourcePath], columns: Columns | None, pinned: bool
) -> Iterator[str]:
    from latecomer.config.columns import columns_without_field

    yield f"pipeline {pipeline.name} is valid"
    yield f"store      {pipeline.store_path}"
    for name, view in pipeline.views.items():
        named, files = f"{name}: " if name else "", paths[name].listed if name in paths else []
        yield f"source     {named}{source_in_words(view, len(files))}"
        if columns is None:
            schema = place_in(name, "source.schema")
            yield f"columns    could not be checked yet: there is no file, and {schema} is not declared"
        else:
            yield f"columns    {_types(view, columns.read_from(name))} ({_origin(view, len(files), pinned)})"
            yield from _of_schema(view, columns)
            first, absent = columns_without_field(view, files)
            if absent:
                yield f"           not in the header of {first}: {', '.join(absent)}"
            yield from _unknown_fields(pipeline, name, view, files, columns, pinned)
            for new, made_from in view.renames.items():
                yield f"           {new} is the source's {made_from}"
        yield f"event      {event_in_words(view)}"
        yield f"watermark  {watermark_in_words(view.watermark, partition_name(view))}"
    kinds = {} if columns is None else derived_types(pipeline.derived, seen_types(pipeline, columns))
    for name, kind in kinds.items():
        yield f"derived    {name} {kind} is computed from the log: {pipeline.derived[name]}"
    if pipeline.sources:
        yield "sources    each event says in the column source which one it is of; the slowest of them decides"
    for name, output in pipeline.outputs.items():
        yield f"output     {name}: {numbers_in_words(output)}"
        yield f"           {lateness_in_words(output)}{firings_in_words(output)}; {sinks_in_words(output)}"
        if output.late_to:
            yield f"           side output is written to {listed_in_words(output.late_to)}"
    if pipeline.dead_letters_to:
        yield f"letters    dead letters are written to {listed_in_words(pipeline.dead_letters_to)}"
    if pipeline.profile is not None:
        sessions = any(output.window.merges for output in pipeline.outputs.values())
        yield f"profile    {pipeline.profile} sets, unless written: {settings(pipeline.profile, sessions)}"
    if pipeline.ledger:
        yield f"ledger     also sums {', '.join(pipeline.ledger)}"
    if pipeline.alerts.lag is not None:
        budget = format_duration(pipeline.alerts.lag)
        yield f"alerts     a watermark more than {budget} behind the wall clock, on average over five minutes"
    if kept := retention_in_words(pipeline.retention):
        yield f"retention  {kept}"
    marks = [view.watermark.needs.where for view in pipeline.views.values()]
    if any(marks) or any(output.where or output.trigger.whens for output in pipeline.outputs.values()):
        yield "where      predicates are checked by Spark when the pipeline runs"


def _types(view: Pipeline, read: Mapping[str, str]) -> str:
    """The columns of a source with their declared types, and the type that they are read as, where it differs."""
    declared = view.declared_columns or {}
    return ", ".join(
        f"{column} {kind}"
        if (written := declared.get(column, kind)) == kind
        else f"{column} {written} (read as {kind})"
        for column, kind in read.items()
    )


def _unknown_fields(
    pipeline: Pipeline, name: str, view: Pipeline, files: Sequence[str], columns: Columns, pinned: bool
) -> Iterator[str]:
    """What becomes of fields that are no columns, and which fields these are in the files and in the log."""
    from latecomer.config.columns import unknown_in_files

    if view.source.has_own_decoder:
        return
    rule = view.source.unknown_fields
    read, unknown = view.source.files, list[str]()
    if read is not None and read.header and not isinstance(read.format, Decoder):
        known = [view.source_name(column) for column in columns.read_from(name)]
        # Only the first rows of the existing files are looked at.
        unknown = unknown_in_files(known, files, read.format, read.delimiter, read.encoding)
    become = {
        "keep": "are kept with the event",
        "ignore": "are thrown away; unknown_fields: keep would keep them",
        "dead_letter": "make their record a dead letter",
    }
    if unknown:
        yield f"unknown    fields that are no columns {become[rule]}: {', '.join(unknown)}"
    elif rule != "keep":
        yield f"unknown    fields that are no columns {become[rule]}"
    if pinned and rule == "keep":
        yield from _kept(pipeline, columns)


def _kept(pipeline: Pipeline, columns: Columns) -> Iterator[str]:
    from latecomer.store.store import Store
    from latecomer.store.unknown_fields import unknown_seen

    store = Store(pipeline, columns)
    seen = unknown_seen(store, store.events.files()[-MOST_FILES:])
    if seen.events:
        yield f"           in the log, {seen.in_words}"


def _of_schema(view: Pipeline, columns: Columns) -> Iterator[str]:
    """The schema that the store reads records with, and its fields that are no columns."""
    from latecomer.store.schemas import key_of, reading_of

    if not isinstance(view.format, SchemaFormat):
        return
    pinned = columns.schemas.get(key_of(view), {})
    if "version" in pinned:
        yield f"           the schema is version {pinned['version']} of {pinned['subject']}, id {pinned['id']}"
    for name in reading_of(view, columns.schemas).left_out:
        yield f"           {name} is left out: it leads back to its own record, or is null alone"


def _origin(view: Pipeline, files: int, pinned: bool) -> str:
    """Where the columns of a source come from."""
    if pinned:
        return "pinned by the store"
    if view.source.columns is not None:
        return "declared"
    if isinstance(view.format, SchemaFormat):
        return f"of its {view.format.SCHEMA}"
    if isinstance(view.format, RegisteredJson) and view.format.subject is not None:
        return f"of the JSON Schema of {view.format.subject}"
    return "inferred from the files" if files else "as the source says"


def schema(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A pipeline file, for the columns of its source.")
    ] = None,
) -> None:
    """Print the JSON Schema of the pipeline file, for editors that complete and check YAML.

    With FILE, print the columns of its source as YAML, to be declared there.
    """
    from latecomer.config.jsonschema import pipeline_schema

    if file is None:
        typer.echo(json.dumps(pipeline_schema(), indent=2))
        return
    import yaml

    from latecomer.store.source_columns import source_columns

    pipeline = load(file)
    columns = source_columns(pipeline, file)
    found = {name: {"schema": dict(columns.read_from(name))} for name in pipeline.views}
    shown = {"sources": found} if pipeline.sources else {"source": found[""]}
    typer.echo(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=1000), nl=False)
