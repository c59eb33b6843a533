"""Tables that follow their columns: new ones, wider types; and what cannot be followed."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from latecomer.config.sinks import PostgresSink
from latecomer.errors import SinkError
from latecomer.sink import RowShape, open_sink
from latecomer.sink.keeper import SinkKeeper, check_sinks
from postgres_kit import Postgres
from sink.feeding_kit import COLUMNS, Fed
from sink.row_kit import found_in, of_reader, sinks_in, wanted_in
from sink.sink_kit import (
    OPENED,
    TARGET,
    Place,
    apply,
    insert,
    opened,
    rows_of_postgres,
    rows_of_sqlite,
    schema_at,
    shape_of,
)

KEY = {"till": pa.int32()}
NARROW = shape_of(KEY, {"paise": pa.decimal128(12, 0), "least": pa.int32()})
WIDER = shape_of({"till": pa.int64()}, {"paise": pa.decimal128(30, 0), "least": pa.int64()})
MORE = shape_of(KEY, {"paise": pa.decimal128(12, 0), "least": pa.int32(), "most": pa.int64()})


def rows_by_window(place: Place) -> list[dict[str, Any]]:
    return sorted(place.rows(place.path), key=lambda row: row["window_start"])


def test_a_new_value_is_null_in_the_rows_that_were_there(place: Place) -> None:
    apply(opened(place.kind, place.path, NARROW), 0, insert(0, 1, 0, Decimal(5), 2, shape=NARROW))
    after = opened(place.kind, place.path, MORE)
    assert after.last_batch() == 0
    apply(after, 1, insert(1, 1, 0, Decimal(7), 3, 2**40, shape=MORE))
    apply(
        after, 2, insert(0, 1, 1, Decimal(6), 2, 9, shape=MORE), insert(2, 1, 0, None, None, None, shape=MORE)
    )
    assert [(row["batch"], row["most"]) for row in rows_by_window(place)] == [(2, 9), (1, 2**40), (2, None)]


def test_a_wider_type_holds_what_was_there_and_more(place: Place) -> None:
    apply(opened(place.kind, place.path, NARROW), 0, insert(0, 1, 0, Decimal(5), 2, shape=NARROW))
    after = opened(place.kind, place.path, WIDER)
    assert after.last_batch() == 0
    large = Decimal(10**29)
    apply(after, 1, insert(1, 2**40, 0, large, 2**40, shape=WIDER), insert(0, 1, 1, large, 1, shape=WIDER))
    rows = rows_by_window(place)
    assert [(row["till"], Decimal(row["paise"]), row["least"]) for row in rows] == [
        (1, large, 1),
        (2**40, large, 2**40),
    ]
    assert opened(place.kind, place.path, WIDER).last_batch() == 1


def test_tables_of_others_may_have_any_name_beside_one_that_becomes_wider(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    apply(opened("sqlite", path, NARROW), 0, insert(0, 1, 0, Decimal(5), 2, shape=NARROW))
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE Minute_Totals_Wider (mine INTEGER)")
        database.execute("CREATE INDEX minute_totals_wider_0 ON Minute_Totals_Wider (mine)")
        database.execute("INSERT INTO Minute_Totals_Wider VALUES (7)")
        database.commit()
    opened("sqlite", path, WIDER)
    assert [row["paise"] for row in rows_of_sqlite(path)] == [5]
    assert rows_of_sqlite(path, "minute_totals_wider") == [{"mine": 7}]


def test_what_cannot_be_followed_is_refused_and_nothing_is_changed(place: Place) -> None:
    apply(opened(place.kind, place.path, MORE), 0, insert(0, 1, 0, Decimal(5), 2, 3, shape=MORE))
    before = place.rows(place.path)
    by_two = shape_of({**KEY, "clerk": pa.string()}, {"paise": pa.decimal128(12, 0)})
    for shape, outcome in (
        (by_two, "without clerk"),  # it would be null in a row that it tells from others
        (NARROW, "with most"),
        (shape_of(KEY, {"paise": pa.string(), "least": pa.int32(), "most": pa.int64()}), "paise"),
        (shape_of(KEY, {"paise": pa.decimal128(12, 2), "least": pa.int32(), "most": pa.int64()}), "paise"),
        (shape_of({"till": pa.int16()}, {"paise": pa.decimal128(9, 0)}), "with least"),
    ):
        with pytest.raises(SinkError, match=outcome) as caught:
            opened(place.kind, place.path, shape)
        assert "has other columns (" in str(caught.value)
        assert " another " in str(caught.value)
    assert place.rows(place.path) == before


@pytest.mark.parametrize("kind", ["delta", "iceberg", "sqlite", "duckdb"])
def test_a_table_of_somebody_else_does_not_follow(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "there"
    opened(kind, path, NARROW)
    with pytest.raises(SinkError, match="belongs to output minute_totals of pipeline upi"):
        opened(kind, path, MORE, pipeline="cards")


# The side output of a pipeline whose source gets a column


def test_the_side_output_has_columns_that_are_declared_later(tmp_path: Path) -> None:
    late_to = sinks_in(tmp_path, "late")
    fed = Fed(tmp_path, late_to=late_to)
    fed.set_aside(0, late=2)
    brought_up(fed, 0)
    wider = Fed(tmp_path, late_to=late_to, columns=COLUMNS.replace("}", ", tip: int, city: string}"))
    check_sinks(wider.store)
    check_sinks(wider.store)
    wider.set_aside(1, late=1, tip=3, city="Pune")
    brought_up(wider, 1)
    rows = of_reader(wider.pipeline, "late")
    assert [row["tip"] for row in rows.to_pylist()] == [None] * 4 + [3, 3]
    for kind in ("sqlite", "duckdb", "iceberg", "delta"):
        assert _sorted(found_in(tmp_path, "late", kind)) == _sorted(wanted_in(rows, kind)), kind
    for kind in ("jsonl", "parquet"):  # files that are there stay as they are
        found = found_in(tmp_path, "late", kind)
        assert [row.get("tip", "no such column") for row in found] == ["no such column"] * 4 + [3, 3]
    owner = json.loads((tmp_path / "late_lines" / ".latecomer.json").read_text("utf-8"))
    assert owner["columns"]["tip"] == "int32"
    # A wider type, after that.
    widest = Fed(tmp_path, late_to=late_to, columns=COLUMNS.replace("}", ", tip: bigint, city: string}"))
    widest.set_aside(2, late=1, tip=2**40, city="Pune")
    brought_up(widest, 2)
    rows = of_reader(widest.pipeline, "late")
    for kind in ("sqlite", "duckdb", "iceberg", "delta"):
        assert _sorted(found_in(tmp_path, "late", kind)) == _sorted(wanted_in(rows, kind)), kind
    last = sorted((tmp_path / "late_files").glob("*.parquet"))[-1]
    assert pq.read_schema(last).field("tip").type == pa.int64()
    # And back to the first file: nobody writes the columns any more, and nothing is lost.
    fed = Fed(tmp_path, late_to=late_to)
    check_sinks(fed.store)


def brought_up(fed: Fed, complete: int) -> None:
    keeper = SinkKeeper(fed.store)
    keeper.start(complete)
    keeper.finish()
    keeper.close()


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by = ("batch", "origin", "position", "window_start")
    return [dict(sorted(row.items())) for row in sorted(rows, key=lambda row: [row[name] for name in by])]


# Postgres


ROWS = {"batch": pa.int64(), "origin": pa.string(), "fare_cents": pa.int32()}


def row_sink(path: Path, columns: dict[str, pa.DataType]) -> Any:
    shape = RowShape("rides_late", "rides.late", ("batch", "origin"), pa.schema(list(columns.items())))
    sink = PostgresSink(target=os.environ[TARGET], schema=schema_at(path))
    OPENED.append(open_sink(sink, path, "rides", shape))
    return OPENED[-1]


def given(sink: Any, batch: int, **values: Any) -> None:
    row = {"batch": batch, "origin": "in/a.json", **values}
    sink.apply(batch, pa.Table.from_pylist([row], sink.whole_shape.schema))


@pytest.mark.usefixtures("target")
def test_rows_in_postgres_follow_and_keep_what_nobody_wants(tmp_path: Path, postgres: Postgres) -> None:
    path = tmp_path / "r"
    given(row_sink(path, ROWS), 0, fare_cents=5)
    more = {**ROWS, "pricing.base": pa.int64(), "fare_cents": pa.int64()}
    given(row_sink(path, more), 1, fare_cents=2**40, **{"pricing.base": 4})
    given(row_sink(path, ROWS | {"fare_cents": pa.int64()}), 2, fare_cents=7)
    rows = sorted(rows_of_postgres(path, "rides_late"), key=lambda row: row["batch"])
    assert [(row["fare_cents"], row["pricing.base"]) for row in rows] == [(5, None), (2**40, 4), (7, None)]
    # A column of somebody else's that may not be null would stop every batch.
    table = f'"{schema_at(path)}".rides_late'
    postgres.ask(f"alter table {table} add column who text not null default 1")
    row_sink(path, more)
    postgres.ask(f"alter table {table} alter column who drop default")
    with pytest.raises(
        SinkError, match="a column who of somebody else's that may not be null; drop NOT NULL"
    ):
        row_sink(path, more)


@pytest.mark.usefixtures("target")
def test_a_user_who_may_not_change_the_table_is_told_what_to_run(tmp_path: Path, postgres: Postgres) -> None:
    path = tmp_path / "r"
    schema = schema_at(path)
    given(row_sink(path, ROWS), 0, fare_cents=5)
    postgres.ask("create role follower login password 'follows'")
    postgres.ask(f'grant usage on schema "{schema}" to follower')
    postgres.ask(f'grant select, insert, update, delete on all tables in schema "{schema}" to follower')
    secret = postgres.url_with_password
    target = secret.replace(secret.split("//")[1].split("@")[0], "follower:follows")
    more = {**ROWS, "tip": pa.int64()}
    shape = RowShape("rides_late", "rides.late", ("batch", "origin"), pa.schema(list(more.items())))
    with pytest.raises(SinkError, match="may not change it; have its owner run: ALTER TABLE") as caught:
        open_sink(PostgresSink(target=target, schema=schema), path, "rides", shape)
    statement = str(caught.value).split("run: ")[1].split(". Nothing")[0]
    postgres.ask(statement)
    open_sink(PostgresSink(target=target, schema=schema), path, "rides", shape).close()
    postgres.ask("drop owned by follower")
    postgres.ask("drop role follower")


@pytest.mark.usefixtures("target")
def test_views_of_ours_are_no_obstacle_and_others_are_named(tmp_path: Path, postgres: Postgres) -> None:
    path = tmp_path / "r"
    table = f'"{schema_at(path)}".minute_totals'
    apply(opened("postgres", path, NARROW), 0, insert(0, 1, 0, Decimal(5), 2, shape=NARROW))
    view = f'"{schema_at(path)}".minute_totals_serving'
    postgres.ask(f"create view {view} as select window_start, least from {table}")
    postgres.ask(f"comment on view {view} is 'latecomer 1'")
    postgres.ask(f"grant select on {view} to public")
    opened("postgres", path, WIDER)
    (row,) = postgres.ask(f"select pg_typeof(least)::text as kind from {view}")
    assert row["kind"] == "bigint"
    (row,) = postgres.ask(
        "select relacl::text as acl, obj_description(oid) as said from pg_class where oid = %s::regclass",
        view,
    )
    assert "=r/" in row["acl"]
    assert row["said"] == "latecomer 1"
    mine = f'"{schema_at(path)}".mine'
    postgres.ask(f"create view {mine} as select paise from {table}")
    widest = shape_of({"till": pa.int64()}, {"paise": pa.decimal128(38, 0), "least": pa.int64()})
    with pytest.raises(SinkError, match=r"the type of paise cannot be widened .* drop the view that uses it"):
        opened("postgres", path, widest)
    postgres.ask(f"drop view {mine}")
    opened("postgres", path, widest)
