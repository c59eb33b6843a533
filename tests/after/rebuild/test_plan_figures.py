"""A plan's figures: as JSON has them everywhere, and exact. No Spark is started."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from latecomer.after.rebuild.planning import _total, json_of

TYPES = {"paise": "decimal(38,0)", "fee": "decimal(38,2)", "km": "double", "payments": "bigint"}


def test_a_value_is_written_by_its_type() -> None:
    layout: Any = SimpleNamespace(keys={"shop": "int"}, values=TYPES)
    shown = json_of(layout)
    assert shown("shop", 7) == 7
    assert shown("fee", None) is None
    for amount in (Decimal("600"), Decimal("600.000000")):
        assert shown("fee", amount) == "600.00"
        for name, kind in (("paise", int), ("payments", int), ("km", float)):
            found = shown(name, amount)
            assert (found, type(found)) == (600, kind)


@pytest.mark.parametrize(
    ("kind", "amounts", "total"),
    [
        (pa.decimal128(38, 8), ["0.12345678", "1"], "1.12345678"),
        (pa.decimal128(38, 0), ["9" * 38, "1"], "1" + "0" * 38),
        (pa.int64(), ["9223372036854775807", "1"], "9223372036854775808"),
    ],
)
def test_no_sum_is_rounded_or_outgrown(kind: pa.DataType, amounts: list[str], total: str) -> None:
    values = [Decimal(amount) if pa.types.is_decimal(kind) else int(amount) for amount in amounts]
    assert _total(pa.chunked_array([pa.array(values, kind)])) == Decimal(total)
