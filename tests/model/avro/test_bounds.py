"""Records that can hold themselves, written out to a depth at which every reader is safe."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from avro_data import DataMaker, SizedBlocks, leading_to_each_other, number
from avro_kit import schemas
from latecomer.model.avro import Bounded, bounded, canonical_form, reading, schema_of
from latecomer.model.avro.bounds import DEEPEST_RECORD, written_name
from latecomer.model.avro.namespaces import in_namespaces
from latecomer.model.avro.types import Record, Schema


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


@pytest.mark.parametrize(("schema", "parts", "records"), [
    (LIST, DEEP["a union"][1:], 1),
    (TREE, DEEP["a list"][1:], 1),
    (ROUND, DEEP["by another"][1:], 2),
])  # fmt: skip
def test_only_what_is_deeper_is_exceeded(
    schema: dict[str, Any], parts: tuple[bytes, bytes, bytes], records: int
) -> None:
    found = bounded(schema_of(schema))
    most = (DEEPEST_RECORD - 1) // records
    assert found.deepest == DEEPEST_RECORD
    assert not found.is_exceeded(deep(*parts, most))
    assert found.is_exceeded(deep(*parts, most + 1))
    assert found.is_exceeded(deep(*parts, 300_000))
    assert not found.is_exceeded(deep(*parts, most)[:-2]), "damaged, and not too deep"


def test_other_schemas_stay_as_they_are() -> None:
    found = schema_of(record("shop.Order", txn="string", tax=record("shop.Tax", rate="double")))
    assert bounded(found).schema is found
    assert bounded(found).deepest is None
    assert not bounded(found).is_exceeded(b"\x02a")


def test_the_columns_and_the_fields_that_are_kept_are_the_same() -> None:
    """A field that leads back to its record is left out, of what is kept too."""
    reader = schema_of(record("shop.Order", txn="string"))
    for writer in (LIST, TREE, ROUND, WITHIN):
        plain = reading(reader, schema_of(writer), unknown=True)
        ending = reading(reader, bounded(schema_of(writer)).schema, unknown=True)
        assert (ending.values, ending.left_out, ending.unknown) == (
            plain.values,
            plain.left_out,
            plain.unknown,
        )
    assert reading(reader, bounded(schema_of(WITHIN)).schema, unknown=True).unknown == ("tree",)


def test_a_type_is_known_by_its_name_however_deep_it_is() -> None:
    """Two types of one short name; the reader means the second."""
    inner = [
        record("a.Item", paise="int", again=["null", "n.Top"]),
        record("b.Item", paise="int", other="int"),
    ]
    writer = record("n.Top", more=["null", record("n.Line", item=inner, line=["null", "n.Line"])])
    wanted = record("b.Item", paise="long")
    reader = record("n.Top", more=["null", record("n.Line", item=["null", wanted])])
    found = reading(schema_of(reader), bounded(schema_of(writer)).schema)
    assert '"b.Item"' in found.text.replace("_lc_deep2", "")
    assert "a.Item" not in found.text


def test_types_of_one_short_name_are_told_apart() -> None:
    """One of them has no namespace. Neither the canonical form nor what is read with takes one for the other."""
    two = [record("a.b.Money", paise="long"), {**record("Money", rupees="string"), "namespace": ""}]
    writer = bounded(schema_of(record("a.b.Order", txn="string", either=["null", *two]))).schema
    assert set(writer.names) == {"a.b.Order", "a.b.Money", "_lc_nowhere.Money"}
    assert schema_of(json.loads(canonical_form(writer))).names.keys() == writer.names.keys()
    found = reading(schema_of(record("a.b.Order", txn="string")), writer, unknown=True)
    assert found.unknown == ("either",)
    assert schema_of(json.loads(found.text)).names.keys() == writer.names.keys()


def _many(kind: str) -> dict[str, Any]:
    return {"type": "map", "values": {"type": "array", "items": kind}}


def _has_ends(schema: Schema) -> bool:
    """Whether no record leads to itself."""
    return bounded(schema).schema is schema


@given(schemas(), st.integers(0, 1000))
def test_what_is_not_too_deep_is_read_as_before(written: Any, seed: int) -> None:
    schema = schema_of(record("Loop", body=written, again=["null", "Loop"], more=_many("Loop")))
    maker = DataMaker(schema, seed, deepest=6)
    assume(maker.is_possible())
    data, found = maker.datum(), bounded(schema)
    assert not found.is_exceeded(data)
    assert _has_ends(found.schema)
    assert len({"." in name for name in found.schema.names}) == 1
    assert {written_name(name) for name in found.schema.names} >= set(schema.names)
    assert _read(found.schema, data) == _read(in_namespaces(schema), data)


def _read(schema: Schema, data: bytes) -> tuple[Any, int]:
    """What another library reads, and how many bytes that took."""
    stream = io.BytesIO(data)
    parsed = fastavro.parse_schema(json.loads(canonical_form(schema)))
    return fastavro.schemaless_reader(stream, parsed, None), stream.tell()


def test_what_is_written_out_is_bounded() -> None:
    """Many fields, lists in lists, and data that says it has more than it has."""
    nested: Any = "Deep"
    for _ in range(90):
        nested = {"type": "array", "items": nested}
    many = {f"f{nth}": "string" for nth in range(500)}
    wide = bounded(schema_of(record("Wide", **many, more=["null", "Wide"])))
    tall = bounded(schema_of(record("Deep", lists=nested)))
    around = bounded(schema_of(record("Wide", **many, tree=record("Tree", left=["null", "Tree"]))))
    assert (wide.deepest, tall.deepest, around.deepest) == (62, 3, DEEPEST_RECORD)
    assert len(canonical_form(wide.schema)) + len(canonical_form(tall.schema)) < 3_000_000
    nulls = bounded(
        schema_of(record("Many", nulls={"type": "array", "items": "null"}, more=["null", "Many"]))
    )
    assert nulls.is_exceeded(number(2**62) + b"\0") is None


MANY = 60
"""Records that lead to one another: too many to be written out."""


def in_itself(times: int) -> bytes:
    """The first of them in itself, so many times: a byte says that it is there, the others are not."""
    return b"\x02" * times + bytes(MANY + times * (MANY - 1))


def test_data_of_a_schema_that_is_too_large_to_be_written_out_is_checked() -> None:
    schema = schema_of(leading_to_each_other(MANY))
    found = bounded(schema)
    assert found.schema is schema
    assert (found.is_checked, found.deepest) == (True, DEEPEST_RECORD)
    assert found.walked(in_itself(DEEPEST_RECORD - 1)) == "whole"
    assert found.walked(in_itself(DEEPEST_RECORD)) == "deeper"
    assert found.is_exceeded(in_itself(1_000_000))
    assert found.walked(in_itself(3)[:-1]) == "damaged"
    assert not found.is_exceeded(in_itself(3)[:-1])


def test_fewer_records_may_be_in_one_another_where_more_lies_between_them() -> None:
    lists: Any = "R0"
    for _ in range(20):
        lists = {"type": "array", "items": lists}
    found = bounded(schema_of(leading_to_each_other(MANY, lists=lists)))
    assert (found.is_checked, found.deepest) == (True, 300 // 21)


@given(schemas(), st.integers(0, 1000), st.sampled_from([DataMaker, SizedBlocks]))
def test_what_is_not_too_deep_is_whole(written: Any, seed: int, kind: type[DataMaker]) -> None:
    schema = schema_of(record("Loop", body=written, again=["null", "Loop"], more=_many("Loop")))
    maker = kind(schema, seed, deepest=6)
    assume(maker.is_possible())
    data = maker.datum()
    assert Bounded(schema, DEEPEST_RECORD, is_checked=True).walked(data) == "whole"
    assert bounded(schema).walked(data) == "whole"


def test_readers_that_pass_over_a_block_and_those_that_do_not_see_the_same() -> None:
    """A block that says another size than it has could hide what is deep."""
    found = Bounded(schema_of(TREE), DEEPEST_RECORD, is_checked=True)

    def around(inner: bytes, size: int) -> bytes:
        return b"\x02a" + number(-1) + number(size) + inner + b"\0"

    one = b"\x02a\0"
    assert found.walked(around(one, len(one))) == "whole"
    hidden = deep(*DEEP["a list"][1:], 200)
    assert found.walked(around(hidden, len(hidden))) == "deeper"
    for size in (0, len(one) - 1, len(one) + 1, -1, 2**62):
        assert found.walked(around(one, size)) == "damaged"


def test_what_takes_too_long_to_find_out_is_neither() -> None:
    found = Bounded(schema_of(TREE), DEEPEST_RECORD, is_checked=True)
    wide = b"\x02a" + number(100_000) + b"\x02a\0" * 100_000
    assert found.walked(wide + b"\0") == "longer"
    assert found.is_exceeded(wide) is None
    assert bounded(found.schema).is_exceeded(wide) is None


def test_a_record_of_no_data_is_no_trouble() -> None:
    """It always holds itself."""
    found = bounded(schema_of(record("Never", never="Never")))
    assert found.is_exceeded(b"")
    assert isinstance(found.schema.resolve(found.schema.root), Record)
