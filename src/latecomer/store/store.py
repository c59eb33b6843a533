"""The store: every table of a pipeline, and its pins (`pipeline.json`).

store/
  pipeline.json                       the pinned columns and output definitions
  events/ duplicates/ dead_letters/   what was received
  repairs/ repairing/                 replayed dead letters, and a replay under way
  watermarks/ ledger/                 the timeline, and the proof
  publications/                       when each batch was published, by the wall clock
  outputs/NAME/partials/ panes/ late/ one of each per output
  outputs/NAME/dead_letters/          the events that it cannot compute
  outputs/NAME/corrections/           what `latecomer correct` made of late/
  outputs/NAME/rebuilds/              plans, and their state
  ids/                                the ids in the log; made from the log where it is missing
  found/ or offsets/                  the found files of the source, or its answers
  sources/NAME/                       of several sources, how far each was read
  schemas/                            schemas of writers, by their ids
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import pyarrow as pa

from latecomer.config.all_columns import Columns
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.errors import NoStore, StoreMismatch, other_settings
from latecomer.model import types
from latecomer.model.durations import UNITS
from latecomer.model.panes import Accumulation
from latecomer.store import layout, state_types
from latecomer.store.definitions import (
    definition_of,
    fix_for,
    fix_if_unread,
    listed,
    policy_of,
    read_definition,
    require_definitions,
    require_wall_clock,
    with_definition,
    with_new_renames,
)
from latecomer.store.delta.table import Table
from latecomer.store.files import Location
from latecomer.store.migrations import FORMAT, SUMS
from latecomer.store.pins import read_pins, write_pins
from latecomer.store.rebuilds import Rebuilds
from latecomer.store.sql import text_literal

CLOCKS = "clocks"
"""What a commit of the log calls the clocks by which the rows of its batch came."""
TOMBSTONES = "tombstones"
"""The name, in commits of the log, of the count of records without a value, which are not in the log."""


OPEN_STATES_KEPT = UNITS["d"]
"""How long replaced open states are kept at most: each batch replaces them, and only the engine reads them."""


@dataclass(frozen=True)
class OutputTables:
    """The tables of one output."""

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
    """The store from whose log this one was computed: this one can only be read."""
    redefining: str | None = None
    """The output whose definition a rebuild is about to change."""

    def __init__(self, pipeline: Pipeline, columns: Mapping[str, str]) -> None:
        self.pipeline = pipeline
        self.root = pipeline.store_path
        self.columns = Columns.of(columns)
        self.wide_sums = _has_wide_sums(self.root)
        self.layout = layout.EventLayout(pipeline, self.columns, self.wide_sums)
        self.dead_letters = self.table("dead_letters", layout.DEAD_LETTERS)
        self.repairs = self.table("repairs", layout.REPAIRS)
        self.watermarks = self.table("watermarks", layout.WATERMARKS)
        self.ledger = self.table("ledger", layout.LEDGER, layout.ZERO_BEFORE)
        self.publications = self.table("publications", layout.PUBLICATIONS)
        """When each batch was published."""
        self.published_lately: dict[int, int] = {}
        """The publication times of the last batches that this process has closed since an output joined."""
        self.remembered: dict[str, Any] = {}
        """A cache of counts over complete batches, which do not change, for as long as this object is used."""

    @classmethod
    def of(cls, pipeline: Pipeline) -> Self:
        """The store of a pipeline that has been run before."""
        pinned = read_pins(pipeline.store_path)
        if pinned is None:
            raise NoStore(f"there is no store at {pipeline.store_path} yet; run the pipeline first")
        store = cls(pipeline, Columns(pinned["columns"], pinned.get("sources"), pinned.get("schemas")))
        store.require_harmless()
        return store

    def table(self, name: str, schema: pa.Schema, zeros: Sequence[str] = ()) -> Table:
        """A table by its place in the store. It keeps replaced files as long as the pipeline file says."""
        return Table(self.root / name, schema, zeros, self.pipeline.upkeep.keep)

    def reading(self, source: str) -> layout.Reading:
        """How the rows of a source become events."""
        return layout.Reading(
            self.pipeline.views[source], self.columns.of_source(source), self.layout, source
        )

    @cached_property
    def events(self) -> Table:
        return self.table("events", self.layout.schema)

    @cached_property
    def duplicates(self) -> Table:
        return self.table("duplicates", self.layout.schema)

    @cached_property
    def past_ledger(self) -> Table:
        """The ledger with what past batches received."""
        return self.ledger

    def last_complete_batch(self) -> int:
        """The last complete batch; an error where there is none."""
        last = self.ledger.last_batch()
        if last < 0:
            raise no_complete_batch(self.root)
        return last

    def own_table(self, table: Table) -> Table:
        """The same table, opened separately, for another thread."""
        return Table(table.root, table.schema, table.zeros, table.kept)

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
        """The tables that have a batch before any output publishes it."""
        return [self.dead_letters, self.repairs, self.duplicates, self.events, self.watermarks]

    def reached(self, tables: Iterable[Table]) -> dict[str, int]:
        """The last batches of some tables, by their place in this store; tables of other stores are skipped."""
        return {
            table.root.relative_to(self.root).as_posix(): table.last_batch()
            for table in tables
            if table.root.is_relative_to(self.root)
        }

    @property
    def tombstones(self) -> int:
        """How many records without a value were not logged so far."""
        return max(self.events.reached_by(TOMBSTONES), 0)

    def measures(self) -> dict[str, str]:
        """The ledger's measures and their types."""
        return {column: self.columns[column] for column in self.pipeline.ledger}

    def as_amounts(self, rows: pa.Table) -> pa.Table:
        """Lines of the ledger with the scale of its measures: by their types in the pipeline, not by the amounts; 0 if
        all measures are whole numbers."""
        kinds = [self.columns[column] for column in self.pipeline.ledger if column in self.columns]
        kind = pa.decimal128(38, max(map(types.scale_of, kinds), default=0))
        fields = [each.with_type(kind) if each.type == layout.AMOUNT else each for each in rows.schema]
        try:
            return rows.cast(pa.schema(fields))
        except pa.ArrowInvalid:  # the file no longer names a measure that the ledger has lines of
            return rows

    def pin(self) -> None:
        """Pin what later runs may not change, or compare it with the pins.

        An output's late policy, triggers and accumulation may change. The batch since which they apply is pinned, so
        that everything can be recomputed later.
        """
        write_pins(self.root, self.pins())

    def pins(self) -> dict[str, Any]:
        """The content to pin; an error where it does not fit what is pinned."""
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
        """Refuse a store with pinned definitions that could run more in Spark than expressions over columns."""
        self._pinned()

    def _pinned(self) -> dict[str, Any] | None:
        """The pins, checked to be harmless: a store may come from elsewhere."""
        pinned = read_pins(self.root)
        if pinned is not None:
            for name in self.pipeline.outputs:
                require_definitions(self.pipeline, name, pinned, {**pinned["columns"], **self.columns})
        return pinned

    def pinned_definition(self, name: str) -> dict[str, Any] | None:
        """The pinned definition of an output's numbers; None where they were never computed."""
        pinned = self._pinned() or {}
        kept: dict[str, Any] | None = pinned.get("outputs", {}).get(name)
        return kept

    def require_definitions(self) -> None:
        """Refuse a pipeline file whose definitions differ from the pinned ones."""
        for name, output in self.pipeline.outputs.items():
            kept, definition = self.pinned_definition(name), definition_of(output)
            if kept is not None and kept != definition:
                require_wall_clock(name, kept, definition)
                raise StoreMismatch(self._other_definition(name, kept, definition))

    def _other_definition(self, name: str, kept: Mapping[str, Any], definition: Mapping[str, Any]) -> str:
        changed = [key for key in definition if kept.get(key) != definition[key]]
        return (
            f"output {name} was computed with {other_settings(changed)} "
            f"({listed(kept, changed)} in the store, {listed(definition, changed)} in the file); "
            f"{self.fix_for_definition(name, kept)}"
        )

    def fix_for_definition(self, name: str, kept: Mapping[str, Any]) -> str:
        """The fix for an output that was computed with another definition."""
        if (fix := fix_if_unread(self.root)) is not None:
            return fix
        output = self.pipeline.outputs[name]
        if kept.get("discarding", False):
            before = output.model_copy(update={"accumulation": Accumulation.DISCARDING})
        else:
            before = with_definition(output, kept)
        return fix_for(name, before, output, self.layout)

    def _redefined_since(self, name: str, definition: Mapping[str, Any]) -> int | None:
        """The batch since which an output has this definition by a rebuild; None where there was none."""
        redefining = [
            each for each in Rebuilds(self.root, name) if each.batch is not None and each.record.definition
        ]
        # Only the last one counts: an earlier definition does not apply any more.
        last = max(redefining, key=lambda each: each.batch or 0, default=None)
        return last.batch if last is not None and last.record.definition == definition else None

    def policies(self, name: str) -> list[tuple[int, Output]]:
        """The output with each policy and definition that it has had, and the batch since which each applies."""
        pinned = self._pinned() or {}
        output = self.pipeline.outputs[name]
        return [
            (entry["since"], with_definition(output, entry.get("definition", {}), entry["policy"]))
            for entry in pinned.get("policies", {}).get(name, [])
        ]

    def added_since(self, name: str) -> dict[str, int]:
        """Aggregates that an output did not have at first → the batch since which it has them."""
        periods, since = self.policies(name), {}
        for aggregate in self.pipeline.outputs[name].aggregates:
            lacking = [nth for nth, (_, output) in enumerate(periods) if aggregate not in output.aggregates]
            if lacking and lacking[-1] + 1 < len(periods):
                since[aggregate] = periods[lacking[-1] + 1][0]
        return since

    def _event_definition(self, pinned: Mapping[str, Any]) -> dict[str, Any]:
        event = self.pipeline.event
        definition = {
            "time": event.time,
            "id": event.id if isinstance(event.id, str) else list(event.id_columns) or None,
            "every": self.pipeline.watermark.every,
            "ledger": sorted(self.pipeline.ledger),
            **read_definition(self.pipeline),
        }
        before = with_new_renames(pinned.get("event", definition), definition, pinned)
        changed = [key for key in definition if before.get(key) != definition[key]]
        if changed:
            new = fix_if_unread(self.root) or "start a new store"
            raise StoreMismatch(
                f"the store was made with {other_settings(changed)} "
                f"({listed(before, changed)} in the store, {listed(definition, changed)} in the file); "
                f"restore it, or {new}"
            )
        return definition


