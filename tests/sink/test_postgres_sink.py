"""The Postgres sink on a real server: what it writes, and what it refuses."""

from __future__ import annotations

import logging
import sys
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from latecomer.config.sinks import PostgresSink
from latecomer.errors import SinkError, SinkOutage
from latecomer.sink import RowShape, open_sink
from latecomer.sink.postgres_rows import csv_parts, place_digests
from latecomer.testing import check_sink
from postgres_kit import PASSWORD, Postgres
from sink.sink_kit import (
    SHAPE,
    apply,
    insert,
    opened,
    retract,
    rows_of_postgres,
    schema_at,
    shape_of,
)

NUMBERS = count()


@pytest.fixture
def path(target: str, tmp_path: Path) -> Path:
    """What stands for a schema of the test's own."""
    return tmp_path / "results"


def shown(postgres: Postgres) -> str:
    return postgres.url.replace("@", ":***@")


def refused_opening(path: Path, **settings: Any) -> str:
    with pytest.raises(SinkError) as caught:
        opened("postgres", path, **settings)
    assert not isinstance(caught.value, SinkOutage)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


def test_it_keeps_what_every_sink_promises(postgres: Postgres) -> None:
    def fresh() -> PostgresSink:
        return PostgresSink(target=postgres.url_with_password, schema=f'it\'s 100% "odd".é {next(NUMBERS)}')

    def read(sink: PostgresSink) -> list[dict[str, Any]]:
        schema = sink.schema_name.replace('"', '""')
        return postgres.ask(f'select * from "{schema}".checked')

    check_sink(fresh, read)


# What is written


def test_a_number_is_a_row_with_types_of_its_own(postgres: Postgres, path: Path) -> None:
    apply(opened("postgres", path), 3, insert(0, "chai", 0, Decimal(12500), 3))
    assert rows_of_postgres(path) == [
        {
            "window_start": datetime(2026, 4, 25, 14, 0, tzinfo=UTC),
            "window_end": datetime(2026, 4, 25, 14, 1, tzinfo=UTC),
            "merchant": "chai",
            "paise": Decimal(12500),
            "payments": 3,
            "sequence": 0,
            "timing": "ON_TIME",
            "batch": 3,
            "fired_at": datetime(2026, 4, 25, 14, 10, tzinfo=UTC),
        }
    ]
    assert postgres.ask(f'select * from "{schema_at(path)}".latecomer_progress') == [
        {"sink_table": "minute_totals", "pipeline": "upi", "output": "minute_totals", "batch": 3}
    ]


