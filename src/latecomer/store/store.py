"""The store: every table of a pipeline, and what is pinned about it.

store/
  pipeline.json                       the pinned columns and output definitions
  events/ duplicates/ dead_letters/   what was received
  repairs/ repairing/                 dead letters that were replayed, and a replay under way
  watermarks/ ledger/                 the timeline, and the proof
  publications/                       when each batch was published, by the wall clock
  outputs/NAME/partials/ panes/ late/ one of each per output
  outputs/NAME/dead_letters/          the events that it cannot compute
  outputs/NAME/corrections/           what `latecomer correct` made of late/
  outputs/NAME/rebuilds/              plans, and what became of them
  ids/                                which ids the log holds; made from it where it is missing
  found/ or offsets/                  what was found of the source, or it has answered
  sources/NAME/                       of several sources, how far each was read
  schemas/                            schemas of writers, by their ids
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

import pyarrow as pa
from pydantic import ValidationError

from latecomer.config.columns import infer_columns
from latecomer.config.derived import mistake_of, seen_types
from latecomer.config.kafka import METADATA
from latecomer.config.load import check_renames
from latecomer.config.merged import Columns, merged
from latecomer.config.models import Output, Pipeline
from latecomer.config.own import Decoder, PolledSource
from latecomer.config.paths import folder_columns, list_files
from latecomer.config.registered import Registered, SchemaFormat
from latecomer.config.registered_json import RegisteredJson
from latecomer.config.renames import parse_column, seen_columns
from latecomer.config.views import place_in
from latecomer.errors import NoStore, SourceError, StoreMismatch, first_line, other_settings
from latecomer.model import types
from latecomer.model.base import in_own_words
from latecomer.model.durations import UNITS
from latecomer.model.panes import Accumulation
from latecomer.model.predicates import column_mistake
from latecomer.model.types import is_nested, is_wider, normal_type, why_not_wider, widened_type
from latecomer.model.verdicts import OnError
from latecomer.model.windows import Tumbling
from latecomer.store import layout, state_types
from latecomer.store.files import Location
from latecomer.store.migrations import FORMAT, SUMS
from latecomer.store.pins import PINS, read_pins, write_pins
from latecomer.store.rebuilds import Rebuilds
from latecomer.store.redefining import fix_for
from latecomer.store.sql import text_literal
from latecomer.store.table import Table

WALL_CLOCK = "wall"
"""What the windows of a zone within its days follow, as it is written in their definition."""
CLOCKS = "clocks"
"""What a commit of the log calls the clocks by which the rows of its batch came."""
TOMBSTONES = "tombstones"
"""What a commit of the log calls its count of records that were left out of it for having no value."""


OPEN_STATES_KEPT = UNITS["d"]
"""Open states are replaced with every batch, and hardly anybody but the engine reads them."""


@dataclass(frozen=True)
class OutputTables:
    """What one output keeps."""

    partials: Table
    panes: Table
    late: Table
    dead_letters: Table
    """The events that it cannot compute."""

    @property
    def all(self) -> tuple[Table, ...]:
        return self.panes, self.late, self.dead_letters, self.partials


class Store:
    """The tables of one pipeline."""

    replay_of: Location | None = None
    """The store whose log this one was computed from: it can be read, not run on."""
    redefining: str | None = None
    """The output that a rebuild is about to give another meaning."""

    def __init__(self, pipeline: Pipeline, columns: Mapping[str, str]) -> None:
        self.pipeline = pipeline
        self.root = pipeline.store_path
        self.columns = Columns.of(columns)
        self.wide_sums = _has_wide_sums(self.root)
        self.layout = layout.EventLayout(pipeline, self.columns, self.wide_sums)

    def table(self, name: str, schema: pa.Schema, zeros: Sequence[str] = ()) -> Table:
        """One of its tables, by its place in the store; it keeps what was replaced as the pipeline file says."""
        return Table(self.root / name, schema, zeros, self.pipeline.upkeep.keep)

    def reading(self, source: str) -> layout.Reading:
        """How the rows of a source become events."""
        return layout.Reading(
            self.pipeline.views[source], self.columns.of_source(source), self.layout, source
        )

    def home(self, source: str) -> Location:
        """The folder in which a source keeps how far it was read: the store's own, where there is one source."""
        return home_of(self.root, source)

    @cached_property
    def events(self) -> Table:
        return self.table("events", self.layout.schema)

    @cached_property
    def duplicates(self) -> Table:
        return self.table("duplicates", self.layout.schema)

    @cached_property
    def dead_letters(self) -> Table:
        return self.table("dead_letters", layout.DEAD_LETTERS)

    @cached_property
    def repairs(self) -> Table:
        return self.table("repairs", layout.REPAIRS)

    @cached_property
    def watermarks(self) -> Table:
        return self.table("watermarks", layout.WATERMARKS)

    @cached_property
    def ledger(self) -> Table:
        return self.table("ledger", layout.LEDGER, layout.ZERO_BEFORE)

    @cached_property
    def past_ledger(self) -> Table:
        """The ledger that says what past batches received."""
        return self.ledger

    @cached_property
    def publications(self) -> Table:
        """When each batch was published."""
        return self.table("publications", layout.PUBLICATIONS)

    def own_table(self, table: Table) -> Table:
        """One of its tables, for somebody who reads it in a thread of their own."""
        return Table(table.root, table.schema, table.zeros, table.kept)

    @cached_property
    def remembered(self) -> dict[str, Any]:
        """What was counted for complete batches: it stays as it is. Kept for as long as this store is used."""
        return {}

    def output_tables(self, name: str, schema: pa.Schema) -> OutputTables:
        """An output's tables; `schema` is that of its panes with their state."""
        root = f"outputs/{name}"
        partials = self.table(f"{root}/partials", schema)
        partials.kept = min(partials.kept, OPEN_STATES_KEPT)
        return OutputTables(
            partials,
            self.table(f"{root}/panes", schema),
            self.table(
                f"{root}/late", layout.PaneLayout(self.pipeline.outputs[name], self.layout).late_schema
            ),
            self.table(f"{root}/dead_letters", layout.DEAD_LETTERS),
        )

    @property
    def logged_tables(self) -> list[Table]:
        """The tables that a batch is in before any output publishes it."""
        return [self.dead_letters, self.repairs, self.duplicates, self.events, self.watermarks]

    def reached(self, tables: Iterable[Table]) -> dict[str, int]:
        """The last batch of each of some tables, by its place in this store; those of another are left out."""
        return {
            table.root.relative_to(self.root).as_posix(): table.last_batch()
            for table in tables
            if table.root.is_relative_to(self.root)
        }

    @property
    def tombstones(self) -> int:
        """How many records without a value were left out of the log so far."""
        return max(self.events.reached_by(TOMBSTONES), 0)

    def measures(self) -> dict[str, str]:
        """The ledger's measures and their types."""
        return {column: self.columns[column] for column in self.pipeline.ledger}

    def as_amounts(self, rows: pa.Table) -> pa.Table:
        """Lines of the ledger with as many digits after the point as its measures have: by the pipeline, not by
        the amounts, and none where all measures are whole numbers."""
        kinds = [self.columns[column] for column in self.pipeline.ledger if column in self.columns]
        kind = pa.decimal128(38, max(map(types.scale_of, kinds), default=0))
        fields = [each.with_type(kind) if each.type == layout.AMOUNT else each for each in rows.schema]
        try:
            return rows.cast(pa.schema(fields))
        except pa.ArrowInvalid:  # the file no longer names a measure that the ledger has lines of
            return rows

    def pin(self) -> None:
        """Write down, or compare with, what later runs must not change behind the numbers' back.

        An output's late policy, triggers and accumulation may change; since which batch they have been in
        force is written down, so that everything can be recomputed for ever after.
        """
        write_pins(self.root, self.pins())

    def pins(self) -> dict[str, Any]:
        """What is to be written down; an error where it does not fit what is."""
        pinned = self._pinned()
        if pinned is None:
            pinned = {"format": FORMAT, "pipeline": self.pipeline.name, "outputs": {}, "policies": {}}
            pinned[SUMS] = state_types.WHOLE if self.wide_sums else state_types.NARROW
        if pinned["pipeline"] != self.pipeline.name:
            raise StoreMismatch(
                f"store {self.root} belongs to pipeline {pinned['pipeline']}, not {self.pipeline.name}; "
                "give this pipeline a store of its own"
            )
        if "replay_of" in pinned and self.replay_of is None:
            raise StoreMismatch(
                f"store {self.root} is a replay of {pinned['replay_of']} and can only be read; "
                "give this pipeline a store of its own"
            )
        kept: dict[str, Any] = pinned["outputs"]
        for name, output in self.pipeline.outputs.items():
            definition = definition_of(output)
            kept[name] = dict(kept.get(name, definition))
            require_wall_clock(name, kept[name], definition)
            policies = pinned["policies"].setdefault(name, [])
            policy = policy_of(output)
            if kept[name] != definition and name != self.redefining:
                since = self._redefined_since(name, definition)
                if since is None:
                    raise StoreMismatch(self._other_definition(name, kept[name], definition))
                policies[:] = [{"definition": kept[name], **entry} for entry in policies]
                policies.append({"since": since, "policy": policy, "definition": definition})
                kept[name] = definition
            if not policies or policies[-1]["policy"] != policy:
                since = self.ledger.last_batch() + 1 if policies else 0
                meaning = {"definition": kept[name]} if policies and "definition" in policies[-1] else {}
                policies.append({"since": since, "policy": policy, **meaning})
        if self.replay_of is not None:
            pinned["replay_of"] = str(self.replay_of)
        sources = {"sources": self.columns.by_source} if self.columns.by_source else {}
        schemas = {"schemas": self.columns.schemas} if self.columns.schemas else {}
        event = self._event_definition(pinned)
        return {**pinned, "columns": dict(self.columns), **sources, **schemas, "event": event}

    def require_harmless(self) -> None:
        """Refuse a store whose definitions would have Spark do more than compare columns."""
        self._pinned()

    def _pinned(self) -> dict[str, Any] | None:
        """What is written down, once it is known to be harmless: a store may come from elsewhere."""
        pinned = read_pins(self.root)
        if pinned is not None:
            for name in self.pipeline.outputs:
                _require_definitions(self.pipeline, name, pinned, {**pinned["columns"], **self.columns})
        return pinned

    def pinned_definition(self, name: str) -> dict[str, Any] | None:
        """What an output's numbers mean, as it is written down; None where they were never computed."""
        pinned = self._pinned() or {}
        kept: dict[str, Any] | None = pinned.get("outputs", {}).get(name)
        return kept

    def require_definitions(self) -> None:
        """Refuse to judge by the file what was computed with other definitions."""
        for name, output in self.pipeline.outputs.items():
            kept, definition = self.pinned_definition(name), definition_of(output)
            if kept is not None and kept != definition:
                require_wall_clock(name, kept, definition)
                raise StoreMismatch(self._other_definition(name, kept, definition))

    def _other_definition(self, name: str, kept: Mapping[str, Any], definition: Mapping[str, Any]) -> str:
        changed = [key for key in definition if kept.get(key) != definition[key]]
        return (
            f"output {name} was computed with {other_settings(changed)} "
            f"({_listed(kept, changed)} in the store, {_listed(definition, changed)} in the file); "
            f"{self.fix_for_definition(name, kept)}"
        )

    def fix_for_definition(self, name: str, kept: Mapping[str, Any]) -> str:
        """What can be done about an output that was computed with another definition."""
        output = self.pipeline.outputs[name]
        if kept.get("discarding", False):
            before = output.model_copy(update={"accumulation": Accumulation.DISCARDING})
        else:
            before = under(output, kept)
        return fix_for(name, before, output, self.layout)

    def _redefined_since(self, name: str, definition: Mapping[str, Any]) -> int | None:
        """The batch since which an output means this, where a rebuild has brought it there."""
        given = [
            each for each in Rebuilds(self.root, name) if each.batch is not None and each.record.definition
        ]
        # The last one counts: a definition that was left again is no reason to go back to it.
        last = max(given, key=lambda each: each.batch or 0, default=None)
        return last.batch if last is not None and last.record.definition == definition else None

    def policies(self, name: str) -> list[tuple[int, Output]]:
        """The output under each policy and definition it has had, and since which batch."""
        pinned = self._pinned() or {}
        output = self.pipeline.outputs[name]
        return [
            (entry["since"], under(output, entry.get("definition", {}), entry["policy"]))
            for entry in pinned.get("policies", {}).get(name, [])
        ]

    def added_since(self, name: str) -> dict[str, int]:
        """The aggregates that an output did not have at first, and since which batch it has each."""
        periods, found = self.policies(name), {}
        for aggregate in self.pipeline.outputs[name].aggregates:
            lacking = [nth for nth, (_, output) in enumerate(periods) if aggregate not in output.aggregates]
            if lacking and lacking[-1] + 1 < len(periods):
                found[aggregate] = periods[lacking[-1] + 1][0]
        return found

    def _event_definition(self, pinned: Mapping[str, Any]) -> dict[str, Any]:
        event = self.pipeline.event
        definition = {
            "time": event.time,
            "id": event.id if isinstance(event.id, str) else list(event.id_columns) or None,
            "every": self.pipeline.watermark.every,
            "ledger": sorted(self.pipeline.ledger),
            **_read_definition(self.pipeline),
        }
        before = _with_new_renames(pinned.get("event", definition), definition, pinned)
        changed = [key for key in definition if before.get(key) != definition[key]]
        if changed:
            raise StoreMismatch(
                f"the store was made with {other_settings(changed)} "
                f"({_listed(before, changed)} in the store, {_listed(definition, changed)} in the file); "
                "restore it, or start a new store"
            )
        return definition


