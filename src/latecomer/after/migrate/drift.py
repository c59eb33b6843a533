"""Drift between the two shapes of events in the log: how much, of which producers, since when, and examples.

Simple expressions are computed here, some rows at a time; others are columns that Spark computes first.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from latecomer.config.names import PRIVATE
from latecomer.log.private_columns import LOGGED
from latecomer.model.expressions import Expression
from latecomer.model.predicates import with_names_quoted
from latecomer.schemas.migrations import Checks, Migration, checks_of
from latecomer.spark.base import in_turn_together
from latecomer.spark.errors import explained
from latecomer.spark.session import build_session, own_session
from latecomer.spark.value_or_null import VALUE, value_or_null
from latecomer.store.coverage import covered_since
from latecomer.store.delta.data_files import DataFile
from latecomer.store.files import log_file
from latecomer.store.sql import ddl, quoted
from latecomer.store.store import Store
from latecomer.windowing.private_columns import BATCH

LOG = logging.getLogger(__name__)
_AT_ONCE = 1 << 15
ROWS_AT_ONCE = 1_000_000
"""Files of about so many rows are read at once: the driver's memory does not grow with the log."""
_BY_SPARK = f"{PRIVATE}made_"
"""The prefix of the columns that Spark computes; the number of the expression follows."""
_ARRIVAL = "arrival_time"
_ENVELOPE = (_ARRIVAL, "producer", "schema_id", "event_id", "batch", "origin", "position")
"""The columns of the log that a comparison needs besides the two shapes."""


@dataclass(frozen=True)
class Example:
    """An event whose shapes disagree."""

    kind: str
    producer: str | None
    schema_id: int | None
    event_id: str | None
    arrival_time: int
    batch: int
    origin: str
    position: int
    values: Mapping[str, Any]
    """The values of the event."""
    expected: Mapping[str, Any]
    """What the expressions compute from the event."""

    @property
    def place(self) -> tuple[int, int, str, int]:
        return self.arrival_time, self.batch, self.origin, self.position


@dataclass
class ProducerTally:
    """The events of one producer with one schema."""

    events: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    first: int | None = None
    """When the first event that drifts arrived."""
    last: int | None = None
    """When the last event that drifts arrived."""

    @property
    def drifted(self) -> int:
        return sum(self.kinds.values())

    def add(self, kind: str | None, events: int, first: int, last: int) -> None:
        self.events += events
        if kind is not None:
            self.kinds[kind] += events
            self.first = first if self.first is None else min(self.first, first)
            self.last = last if self.last is None else max(self.last, last)


Whose = tuple[str | None, int | None]


@dataclass
class Drift:
    """How far the two shapes differ in the log."""

    since: int | None
    """Only events that arrived from this moment on; None for all."""
    by: dict[Whose, ProducerTally] = field(default_factory=dict)
    """Producer and schema id → its events."""
    examples: list[Example] = field(default_factory=list)
    complete_since: int | None = None
    """Retention has removed events before this event time; None where it has removed none."""

    @property
    def events(self) -> int:
        return sum(each.events for each in self.by.values())

    @property
    def drifted(self) -> int:
        return sum(each.drifted for each in self.by.values())

    @property
    def share(self) -> float:
        return self.drifted / self.events if self.events else 0.0

    @property
    def first(self) -> int | None:
        """When the first event that drifts arrived."""
        return min((each.first for each in self.by.values() if each.first is not None), default=None)


def measure_drift(
    store: Store, migration: Migration, since: int | None = None, examples: int = 5, *, on_spark: bool = False
) -> Drift:
    """Compare every event of the log that arrived from a moment on with the migration's expressions.

    Spark is started where only it can compute one of them, or with `on_spark`.
    """
    checks = checks_of(migration, store.layout.types)
    drift = Drift(since, complete_since=covered_since(store))
    if not store.events.files():
        return drift
    if on_spark or checks.needs_spark:
        LOG.info("computing %s on Spark", ", ".join(checks.needs_spark) or "drift")
        names = list(checks.sql) if on_spark else checks.needs_spark
        rows, checks = computed_by_spark(store, checks, names)
    else:
        rows = _logged(store, checks)
    for part in _parts(store, checks, rows, since):
        _count(part, checks, drift, examples)
    return drift


_Part = tuple[Mapping[str, list[Any]], Mapping[str, list[Any]]]
"""Some rows of the log, column by column: their envelope, and the columns of the two shapes under the source's own
names. A dictionary for each row takes three times as long."""


