"""The columns of each table of the store, derived from the pipeline and the pinned columns.

The event log has an envelope and the payload. A column that the envelope holds as it is (event time, arrival time, and
id and partition where they are text) is not stored twice. The columns of an id of several columns are stored beside
it. `view` maps each source column to its stored column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from latecomer.config.derived import derived_types, seen_types
from latecomer.config.for_tasks import portable
from latecomer.config.models import Pipeline
from latecomer.config.names import UNSTORABLE
from latecomer.config.outputs import Output
from latecomer.model import types
from latecomer.model.aggregates import MOMENTS, Aggregate
from latecomer.model.verdicts import Fate
from latecomer.store.private_columns import free_name
from latecomer.store.state_types import WHOLE

TIMESTAMP = pa.timestamp("us", "UTC")
AMOUNT = pa.decimal128(38, 6)

ENVELOPE: dict[str, str] = {
    "event_time": "timestamp",
    "arrival_time": "timestamp",
    "source_partition": "string",
    "origin": "string",
    "position": "bigint",
    "event_id": "string",
    "producer": "string",
    "producer_seq": "string",
    "schema_id": "int",
    "batch": "bigint",
    "tick": "bigint",
}

_MISSED = {"window_start": TIMESTAMP, "window_end": TIMESTAMP, "watermark": TIMESTAMP, "verdict": pa.string()}
"""The columns of the side output besides the event."""

DEAD_LETTERS = pa.schema(
    [
        ("batch", pa.int64()),
        ("reason", pa.string()),
        ("raw", pa.string()),
        ("origin", pa.string()),
        ("position", pa.int64()),
        ("event_time", TIMESTAMP),
        ("arrival_time", TIMESTAMP),
        ("source_partition", pa.string()),
        ("detail", pa.string()),
        ("raw_bytes", pa.binary()),
    ]
)

REPAIRS = pa.schema(
    [
        ("batch", pa.int64()),
        ("letter_batch", pa.int64()),
        ("letter_reason", pa.string()),
        ("origin", pa.string()),
        ("position", pa.int64()),
        ("first_arrival_time", TIMESTAMP),
        ("repaired", pa.bool_()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("amounts", pa.list_(pa.struct([("unit", pa.string()), ("amount", AMOUNT)]))),
    ]
)
"""Attempts to repair dead letters, and their outcome. The amounts are those of the letter in the ledger."""

WATERMARKS = pa.schema(
    [
        ("batch", pa.int64()),
        ("source_batch", pa.int64()),
        ("tick", pa.int64()),
        ("at", TIMESTAMP),
        ("watermark", TIMESTAMP),
        ("settled", TIMESTAMP),
        ("kind", pa.string()),
        ("source", pa.string()),
        ("arrival_by", pa.string()),
        ("held_by", pa.string()),
        ("unheld", TIMESTAMP),
        ("held_with", pa.list_(pa.string())),
        (
            "partitions",
            pa.list_(
                pa.struct([("partition", pa.string()), ("events", pa.int64()), ("max_event_time", TIMESTAMP)])
            ),
        ),
        ("carry", pa.string()),
        ("read_to", pa.string()),
    ]
)

FATE_COLUMNS = tuple(fate.value for fate in Fate)
ZERO_BEFORE = (Fate.FAILED.value,)
"""Fates without a column in the ledger of an earlier version: no event had them."""
LEDGER = pa.schema(
    [
        ("batch", pa.int64()),
        ("output", pa.string()),
        ("unit", pa.string()),
        ("received", AMOUNT),
        *((fate, AMOUNT) for fate in FATE_COLUMNS),
        ("partly_late", pa.int64()),
        ("late_at_source", pa.int64()),
    ]
)
UNIT_ORDER = "case unit when 'events' then 0 when 'assignments' then 1 else 2 end, unit"
"""The order of the ledger's units, in SQL: events, assignments, then the measures."""

PUBLICATIONS = pa.schema([("batch", pa.int64()), ("output", pa.string()), ("published_at", TIMESTAMP)])
"""When each batch was published; a row with an output says when that output joined after the batch."""