def _read_definition(pipeline: Pipeline) -> dict[str, Any]:
    """How what is read becomes events; of several sources, of each of them."""
    if pipeline.sources:
        return {"sources": {name: _read_definition(view) for name, view in pipeline.views.items()}}
    return {
        "partition": pipeline.partition_column,
        "order_by": pipeline.order_by,
        "zone": pipeline.event.zone,
        "unit": pipeline.event.unit,
        "arrival_unit": pipeline.arrival_unit,
        "columns": {new: str(made_from) for new, made_from in pipeline.renames.items()} or None,
    }


def _with_new_renames(
    before: Mapping[str, Any], now: Mapping[str, Any], pinned: Mapping[str, Any]
) -> Mapping[str, Any]:
    """What was written down of how events are read, with the renames of columns that the store does not have yet."""
    if "sources" in before and "sources" in now:
        known = {name: {"columns": columns} for name, columns in pinned.get("sources", {}).items()}
        of_each = {
            name: _with_new_renames(each, now["sources"].get(name, each), known.get(name, {"columns": {}}))
            for name, each in before["sources"].items()
        }
        return {**before, "sources": of_each}
    there, renames = pinned.get("columns", {}), before.get("columns") or {}
    new = {
        name: written
        for name, written in (now.get("columns") or {}).items()
        if name not in renames and name not in there and parse_column(written).name not in there
    }
    return {**before, "columns": {**renames, **new} or None}