def _has_wide_sums(root: Location) -> bool:
    """Whether sums of whole numbers are decimals, as in every new store (ADR 0028)."""
    pinned = read_pins(root)
    return pinned is None or pinned[SUMS] == state_types.WHOLE


def home_of(root: Location, source: str) -> Location:
    """The folder with the progress of a source: the store at `root` itself, if there is only one source."""
    return root / "sources" / source if source else root


open_store = Store.of


def no_complete_batch(root: Location) -> NoStore:
    """The error for a store whose first batch is not complete."""
    return NoStore(f"store {root} has no complete batch yet; run the pipeline first")


def joining(output: str) -> str:
    """The application of the ledger's lines of an output that was computed from the log. Its transaction has the batch
    after which the output joined."""
    return f"latecomer:{output}"


def as_received_sql(ledger: Table) -> str:
    """A condition in SQL: whether a line of the ledger was written when its batch was received, not later when its
    output joined.

    Only those lines agree on what was received, and on the duplicates in it.
    """
    names = (row["output"] for row in ledger.query_rows("select distinct output from t"))
    joined = {name: ledger.last_batch(joining(name)) for name in names}
    later = [
        f"(output = {text_literal(name)} and batch <= {last})" for name, last in joined.items() if last >= 0
    ]
    return f"not ({' or '.join(later)})" if later else "true"
