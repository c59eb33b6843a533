"""CSV and Parquet files, and what JSON has of their types, read without Spark: against Python's own readers."""

from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from latecomer.decode.arrow_csv import csv_lines
from latecomer.decode.arrow_parquet import parquet_rows
from latecomer.fast import Declined

from latecomer.decode.arrow_json import json_lines
from latecomer.decode.arrow_text import column_type, typed
from latecomer.decode.columns import KEPT

COLUMNS = {"s": "string", "n": "bigint", "m": "decimal(9,2)"}
MOMENT = datetime(2026, 1, 5, 14, tzinfo=UTC)
PLAIN = st.text(
    st.characters(codec="utf-8", min_codepoint=32, exclude_characters='"\ufffd\ufeff\x7f'), max_size=5
)
WHOLE = st.none() | st.integers(-(1 << 63), (1 << 63) - 1)
ROWS = st.tuples(PLAIN, WHOLE, st.none() | st.decimals(-9999999, 9999999, places=2))
NANO = [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), None]
HALF = pa.array([0.1, None, 2], pa.float32())


@given(st.lists(ROWS, min_size=1, max_size=6), st.sampled_from(",;|\t:"), st.sampled_from(["\n", "\r\n"]))
def test_csv_is_what_was_written(
    rows: list[tuple[str, int | None, Decimal | None]], delimiter: str, end: str
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end)
    writer.writerows([("n", "other", "s", "m"), *((n, "x", s, m) for s, n, m in rows)])
    found = csv_lines(text.getvalue().encode(), {**COLUMNS, "none": "date"}, delimiter)
    assert [tuple(row.values()) for row in found.to_pylist()] == [(s or None, n, m, None) for s, n, m in rows]
    assert found.schema.types == [column_type(kind) for kind in (*COLUMNS.values(), "date")]


def test_a_header_may_be_said() -> None:
    found = csv_lines(b"1,a\n2,b", {"n": "bigint", "s": "string"}, ",", header=("n", "s"))
    assert found.to_pylist() == [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"n,s," + b"x" * 200_000 + b"\n1,a,2\n",
        b"n,s\n",
        b"n\n1\n",
        b"\xef\xbb\xbfn,s\n1,a\n",
        b"x,y\n1,a\n",
        b"n,n\n1,2\n",
        b"n,s\n1\n",
        b"n,s\n1,a,b\n",
        b"n,s\n\n1,a\n",
        b"n,s\n  \n1,a\n",
        b'n,s\n1,"a""b"\n',
        b'n,s\n1,""\n',
        b'n,s\n1,a"b\n',
        b'n,s\n1, "a"\n',
        b'n,s\n1,"a" \n',
        b'n,s\n1,"a\n2,b"\n',
        b'n,s\n1,"a\n',
        b"n,s\n1,a\rb\n",
        b"n,s\n1,\xff\n",
        b"n,s\n1,\xef\xbf\xbd\n",
        b"n,s\n1,a\x00\n",
        b"n,s\n1,a\tb\n",
        b"n,s\n 1,a\n",
        b"n,s\n+1,a\n",
        b"n,s\n1.0,a\n",
        b"n,s\n0x1F,a\n",
        b"n,s\n1_000,a\n",
        b"n,s\nnull,a\n",
        "n,s\n\u0661,a\n".encode(),
        b"n,s\n9223372036854775808,a\n",
    ],
)
def test_csv_that_is_not_plain_declines(text: bytes) -> None:
    with pytest.raises(Declined):
        csv_lines(text, {"n": "bigint", "s": "string"}, ",")


def test_lines_of_nothing_but_tabs_decline() -> None:
    """Spark takes them for blank."""
    with pytest.raises(Declined, match="blank"):
        csv_lines(b"n\ts\n\t\n", {"n": "bigint", "s": "string"}, "\t")


@pytest.mark.parametrize("delimiter", [" ", "e", '"', "\u00a7", "\x01"])
def test_other_delimiters_decline(delimiter: str) -> None:
    with pytest.raises(Declined, match="delimiter"):
        csv_lines(b"n,s\n1,a\n", {"n": "bigint", "s": "string"}, delimiter)