def _logged(store: Store, checks: Checks) -> Iterator[pa.RecordBatch]:
    """The columns of the log that are needed, some rows at a time."""
    layout = store.layout
    names = dict.fromkeys([*_ENVELOPE, *(layout.view[column] for column in checks.columns)])
    return store.events.parts(pa.schema([layout.schema.field(name) for name in names]), _AT_ONCE)


def _parts(
    store: Store, checks: Checks, rows: Iterator[pa.RecordBatch], since: int | None
) -> Iterator[_Part]:
    table, view = store.events, store.layout.view
    last, total, done = table.last_batch(), sum(file.rows for file in table.files()), 0
    for part in rows:
        LOG.info("comparing events, %s of %s", f"{done:,}", f"{total:,}")
        done += part.num_rows
        wanted = pc.less_equal(part.column("batch"), last)
        if since is not None:
            arrived = part.column(_ARRIVAL).cast(pa.int64())
            wanted = pc.and_(wanted, pc.greater_equal(arrived, since))
        chosen = part.filter(wanted)
        envelope = {name: chosen.column(name) for name in _ENVELOPE}
        envelope[_ARRIVAL] = envelope[_ARRIVAL].cast(pa.int64())
        columns = {column: chosen.column(view[column]) for column in checks.columns}
        more = {name: chosen.column(name) for name in chosen.schema.names if name.startswith(_BY_SPARK)}
        yield (
            {name: column.to_pylist() for name, column in envelope.items()},
            {name: column.to_pylist() for name, column in {**columns, **more}.items()},
        )


def _count(part: _Part, checks: Checks, drift: Drift, examples: int) -> None:
    drifting, whole = [], Counter[Whose]()
    envelope, columns = part
    whose = zip(envelope["producer"], envelope["schema_id"], strict=True)
    arrivals, rows = envelope[_ARRIVAL], zip(*columns.values(), strict=True)
    for number, (who, values) in enumerate(zip(whose, rows, strict=True)):
        row = dict(zip(columns, values, strict=True))
        kind = checks.drift(row)
        if kind is None:
            whole[who] += 1
            continue
        drift.by.setdefault(who, ProducerTally()).add(kind, 1, arrivals[number], arrivals[number])
        drifting.append((number, kind, row))
    for who, count in whole.items():
        drift.by.setdefault(who, ProducerTally()).add(None, count, 0, 0)
    if drifting and examples:
        shown = [
            Example(
                kind,
                **{name: values[number] for name, values in envelope.items()},
                values={column: row[column] for column in checks.columns},
                expected={column: each.of(row) for column, each in checks.expressions.items()},
            )
            for number, kind, row in drifting
        ]
        drift.examples = sorted([*drift.examples, *shown], key=lambda each: each.place)[:examples]


@explained("comparing the two shapes")
def computed_by_spark(
    store: Store, checks: Checks, names: Sequence[str]
) -> tuple[Iterator[pa.RecordBatch], Checks]:
    """The columns of the log that are needed, with the expressions of these columns; and the checks that look for the
    expressions there."""
    spark = own_session(build_session(store.pipeline.name, log_file(store.root, "spark.log")))
    made = {name: f"{_BY_SPARK}{number}" for number, name in enumerate(names)}
    given = {name: Expression(checks.expressions[name].kind, itemgetter(made[name])) for name in names}
    groups = in_turn_together(store.events.files(), lambda file: file.rows, ROWS_AT_ONCE)
    batches = (
        batch for files in groups for batch in _computed(store, spark, checks, made, files).to_batches()
    )
    return batches, replace(checks, expressions={**checks.expressions, **given})


@explained("comparing the two shapes")
def _computed(
    store: Store, spark: SparkSession, checks: Checks, made: Mapping[str, str], files: Sequence[DataFile]
) -> pa.Table:
    """The rows of some files of the log; `made` maps a column to that of its expression."""
    table, layout = store.events, store.layout
    kept = list(dict.fromkeys([*_ENVELOPE, *(layout.view[column] for column in checks.columns)]))
    log = spark.read.schema(ddl(layout.stored)).parquet(*table.paths(files))
    rows = log.selectExpr(
        *(f"{quoted(name)} as {quoted(LOGGED + name)}" for name in kept),
        *(f"{quoted(stored)} as {quoted(column)}" for column, stored in layout.view.items()),
        f"batch as {BATCH}",
    )
    computed = {
        column: value_or_null(
            spark, with_names_quoted(checks.sql[name]), checks.expressions[name].kind, BATCH
        ).getField(VALUE)
        for name, column in made.items()
    }
    logged = (f"{quoted(LOGGED + name)} as {quoted(name)}" for name in kept)
    return rows.withColumns(computed).selectExpr(*logged, *made.values()).toArrow()