def _has_wide_sums(root: Location) -> bool:
    """Whether the sums of whole numbers are decimals: in every store that does not exist yet (ADR 0028)."""
    pinned = read_pins(root)
    return pinned is None or pinned[SUMS] == state_types.WHOLE


def home_of(root: Location, source: str) -> Location:
    """The folder in which the store in `root` keeps how far a source was read."""
    return root / "sources" / source if source else root


_Kind = TypeVar("_Kind", bound=Store)


@overload
def open_store(pipeline: Pipeline) -> Store: ...
@overload
def open_store(pipeline: Pipeline, kind: type[_Kind]) -> _Kind: ...


def open_store(pipeline: Pipeline, kind: type[Store] = Store) -> Store:
    """The store of a pipeline that has been run before."""
    pinned = read_pins(pipeline.store_path)
    if pinned is None:
        raise NoStore(f"there is no store at {pipeline.store_path} yet; run the pipeline first")
    store = kind(pipeline, Columns(pinned["columns"], pinned.get("sources"), pinned.get("schemas")))
    store.require_harmless()
    return store


def source_columns(pipeline: Pipeline, file: str | Path | None = None) -> Columns:
    """The columns that the pipeline sees: as the source declares them, else as pinned by an earlier run, else
    as inferred from the files there; renamed as the pipeline says. `file` is named in errors."""
    from latecomer.store.schemas import readers_of  # with the client of a registry, which readers do not need

    pinned = read_pins(pipeline.store_path)
    schemas = readers_of(pipeline, {} if pinned is None else pinned.get("schemas", {}))
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
    """Whether it is known which columns there are: where nothing says it, the first file is waited for."""
    return read_pins(pipeline.store_path) is not None or all(
        view.source.columns is not None
        or view.source.polled
        or (isinstance(view.format, Registered) and view.format.names_schema)
        or _source_files(name, view)
        for name, view in pipeline.views.items()
    )


