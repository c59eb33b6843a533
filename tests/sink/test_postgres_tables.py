"""The Postgres sink and tables that are there: made by hand, another's, dropped, or with limits of the user's own."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from latecomer.config.sinks import PostgresSink
from latecomer.errors import SinkError, SinkOutage
from latecomer.sink.postgres import PostgresLogic
from postgres_kit import PASSWORD, Postgres
from sink.postgres_sink_kit import NUMBERS, refused_opening, shown
from sink.sink_kit import SHAPE, apply, insert, opened, retract, rows_of_postgres, schema_at


def test_a_table_with_other_columns_is_refused(path: Path, postgres: Postgres) -> None:
    postgres.ask(f'create schema "{schema_at(path)}"')
    postgres.ask(
        f'create table "{schema_at(path)}".minute_totals (window_start timestamp, paise real, extra text)'
    )
    assert refused_opening(path) == (
        f"postgres sink {shown(postgres)}: the table {schema_at(path)}.minute_totals has other columns (without "
        "window_end, without merchant, without payments, without sequence, without timing, without batch, without "
        "fired_at, without _lc_place, with extra, window_start timestamp without time zone instead of timestamp with "
        "time zone, paise real instead of numeric(28,0)); drop or rename it, or give the sink another table. Nothing "
        "is lost: the next run catches this sink up."
    )
    (row,) = postgres.ask("select count(*) from pg_tables where schemaname = %s", schema_at(path))
    assert row["count"] == 1


MADE_BY_HAND = """
create table "{schema}".minute_totals (
  _lc_place uuid not null, timing text, fired_at timestamptz, batch bigint, sequence integer, payments bigint,
  paise numeric(28,0), merchant text, window_end timestamptz, window_start timestamptz not null
) {more}
"""


@pytest.mark.parametrize("more", ["", "partition by range (window_start)"])
def test_a_table_made_by_hand_is_taken(path: Path, postgres: Postgres, more: str) -> None:
    schema = schema_at(path)
    postgres.ask(f'create schema "{schema}"')
    postgres.ask(MADE_BY_HAND.format(schema=schema, more=more))
    if more:
        postgres.ask(f'create table "{schema}".rest partition of "{schema}".minute_totals default')
    sink = opened("postgres", path)
    apply(sink, 0, insert(0, "chai", 0), insert(1, "chai", 0))
    apply(sink, 1, insert(0, "chai", 1), retract(1, "chai", 0))
    assert [row["sequence"] for row in rows_of_postgres(path)] == [1]


def test_a_view_is_refused(path: Path, postgres: Postgres) -> None:
    postgres.ask(f'create schema "{schema_at(path)}"')
    postgres.ask(f'create view "{schema_at(path)}".minute_totals as select 1')
    assert f"{schema_at(path)}.minute_totals is no table; give the sink another table" in refused_opening(
        path
    )


def test_the_table_of_another_pipeline_is_refused(path: Path, postgres: Postgres) -> None:
    sink = opened("postgres", path)
    apply(sink, 0, insert(0, "chai", 0))
    assert refused_opening(path, pipeline="cards") == (
        f"postgres sink {shown(postgres)}: the table {schema_at(path)}.minute_totals belongs to output minute_totals "
        "of pipeline upi; give the sink another table. Nothing is lost: the next run catches this sink up."
    )
    # Also one that was given away while the sink was at work.
    postgres.ask(f"update \"{schema_at(path)}\".latecomer_progress set pipeline = 'cards'")
    with pytest.raises(SinkError, match="belongs to output minute_totals of pipeline cards"):
        apply(sink, 1, insert(0, "chai", 1))
    assert [row["sequence"] for row in rows_of_postgres(path)] == [0]


def test_one_output_may_feed_two_tables(path: Path) -> None:
    one, other = opened("postgres", path, table="one"), opened("postgres", path, table="other")
    apply(one, 0, insert(0, "chai", 0))
    assert other.last_batch() == -1
    apply(other, 0, insert(0, "chai", 0))
    assert rows_of_postgres(path, "one") == rows_of_postgres(path, "other") != []


def test_a_dropped_table_is_filled_from_the_start(path: Path, postgres: Postgres) -> None:
    sink = opened("postgres", path)
    apply(sink, 12, insert(0, "chai", 0))
    postgres.ask(f'drop table "{schema_at(path)}".minute_totals')
    with pytest.raises(SinkOutage, match="the table is gone"):
        apply(sink, 13, insert(0, "chai", 0))
    sink.close()
    sink.open()
    assert sink.last_batch() == -1


def test_looking_makes_nothing(path: Path, postgres: Postgres) -> None:
    sink = PostgresSink(target=postgres.url_with_password, schema=schema_at(path))
    assert PostgresLogic(sink, path, "upi", SHAPE).peek() == -1
    assert postgres.ask("select 1 from pg_namespace where nspname = %s", schema_at(path)) == []


def test_a_user_who_may_only_write_rows_can_be_used(path: Path, postgres: Postgres) -> None:
    schema = f'"{schema_at(path)}"'
    opened("postgres", path).close()
    writer = f"writer{next(NUMBERS)}"
    postgres.ask(f"create role {writer} login password '{PASSWORD}'")
    target = postgres.url_with_password.replace("ana:", f"{writer}:")
    outcome = refused_opening(path, target=target)
    assert "a permission is missing (permission denied for" in outcome
    postgres.ask(f"grant usage on schema {schema} to {writer}")
    postgres.ask(f"grant select, insert, update, delete on all tables in schema {schema} to {writer}")
    sink = opened("postgres", path, target=target)
    apply(sink, 0, insert(0, "chai", 0), insert(1, "chai", 0))
    apply(sink, 1, retract(0, "chai", 0))
    # A grant that is taken back while it works may be given again.
    postgres.ask(f"revoke all on all tables in schema {schema} from {writer}")
    with pytest.raises(SinkOutage, match="a permission is missing"):
        apply(sink, 2, insert(0, "chai", 1))


def test_a_constraint_of_the_users_own_stops_the_run(path: Path, postgres: Postgres) -> None:
    sink = opened("postgres", path)
    postgres.ask(f'alter table "{schema_at(path)}".minute_totals add check (payments < 3)')
    with pytest.raises(SinkError, match="violates check constraint") as caught:
        apply(sink, 0, insert(0, "chai", 0, Decimal(1), 3))
    assert not isinstance(caught.value, SinkOutage)
    apply(sink, 0, insert(0, "chai", 0, Decimal(1), 2))
    assert len(rows_of_postgres(path)) == 1


def test_a_database_that_cannot_hold_every_text_is_refused(postgres: Postgres, path: Path) -> None:
    postgres.ask("create database latin encoding 'LATIN1' locale 'C' template template0")
    outcome = refused_opening(path, target=postgres.url_with_password.replace("/postgres", "/latin"))
    assert (
        "the database is in LATIN1, which not every text can be written in; use one with the encoding UTF8"
        in outcome
    )