KINDS: dict[str, tuple[pa.DataType, str, list[tuple[Any, Any]]]] = {
    "tiny": (pa.int8(), "smallint", [(-128, -128)]),
    "short": (pa.int16(), "smallint", [(32767, 32767)]),
    "sequenced": (pa.int32(), "integer", [(2**31 - 1, 2**31 - 1)]),
    "whole": (pa.int64(), "bigint", [(2**63 - 1, 2**63 - 1), (-(2**63), -(2**63))]),
    "huge": (pa.uint64(), "numeric(20,0)", [(2**64 - 1, Decimal(2**64 - 1))]),
    "large": (pa.decimal128(38, 0), "numeric(38,0)", [(Decimal(10**38 - 1), Decimal(10**38 - 1))]),
    "money": (pa.decimal128(18, 2), "numeric(18,2)", [(Decimal("12.50"), Decimal("12.50"))]),
    "crumbs": (pa.decimal128(38, 30), "numeric(38,30)", [(Decimal("1E-30"), Decimal("1E-30"))]),
    "beyond": (pa.decimal256(76, 10), "numeric(76,10)", [(Decimal(10**65), Decimal(10**65))]),
    "share": (
        pa.float64(),
        "double precision",
        [(0.1, 0.1), (float("inf"), float("inf")), (float("-inf"), float("-inf")), (5e-324, 5e-324)],
    ),
    "not_a_number": (pa.float64(), "double precision", [(float("nan"), "NaN")]),
    "rough": (pa.float32(), "real", [(0.5, 0.5), (float("inf"), float("inf"))]),
    "yes": (pa.bool_(), "boolean", [(True, True), (False, False)]),
    "text": (
        pa.string(),
        "text",
        [
            (text, text)
            for text in (
                "",
                "007",
                "\\N",
                "\\.",
                "a\n\\.\nb",
                'it\'s "odd", \\',
                "\r\n",
                "ü€😀",
                " ",
                "NULL",
                "\x01",
            )
        ],
    ),
    "nul": (pa.string(), "text", [("a\0b", "a\ufffdb")]),
    "bytes": (pa.binary(), "bytea", [(b"", b""), (b"\x00\xff\\", b"\x00\xff\\")]),
    "day": (pa.date32(), "date", [(date(2026, 4, 25), date(2026, 4, 25)), (date(1, 1, 1), date(1, 1, 1))]),
    "moment": (
        pa.timestamp("us", "UTC"),
        "timestamp with time zone",
        [(datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),) * 2, (datetime(1, 1, 1, tzinfo=UTC),) * 2],
    ),
    "clock": (
        pa.timestamp("us"),
        "timestamp without time zone",
        [(datetime(2026, 4, 25, 1, 2, 3, 4), datetime(2026, 4, 25, 1, 2, 3, 4))],
    ),
    "names": (pa.list_(pa.string()), "jsonb", [(["a", None, "\0"], ["a", None, "\ufffd"]), ([], [])]),
    "pair": (
        pa.struct([("a", pa.int64()), ("b", pa.timestamp("us", "UTC"))]),
        "jsonb",
        [
            (
                {"a": 2**53 + 1, "b": datetime(2026, 1, 1, tzinfo=UTC)},
                {"a": 2**53 + 1, "b": "2026-01-01T00:00:00Z"},
            )
        ],
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_no_value_is_rounded_or_lost(postgres: Postgres, path: Path, name: str) -> None:
    kind, declared, pairs = KINDS[name]
    given = [*(value for value, _ in pairs), None]
    wanted = [*(written for _, written in pairs), None]
    shape = shape_of({"nth": pa.int64()}, {name: kind})
    panes = [insert(0, nth, 0, value, shape=shape) for nth, value in enumerate(given)]
    apply(opened("postgres", path, shape), 0, *panes)
    found = [row[name] for row in sorted(rows_of_postgres(path), key=lambda row: row["nth"])]
    assert ["NaN" if value != value else value for value in found] == wanted
    (row,) = postgres.ask(
        "select format_type(atttypid, atttypmod) as kind from pg_attribute "
        "where attrelid = %s::regclass and attname = %s",
        f'"{schema_at(path)}".minute_totals',
        name,
    )
    assert row["kind"] == declared


def test_moments_outside_the_years_of_our_calendar_are_kept(postgres: Postgres, path: Path) -> None:
    shape = shape_of({"nth": pa.int64()}, {"at": pa.timestamp("us", "UTC"), "day": pa.date32()})
    year, past = 31_556_952_000_000, 2**63 - 1
    moments = [0, -62_135_596_800_000_001, -6000 * year, past, -past]
    days = [0, -719_163, -2_440_589, 2**31 - 1, -(2**31)]
    rows = pa.Table.from_pylist(
        [
            {
                "window_start": 0,
                "window_end": 1,
                "nth": nth,
                "at": at,
                "day": None,
                "sequence": 0,
                "op": "insert",
            }
            for nth, at in enumerate(moments)
        ],
        shape.schema,
    )
    rows = rows.set_column(rows.column_names.index("day"), "day", pa.array(days, pa.date32()))
    opened("postgres", path, shape).apply(0, rows)
    found = postgres.ask(
        f'select "at"::text, "day"::text from "{schema_at(path)}".minute_totals order by nth'
    )
    assert [(row["at"], row["day"]) for row in found] == [
        ("1970-01-01 00:00:00+00", "1970-01-01"),
        ("0001-12-31 23:59:59.999999+00 BC", "0001-12-31 BC"),
        ("4031-01-01 00:00:00+00 BC", "-infinity"),
        ("294247-01-10 04:00:54.775807+00", "infinity"),
        ("-infinity", "-infinity"),
    ]


def test_keys_that_differ_by_a_nul_alone_are_two_numbers(path: Path) -> None:
    sink = opened("postgres", path)
    apply(sink, 0, insert(0, "a\0", 0), insert(0, "a\ufffd", 0))
    apply(sink, 1, insert(0, "a\0", 1), retract(0, "a\ufffd", 0))
    assert [(row["merchant"], row["sequence"]) for row in rows_of_postgres(path)] == [("a\ufffd", 1)]


def test_a_key_may_be_longer_than_an_index_can_hold(path: Path) -> None:
    sink, key = opened("postgres", path), "".join(chr(0x4E00 + nth * 7 % 20000) for nth in range(20_000))
    apply(sink, 0, insert(0, key, 0), insert(0, key + "x", 0))
    apply(sink, 1, insert(0, key, 1))
    assert sorted(row["sequence"] for row in rows_of_postgres(path)) == [0, 1]


def test_more_keys_than_an_index_can_have(path: Path) -> None:
    shape = shape_of({f"k{nth}": pa.string() for nth in range(40)}, {"paise": pa.int64()})
    sink = opened("postgres", path, shape)
    for sequence in range(2):
        apply(sink, sequence, insert(0, (None,) * 40, sequence, 5, shape=shape))
    assert [row["sequence"] for row in rows_of_postgres(path)] == [1]


def test_what_stands_for_a_place_never_changes() -> None:
    """Tables hold what earlier versions wrote: if this differs, every number would stand there twice."""
    keys = {
        "text": pa.array(['it\'s "ö"\0', None]),
        "count": pa.array([2**60, None], pa.int64()),
        "money": pa.array([Decimal("0.10"), None], pa.decimal128(18, 2)),
        "whole": pa.array([Decimal(10**20), None], pa.decimal128(38, 0)),
        "share": pa.array([-0.0, None], pa.float64()),
        "day": pa.array([20_000, None], pa.date32()),
        "raw": pa.array([b"\x00\xff", None], pa.binary()),
        "yes": pa.array([True, None]),
        "window_start": pa.array([1_777_125_600_000_001, 0], pa.timestamp("us", "UTC")),
    }
    assert place_digests(pa.table(keys), list(keys)) == [
        "2612da502c4e79a847ecdb2c2cb9481f",
        "fb63f58860d1ae3ebf83374b1c59f398",
    ]
    zero = pa.table({"share": pa.array([0.0, -0.0])})
    assert len(set(place_digests(zero, ["share"]))) == 1


@pytest.mark.long
def test_a_batch_of_one_row_and_one_of_200_000(path: Path) -> None:
    shape = shape_of({"merchant": pa.string()}, {"paise": pa.int64()})
    sink = opened("postgres", path, shape)
    rows = 200_000
    apply(sink, 0, insert(0, "m7", 0, 5, shape=shape))
    panes = pa.table(
        {
            "window_start": pa.array([1_777_125_600_000_000] * rows, pa.timestamp("us", "UTC")),
            "window_end": pa.array([1_777_125_660_000_000] * rows, pa.timestamp("us", "UTC")),
            "merchant": [f"m{nth}" for nth in range(rows)],
            "paise": range(rows),
            "sequence": pa.array([1] * rows, pa.int32()),
            "timing": ["LATE"] * rows,
            "op": ["insert"] * rows,
            "batch": [1] * rows,
            "fired_at": pa.array([0] * rows, pa.timestamp("us", "UTC")),
        },
        shape.schema,
    )
    began = time.monotonic()
    sink.apply(1, panes)
    assert time.monotonic() - began < 60  # 20,000 rows a second are promised, and bench shows them
    found = rows_of_postgres(path)
    assert (len(found), sum(row["paise"] for row in found)) == (rows, sum(range(rows)))
    assert len([*csv_parts(panes)]) == 4


def test_rows_are_appended_as_they_come(path: Path, postgres: Postgres) -> None:
    shape = RowShape(
        "totals_late",
        "totals.late",
        ("batch", "position"),
        pa.schema(
            [("batch", pa.int64()), ("position", pa.int64()), ("raw", pa.string()), ("bytes", pa.binary())]
        ),
    )
    sink = opened("postgres", path, shape)  # type: ignore[arg-type]
    rows = [
        {"batch": 0, "position": nth % 3, "raw": None if nth % 2 else "{\0", "bytes": b"{\0"}
        for nth in range(7)
    ]
    for _ in range(2):
        sink.apply(0, pa.Table.from_pylist(rows, shape.schema))
    found = rows_of_postgres(path, "totals_late")
    assert found == [{**row, "raw": row["raw"] and "{\ufffd"} for row in rows]
    assert sink.last_batch() == 0


# Names


@pytest.mark.parametrize(
    "table", ['a "quoted" table', "Totals", "a.b", "100%", "%s", "ü" * 31, "select", " "]
)
def test_a_table_may_have_any_name(path: Path, postgres: Postgres, table: str) -> None:
    sink = opened("postgres", path, table=table)
    apply(sink, 0, insert(0, "chai", 0))
    apply(sink, 1, insert(0, "chai", 1), insert(1, "chai", 0), retract(1, "chai", 0))
    quoted = table.replace('"', '""')
    assert [row["sequence"] for row in postgres.ask(f'select * from "{schema_at(path)}"."{quoted}"')] == [1]
    assert sink.peek() == sink.last_batch() == 1


@pytest.mark.parametrize("name", ["100%", "%s", "%(a)s", "ü" * 31, 'a"b', "$1", "\\", "a\nb"])
def test_a_column_may_have_any_name(path: Path, name: str) -> None:
    shape = shape_of({name: pa.string()}, {"paise": pa.int64()})
    sink = opened("postgres", path, shape)
    apply(sink, 0, insert(0, "x", 0, 5, shape=shape))
    apply(sink, 1, retract(0, "x", 0, 5, shape=shape), insert(1, "x", 0, 6, shape=shape))
    assert [(row[name], row["paise"]) for row in rows_of_postgres(path)] == [("x", 6)]


def test_a_column_that_postgres_would_cut_is_refused_by_its_name(path: Path) -> None:
    long = "ü" * 32
    shape = shape_of({long: pa.string()}, {"paise": pa.int64()})
    assert f"Postgres cuts names after 63 bytes (column {long}); rename it" in refused_opening(
        path, shape=shape
    )


def test_names_of_the_system_are_refused(path: Path) -> None:
    shape = shape_of({"ctid": pa.string()}, {"paise": pa.int64()})
    assert 'column name "ctid" conflicts with a system column name' in refused_opening(path, shape=shape)


def test_the_progress_table_is_refused_as_a_target(path: Path) -> None:
    outcome = "the table latecomer_progress holds the progress; give the sink another table"
    assert outcome in refused_opening(path, table="latecomer_progress")


# Tables that are there


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
    from latecomer.sink.postgres import PostgresLogic

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


# The target


def test_the_extra_is_named_where_it_is_missing(
    path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert refused_opening(path) == (
        f"postgres sink {shown(postgres)}: Postgres needs the package psycopg; install it: pip install "
        "'latecomer[postgres]'. Nothing is lost: the next run catches this sink up."
    )


PASSWORDS = ("s3/cr:et@#?&%20", "it's \\ odd \n", "${env:OTHER}", " ", "' dbname='x")
FORMS = ("url", "pairs", "quoted pairs", "file", "whole")


@pytest.mark.parametrize(
    ("password", "form"),
    # The end of a file's last line is none of the secret.
    [
        pytest.param(word, form, marks=[pytest.mark.long] * (word != PASSWORDS[0] and form != "url"))
        for word in PASSWORDS
        for form in FORMS
        if form != "file" or not word.endswith("\n")
    ],
)
def test_a_password_may_hold_anything(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str, form: str
) -> None:
    user = f"user{next(NUMBERS)}"
    with psycopg.connect(postgres.url_with_password, autocommit=True) as connection:
        connection.execute(
            psycopg.sql.SQL("create role {} superuser login password {}").format(
                psycopg.sql.Identifier(user), psycopg.sql.Literal(password)
            )
        )
    monkeypatch.setenv("DB_PASSWORD", password)
    (tmp_path / "secret").write_text(f"{password}\n", encoding="utf-8")
    pairs = f"host=127.0.0.1 port={postgres.port} user={user} dbname=postgres"
    whole = psycopg.conninfo.make_conninfo(pairs, password=password)
    monkeypatch.setenv("DB", whole)
    target = {
        "url": f"postgresql://{user}:${{env:DB_PASSWORD}}@127.0.0.1:{postgres.port}/postgres",
        "pairs": f"{pairs} password=${{env:DB_PASSWORD}}",
        "quoted pairs": f"{pairs} password='${{env:DB_PASSWORD}}'",
        "file": f"postgresql://{user}:${{file:secret}}@127.0.0.1:{postgres.port}/postgres",
        "whole": "${env:DB}",
    }[form]
    sink = PostgresSink(target=target, schema=f"of {user}")
    logic = open_sink(sink, tmp_path, "upi", SHAPE)
    assert logic.last_batch() == -1
    logic.close()


@pytest.mark.parametrize(
    ("target", "outcome"),
    [
        (
            "postgresql://ana:s3/cr@et@db/books",
            "the target is not a URL that Postgres can read; write postgresql://",
        ),
        (
            "postgresql://ana:s3cret@db:port/books?hunter=s3cret",
            "the target is neither a URL nor key=value pairs",
        ),
        ("hostess=db password=s3cret", "the target is neither a URL nor key=value pairs"),
        (
            "postgresql://ana:${env:NO_SUCH}@db",
            "${env:NO_SUCH}: the environment has no such variable; set NO_SUCH",
        ),
        (
            "postgresql://ana:${file:none}@db",
            "${file:none}: the file cannot be read (No such file or directory)",
        ),
        (
            "postgresql://ana:${NO_SUCH}@db",
            "${NO_SUCH}: a reference says neither env nor file; write ${env:NAME}",
        ),
    ],
)
def test_a_target_that_cannot_be_used_is_refused_without_its_password(
    target: str, outcome: str, tmp_path: Path
) -> None:
    with pytest.raises(SinkError) as caught:
        open_sink(PostgresSink(target=target), tmp_path, "upi", SHAPE)
    assert outcome in str(caught.value)
    assert "s3" not in str(caught.value)
    assert not isinstance(caught.value, SinkOutage)


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (
            (PASSWORD, "wrong-password"),
            'the password was not accepted (connection failed: connection to server at "127',
        ),
        (("ana:", "nobody:"), "the password was not accepted"),
        (("/postgres", "/books"), "there is no such database (connection failed: "),
        ((f":{PASSWORD}", ""), "the password was not accepted"),
    ],
)
def test_who_is_not_let_in_is_told_at_once(
    path: Path, target: str, change: tuple[str, str], outcome: str
) -> None:
    scheme, rest = target.split("://")
    said = refused_opening(path, target=f"{scheme}://{rest.replace(*change)}")
    assert outcome in said
    assert "wrong-password" not in said


