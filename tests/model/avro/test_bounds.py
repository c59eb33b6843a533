"""Records that can hold themselves, written out to a depth at which every reader is safe."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from avro_data import DataMaker, number
from avro_kit import schemas
from latecomer.model.avro import bounded, canonical_form, reading, schema_of
from latecomer.model.avro.bounds import DEEPEST_RECORD, written_name
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


def _many(kind: str) -> dict[str, Any]:
    return {"type": "map", "values": {"type": "array", "items": kind}}


def _is_ambiguous(schema: Schema) -> bool:
    """Whether names with and without a namespace are mixed, which the canonical form cannot tell apart."""
    return any("." in name for name in schema.names if name != "Loop") and any(
        "." not in name for name in schema.names if name != "Loop"
    )


def _has_ends(schema: Schema) -> bool:
    """Whether no record leads to itself."""
    return bounded(schema).schema is schema


@given(schemas(), st.integers(0, 1000))
def test_what_is_not_too_deep_is_read_as_before(written: Any, seed: int) -> None:
    schema = schema_of(record("Loop", body=written, again=["null", "Loop"], more=_many("Loop")))
    maker = DataMaker(schema, seed, deepest=6)
    assume(maker.is_possible() and not _is_ambiguous(schema))
    data, found = maker.datum(), bounded(schema)
    assert not found.is_exceeded(data)
    assert _has_ends(found.schema)
    assert {written_name(name) for name in found.schema.names} >= set(schema.names)
    assert _read(found.schema, data) == _read(schema, data)


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
    assert not nulls.is_exceeded(number(2**62) + b"\0")


def test_a_schema_of_very_many_such_records_stays_as_it_is() -> None:
    first = record("R0", R0=["null", "R0"])
    for name in (f"R{nth}" for nth in range(1, 60)):
        within = record(name, **{each: ["null", each] for each in ("R0", name)})
        first["fields"].append({"name": name, "type": ["null", within]})
    schema = schema_of(first)
    assert bounded(schema).schema is schema
    assert bounded(schema).deepest is None


def test_a_record_of_no_data_is_no_trouble() -> None:
    """It always holds itself."""
    found = bounded(schema_of(record("Never", never="Never")))
    assert found.is_exceeded(b"")
    assert isinstance(found.schema.resolve(found.schema.root), Record)
