"""A column has one JSON type in every row, from every writer, and its values can be read back: docs/values.md."""

from __future__ import annotations

import csv
import io
import json
import math
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.after.explain.explanation import _plain_values
from latecomer.cli.options import Format, show
from latecomer.sink.change_files import JsonlLogic
from latecomer.testing.rows import as_json, typed
from latecomer.testing.times import Times

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
Read = Callable[[Any], Any]


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda digits: Decimal(f"{digits}E-{scale}"))


def moments(zone: Any) -> st.SearchStrategy[datetime]:
    plain = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
    return plain.map(lambda moment: moment.replace(tzinfo=zone))


def number_or_word(written: Any) -> float:
    return WORDS[written] if isinstance(written, str) else float(written)


KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any], type, Read]] = [
    (pa.int8(), st.integers(-128, 127), int, int),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1), int, int),
    (pa.decimal128(38, 0), decimals(38, 0), int, Decimal),
    (pa.decimal128(18, 2), decimals(18, 2), str, Decimal),
    (pa.decimal128(38, 10), decimals(38, 10), str, Decimal),
    (pa.float64(), st.floats(), float, number_or_word),
    (pa.float32(), st.floats(width=32), float, number_or_word),
    (pa.bool_(), st.booleans(), bool, bool),
    (pa.date32(), st.dates(), str, date.fromisoformat),
    (pa.timestamp("us", "UTC"), moments(UTC), str, datetime.fromisoformat),
    (pa.timestamp("us"), moments(None), str, datetime.fromisoformat),
    (pa.binary(), st.binary(max_size=9), str, b64decode),
    (pa.large_binary(), st.binary(max_size=9), str, b64decode),
    (pa.string(), st.text(max_size=9), str, str),
    (
        pa.duration("us"),
        st.integers(-(2**52), 2**52).map(lambda micros: timedelta(microseconds=micros)),
        float,
        lambda written: timedelta(microseconds=round(written * 1_000_000)),
    ),
]
NAMES = [str(kind) for kind, *_ in KINDS]


def by_the_verb(rows: pa.Table) -> list[Any]:
    out = io.StringIO()
    show(rows, Format.JSON, "", out=out)
    return [row["x"] for row in json.loads(out.getvalue())]


def by_the_sink(rows: pa.Table) -> list[Any]:
    out = io.BytesIO()
    JsonlLogic._encode(None, rows, out)  # type: ignore[arg-type]
    return [json.loads(line)["x"] for line in out.getvalue().decode().split("\n") if line]


def by_the_explanation(rows: pa.Table) -> list[Any]:
    documents = (json.dumps(_plain_values(row), allow_nan=False) for row in rows.to_pylist())
    return [json.loads(document)["x"] for document in documents]


def cells(rows: pa.Table) -> list[str]:
    out = io.StringIO()
    show(pa.table({"n": range(rows.num_rows), "x": rows["x"]}), Format.CSV, "", out=out)
    return [row[1] for row in csv.reader(io.StringIO(out.getvalue(), newline=""))][1:]


def is_the_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


@pytest.mark.parametrize(("kind", "values", "json_type", "read"), KINDS, ids=NAMES)
@given(data=st.data())
def test_a_type_has_one_json_type_from_every_writer_and_nothing_is_lost(
    kind: pa.DataType, values: st.SearchStrategy[Any], json_type: type, read: Read, data: st.DataObject
) -> None:
    listed = data.draw(st.lists(st.none() | values, min_size=1, max_size=5))
    rows = pa.table({"x": pa.array(listed, kind)})
    written = by_the_verb(rows)
    assert [repr(each) for each in by_the_sink(rows)] == [repr(each) for each in written]
    assert [repr(each) for each in by_the_explanation(rows)] == [repr(each) for each in written]
    for value, there, cell in zip(listed, written, cells(rows), strict=True):
        assert (there is None) == (value is None)
        if value is None:
            assert cell == ""
            continue
        assert type(there) is json_type or there in WORDS
        assert is_the_same(value, read(there))
        assert cell == (there if isinstance(there, str) else json.dumps(there))


@given(listed=st.lists(decimals(18, 2), min_size=1))
def test_a_decimal_has_all_the_digits_of_its_type(listed: list[Decimal]) -> None:
    rows = pa.table({"x": pa.array(listed, pa.decimal128(18, 2))})
    assert all(text[-3] == "." for text in [*by_the_verb(rows), *cells(rows)])


def test_no_option_for_people_shortens_what_programs_read() -> None:
    rows = pa.table({"x": pa.array([Decimal("600.00"), Decimal("600.25")], pa.decimal128(18, 2))})
    for form in (Format.JSON, Format.CSV):
        out = io.StringIO()
        show(rows, form, "", out=out, scales={})
        assert "600.00" in out.getvalue()


def test_null_and_empty_text_are_two_things_in_csv() -> None:
    rows = pa.table({"x": [None, "", "a"], "y": [1, 2, 3]})
    out = io.StringIO()
    show(rows, Format.CSV, "", out=out)
    assert out.getvalue() == 'x,y\n,1\n"",2\na,3\n'


def test_what_is_in_lists_is_written_the_same_way() -> None:
    kind = pa.list_(pa.struct([("at", pa.timestamp("us", "UTC")), ("fee", pa.decimal128(9, 2))]))
    rows = pa.table({"x": pa.array([[{"at": EPOCH, "fee": Decimal(5)}], [], None], kind)})
    assert by_the_verb(rows) == [[{"at": "1970-01-01T00:00:00Z", "fee": "5.00"}], [], None]
    assert cells(rows)[0] == '[{"at": "1970-01-01T00:00:00Z", "fee": "5.00"}]'


@pytest.mark.parametrize(
    ("value", "kind", "written"),
    [
        (5, "decimal(38,0)", 5),
        ("5", "decimal(18,2)", "5.00"),
        ("0.0000001", "decimal(18,7)", "0.0000001"),
        ("nan", "double", "NaN"),
        (EPOCH, "timestamp", "1970-01-01T00:00:00Z"),
        (EPOCH, "timestamp_ntz", "1970-01-01T00:00:00"),
        (b"\x00\xff", "binary", "AP8="),
        (None, "decimal(18,2)", None),
    ],
)
def test_the_testing_kit_writes_events_the_same_way(value: Any, kind: str, written: Any) -> None:
    found = as_json(typed(value, kind, Times()), kind)
    assert (found, type(found)) == (written, type(written))
