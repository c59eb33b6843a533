"""The columns of a pipeline's sources: declared, pinned by an earlier run, or inferred."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from latecomer.config.all_columns import Columns, merged
from latecomer.config.columns import infer_columns
from latecomer.config.kafka import METADATA
from latecomer.config.load import check_renames
from latecomer.config.models import Pipeline
from latecomer.config.paths import folder_columns, list_files
from latecomer.config.registered import Registered, RegisteredJson, SchemaFormat
from latecomer.config.renames import seen_columns
from latecomer.config.user_classes import Decoder, PolledSource
from latecomer.config.views import place_in
from latecomer.errors import SourceError, StoreMismatch, first_line
from latecomer.model.types import is_nested, is_wider, normal_type, why_not_wider, widened_type
from latecomer.store import layout
from latecomer.store.definitions import fix_if_unread
from latecomer.store.pins import read_pins


def source_columns(pipeline: Pipeline, file: str | Path | None = None) -> Columns:
    """The columns that the pipeline sees: those that the source declares, else those that an earlier run pinned, else
    those inferred from its files; renamed by the pipeline. `file` is named in errors."""
    from latecomer.store.schemas import (
        readers_of,
    )  # imports the client of a registry, which readers do not need

    pinned = read_pins(pipeline.store_path)
    schemas = readers_of(pipeline, {} if pinned is None else pinned.get("schemas", {}))
    try:
        return _checked_columns(pipeline, pinned, file, schemas)
    except StoreMismatch as error:
        if (fix := fix_if_unread(pipeline.store_path)) is None:
            raise
        raise StoreMismatch(f"{error}; or {fix}") from None


def _checked_columns(
    pipeline: Pipeline,
    pinned: Mapping[str, Any] | None,
    file: str | Path | None,
    schemas: Mapping[str, Any],
) -> Columns:
    """The columns of all sources; an error where they do not fit those that are pinned."""
    if not pipeline.sources:
        known = None if pinned is None else pinned["columns"]
        return Columns(_columns_of("", pipeline, known, file, schemas), None, schemas)
    of_each: Mapping[str, Any] = {} if pinned is None else pinned.get("sources", {})
    return merged(
        {
            name: _columns_of(name, view, of_each.get(name), file, schemas)
            for name, view in pipeline.views.items()
        },
        schemas,
    )


def columns_known(pipeline: Pipeline) -> bool:
    """Whether the columns are known. If not, a run waits for the first file."""
    return read_pins(pipeline.store_path) is not None or all(
        view.source.columns is not None
        or view.source.polled
        or (isinstance(view.format, Registered) and view.format.names_schema)
        or _source_files(name, view)
        for name, view in pipeline.views.items()
    )


def _source_files(name: str, pipeline: Pipeline) -> list[str]:
    """The current files of a source; with several sources, each that is handed in has a folder of its own."""
    handed_in = pipeline.source.dataframe is not None
    return list_files(str(Path(pipeline.source_path, name)) if handed_in else pipeline.source_path)


def _columns_of(
    name: str,
    pipeline: Pipeline,
    pinned: Mapping[str, str] | None,
    file: str | Path | None,
    schemas: Mapping[str, Any],
) -> dict[str, str]:
    """The columns of one source. `pinned` are those of an earlier run, `schemas` the schemas that determine columns."""
    found = pipeline.source.columns
    if isinstance(pipeline.format, SchemaFormat):
        found = _of_schema(pipeline, schemas, beside=pinned is None)
    elif found is None and pinned is None:
        found = _inferred(name, pipeline)
    if found is not None:
        check_renames(pipeline, found, file, name)
        found = _as_read(pipeline, seen_columns(found, pipeline.renames))
    if pinned is None:
        return found or {}
    if found is not None and isinstance(pipeline.format, SchemaFormat):
        # stores of earlier versions have lists as text
        text = {name for name, kind in pinned.items() if kind == "string"}
        found = {name: "string" if name in text and is_nested(kind) else kind for name, kind in found.items()}
    written = seen_columns(pipeline.source.columns or {}, pipeline.renames)
    differs = [
        column
        for column, kind in (found or {}).items()
        if column in pinned
        and pinned[column] != written.get(column)
        and not _follows(pipeline, pinned[column], kind)
    ]
    if differs:
        first = differs[0]
        now, before = (found or {})[first], pinned[first]
        if not isinstance(pipeline.format, SchemaFormat):
            place, fix = place_in(name, "source.schema"), why_not_wider(first, now, before)
        else:
            place = f"the {pipeline.format.SCHEMA} in {place_in(name, 'source')}"
            fix = "name the schema that the store was made with, or start a new store"
            if is_wider(now, before):
                fix = f"put new fields after those that are there ({widened_type(before, now)})"
        raise StoreMismatch(
            f"{place} differs from the columns pinned in the store: {', '.join(differs)}; {first} is {before} there "
            f"and {now} here: {fix}"
        )
    return _widened(name, pipeline, pinned, found or {})


def _follows(pipeline: Pipeline, before: str, after: str) -> bool:
    """Whether a column of the store can get its new type. With a schema, the order of its fields must stay."""
    wider = widened_type(before, after)
    return wider == after if isinstance(pipeline.format, SchemaFormat) else wider is not None


def _widened(
    name: str, pipeline: Pipeline, pinned: Mapping[str, str], found: Mapping[str, str]
) -> dict[str, str]:
    """The pinned columns, some with wider types, and after them the columns that are declared since. In earlier events,
    the values of these come from the unknown fields that were kept."""
    wider = {
        column: widened_type(pinned.get(column, kind), kind) or pinned[column]
        for column, kind in found.items()
    }
    columns = {**pinned, **wider}
    before, after = (layout.EventLayout(pipeline, each) for each in (pinned, columns))
    moved = [column for column in pinned if before.view[column] != after.view[column]]
    own = [(each.first_arrival, each.unknown_fields) for each in (before, after)]
    moved += [name for name, now in zip(*own, strict=True) if name != now]
    if moved:
        new = ", ".join(column for column in found if column not in pinned)
        raise StoreMismatch(
            f"{place_in(name, 'source.schema')} has a new column ({new}) with a name that the store uses for "
            f"{moved[0]}; rename it on the way in, with columns"
        )
    return columns


def _of_schema(pipeline: Pipeline, schemas: Mapping[str, Any], beside: bool) -> dict[str, str]:
    """The columns of a schema; if `beside`, also those from Kafka, folder names or a user's source."""
    from latecomer.store.schemas import reading_of

    found = dict(reading_of(pipeline, schemas).columns)
    return {**_beside(pipeline), **found} if beside else found


