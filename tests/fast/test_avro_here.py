"""Messages of Avro read without Spark: each as Spark reads it, or left to Spark."""

from __future__ import annotations

import io
import json
import struct
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from latecomer.decode.arrow_avro import Plan, avro_rows
from latecomer.decode.arrow_framed import Framed, words_of
from latecomer.fast import VARIABLE, Declined
from pyspark.sql import SparkSession

from avro_data import number
from avro_messages import messages, schemas
from examples_kit import usual
from kafka_kit import Client
from latecomer.after.reading.reader import Reader
from latecomer.decode.avro import AvroRecords
from latecomer.decode.columns import CORRUPT, KEPT, SCHEMA_ID
from latecomer.errors import SchemaOutage
from latecomer.model.avro import Reading, Value, parse_schema, reading
from latecomer.model.types import is_decimal, scale_of
from latecomer.running import run
from registry.registry_kit import beside
from source.avro_source_kit import FIRST, THIRD, avro_pipeline, framed, payment, record
from source.kafka_source_kit import logged, totals
from source.test_avro_values import decoded, decoder

WRITERS = 4
HEAD = struct.pack(">bI", 0, 7)


def loaded(reader: str, written: list[tuple[str, bytes]]) -> pa.Table:
    """Messages of any writers in one batch, without Spark."""
    texts = list(dict.fromkeys(writer for writer, _ in written))
    plans = {nth: plan_of(reader, writer) for nth, writer in enumerate(texts, 1)}
    values = [struct.pack(">bI", 0, texts.index(writer) + 1) + raw for writer, raw in written]
    return avro_rows(Framed.of(values), plans, columns_of(reader)).drop_columns(SCHEMA_ID)


@lru_cache(maxsize=256)
def plan_of(reader: str, writer: str) -> Plan:
    written = parse_schema(writer)
    return Plan(written, reading(parse_schema(reader), written))


def with_rule(by: AvroRecords, rule: str) -> AvroRecords:
    """The same decoder, with another rule for unknown fields."""
    source = by.pipeline.source.model_copy(update={"unknown_fields": rule})
    made = AvroRecords(by.pipeline.model_copy(update={"source": source}))
    made.reader = by.reader
    made.schemas.known.update(by.schemas.known)
    return made


@lru_cache(maxsize=256)
def columns_of(reader: str) -> dict[str, str]:
    return reading(parse_schema(reader)).columns


def taken(reader: str, written: list[tuple[str, bytes]], reasons: Counter[str]) -> list[tuple[str, bytes]]:
    """Those of the messages that are read here, each by itself."""
    found = []
    for each in written:
        try:
            loaded(reader, [each])
        except (Declined, pa.ArrowException) as declined:
            reasons[str(declined)] += 1
        else:
            found.append(each)
    return found


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
    found, columns = plan_of(reader, writer).reading, columns_of(reader)
    plain, wanted = without_logical(json.loads(writer)), without_logical(found.schema)
    row = fastavro.schemaless_reader(io.BytesIO(raw), plain, wanted)
    return {name: as_column(found.values[name], columns[name], row, unit_of(found, name)) for name in columns}


def unit_of(found: Reading, name: str) -> str:
    """The logical type of a column in the schema that is read with."""
    kind: Any = found.schema
    for step in found.values[name].way:
        while isinstance(kind, list):
            kind = next(each for each in kind if each != "null")
        kind = next(field["type"] for field in kind["fields"] if field["name"] == step)
    while isinstance(kind, list):
        kind = next(each for each in kind if each != "null")
    return str(kind.get("logicalType", "")) if isinstance(kind, dict) else ""


def as_column(value: Value, kind: str, row: Any, unit: str) -> Any:
    for step in value.way:
        row = None if row is None else row[step]
    if row is None:
        return None
    if is_decimal(value.kind):
        return Decimal(f"{int.from_bytes(row, 'big', signed=True)}E-{scale_of(value.kind)}")
    if value.given in ("nanos", "local_nanos"):
        return row // 1000
    if value.given == "millis_of_day" or unit.endswith("timestamp-millis"):
        return row * 1000
    return float(row) if kind == "double" else row


