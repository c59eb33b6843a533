"""The Postgres sink on a real server: the rows and values that it writes, and the names that they may have."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from latecomer.config.sinks import PostgresSink
from latecomer.sink import RowShape
from latecomer.sink.postgres_rows import csv_parts, place_digests
from latecomer.testing import check_sink
from postgres_kit import Postgres
from sink.postgres_sink_kit import NUMBERS, refused_opening
from sink.sink_kit import apply, insert, opened, retract, rows_of_postgres, schema_at, shape_of


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
