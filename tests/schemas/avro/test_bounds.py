"""How many records that can hold themselves may be in one another."""

from __future__ import annotations

from typing import Any

import pytest

from avro_data import leading_to_each_other
from latecomer.schemas.avro import schema_of
from latecomer.schemas.avro.types import DEEPEST_RECORD, deepest_of, endless_records


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": kind} for each, kind in fields.items()],
    }


LINE = record("shop.Line", order={"type": "map", "values": "shop.Order"})
TREE = record("shop.Tree", left=["null", "shop.Tree"], size="int")
ENDLESS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "a union": (record("shop.Order", more=["null", "shop.Order"]), {"shop.Order"}),
    "a list": (record("shop.Order", parts={"type": "array", "items": "shop.Order"}), {"shop.Order"}),
    "by another": (record("shop.Order", line=["null", LINE]), {"shop.Order", "shop.Line"}),
    "within one": (record("shop.Order", txn="string", tree=TREE), {"shop.Order", "shop.Tree"}),
    "always": (record("Never", never="Never"), {"Never"}),
}


@pytest.mark.parametrize(("schema", "names"), ENDLESS.values(), ids=ENDLESS)
def test_records_that_hold_themselves_have_an_end(schema: dict[str, Any], names: set[str]) -> None:
    assert endless_records(schema_of(schema)) == names
    assert deepest_of(schema_of(schema)) == DEEPEST_RECORD


def test_others_have_none() -> None:
    schema = schema_of(record("shop.Order", txn="string", tax=record("shop.Tax", rate="double")))
    assert endless_records(schema) == frozenset()
    assert deepest_of(schema) is None


def test_fewer_may_be_in_one_another_where_more_lies_between_them() -> None:
    """Whatever is around them."""

    def lists(inner: Any, times: int) -> Any:
        for _ in range(times):
            inner = {"type": "array", "items": inner}
        return inner

    assert deepest_of(schema_of(record("Deep", lists=lists("Deep", 90)))) == 3
    assert deepest_of(schema_of(leading_to_each_other(60, lists=lists("R0", 20)))) == 300 // 21
    around = record("Around", lists=lists(record("Tree", left=["null", "Tree"]), 90))
    assert deepest_of(schema_of(around)) == DEEPEST_RECORD
