"""Messages of Avro as a task decodes them: plain ones all at once, odd ones by themselves, in one table."""

from __future__ import annotations

import io
import json
import pickle
import struct
import time
from decimal import Decimal
from functools import lru_cache
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from avro_data import number
from avro_messages import messages, schemas
from examples_kit import usual
from latecomer.model.types import is_decimal, scale_of
from latecomer.schemas.avro import Reading, ReadValue, parse_schema, reading
from latecomer.source.decode import avro_columns
from latecomer.source.decode.avro_messages import AvroMessages
from latecomer.source.decode.framing import UnknownSchemas, words_of
from latecomer.source.decode.private_columns import CORRUPT, KEPT, SCHEMA_ID
from source.avro_source_kit import framed, record

WRITERS = 4


def decoder(reader: str, writers: dict[int, str], unknown: Any = "ignore") -> AvroMessages:
    """As a task has it."""
    parsed = {number: parse_schema(text) for number, text in writers.items()}
    return pickle.loads(pickle.dumps(AvroMessages(parsed, unknown, reader=parse_schema(reader))))  # type: ignore[no-any-return]


@lru_cache(maxsize=256)
def columns_of(reader: str) -> dict[str, str]:
    return reading(parse_schema(reader)).columns


def plain(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows with times as numbers, which have room for all of them."""
    for nth, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) or pa.types.is_date(field.type):
            kind = pa.int32() if pa.types.is_date(field.type) else pa.int64()
            rows = rows.set_column(nth, field.name, rows.column(nth).cast(kind))
    return rows.to_pylist()  # type: ignore[no-any-return]


# Held against another library


def without_logical(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_logical(each) for each in schema]
    if isinstance(schema, dict):
        return {name: without_logical(each) for name, each in schema.items() if name != "logicalType"}
    return schema


def expected(reader: str, writer: str, raw: bytes) -> dict[str, Any]:
    """What fastavro reads, which knows nothing of units and scales here."""
    found, columns = reading(parse_schema(reader), parse_schema(writer)), columns_of(reader)
    plain, wanted = without_logical(json.loads(writer)), without_logical(found.schema)
    row = fastavro.schemaless_reader(io.BytesIO(raw), plain, wanted)
    return {name: as_column(found.values[name], columns[name], row, unit_of(found, name)) for name in columns}


def unit_of(found: Reading, name: str) -> str:
    """The logical type of a column in the schema that is read with."""
    kind: Any = found.schema
    for step in found.values[name].path:
        while isinstance(kind, list):
            kind = next(each for each in kind if each != "null")
        kind = next(field["type"] for field in kind["fields"] if field["name"] == step)
    while isinstance(kind, list):
        kind = next(each for each in kind if each != "null")
    return str(kind.get("logicalType", "")) if isinstance(kind, dict) else ""


def as_column(value: ReadValue, kind: str, row: Any, unit: str) -> Any:
    for step in value.path:
        row = None if row is None else row[step]
    if row is None:
        return None
    if is_decimal(value.kind):
        row = row.encode("iso-8859-1") if isinstance(row, str) else row  # a default, as the schema has it
        return Decimal(f"{int.from_bytes(row, 'big', signed=True)}E-{scale_of(value.kind)}")
    if value.delivered_as in ("nanos", "local_nanos"):
        return row // 1000
    if value.delivered_as == "millis_of_day" or unit.endswith("timestamp-millis"):
        return row * 1000
    return float(row) if kind == "double" else row


@pytest.mark.drawn
def test_what_is_read_another_library_reads_alike() -> None:
    """Writers of random schemas in one batch."""
    for seed in range(usual.max_examples):
        reader, writers = schemas(seed, WRITERS)
        written = [
            (nth, raw)
            for nth, writer in enumerate(writers, 1)
            for raw in messages(writer, WRITERS * seed + nth, 12, damaged=0)
        ]
        rows = decoder(reader, dict(enumerate(writers, 1))).decode(
            [struct.pack(">bI", 0, nth) + raw for nth, raw in written], columns_of(reader)
        )
        found = plain(rows.select(list(columns_of(reader))))
        for (nth, raw), row, corrupt in zip(written, found, rows.column(CORRUPT).to_pylist(), strict=True):
            if corrupt is None:
                assert row == expected(reader, writers[nth - 1], raw)


@pytest.mark.drawn
def test_all_at_once_and_one_by_one_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of damaged messages, which are dead letters in both ways."""
    corrupt = count = 0
    for seed in range(usual.max_examples):
        reader, writers = schemas(seed, WRITERS)
        written = [
            struct.pack(">bI", 0, nth) + raw
            for nth, writer in enumerate(writers, 1)
            for raw in messages(writer, WRITERS * seed + nth, 30, damaged=0.3)
        ]
        by = decoder(reader, dict(enumerate(writers, 1)), "keep")
        found = {}
        for few in (8, 10_000):
            monkeypatch.setattr(avro_columns, "FEW", few)
            found[few] = by.decode(written, columns_of(reader))
        assert repr(plain(found[8])) == repr(plain(found[10_000]))
        count, corrupt = count + len(written), corrupt + len(found[8].column(CORRUPT).drop_null())
    assert count / 20 < corrupt < count * 0.7


# Byte by byte


def one(kind: Any, raws: list[bytes]) -> list[Any]:
    """A column of one field, of messages that are nothing but it; "corrupt" for those that are dead letters. Between
    them are enough others that all are read at once."""
    schema = record([{"name": "it", "type": kind}])
    by, columns = decoder(schema, {7: schema}), columns_of(schema)
    head = struct.pack(">bI", 0, 7)
    rows = by.decode([head + raw for raw in raws for _ in range(10)], columns)
    assert rows.schema.field(CORRUPT).type == pa.binary()
    values = plain(rows.select(["it"]))
    found = [
        "corrupt" if corrupt is not None else row["it"]
        for row, corrupt in zip(values, rows.column(CORRUPT).to_pylist(), strict=True)
    ]
    assert all(repr(found[nth]) == repr(found[nth // 10 * 10]) for nth in range(len(found)))
    return found[::10]


EDGES = sorted({sign * (1 << bits) + more for bits in range(63) for sign in (1, -1) for more in (-1, 0, 1)})
LONGS = [*EDGES, (1 << 63) - 1, -(1 << 63)]


def test_whole_numbers_of_every_length() -> None:
    """In as few bytes as there may be, and in more."""
    assert one("long", [number(each) for each in LONGS]) == LONGS
    ints = [each for each in LONGS if -(1 << 31) <= each < 1 << 31]
    assert one("int", [number(each) for each in ints]) == ints
    assert one("long", [b"\x82\0", b"\x82\x80\x80\0", b"\x82" + b"\x80" * 8 + b"\0"]) == [1, 1, 1]
    assert one("int", [b"\x82\x80\x80\x80\0"]) == [1]


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        ("int", number(1 << 31), 0),  # of 33 bits Java takes 32
        ("int", b"\x82\x80\x80\x80\x80\0", "corrupt"),
        ("long", b"\xff" * 9 + b"\x02", -(1 << 62)),  # and of 65 it takes 64
        ("long", b"\xff" * 10, "corrupt"),
        ("long", b"\x80", "corrupt"),
        ("long", b"", "corrupt"),
        ("boolean", b"\x02", False),
        ("boolean", b"", "corrupt"),
        ("double", b"\0" * 7, "corrupt"),
        ("double", struct.pack("<d", float("-inf")), float("-inf")),
        ("string", number(-1), "corrupt"),
        ("string", number(3) + b"ab", "corrupt"),
        ("string", number(2) + b"\xc3(", "corrupt"),
        ("string", number(3) + b"\xed\xa0\x80", "corrupt"),
        ("string", number(1 << 62), "corrupt"),
        (["null", "int"], number(2), "corrupt"),
        (["null", "int"], number(-1), "corrupt"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, number(1), "corrupt"),
        ({"type": "long", "logicalType": "timestamp-millis"}, number(1 << 60), "corrupt"),
        ({"type": "long", "logicalType": "timestamp-micros"}, number(-(1 << 60)), -(1 << 60)),
        ({"type": "int", "logicalType": "date"}, number(-100_000), -100_000),
        (DECIMAL, number(0), "corrupt"),
        (DECIMAL, number(2) + b"\x27\x0f", Decimal("99.99")),
        (DECIMAL, number(2) + b"\x27\x10", "corrupt"),
        (DECIMAL, number(17) + bytes(16) + b"\x07", Decimal("0.07")),
        ("bytes", number(2) + b"\xff\0", b"\xff\0"),
        ("float", struct.pack("<f", 0.5), 0.5),
        ({"type": "array", "items": "int"}, number(2) + b"\x02\x04\0", [1, 2]),
        ({"type": "array", "items": "int"}, number(-2) + number(2) + b"\x02\x04\0", [1, 2]),
        ({"type": "array", "items": "null"}, number(1 << 40), "corrupt"),
        ({"type": "map", "values": "int"}, number(1) + b"\x02k\x04\0", [("k", 2)]),
        (["null", "int", "string"], b"\x04\x02x", "x"),
        (["null", "int", "double"], b"\x04" + struct.pack("<d", 1e10), "1.0E10"),
    ],
)
def test_each_value(kind: Any, raw: bytes, value: Any) -> None:
    assert one(kind, [raw]) == [value]


@pytest.mark.parametrize("size", [None, 9, 16])
def test_decimals_of_every_length(size: int | None) -> None:
    kind = {"type": "fixed", "name": "D", "size": size} if size else {"type": "bytes"}
    precision = 38 if size is None else {9: 21, 16: 38}[size]
    numbers = [each for each in LONGS if abs(each) < 10**precision]
    if precision == 38:
        numbers += [10**38 - 1, 1 - 10**38, 1 << 64, -(1 << 64), (1 << 64) - 1, 1 << 120]
    raws = []
    for each in numbers:
        raw = each.to_bytes(size or each.bit_length() // 8 + 1, "big", signed=True)
        raws.append(raw if size else number(len(raw)) + raw)
    found = one({**kind, "logicalType": "decimal", "precision": precision, "scale": 3}, raws)
    assert found == [Decimal(f"{each}E-3") for each in numbers]


def test_words_begin_at_each_byte() -> None:
    data = bytes(range(20))
    assert words_of(data).tolist() == [
        int.from_bytes(data[nth : nth + 8], "little") for nth in range(len(data) - 7)
    ]
    assert np.shares_memory(words_of(data), np.frombuffer(data, np.uint8))


# Whole batches


def test_records_without_framing_and_of_schemas_that_cannot_be_used_are_corrupt() -> None:
    kind = record([{"name": "n", "type": "long"}])
    by = decoder(kind, {7: kind})
    by = AvroMessages({**by.writers, 9: "schema 9 is of the type JSON, not AVRO"}, reader=by.reader)
    odd = [b"", b"\0\0\0\0", b"\x01\0\0\0\x07\x02", b"{}   ", bytes(6), b"\0\xff\0\0\0\x02"]
    good = framed(7, kind, {"n": 3})
    rows = by.decode([*odd, good, framed(9, kind, {"n": 1})], {"n": "bigint"})
    assert rows.column(CORRUPT).to_pylist() == [*odd, None, framed(9, kind, {"n": 1})]
    assert rows.column(SCHEMA_ID).to_pylist() == [None] * 6 + [7, None]
    assert rows.column("n").to_pylist() == [None] * 6 + [3, None]
    assert by.decode([], {"n": "bigint"}).num_rows == 0


def test_ids_that_are_not_known_are_named() -> None:
    kind = record([{"name": "n", "type": "long"}])
    by = decoder(kind, {7: kind})
    records = [framed(each, kind, {"n": 1}) for each in (9, 7, 8, 9)]
    assert by.unknown_ids(records) == [8, 9]
    with pytest.raises(UnknownSchemas) as raised:
        by.decode(records, {"n": "bigint"})
    assert pickle.loads(pickle.dumps(raised.value)).ids == (8, 9)
    assert str(raised.value) == "the schemas 8, 9 are not known yet"


def test_fields_that_are_no_columns_are_kept_or_ignored_or_make_a_dead_letter() -> None:
    amount = {"name": "n", "type": "long"}
    reader = record([amount])
    more = record([amount, {"name": "m", "type": "int"}, {"name": "note", "type": ["null", "string"]}])
    odd = record([amount, {"name": "share", "type": "double"}])
    old, new = framed(1, reader, {"n": 1}), framed(2, more, {"n": 2, "m": -5, "note": 'é "x"\x0b'})
    bare, floating = framed(2, more, {"n": 3, "m": 7, "note": None}), framed(3, odd, {"n": 4, "share": 0.5})

    def read(rule: str, *records: bytes) -> pa.Table:
        return decoder(reader, {1: reader, 2: more, 3: odd}, rule).decode(records, {"n": "bigint"})

    assert KEPT not in read("ignore", new, floating).column_names
    assert KEPT not in read("keep", old).column_names
    kept = read("keep", new, old, bare, floating)
    assert kept.column("n").to_pylist() == [2, 1, 3, 4]
    texts = ['{"m":-5,"note":"é \\"x\\"\\u000B"}', None, '{"m":7}', '{"share":0.5}']
    assert kept.column(KEPT).to_pylist() == texts
    refused = read("dead_letter", new, old, bare, floating)
    assert refused.column(CORRUPT).to_pylist() == [new, None, bare, floating]
    assert refused.column("n").to_pylist() == [2, 1, 3, 4]


def test_records_in_one_another_have_an_end() -> None:
    """A writer's record may hold itself, and each byte be one more."""
    chain = {"type": "record", "name": "Chain", "fields": [{"name": "more", "type": ["null", "Chain"]}]}
    writer = record([{"name": "it", "type": "int"}, {"name": "chain", "type": chain}])
    by = decoder(record([{"name": "it", "type": "int"}]), {7: writer})
    raws = [
        struct.pack(">bI", 0, 7) + number(7) + b"\x02" * times + b"\0"
        for times in (0, 20, 60, 97, 98, 99, 100_000)
        for _ in range(4)
    ]
    rows = by.decode(raws, {"it": "int"})
    assert rows.column("it").to_pylist() == [7] * 20 + [None] * 8
    assert rows.column(CORRUPT).to_pylist() == [None] * 20 + raws[20:]
    assert by.depth_exceeded(7, raws[-1][5:]) == 100
    assert by.depth_exceeded(7, raws[0][5:8]) is None


def test_many_ids_in_one_batch_are_not_slow() -> None:
    """36 messages of a dozen writers took most of a minute, once."""
    reader = record([{"name": f"c{nth}", "type": ["null", "string"], "default": None} for nth in range(30)])
    writers = {
        each: record(
            [{"name": f"c{nth}", "type": "string"} for nth in range(30)]
            + [{"name": f"x{each}", "type": "int"}]
        )
        for each in range(1, 201)
    }
    by = decoder(reader, writers, "keep")
    raws = [
        framed(each, text, {**{f"c{nth}": "a" for nth in range(30)}, f"x{each}": 1})
        for each, text in writers.items()
    ] * 3
    began = time.process_time()
    rows = by.decode(raws, columns_of(reader))
    assert time.process_time() - began < 10
    assert rows.column(CORRUPT).null_count == len(raws)
    assert rows.column(KEPT).to_pylist()[:2] == ['{"x1":1}', '{"x2":1}']


def test_a_damaged_message_costs_its_neighbours_nothing() -> None:
    schema = record([{"name": "n", "type": "long"}, {"name": "s", "type": "string"}])
    by = decoder(schema, {1: schema})
    raws = [framed(1, schema, {"n": nth, "s": "text"}) for nth in range(5_000)]
    raws[17], raws[4_000] = raws[17][:-2], raws[4_000].replace(b"text", b"te\xfft")
    rows = by.decode(raws, columns_of(schema))
    assert [nth for nth, each in enumerate(rows.column(CORRUPT).to_pylist()) if each] == [17, 4_000]
    assert rows.column("n").to_pylist() == [*range(17), None, *range(18, 5_000)]
    assert rows.column("s")[4_000].as_py() is None