def test_columns_that_are_not_declared_are_passed_over_kept_or_decline(tmp_path: Path) -> None:
    text = b"n,s\n1,a\n"
    assert csv_lines(text, {"n": "bigint"}, ",").to_pylist() == [{"n": 1}]
    kept = csv_lines(b"n,s,x,s\n1,a,,b\n2,,,\n", {"n": "bigint"}, ",", unknown="keep")
    assert kept.to_pylist() == [{"n": 1, KEPT: '{"s":"b"}'}, {"n": 2, KEPT: None}]
    with pytest.raises(Declined):
        csv_lines(text, {"n": "bigint"}, ",", unknown="dead_letter")
    file = written(tmp_path, {"n": pa.array([1]), "s": pa.array(["a"])})
    assert parquet_rows(file, {"n": "bigint"}).to_pylist() == [{"n": 1}]
    assert parquet_rows(file, {"n": "bigint"}, "keep").to_pylist() == [{"n": 1, KEPT: '{"s":"a"}'}]
    with pytest.raises(Declined):
        parquet_rows(file, {"n": "bigint"}, "dead_letter")
    floating = written(tmp_path, {"n": pa.array([1]), "s": pa.array([0.5])})
    with pytest.raises(Declined, match="that is kept"):
        parquet_rows(floating, {"n": "bigint"}, "keep")


WRITTEN = [
    ("tinyint", "-128", -128),
    ("int", "007", 7),
    ("double", "1e-3", 0.001),
    ("double", "-.5", -0.5),
    ("boolean", "true", True),
    ("boolean", "false", False),
    ("decimal(5,2)", "999.99", Decimal("999.99")),
    ("decimal(5,2)", "-1.500", Decimal("-1.50")),
    ("date", "2024-02-29", date(2024, 2, 29)),
    ("timestamp", "2026-01-05T14:00:00Z", MOMENT),
    ("timestamp", "2026-01-05T19:30:00.0+05:30", MOMENT),
    ("timestamp_ntz", "2026-01-05 14:00:00", MOMENT.replace(tzinfo=None)),
]
NOT_WRITTEN = [
    ("tinyint", "128"),
    ("double", "NaN"),
    ("double", "1e400"),
    ("double", "1d"),
    ("double", " 1"),
    ("boolean", "TRUE"),
    ("boolean", "1"),
    ("decimal(5,2)", "1000"),
    ("decimal(5,2)", "1.005"),
    ("decimal(5,2)", "1e2"),
    ("decimal(5,2)", "1,000"),
    ("date", "2026-02-29"),
    ("date", "2026-1-5"),
    ("date", "1582-10-10"),
    ("timestamp", "1767621600"),
    ("timestamp", "1582-10-10T00:00:00Z"),
    ("timestamp_ntz", "2026-01-05 14:00:00Z"),
    ("float", "1"),
    ("binary", "a"),
]


@pytest.mark.parametrize(("kind", "text", "expected"), WRITTEN)
def test_texts_are_read_in_their_type(kind: str, text: str, expected: Any) -> None:
    assert typed(pa.array([None, text]), kind).to_pylist() == [None, expected]


@pytest.mark.parametrize(("kind", "text"), NOT_WRITTEN)
def test_texts_of_another_form_decline(kind: str, text: str) -> None:
    with pytest.raises(Declined):
        typed(pa.array([text]), kind)


def test_a_piece_of_a_column_is_looked_at_alone() -> None:
    assert typed(pa.array(["a", "12", None, "b"]).slice(1, 2), "int").to_pylist() == [12, None]


def test_json_has_decimals_days_and_moments() -> None:
    kinds = {"m": "decimal(5,2)", "d": "date", "t": "timestamp", "l": "timestamp_ntz"}
    lines = (
        '{"m":1.5,"d":"2026-01-05","t":"2026-01-05T15:00:00+01:00","l":"2026-01-05T14:00:00"}\n'
        '{"m":"-2.25"}\n{"m":1e2,"d":null}'
    )
    moment = MOMENT.replace(tzinfo=None)
    nothing = {"d": None, "t": None, "l": None}
    assert json_lines(lines.encode(), kinds).to_pylist() == [
        {"m": Decimal("1.50"), "d": date(2026, 1, 5), "t": MOMENT, "l": moment},
        {"m": Decimal("-2.25"), **nothing},
        {"m": Decimal("100.00"), **nothing},
    ]


@pytest.mark.parametrize(
    "value",
    [
        '"m":12345',
        '"m":1.005',
        '"m":"1,0"',
        '"m":""',
        '"m":true',
        '"d":5',
        '"d":"yesterday"',
        '"t":1767621600',
    ],
)
def test_json_of_another_form_declines(value: str) -> None:
    with pytest.raises(Declined):
        json_lines(f"{{{value}}}\n".encode(), {"m": "decimal(5,2)", "d": "date", "t": "timestamp"})


