"""Logical types: those in effect, and those that count as not written."""

from __future__ import annotations

from typing import Any

import pytest

from latecomer.schemas.avro import logical_type, normalized, schema_of
from latecomer.schemas.avro.logical import Logical

DECIMAL = {"type": "bytes", "logicalType": "decimal"}


def fixed(size: int, **others: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, **others}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "int", "logicalType": "date"}, Logical("date")),
        ({"type": "int", "logicalType": "time-millis"}, Logical("time-millis")),
        ({"type": "long", "logicalType": "timestamp-micros"}, Logical("timestamp-micros")),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, Logical("local-timestamp-nanos")),
        ({"type": "string", "logicalType": "uuid"}, Logical("uuid")),
        (fixed(16, logicalType="uuid"), Logical("uuid")),
        (fixed(12, logicalType="duration"), Logical("duration")),
        ({**DECIMAL, "precision": 4}, Logical("decimal", 4, 0)),
        ({**DECIMAL, "precision": 4, "scale": 4}, Logical("decimal", 4, 4)),
        (fixed(4, logicalType="decimal", precision=9), Logical("decimal", 9, 0)),
    ],
)
def test_a_logical_type_in_its_place(schema: Any, expected: Logical) -> None:
    assert logical_type(schema_of(schema).root) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "int", "logicalType": "timestamp-millis"},
        {"type": "int", "logicalType": "nonsense"},
        {"type": "int", "logicalType": 5},
        {"type": "array", "items": "int", "logicalType": "date"},
        fixed(15, logicalType="uuid"),
        fixed(13, logicalType="duration"),
        DECIMAL,
        {**DECIMAL, "precision": 0},
        {**DECIMAL, "precision": 4, "scale": 5},
        {**DECIMAL, "precision": 4, "scale": -1},
        {**DECIMAL, "precision": "4"},
        {**DECIMAL, "precision": True},
        fixed(4, logicalType="decimal", precision=10),
        fixed(0, logicalType="decimal", precision=1),
        ["null", "int"],
    ],
)
def test_a_logical_type_out_of_place_is_kept_and_has_no_effect(schema: Any) -> None:
    found = schema_of(schema)
    assert logical_type(found.root) is None
    assert ("logicalType" in normalized(found)) == ("logicalType" in schema)
