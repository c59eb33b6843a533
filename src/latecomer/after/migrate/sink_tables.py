"""The tables of a pipeline's sinks in each phase of a migration: a view with both shapes, then without old columns.

Only tables of side output have columns of events. An output's own table has keys and aggregates; a key of another shape
needs an output of another name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from latecomer.config.sinks import DeltaSink, ListedSink, PostgresSink, SqliteSink, Stream
from latecomer.errors import LatecomerError
from latecomer.schemas.migrations import Migration, MigrationState, Phase, checks_of
from latecomer.schemas.migrations.portable import Column, Dialect, NotPortable, portable
from latecomer.sink import target_of
from latecomer.sink.both_shapes import VIEW, BothShapes, TableSteps, view_columns
from latecomer.sink.both_shapes_tables import migrated_table
from latecomer.sink.published import Feed, feed_of
from latecomer.store.layout import PaneLayout
from latecomer.store.sql import double_quoted, listed, quoted
from latecomer.store.store import Store

_DIALECTS = {
    PostgresSink.kind: Dialect.POSTGRES,
    SqliteSink.kind: Dialect.SQLITE,
    DeltaSink.kind: Dialect.DELTA,
}


@dataclass(frozen=True)
class SinkTable:
    """A table of a sink, and what the phase requires of it."""

    field: str
    """The place of the sink in the pipeline file."""
    kind: str
    target: str
    table: str
    steps: TableSteps
    view: str
    """The statement that makes the view, for whoever makes it by hand."""


def sink_tables(
    store: Store, migration: Migration, state: MigrationState, *, apply: bool
) -> Iterator[SinkTable]:
    """Every table that has the columns of the migration; `apply` changes it to what the phase requires."""
    if state.phase is None:
        raise LatecomerError(f"{migration.migration} has not begun, so tables stay as they are")
    checks_of(migration, store.layout.types)
    for each in store.pipeline.listed_sinks():
        if each.stream is Stream.LATE and each.sink.kind in _DIALECTS:
            yield _brought(store, migration, each, state.phase is Phase.CONTRACT, apply)


def _brought(
    store: Store, migration: Migration, each: ListedSink, contracted: bool, apply: bool
) -> SinkTable:
    feed, dialect = feed_of(store, each), _DIALECTS[each.sink.kind]
    shapes = _shapes(store, migration, each, dialect, double_quoted)
    with closing(migrated_table(each.sink, store.pipeline, feed.shape, shapes, contracted)) as table:
        steps = table.bring(lambda names: _stored(feed, names)) if apply else table.look()
    name = getattr(each.sink, "table", None) or feed.shape.name
    target = target_of(each.sink, store.pipeline)
    return SinkTable(
        each.field, each.sink.kind, target, name, steps, _view_of(store, migration, each, name, steps)
    )


def _shapes(
    store: Store, migration: Migration, each: ListedSink, dialect: Dialect, quote: Callable[[str], str]
) -> BothShapes:
    names = PaneLayout(store.pipeline.outputs[str(each.output)], store.layout).late_columns
    kinds = store.layout.types
    columns = {name: Column(quote(names[name]), kinds[name]) for name in (*migration.old, *migration.new)}

    def written(name: str, sql: str) -> str:
        try:
            return portable(sql, columns, dialect)
        except NotPortable as error:
            raise LatecomerError(
                f"{each.field}: the expression of {name} holds {error}, which may mean something else in {dialect}; "
                "make the view by hand, and leave the old column in the table"
            ) from None

    forward = migration.forward
    return BothShapes(
        {names[name]: written(name, sql) for name, sql in migration.backward.items()},
        {names[name]: written(name, forward[name]) if name in forward else None for name in migration.new},
        quote,
    )


def _stored(feed: Feed, names: list[str]) -> pa.Table:
    """The rows that the store still has."""
    shape = feed.shape
    wanted = [*shape.place, *names]
    schema = pa.schema([shape.schema.field(name) for name in wanted])
    return feed.table.query_as(schema, f"select {listed(wanted)} from t")


def _view_of(store: Store, migration: Migration, each: ListedSink, table: str, steps: TableSteps) -> str:
    sink = each.sink
    if isinstance(sink, DeltaSink):
        shapes = _shapes(store, migration, each, Dialect.DELTA, quoted)
        place = quoted(str(store.pipeline.place(sink.path)))
        columns = view_columns(
            steps.columns, dict.fromkeys(feed_of(store, each).shape.schema.names, ""), shapes
        )
        return f"CREATE OR REPLACE VIEW {quoted(table + VIEW)} AS SELECT {columns} FROM delta.{place}"
    schema = f"{double_quoted(sink.schema_name)}." if isinstance(sink, PostgresSink) else ""
    names = [f"{schema}{double_quoted(name)}" for name in (table + VIEW, table)]
    replace = "CREATE OR REPLACE VIEW" if isinstance(sink, PostgresSink) else "CREATE VIEW"
    return f"{replace} {names[0]} AS SELECT {steps.view} FROM {names[1]}"