def _source_files(name: str, pipeline: Pipeline) -> list[str]:
    """The files of a source that are there now; each of several that are handed in has a folder of its own."""
    handed_in = pipeline.source.dataframe is not None
    return list_files(str(Path(pipeline.source_path, name)) if handed_in else pipeline.source_path)


def _columns_of(
    name: str,
    pipeline: Pipeline,
    pinned: Mapping[str, str] | None,
    file: str | Path | None,
    schemas: Mapping[str, Any],
) -> dict[str, str]:
    """The columns of one source; `pinned` are those that an earlier run has found, `schemas` what they follow from."""
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
        # lists were text in stores that were made before
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
        described = pipeline.format if isinstance(pipeline.format, SchemaFormat) else None
        place = place_in(name, "source.schema")
        if described is not None:
            place = f"the {described.SCHEMA} in {place_in(name, 'source')}"
        fix = "name the schema that the store was made with, or start a new store"
        if described is not None and is_wider(now, before):
            fix = f"put new fields after those that are there ({widened_type(before, now)})"
        raise StoreMismatch(
            f"{place} differs from the columns pinned in the store: {', '.join(differs)}; {first} is {before} there "
            f"and {now} here: {why_not_wider(first, now, before) if described is None else fix}"
        )
    return _widened(name, pipeline, pinned, found or {})