@pytest.mark.drawn
def test_what_is_read_here_another_library_reads_alike() -> None:
    """Writers of random schemas in one batch; of the messages, some are damaged."""
    reasons: Counter[str] = Counter()
    count = read = 0
    for seed in range(usual.max_examples):
        reader, writers = schemas(seed, WRITERS)
        written = [
            (writer, raw)
            for nth, writer in enumerate(writers)
            for raw in messages(writer, WRITERS * seed + nth, 6, damaged=0.3)
        ]
        whole = taken(reader, written, reasons)
        count, read = count + len(written), read + len(whole)
        if whole:
            assert plain(loaded(reader, whole)) == [expected(reader, *each) for each in whole]
    assert read > count / 3, reasons
    assert {"a message that is cut off", "lists and maps", "bytes that are not UTF-8"} <= {*reasons}


@pytest.mark.long
def test_what_is_read_here_spark_reads_alike(spark: SparkSession, tmp_path: Path) -> None:
    read = kept = 0
    for seed in range(1000, 1012):
        reader, writers = schemas(seed, 12)
        written = [
            (writer, raw)
            for nth, writer in enumerate(writers)
            for raw in messages(writer, 12 * seed + nth, 40, damaged=0.4)
        ]
        whole = taken(reader, written, Counter())
        read += len(whole)
        if not whole:
            continue
        keeping = decoder(tmp_path, reader, dict(enumerate(writers, 1)))
        framing = [struct.pack(">bI", 0, writers.index(writer) + 1) + raw for writer, raw in whole]
        there = decoded(spark, with_rule(keeping, "ignore"), framing)
        assert [row for row in there if row[CORRUPT] is not None] == []
        here = loaded(reader, whole).to_pylist()
        assert here == [
            {name: value for name, value in row.items() if name not in (CORRUPT, SCHEMA_ID)} for row in there
        ]
        texts = {}
        for raw in framing:
            with suppress(Declined):  # what only Spark writes as it is kept, and text that is not UTF-8
                found = keeping.load([raw], columns_of(reader))
                texts[raw] = found[KEPT][0].as_py() if KEPT in found.column_names else None
        there = decoded(spark, keeping, list(texts)) if texts else []
        assert [(row[CORRUPT], row[KEPT]) for row in there] == [(None, text) for text in texts.values()]
        kept += sum(text is not None for text in texts.values())
    assert read > 12 * 12 * 40 / 4
    assert kept > 50


# Byte by byte


def one(kind: Any, raws: list[bytes]) -> list[Any]:
    """A column of one field, of messages that are nothing but it."""
    schema = record([{"name": "it", "type": kind}])
    return loaded(schema, [(schema, raw) for raw in raws]).column("it").to_pylist()  # type: ignore[no-any-return]


EDGES = sorted({sign * (1 << bits) + more for bits in range(63) for sign in (1, -1) for more in (-1, 0, 1)})
LONGS = [*EDGES, (1 << 63) - 1, -(1 << 63)]


