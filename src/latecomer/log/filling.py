"""Columns that a source declares later, filled for past events from the fields that were kept. Likewise fields that the
objects of a list or a map get later: such a list was kept whole.

The files of the log that hold such a field are written again, with the column in its place, and committed instead of
those that were there. The columns are pinned after that: whatever stops it, the next run does the rest. What was kept
stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.merged import SOURCE
from latecomer.config.models import Pipeline
from latecomer.decode import lines
from latecomer.decode.base import PERMISSIVE
from latecomer.decode.columns import CORRUPT, RECORD
from latecomer.decode.decimals import decimals_as_text, numbers
from latecomer.decode.json import JsonRecords
from latecomer.errors import StoreError
from latecomer.log.columns import WHOLE_EVENT
from latecomer.log.envelope import payload_value
from latecomer.log.events import WITHOUT_DICTIONARY
from latecomer.model.types import new_fields
from latecomer.spark.session import own_session
from latecomer.store.files import footer, parquet_files, remove_all, url
from latecomer.store.pins import read_pins
from latecomer.store.sql import ddl, quoted
from latecomer.store.store import Store
from latecomer.store.table import DataFile, Table, batch_of, batches_of, new_token

LOG = logging.getLogger(__name__)
GROUP_BYTES = 256 << 20
"""How much of the log is written again in one step."""
_TEXTS, _PARSED = f"{PRIVATE}kept_texts", f"{PRIVATE}kept_values"
_IS_FILLED, _IS_UNREAD = f"{PRIVATE}is_filled", f"{PRIVATE}is_unread"
_ROWS, _FILLED, _UNREAD = "rows", "filled", "unread"
_CSV = {**PERMISSIVE, "sep": ",", "escape": '"'}


@dataclass(frozen=True)
class Filled:
    """What past events got of columns that are new."""

    columns: tuple[str, ...] = ()
    events: int = 0
    """Those that have one of the columns now."""
    unread: int = 0
    """Those of which a kept value is not of its column's type: it is null there."""


NOTHING_FILLED = Filled()


def new_columns(store: Store) -> dict[str, dict[str, str]]:
    """The columns that each source has declared since it was run last, and the lists and maps in which objects have got
    fields since."""
    found = {}
    for name, before in _columns_before(store).items():
        now = store.columns.read_from(name)
        new = {
            column: kind
            for column, kind in now.items()
            if column not in before or new_fields(column, before[column], kind)
        }
        if before and new:
            found[name] = new
    return found


def _columns_before(store: Store) -> dict[str, Mapping[str, str]]:
    """The columns that each source had when it was run last."""
    pinned = read_pins(store.root)
    if pinned is None:
        return {}
    of_sources = pinned.get("sources", {})
    return {name: of_sources.get(name, {}) if name else pinned["columns"] for name in store.pipeline.views}


def fill(spark: SparkSession, store: Store) -> Filled:
    """Fill the new columns of past events, as far as they were kept."""
    new = new_columns(store)
    if not new or store.replay_of is not None:
        return NOTHING_FILLED
    before = _columns_before(store)
    names = sorted(
        {
            field
            for name, columns in new.items()
            for column, kind in columns.items()
            for field in (
                new_fields(column, before[name][column], kind) if column in before[name] else [column]
            )
        }
    )
    session = own_session(spark)
    for name, value in lines.SETTINGS.items():
        session.conf.set(name, value)
    events = unread = 0
    for table in (store.events, store.duplicates):
        if not table.exists or store.layout.unknown_fields not in table.columns:
            continue
        table.widen()  # which may write its files again
        files = [file for file in table.files() if _mentions(store, table, file, new)]
        if files:
            LOG.info("filling %s in %d files of %s", ", ".join(names), len(files), table.root.name)
        for group in _groups(files):
            counted = _written_again(session, store, table, group, new)
            if table is store.events:
                events, unread = events + counted[_FILLED], unread + counted[_UNREAD]
    if unread:
        LOG.warning(
            "%d past events have a kept value that is not of the type of its column (%s): it is null there, and is "
            "still kept as text in %s",
            unread,
            ", ".join(names),
            store.layout.unknown_fields,
        )
    return Filled(tuple(names), events, unread)