def _follows(pipeline: Pipeline, before: str, after: str) -> bool:
    """Whether a column of the store can have the type that is found now. Fields stay in the order of a schema that
    records are read by."""
    wider = widened_type(before, after)
    return wider == after if isinstance(pipeline.format, SchemaFormat) else wider is not None


def _widened(
    name: str, pipeline: Pipeline, pinned: Mapping[str, str], found: Mapping[str, str]
) -> dict[str, str]:
    """The pinned columns, some of them of wider types, and after them those that the source declares since. Events
    that came before have of these what was kept of unknown fields."""
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
    """The columns of a schema, and those that are given `beside` it: by Kafka, by folders, by a user's source."""
    from latecomer.store.schemas import reading_of

    found = dict(reading_of(pipeline, schemas).columns)
    return {**_beside(pipeline), **found} if beside else found


def _beside(pipeline: Pipeline) -> dict[str, str]:
    """The columns that no schema has: what Kafka says of a record, what folders or a user's source say."""
    source = pipeline.source
    if source.kafka is not None:
        return {name: METADATA[what] for name, what in source.kafka.metadata.items()}
    if source.own is not None:
        return _normal(source.own)
    return folder_columns(pipeline.source_path, list_files(pipeline.source_path))


def _inferred(name: str, pipeline: Pipeline) -> dict[str, str]:
    """The columns of the files that are there, and those that only their folders say; or what a source says."""
    own = pipeline.source.polled
    if isinstance(pipeline.format, RegisteredJson) and pipeline.format.subject is not None:
        from latecomer.store.schemas import columns_of_subject

        return {**_beside(pipeline), **columns_of_subject(pipeline.format, pipeline.base)}
    if own is not None:
        return _columns_of_own(name, own)
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
    """What a source says of its columns, which may be nothing."""
    try:
        return {name: normal_type(kind) for name, kind in (own.columns() or {}).items()}
    except (AttributeError, TypeError, ValueError, OSError) as error:
        raise SourceError(
            f"source {own.kind}: columns() failed with {first_line(error)}; correct the class"
        ) from error


def _columns_of_own(name: str, own: PolledSource) -> dict[str, str]:
    columns = _normal(own)
    if not columns:
        raise SourceError(
            f"source {own.kind} does not say which columns it has; declare {place_in(name, 'source.schema')}"
        )
    return columns


def _as_read(pipeline: Pipeline, columns: dict[str, str]) -> dict[str, str]:
    """The columns as they are read. In a text file and in JSON of a topic a time that is declared is read as text, so
    that `event.zone` can apply to it."""
    source = pipeline.source
    is_text = pipeline.format != "parquet" if source.kafka is None else _is_json(pipeline)
    if source.columns is None or source.own is not None or not is_text:
        return columns
    given = source.kafka.metadata if source.kafka is not None else ()
    wanted = (pipeline.event.time, pipeline.order_by)
    times = {column for column in wanted if column is not None and pipeline.source_name(column) not in given}
    return {
        column: "string" if column in times and kind in ("timestamp", "timestamp_ntz", "date") else kind
        for column, kind in columns.items()
    }


def _is_json(pipeline: Pipeline) -> bool:
    return pipeline.format == "json" or isinstance(pipeline.format, RegisteredJson)


