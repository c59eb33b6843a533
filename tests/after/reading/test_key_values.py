"""A key is given as it is shown: in results, in the dashboard, in the fix of an error (docs/values.md)."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from latecomer.after.explain.places import _value, as_text
from latecomer.after.reading.lives import key_texts
from latecomer.after.reading.questions import literal
from latecomer.model.written_values import csv_column
from latecomer.model.zoned import in_zone
from latecomer.store.delta.table import Table

KEYS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["m1", "it's", " a ", "AP8="]),
    (pa.binary(), [b"\x00\xff", b"abc", b"abcd", b"it's", "é".encode()]),
    (pa.int64(), [-(2**63), 600]),
    (pa.decimal128(18, 2), [Decimal("600.00"), Decimal("-0.01")]),
    (pa.decimal128(38, 0), [Decimal(10**37)]),
    (pa.bool_(), [True, False]),
    (pa.date32(), [date(2026, 4, 25)]),
    (pa.timestamp("us", "UTC"), [datetime(2026, 4, 25, 14, 0, 0, 1, tzinfo=UTC)]),
    (pa.timestamp("us"), [datetime(2026, 4, 25, 14, 0, 0, 1)]),
    (pa.float64(), [1.5, float("inf")]),
]


@pytest.mark.parametrize(("kind", "values"), KEYS, ids=[str(kind) for kind, _ in KEYS])
def test_a_key_is_given_as_it_is_shown(tmp_path: Path, kind: pa.DataType, values: list[Any]) -> None:
    rows = pa.table({"k": pa.array(values, kind)})
    # delta-rs writes bounds of long decimals as rounded floats; the tables of a store have no bounds of decimals.
    write_deltalake(str(tmp_path), rows, configuration={"delta.dataSkippingNumIndexedCols": "0"})
    table = Table(tmp_path, rows.schema)
    with in_zone("Asia/Kolkata"):
        shown = csv_column(rows["k"], "Asia/Kolkata")
        for nth, value in enumerate(values):
            stored = rows["k"][nth].as_py()
            for text in (shown[nth], as_text(stored), key_texts(rows.schema, {"k": stored})["k"]):
                assert text is not None
                assert table.query(f"select * from t where k = {literal(text, kind)}").num_rows == 1, text
                assert _value(text, kind) == value


@pytest.mark.parametrize("text", ["a", "é", "AP8", "not base64!"])
def test_a_key_of_bytes_that_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        literal(text, pa.binary())