def _mentions(store: Store, table: Table, file: DataFile, new: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether a file may hold a kept field that is a column now. A name may be written with escapes."""
    views = store.pipeline.views
    paths = [views[name].source_name(column) for name, each in new.items() for column in each]
    names = {part for path in paths for part in (path, path.partition(".")[0])}
    column = store.layout.unknown_fields
    with table.explained():
        if column not in footer(table.location(file)).schema.to_arrow_schema().names:
            return False
        kept = table.dataset([file], pa.schema([(column, pa.string())])).to_table()[column].drop_null()
    return any(
        pc.any(pc.match_substring(kept, text)).as_py() for text in (*(f'"{name}"' for name in names), "\\")
    )


def _groups(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Files to write again together, those of one lane, in the order of their batches."""
    lanes: dict[str, list[DataFile]] = {}
    for file in sorted(files, key=batch_of):
        lanes.setdefault(file.path.split("/")[2], []).append(file)
    for lane in lanes.values():
        group: list[DataFile] = []
        for file in lane:
            if group and sum(each.size for each in group) + file.size > GROUP_BYTES:
                yield group
                group = []
            group.append(file)
        yield group


def _written_again(
    spark: SparkSession,
    store: Store,
    table: Table,
    files: Sequence[DataFile],
    new: Mapping[str, Mapping[str, str]],
) -> dict[str, int]:
    stored, count = store.layout.stored, Observation()
    rows = spark.read.schema(ddl(stored)).parquet(*table.paths(files))
    unread, filled = F.lit(False), F.lit(False)
    for name, columns in new.items():
        rows, found, missed = _filled(rows, store, name, columns)
        filled, unread = filled | found, unread | missed
    marked = rows.withColumns({_IS_FILLED: filled, _IS_UNREAD: unread})
    counted = marked.observe(
        count,
        F.count(F.lit(1)).alias(_ROWS),
        F.count_if(_IS_FILLED).alias(_FILLED),
        F.count_if(_IS_UNREAD).alias(_UNREAD),
    )
    folder = table.merged_folder(min(batches_of(file)[0] for file in files), batch_of(files[-1]), new_token())
    counted.select(*map(quoted, stored)).write.options(**WITHOUT_DICTIONARY).parquet(url(folder))
    numbers_of = {name: int(number) for name, number in count.get.items()}
    expected = sum(file.rows for file in files)
    if numbers_of[_ROWS] != expected:
        remove_all(folder)
        raise StoreError(
            f"table {table.root}: {expected} rows were to be written again and {numbers_of[_ROWS]} were; nothing was "
            "changed, and this is a fault of latecomer's"
        )
    table.rearrange(parquet_files(folder), files)
    return numbers_of


def _filled(
    rows: DataFrame, store: Store, source: str, columns: Mapping[str, str]
) -> tuple[DataFrame, Column, Column]:
    """Rows with some columns of a source in their places; whether a row has got one, and whether one was not read."""
    layout, view = store.layout, store.pipeline.views[source]
    named = {view.source_name(column): kind for column, kind in columns.items()}
    kept = F.col(quoted(layout.unknown_fields))
    if source:
        kept = F.when(F.col(quoted(layout.view[SOURCE])) == source, kept)
    marks = [name for name in rows.columns if name not in layout.stored]
    packed = rows.select(
        F.struct(*map(quoted, layout.stored)).alias(WHOLE_EVENT),
        F.coalesce(kept, F.lit("{}")).cast("binary").alias(RECORD),
        *marks,
    )
    decoded, missed = _decoded(packed, view, named)
    values = {
        layout.view[column]: payload_value(view.source_name(column), kind, layout.types[column])
        for column, kind in columns.items()
    }
    places = {stored: F.col(f"{WHOLE_EVENT}.{quoted(stored)}") for stored in layout.stored}
    had = {layout.view[column] for column in columns if column in _columns_before(store)[source]}
    got, lost = f"{PRIVATE}got_{source}", f"{PRIVATE}lost_{source}"
    any_of_them = []
    for stored, value in values.items():
        if stored in had:  # a list that was kept whole, with all fields of its objects
            value = F.when(~missed, value)
            any_of_them.append(value.isNotNull())
            places[stored] = F.coalesce(value, places[stored])
        else:
            places[stored] = F.coalesce(places[stored], value)
            any_of_them.append(places[stored].isNotNull())
    found = decoded.select(
        *(place.alias(stored) for stored, place in places.items()),
        *marks,
        missed.alias(lost),
        reduce(or_, any_of_them).alias(got),
    )
    return found, F.col(got), F.col(lost)


def _decoded(rows: DataFrame, view: Pipeline, named: Mapping[str, str]) -> tuple[DataFrame, Column]:
    """The columns of what was kept, by the rules of the source's own text; and whether a row has one that does not
    follow them."""
    if view.source.files is None or view.format != "csv":
        return JsonRecords().decoded(rows, named), F.col(CORRUPT).isNotNull()
    texts = JsonRecords().decoded(rows, dict.fromkeys(named, "string"))
    others = [name for name in texts.columns if name not in named]
    texts = texts.select(F.struct(*map(quoted, named)).alias(_TEXTS), *others)
    written = F.to_csv(_TEXTS, {"sep": ",", "escape": '"', "quoteAll": "true"})
    parsed = texts.withColumn(
        _PARSED, F.from_csv(written, ddl({**decimals_as_text(named), CORRUPT: "string"}), _CSV)
    )
    values = {name: f"{_PARSED}.{quoted(name)}" for name in named} | numbers(named, f"{_PARSED}.")
    found = parsed.select(
        *(
            F.when(F.col(f"{_TEXTS}.{quoted(name)}").isNotNull(), F.expr(sql)).alias(name)
            for name, sql in values.items()
        ),
        *others,
        _TEXTS,
    )
    missed = F.lit(False)
    for name in named:
        missed |= F.col(f"{_TEXTS}.{quoted(name)}").isNotNull() & F.col(quoted(name)).isNull()
    return found, missed