def definition_of(output: Output) -> dict[str, Any]:
    """What an output's numbers mean; policies and sinks may change, these may not."""
    written = output.model_dump(mode="json")
    meaning = {key: written[key] for key in ("window", "by", "where", "aggregates")}
    if output.columns:
        meaning["columns"] = written["columns"]
    if isinstance(output.window, Tumbling) and output.window.within_days:
        meaning["clock"] = WALL_CLOCK
    # Panes that add up cannot follow panes that replace one another.
    return {**meaning, "discarding": output.accumulation is Accumulation.DISCARDING}


def joining(output: str) -> str:
    """The application under which the ledger has the lines of an output that was computed from the log: its
    transaction says after which batch the output joined."""
    return f"latecomer:{output}"


def as_received_sql(ledger: Table) -> str:
    """Whether a line of the ledger was written when its batch was received, not when its output joined later.

    Only such lines all say the same of what was received, and of the duplicates in it.
    """
    names = ledger.query("select distinct output from t")["output"].to_pylist() if ledger.exists else []
    joined = {name: ledger.last_batch(joining(name)) for name in names}
    later = [
        f"(output = {text_literal(name)} and batch <= {last})" for name, last in joined.items() if last >= 0
    ]
    return f"not ({' or '.join(later)})" if later else "true"


def require_wall_clock(name: str, kept: Mapping[str, Any], definition: Mapping[str, Any]) -> None:
    """Refuse windows within days of a zone that were not cut by its wall clock (ADR 0010)."""
    if "clock" in definition and "clock" not in kept:
        zone = definition["window"]["zone"]
        raise StoreMismatch(
            f"output {name} was computed by an earlier latecomer, whose windows shorter than a day drifted from the "
            f"wall clock of {zone} on the days of a clock change; give the output a new name, and it is computed "
            "from the log"
        )


def policy_of(output: Output) -> dict[str, Any]:
    """When an output publishes and what it does with late events, as it is written down."""
    written = output.model_dump(mode="json")
    policy = ("late", "too_late", "allowed_lateness", "on_error", "trigger", "accumulation", "emit_empty")
    return {key: written[key] for key in policy}


_BEFORE_ON_ERROR: dict[str, Any] = {"on_error": OnError.NULL.value}
"""What a policy of an earlier version does not say: what could not be computed was null (ADR 0057)."""


def _require_definitions(
    pipeline: Pipeline, name: str, pinned: Mapping[str, Any], columns: Mapping[str, str]
) -> None:
    """What was written down of an output must be what a pipeline file could say; every `where` above all."""
    seen = seen_types(pipeline, columns)
    # An entry without a definition is of the one that is kept; the file may say another by now, over other columns.
    kept = pinned["outputs"].get(name, {})
    for entry in ({"definition": kept}, *pinned["policies"].get(name, [])):
        try:
            then = under(pipeline.outputs[name], entry.get("definition", kept), entry.get("policy"))
            if not entry.get("definition", kept):
                continue  # nothing is written down: what the file says is looked at where it is read
            mistake = then.where and column_mistake(then.where, {**seen, **then.columns})
            reason = f"where: {mistake}" if mistake else None
            for made in then.columns.values():
                mistake = mistake_of(made.sql, (), seen)
                reason = reason or (f"columns: {mistake}" if mistake else None)
        except ValidationError as error:
            first = error.errors()[0]
            reason = f"{'.'.join(map(str, first['loc']))}: {in_own_words(first)[0]}"
        if reason is not None:
            raise StoreMismatch(
                f"store {pipeline.store_path}: {PINS} has a definition of output {name} that cannot be used: {reason}; "
                "restore the file, or give the output a new name and what you want it to mean, and it is computed "
                "from the log"
            )


def under(output: Output, definition: Mapping[str, Any], policy: Mapping[str, Any] | None = None) -> Output:
    """An output as it was when it meant this, and had that policy."""
    meaning = {key: value for key, value in definition.items() if key not in ("clock", "discarding")}
    if definition:
        meaning = {"columns": {}, **meaning}
    held = _BEFORE_ON_ERROR | dict(policy) if policy else policy_of(output)
    return Output.model_validate({**dict(output), **held, **meaning})


def _listed(definition: Mapping[str, Any], keys: Sequence[str]) -> str:
    return ", ".join(f"{key} {json.dumps(definition.get(key))}" for key in keys)