_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "tinyint": pa.int8(),
    "double": pa.float64(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "binary": pa.binary(),
}


def arrow_type(kind: str) -> pa.DataType:
    match types.nested_type(kind):
        case "array", {"element": element}:
            return pa.list_(pa.field("element", arrow_type(element)))
        case "map", {"value": value}:
            return pa.map_(pa.string(), arrow_type(value))
        case "struct", fields:
            return pa.struct([(name, arrow_type(each)) for name, each in fields.items()])
    if types.is_decimal(kind):
        precision, scale = kind[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _ARROW[kind]


def source_type(kind: str) -> pa.DataType:
    """The type of a source's column before it is stored: `timestamp_ntz` has no zone yet."""
    return pa.timestamp("us") if kind == "timestamp_ntz" else arrow_type(kind)


def stored_name(column: str, taken: Iterable[str]) -> str:
    """The name under which a column is stored: its own, or `payload_NAME` where that is taken.

    >>> stored_name("batch", ["Batch", "tick"]), stored_name("payload_net amount", [])
    ('payload_batch', 'payload_net_amount')
    """
    others = {name.lower() for name in taken}
    name = UNSTORABLE.sub("_", column)
    return free_name(f"payload_{name}" if name.lower() in others else name, others)


@dataclass(frozen=True)
class EventLayout:
    """Where each source column is stored in the event log."""

    pipeline: Pipeline
    columns: Mapping[str, str]
    wide_sums: bool = True
    """Whether sums of whole numbers are decimals, which do not overflow; in an old store they are not."""

    @property
    def portable(self) -> EventLayout:
        """The same, in the form that is sent to tasks."""
        return replace(self, pipeline=portable(self.pipeline))

    @cached_property
    def view(self) -> dict[str, str]:
        """Source column → stored column."""
        event, envelope = self.pipeline.event, {}
        if isinstance(event.id, str) and self.columns.get(event.id) == "string":
            envelope[event.id] = "event_id"
        for source in self.pipeline.views.values():
            partition = source.partition_column
            if not self.pipeline.sources and self.columns.get(partition or "") == "string":
                envelope[str(partition)] = (
                    "source_partition"  # with several sources, it begins with the source
                )
            if source.order_by is not None:
                envelope[source.order_by] = "arrival_time"
        envelope[event.time] = "event_time"
        view: dict[str, str] = {}
        for column in self.columns:
            plain = not UNSTORABLE.search(column)
            taken = [*ENVELOPE, *view.values(), *(other for other in self.columns if other != column)]
            free = stored_name(column, taken) if plain else stored_name(f"payload_{column}", [*taken, column])
            view[column] = envelope.get(column) or free
        return view

    @cached_property
    def first_arrival(self) -> str:
        """The column for the first arrival of an event that was a dead letter. Stores of earlier versions lack it, so
        its name is one that no column of the source has."""
        return free_name("first_arrival_time", self.columns)

    @cached_property
    def unknown_fields(self) -> str:
        """The column for an event's fields that are no columns, as JSON text; likewise."""
        return free_name("unknown_fields", self.columns)

    @cached_property
    def types(self) -> dict[str, str]:
        """Source column → type for outputs: times are timestamps, whatever their type in the source."""
        return seen_types(self.pipeline, self.columns)

    @cached_property
    def payload(self) -> dict[str, str]:
        """Source column → stored column, for columns that are not in the envelope."""
        return {column: stored for column, stored in self.view.items() if stored not in ENVELOPE}

    @cached_property
    def stored(self) -> dict[str, str]:
        """Stored column → type, in order."""
        payload = {stored: self.types[column] for column, stored in self.payload.items()}
        return {**ENVELOPE, self.first_arrival: "timestamp", self.unknown_fields: "string", **payload}

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, arrow_type(kind)) for name, kind in self.stored.items()])

    @cached_property
    def late_schema(self) -> pa.Schema:
        """The side output: the event as logged, and the window that it missed."""
        of_event = [
            pa.field(name, self.schema.field(stored).type) for stored, name in self.late_names.items()
        ]
        return pa.schema([*_MISSED.items(), *of_event])

    @cached_property
    def late_names(self) -> dict[str, str]:
        """Stored column → column of the side output, which has no first arrival and no unknown fields."""
        names: dict[str, str] = {}
        for name in self.stored:
            if name in (self.first_arrival, self.unknown_fields):
                continue
            others = (other for other in self.stored if other != name)
            names[name] = stored_name(name, [*_MISSED, *names.values(), *others])
        return names