def test_whole_numbers_of_every_length() -> None:
    """In as few bytes as there may be, and in more."""
    assert one("long", [number(each) for each in LONGS]) == LONGS
    ints = [each for each in LONGS if -(1 << 31) <= each < 1 << 31]
    assert one("int", [number(each) for each in ints]) == ints
    assert one("long", [b"\x82\0", b"\x82\x80\x80\0", b"\x82" + b"\x80" * 8 + b"\0"]) == [1, 1, 1]
    assert one("int", [b"\x82\x80\x80\x80\0"]) == [1]


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("int", number(1 << 31)),
        ("int", number(-(1 << 31) - 1)),
        ("int", b"\x82\x80\x80\x80\x80\0"),
        ("long", b"\xff" * 9 + b"\x02"),
        ("long", b"\xff" * 10),
        ("long", b"\x80"),
        ("long", b""),
        ("boolean", b"\x02"),
        ("boolean", b""),
        ("double", b"\0" * 7),
        ("double", struct.pack("<d", float("nan"))),
        ("string", number(-1)),
        ("string", number(3) + b"ab"),
        ("string", number(2) + b"\xc3("),
        ("string", number(3) + b"\xed\xa0\x80"),
        ("string", number(1 << 62)),
        (["null", "int"], number(2)),
        (["null", "int"], number(-1)),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, number(1)),
        ({"type": "long", "logicalType": "timestamp-millis"}, number(1 << 60)),
        ({"type": "long", "logicalType": "timestamp-micros"}, number(-(1 << 60))),
        ({"type": "int", "logicalType": "date"}, number(-100_000)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, number(0)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, number(2) + b"\x27\x10"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, number(17) + bytes(17)),
        ("bytes", number(0)),
        ("float", bytes(4)),
        ({"type": "array", "items": "int"}, b"\0"),
        (["null", "int", "string"], b"\0"),
    ],
)
def test_what_is_left_to_spark(kind: Any, raw: bytes) -> None:
    """Also in the midst of others that are fine, whose bytes it must not take for its own."""
    with pytest.raises((Declined, pa.ArrowException)):
        one(kind, [raw])
    fine = {"int": number(1), "long": number(1), "string": number(1) + b"x", "double": bytes(8)}.get(
        str(kind)
    )
    if fine is not None:
        with pytest.raises((Declined, pa.ArrowException)):
            one(kind, [fine, raw, fine])


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


@pytest.mark.parametrize(
    "value", [b"", b"\0\0\0\0", b"\x01\0\0\0\x07\x02", b"{}   ", bytes(6), b"\0\xff\0\0\0\x02"]
)
def test_messages_without_framing_are_left_to_spark(value: bytes) -> None:
    good = HEAD + number(1)
    with pytest.raises(Declined, match="framing"):
        Framed.of([good, value, good]).distinct  # noqa: B018


def test_records_in_one_another_without_end_are_left_to_spark() -> None:
    """A writer's record may hold itself, and each byte be one more."""
    chain = {"type": "record", "name": "Chain", "fields": [{"name": "more", "type": ["null", "Chain"]}]}
    writer = record([{"name": "it", "type": "int"}, {"name": "chain", "type": chain}])
    reader = record([{"name": "it", "type": "int"}])
    few = number(7) + b"\x02" * 20 + b"\0"
    assert loaded(reader, [(writer, few)]).to_pylist() == [{"it": 7}]
    with pytest.raises(Declined, match="deep in one another"):
        loaded(reader, [(writer, few), (writer, number(7) + b"\x02" * 100_000 + b"\0")])


# What a decoder knows


def test_an_id_that_is_not_known_is_asked_for(tmp_path: Path) -> None:
    """Its schema is waited for; one that cannot be used is left to Spark, which tells what is wrong."""
    kind = record([{"name": "n", "type": "long"}])
    by = decoder(tmp_path, kind, {7: kind})
    columns = {"n": "bigint"}
    both = [framed(7, kind, {"n": 1}), framed(8, kind, {"n": 2}), framed(7, kind, {"n": 3})]
    for _ in range(2):
        with pytest.raises(SchemaOutage, match="schema 8 cannot be had"):
            by.load(both, columns)
    by.schemas.known[8] = parse_schema(record([{"name": "n", "type": "int"}]))
    assert by.load(both, columns).to_pylist() == [
        {"n": 1, SCHEMA_ID: 7},
        {"n": 2, SCHEMA_ID: 8},
        {"n": 3, SCHEMA_ID: 7},
    ]
    by.schemas.known[9] = "schema 9 is of the type JSON, not AVRO"
    with pytest.raises(Declined, match="cannot be used"):
        by.load([framed(9, kind, {"n": 1})], columns)


