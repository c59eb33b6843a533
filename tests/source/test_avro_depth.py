"""Messages whose records are in one another: too many of them are told from damage, and from what is whole."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from avro_data import leading_to_each_other, number
from latecomer.schemas.avro import schema_of
from latecomer.schemas.avro.types import DEEPEST_RECORD
from latecomer.source.decode.avro_messages import AvroMessages
from latecomer.source.decode.private_columns import CORRUPT


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": kind} for each, kind in fields.items()],
    }


LIST = record("shop.Order", txn="string", more=["null", "shop.Order"])
TREE = record("shop.Order", txn="string", parts={"type": "array", "items": "shop.Order"})
ROUND = record(
    "shop.Order",
    txn="string",
    line=["null", record("shop.Line", order={"type": "map", "values": "shop.Order"})],
)
WITHIN = record("shop.Order", txn="string", tree=record("shop.Tree", left=["null", "shop.Tree"], size="int"))
DEEP = {
    # a schema, what comes before each further record, the innermost one, and what comes after each
    "a union": (LIST, b"\x02a\x02", b"\x02a\x00", b""),
    "a list": (TREE, b"\x02a\x02", b"\x02a\x00", b"\x00"),
    "by another": (ROUND, b"\x02a\x02\x02\x02k", b"\x02a\x00", b"\x00"),
}


def deep(before: bytes, innermost: bytes, after: bytes, times: int) -> bytes:
    return before * times + innermost + after * times


def found(schema: dict[str, Any], data: bytes) -> str:
    """What a message is taken for."""
    reader = schema_of(record(schema["name"], txn=["string", "null"]))
    task = AvroMessages({1: schema_of(schema)}, reader=reader)
    rows = task.decode([struct.pack(">bI", 0, 1) + data], {"txn": "string"})
    if not rows.column(CORRUPT)[0].is_valid:
        return "whole"
    return "damaged" if task.depth_exceeded(1, data) is None else "deeper"


@pytest.mark.parametrize("kind", DEEP)
def test_only_what_is_deeper_is_exceeded(kind: str) -> None:
    schema, *parts = DEEP[kind]
    most = (DEEPEST_RECORD - 1) // (2 if kind == "by another" else 1)
    assert found(schema, deep(*parts, most)) == "whole"
    assert found(schema, deep(*parts, most + 1)) == "deeper"
    assert found(schema, deep(*parts, 300_000)) == "deeper"
    assert found(schema, deep(*parts, most)[:-2]) == "damaged"


def test_what_a_block_is_said_to_have_is_passed_over() -> None:
    """Nobody goes through what is deep in it."""

    def around(inner: bytes, size: int) -> bytes:
        return b"\x02a" + number(-1) + number(size) + inner + b"\0"

    one = b"\x02a\0"
    assert found(TREE, around(one, len(one))) == "whole"
    hidden = deep(*DEEP["a list"][1:], 200)
    assert found(TREE, around(hidden, len(hidden))) == "whole"
    for size in (0, len(one) + 1, -1, 2**62):
        assert found(TREE, around(one, size)) == "damaged"


def test_a_large_schema_is_no_trouble() -> None:
    """Records that all lead to one another; and one that always holds itself, of which there is no data."""
    many = 60

    def in_itself(times: int) -> bytes:
        return b"\x02" * times + bytes(many + times * (many - 1))

    schema = leading_to_each_other(many, txn="null")
    assert found(schema, in_itself(DEEPEST_RECORD - 1)) == "whole"
    assert found(schema, in_itself(DEEPEST_RECORD)) == "deeper"
    assert found(schema, in_itself(1_000_000)) == "deeper"
    assert found(schema, in_itself(3)[:-1]) == "damaged"
    assert found(record("Never", txn="null", never="Never"), b"") == "deeper"