@dataclass(frozen=True)
class Reading:
    """How the rows of a source become events of the log."""

    pipeline: Pipeline
    """The view of this source."""
    columns: Mapping[str, str]
    """The columns of its rows."""
    log: EventLayout
    source: str = ""
    """Its name, where there are several."""


@dataclass(frozen=True)
class PaneLayout:
    """The columns of an output's panes: the published ones, and the private state behind them."""

    output: Output
    events: EventLayout

    @cached_property
    def types(self) -> dict[str, str]:
        """Column → type, for those of the source and the derived ones."""
        return {**self.events.types, **derived_types(self.output.columns, self.events.types)}

    @cached_property
    def keys(self) -> dict[str, str]:
        return {column: self.types[column] for column in self.output.by}

    @cached_property
    def late_schema(self) -> pa.Schema:
        """The side output: the event as logged, the window that it missed, and derived columns among keys and
        aggregates."""
        derived = [
            (self.late_columns[name], arrow_type(self.types[name])) for name in self.output.columns_in_numbers
        ]
        return pa.schema([*self.events.late_schema, *derived])

    @cached_property
    def late_columns(self) -> dict[str, str]:
        """Column → column of the side output."""
        names = self.events.late_names
        columns = {column: names[stored] for column, stored in self.events.view.items()}
        for name in self.output.columns_in_numbers:
            columns[name] = stored_name(name, [*self.events.late_schema.names, *columns.values()])
        return columns

    @cached_property
    def values(self) -> dict[str, str]:
        return {name: self.value_type(aggregate) for name, aggregate in self.output.aggregates.items()}

    @property
    def whole_sum_type(self) -> str:
        """The type of a sum of whole numbers."""
        return WHOLE if self.events.wide_sums else "bigint"

    def value_type(self, aggregate: Aggregate) -> str:
        """The type of an aggregate's result."""
        kind = self.types.get(aggregate.column or "", "bigint")
        match aggregate.function:
            case "count" | "count_distinct" | "approx_count_distinct":
                return "bigint"
            case "min" | "max" | "first" | "last":
                return kind
            case "top_k" | "collect":
                return "string"
            case "median" if types.is_exact(kind):
                return f"decimal(38,{types.scale_of(kind) + 1})"
            case "sum" if types.is_exact(kind):
                return (
                    f"decimal(38,{types.scale_of(kind)})" if types.is_decimal(kind) else self.whole_sum_type
                )
            case "avg" if types.is_decimal(kind):
                return f"decimal(38,{min(types.scale_of(kind) + 4, 20)})"
            case "approx_percentile" if kind in types.INTEGERS:
                return "bigint"
            case "sum" | "avg" | "median" | "approx_percentile":
                return "double"
            case function if function in MOMENTS:
                return "double"
        raise ValueError(f"{aggregate.function} has no type")

    @cached_property
    def published(self) -> pa.Schema:
        """The columns for sinks and readers."""
        return pa.schema(
            [
                ("window_start", TIMESTAMP),
                ("window_end", TIMESTAMP),
                *((name, arrow_type(kind)) for name, kind in {**self.keys, **self.values}.items()),
                ("sequence", pa.int64()),
                ("timing", pa.string()),
                ("op", pa.string()),
                ("is_last", pa.bool_()),
                ("batch", pa.int64()),
                ("fired_at", TIMESTAMP),
                ("watermark", TIMESTAMP),
            ]
        )