def test_fields_that_are_no_columns_are_kept_ignored_or_decline(tmp_path: Path) -> None:
    number, maybe = {"name": "n", "type": "long"}, ["null", "string"]
    reader = record([number])
    more = record([number, {"name": "m", "type": "int"}, {"name": "note", "type": maybe}])
    odd = record([number, {"name": "share", "type": "double"}])
    old, new = framed(1, reader, {"n": 1}), framed(2, more, {"n": 2, "m": -5, "note": 'é "x"'})
    bare, floating = framed(2, more, {"n": 3, "m": 7, "note": None}), framed(3, odd, {"n": 4, "share": 0.5})

    def read(rule: str, *records: bytes) -> pa.Table:
        by = with_rule(decoder(tmp_path, reader, {1: reader, 2: more, 3: odd}), rule)
        return by.load(list(records), {"n": "bigint"})

    assert KEPT not in read("ignore", new, floating).column_names
    assert KEPT not in read("keep", old).column_names
    kept = read("keep", new, old, bare)
    assert kept.column("n").to_pylist() == [2, 1, 3]
    assert kept.column(KEPT).to_pylist() == ['{"m":-5,"note":"é \\"x\\""}', None, '{"m":7}']
    with pytest.raises(Declined, match="Spark writes"):
        read("keep", floating)
    assert read("dead_letter", old).num_rows == 1
    with pytest.raises(Declined, match="no columns"):
        read("dead_letter", old, new)


FARE = [
    {"name": "base", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
    {"name": "surge", "type": ["null", "double"], "default": None},
]
OLD = [*FIRST, {"name": "pricing", "type": {"type": "record", "name": "Fare", "fields": FARE[:1]}}]
NEW = [*THIRD, {"name": "pricing", "type": ["null", {"type": "record", "name": "Fare", "fields": FARE}]}]


@pytest.mark.long
def test_both_ways_leave_the_same_log(
    spark: SparkSession, kafka: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of writers with another unit, another name, records within, and a dead letter in one batch of three."""
    topic = kafka.create_topic(partitions=2)
    with beside(tmp_path / "registry.db") as registry:
        one, two = (registry.asking.register(f"s{nth}", record(each)) for nth, each in enumerate((OLD, NEW)))
        rows = [
            framed(one, record(OLD), payment(nth, amount=nth, pricing={"base": Decimal(nth)}))
            if nth % 3
            else framed(
                *(two, record(NEW)),
                payment(
                    nth,
                    paise=nth,
                    shop=None if nth % 2 else "é",
                    note="",
                    pricing=None if nth % 4 == 0 else {"base": Decimal("1.25"), "surge": nth / 4},
                ),
            )
            for nth in range(60)
        ]
        rows[50] = rows[50][:-1]
        for nth, row in enumerate(rows):
            kafka.produce(topic, [row], partition=nth % 2)
        avro = {"registry": registry.url, "subject": "s1"}
        logs = {}
        for way in ("on", "off"):
            monkeypatch.setenv(VARIABLE, way)
            (tmp_path / way).mkdir()
            pipeline = avro_pipeline(tmp_path / way, kafka, topic, avro, kafka={"max_rows_per_batch": 20})
            report = run(pipeline, drain=True, spark=spark)
            names = ["txn", "paise", "shop", "note", "pricing.base", "pricing.surge"]
            more = ["event_time", "schema_id", "origin", "position", "batch", "source_partition"]
            letters = Reader(pipeline).dead_letters().select(["raw_bytes", "reason", "detail"]).to_pylist()
            logs[way] = logged(pipeline, *names, *more), letters, totals(pipeline)
            assert report.paths["log"].startswith("0 of" if way == "off" else "5 of 6 steps without Spark")
    assert len(logs["on"][0]) == 59
    assert logs["on"] == logs["off"]