def test_a_user_who_may_not_connect_is_told_so(postgres: Postgres, path: Path) -> None:
    user, database = f"user{next(NUMBERS)}", f"closed{next(NUMBERS)}"
    postgres.ask(f"create role {user} login password '{PASSWORD}'")
    postgres.ask(f"create database {database}")
    postgres.ask(f"revoke connect on database {database} from public")
    target = postgres.url_with_password.replace("ana:", f"{user}:").replace("/postgres", f"/{database}")
    assert "the user may not connect to the database (connection failed: " in refused_opening(
        path, target=target
    )


def test_a_password_that_is_changed_while_it_works_is_read_again(
    postgres: Postgres, path: Path, tmp_path: Path
) -> None:
    user = f"user{next(NUMBERS)}"
    postgres.ask(f"create role {user} superuser login password 'before'")
    (tmp_path / "secret").write_text("before")
    target = f"postgresql://{user}:${{file:{tmp_path}/secret}}@127.0.0.1:{postgres.port}/postgres"
    sink = opened("postgres", path, target=target)
    apply(sink, 0, insert(0, "chai", 0))
    postgres.ask(f"alter role {user} password 'after'")
    sink.close()
    with pytest.raises(SinkOutage, match="the password was not accepted"):
        sink.open()
    (tmp_path / "secret").write_text("after")
    sink.open()
    assert sink.last_batch() == 0


def test_no_secret_is_shown(
    path: Path, target: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    sink = opened("postgres", path)
    apply(sink, 0, insert(0, "chai", 0))
    with pytest.raises(SinkOutage) as caught:
        opened("postgres", path, target=target.replace("127.0.0.1:", "127.0.0.1:1,127.0.0.2:"))
    shown = [caplog.text, str(caught.value), repr(caught.value), repr(sink), *capfd.readouterr()]
    assert [text for text in shown if PASSWORD in text] == []
