"""The quick way to write a column as JSON text says what the slow one does."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from latecomer.model.written_values import json_column, json_texts

COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["", 'a "quoted" \\ text\n', "é\u2028😀\x00", None]),
    (pa.large_string(), ["x", None]),
    (pa.dictionary(pa.int32(), pa.string()), ["x", None, "x"]),
    (pa.int64(), [0, -1, 2**63 - 1, None]),
    (pa.bool_(), [True, False, None]),
    (pa.float64(), [0.1, -0.0, 1e300, float("nan"), float("inf"), float("-inf"), None]),
    (pa.float32(), [0.1, None]),
    (pa.decimal128(38, 0), [Decimal(10) ** 37, Decimal(0), None]),
    (pa.decimal128(38, 2), [Decimal("12345678901234567890.25"), Decimal("0.00"), None]),
    (pa.timestamp("us", "UTC"), [datetime(2026, 4, 25, 14, 0, 0, 1, tzinfo=UTC), None]),
    (pa.timestamp("ms"), [datetime(2026, 4, 25, 14), None]),
    (pa.date32(), [date(2026, 4, 25), None]),
    (pa.binary(), [b"\x00\xff", None]),
    (pa.list_(pa.float64()), [[0.5, None, float("nan")], [], None]),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "é"}, None]),
]


@pytest.mark.parametrize(
    ("kind", "values"), COLUMNS, ids=lambda each: str(each) if isinstance(each, pa.DataType) else ""
)
def test_the_texts_of_a_column_are_those_of_its_values(kind: pa.DataType, values: list[Any]) -> None:
    column = pa.chunked_array([pa.array(values, kind)])
    dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    assert json_texts(column) == [dumps(value) for value in json_column(column)]