# Parquet


def written(folder: Path, columns: dict[str, Any], **options: Any) -> Path:
    file = folder / "rows.parquet"
    pq.write_table(pa.table(columns), file, **options)
    return file


def test_parquet_has_the_types_of_its_columns(tmp_path: Path) -> None:
    naive = MOMENT.replace(tzinfo=None)
    columns: dict[str, tuple[str, Any, Any]] = {
        "s": ("string", pa.array(["a", None, "é"]), None),
        "category": ("string", pa.array(["x", "x", None]).dictionary_encode(), ["x", "x", None]),
        "n": ("bigint", pa.array([1, None, -3], pa.int32()), None),
        "i": ("int", pa.array([1, 2, 3], pa.int32()), None),
        "f": ("double", HALF, None),
        "b": ("boolean", pa.array([True, None, False]), None),
        "m": ("decimal(9,2)", pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(9, 2)), None),
        "d": ("date", pa.array([date(2026, 1, 5)] * 3), None),
        "t": ("timestamp", pa.array([MOMENT] * 3, pa.timestamp("ms", "Asia/Kolkata")), [MOMENT] * 3),
        "nano": ("timestamp_ntz", pa.array([999, -1, None], pa.timestamp("ns")), NANO),
        "micro": ("timestamp_ntz", pa.array([naive] * 3, pa.timestamp("us")), None),
    }  # fmt: skip
    file = written(tmp_path, {name: column for name, (_, column, _) in columns.items()}, row_group_size=2)
    kinds = {name: kind for name, (kind, _, _) in columns.items()} | {"none": "decimal(5,0)"}
    found = parquet_rows(file, kinds)
    assert found.schema.types == [column_type(kind) for kind in kinds.values()]
    for name, (_, column, expected) in columns.items():
        assert found.column(name).to_pylist() == (column.to_pylist() if expected is None else expected)
    assert found.column("none").null_count == 3


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1], pa.int64()), "int"),
        (pa.array([1], pa.uint8()), "smallint"),
        (pa.array([1], pa.int8()), "bigint"),
        (pa.array([None], pa.null()), "string"),
        (pa.array([b"\xff"]).cast(pa.string(), safe=False), "string"),
        (pa.array([b"a"]), "string"),
        (pa.array([float("nan")]), "double"),
        (pa.array([[1]]), "bigint"),
        (pa.array([Decimal("1.5")], pa.decimal128(9, 3)), "decimal(9,2)"),
        (pa.array([datetime(1582, 10, 10)], pa.timestamp("us")), "timestamp_ntz"),
        (pa.array([datetime(2026, 1, 5)], pa.timestamp("us")), "timestamp"),
        (pa.array([date(1500, 1, 1)]), "date"),
        (pa.array([], pa.int64()), "bigint"),
    ],
)
def test_parquet_that_is_not_plain_declines(tmp_path: Path, column: pa.Array, kind: str) -> None:
    file = written(tmp_path, {"c": column})
    with pytest.raises((Declined, pa.ArrowInvalid)):
        parquet_rows(file, {"c": kind})


def test_other_parquet_files_decline(tmp_path: Path) -> None:
    number = pa.array([1.5, 2.5])
    for options in (
        {"compression": "brotli"},
        {"compression": "lz4"},
        {"use_dictionary": False, "use_byte_stream_split": True},
    ):
        with pytest.raises(Declined):
            parquet_rows(written(tmp_path, {"c": number}, **options), {"c": "double"})
    old = written(
        tmp_path, {"c": pa.array([MOMENT], pa.timestamp("us"))}, use_deprecated_int96_timestamps=True
    )
    with pytest.raises(Declined):
        parquet_rows(old, {"c": "timestamp"})
    with pytest.raises(Declined, match="case"):
        parquet_rows(written(tmp_path, {"C": number}), {"c": "double"})
    with pytest.raises(Declined, match="none that is"):
        parquet_rows(written(tmp_path, {"x": number}), {"c": "double"})
    broken = written(tmp_path, {"c": number})
    broken.write_bytes(broken.read_bytes()[:-20])
    with pytest.raises(Declined, match="cannot read"):
        parquet_rows(broken, {"c": "double"})


def test_a_text_that_comes_often_is_not_written_out_unseen(tmp_path: Path) -> None:
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array(["x" * 200_000]))
    with pytest.raises(Declined, match="long"):
        parquet_rows(written(tmp_path, {"c": long}), {"c": "string"})