def _beside(pipeline: Pipeline) -> dict[str, str]:
    """The columns besides a schema: a record's metadata in Kafka, folder names, or those of a user's source."""
    source = pipeline.source
    if source.kafka is not None:
        return {name: METADATA[what] for name, what in source.kafka.metadata.items()}
    if source.own is not None:
        return _normal(source.own)
    return folder_columns(pipeline.source_path, list_files(pipeline.source_path))


def _inferred(name: str, pipeline: Pipeline) -> dict[str, str]:
    """The columns of the current files and of their folder names, or those that a user's source declares."""
    own = pipeline.source.polled
    if isinstance(pipeline.format, RegisteredJson) and pipeline.format.subject is not None:
        from latecomer.store.schemas import columns_of_subject

        return {**_beside(pipeline), **columns_of_subject(pipeline.format, pipeline.base)}
    if own is not None:
        if not (columns := _normal(own)):
            raise SourceError(
                f"source {own.kind} does not say which columns it has; declare {place_in(name, 'source.schema')}"
            )
        return columns
    files = _source_files(name, pipeline)
    if pipeline.source.dataframe is not None:
        if not files:
            raise SourceError(
                "no DataFrame was handed in yet, so its columns are not known; hand one in with latecomer.into or "
                + place_in(name, "latecomer.append, or declare source.schema")
            )
        return infer_columns(files, "parquet")
    if not files:
        raise SourceError(
            f"no file matches {pipeline.source_path}, so the columns cannot be inferred; "
            + place_in(name, "correct source.files.path, wait for the first file, or declare source.schema")
        )
    settings = pipeline.files
    if isinstance(settings.format, Decoder):
        raise SourceError(
            f"decoder {settings.format.kind} does not say which columns there are; declare "
            + place_in(name, "source.schema")
        )
    found = infer_columns(
        files, settings.format, settings.delimiter, settings.encoding, pipeline.source.numbers
    )
    return {**folder_columns(pipeline.source_path, files), **found}


def _normal(own: PolledSource) -> dict[str, str]:
    """The columns that a user's source declares; there may be none."""
    try:
        return {name: normal_type(kind) for name, kind in (own.columns() or {}).items()}
    except (AttributeError, TypeError, ValueError, OSError) as error:
        raise SourceError(
            f"source {own.kind}: columns() failed with {first_line(error)}; correct the class"
        ) from error


def _as_read(pipeline: Pipeline, columns: dict[str, str]) -> dict[str, str]:
    """The columns with the types in which they are read. In text files and JSON topics a declared time is read as
    text, so that `event.zone` applies to it."""
    source, form = pipeline.source, pipeline.format
    is_json = form == "json" or isinstance(form, RegisteredJson)
    is_text = form != "parquet" if source.kafka is None else is_json
    if source.columns is None or source.own is not None or not is_text:
        return columns
    given = source.kafka.metadata if source.kafka is not None else ()
    wanted = (pipeline.event.time, pipeline.order_by)
    times = {column for column in wanted if column is not None and pipeline.source_name(column) not in given}
    return {
        column: "string" if column in times and kind in ("timestamp", "timestamp_ntz", "date") else kind
        for column, kind in columns.items()
    }
