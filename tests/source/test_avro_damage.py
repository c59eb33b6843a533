"""Avro that says what is not true, or is deep in itself: it costs neither memory nor stack."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from avro_data import leading_to_each_other, number
from latecomer.after.reading.reader import Reader
from latecomer.config.damaged_files import DamagedFile
from latecomer.engine.running import run
from latecomer.schemas.avro import parse_schema
from latecomer.source.decode.avro_containers import AvroContainers
from latecomer.source.decode.base import SourceFile
from latecomer.source.decode.private_columns import CORRUPT
from source.avro_source_kit import (
    MICROS,
    decoded,
    decoder,
    framed,
    object_file,
    payload,
    payment,
    pipeline_for,
    record,
)
from source.kafka_source_kit import logged


@pytest.mark.parametrize("length", [2**31 - 20, 100 << 20, -3, 1])
def test_lengths_that_are_not_true_cost_no_memory(length: int) -> None:
    reader = record(
        [
            {"name": "x", "type": ["null", "string"], "default": None},
            {"name": "list", "type": ["null", {"type": "array", "items": "null"}], "default": None},
        ]
    )
    text, many = (record([field]) for field in json.loads(reader)["fields"])
    by = decoder(reader, {1: text, 2: many})
    said = payload(
        record([{"name": "branch", "type": "int"}, {"name": "n", "type": "long"}]), {"branch": 1, "n": length}
    )
    found = decoded(by, [struct.pack(">bI", 0, number) + said for number in (1, 2)])
    assert all(row[CORRUPT] is not None for row in found)


@pytest.mark.parametrize("size", [2**62, 2**63 - 1])
def test_a_block_that_claims_to_be_larger_than_any_file_is_damage(tmp_path: Path, size: int) -> None:
    schema = record([{"name": "txn", "type": "string"}])
    file = tmp_path / "a.avro"
    file.write_bytes(
        object_file(schema, []).replace(b"\0\0" + bytes(range(1, 17)), b"") + number(1) + number(size)
    )
    found = SourceFile(f"file://{file}", 0, file.stat().st_size)
    by = AvroContainers(parse_schema(schema), {"txn": "string"})
    (split,) = by.splits(found, 1)
    with pytest.raises(DamagedFile, match=f"says that it has {size} bytes"):
        list(by.decode(split))


def holding_itself(kind: Any) -> str:
    return record(
        [{"name": "txn", "type": "string"}, {"name": "at", "type": MICROS}, {"name": "more", "type": kind}]
    )


def deep(times: int, before: bytes, innermost: bytes = b"\0", after: bytes = b"") -> bytes:
    """A payment in a payment, so many times."""
    one = payload(record([{"name": "txn", "type": "string"}, {"name": "at", "type": MICROS}]), payment(times))
    return (one + before) * times + one + innermost + after * times


def test_records_that_are_deep_in_one_another_are_dead_letters() -> None:
    """They would cost a stack that has an end. Others of the batch are read."""
    reader = record([{"name": "txn", "type": "string"}])
    line = {"type": "record", "name": "Line", "fields": [{"name": "whole", "type": ["null", "shop.Payment"]}]}
    writers = {
        1: holding_itself(["null", "shop.Payment"]),
        2: holding_itself({"type": "array", "items": "shop.Payment"}),
        3: holding_itself({"type": "map", "values": line}),
    }
    before = {1: b"\x02", 2: b"\x02", 3: b"\x02\x02k\x02"}
    after = {1: b"", 2: b"\0", 3: b"\0"}
    by = replace(decoder(reader, writers), unknown_fields="keep")
    messages = [
        struct.pack(">bI", 0, number) + deep(times, before[number], after=after[number])
        for number in writers
        for times in (0, 3, 49, 100, 20_000)
    ]
    found = decoded(by, messages)
    assert sorted(each["txn"] for each in found if each["txn"]) == sorted(["t0", "t3", "t49"] * 3)
    told = {each[CORRUPT] for each in found} - {None}
    assert told == {*messages[3::5], *messages[4::5]}
    assert by.mistake(messages[4]) == "it has more than 100 records of schema 1 in one another"
    assert (
        by.mistake(messages[1][:-3])
        == f"the {len(messages[1]) - 8} bytes after its id are no whole record of schema 1"
    )


def test_data_of_a_schema_that_is_too_large_to_be_written_out_is_checked() -> None:
    """Together with that of others."""
    reader, large = (json.dumps(leading_to_each_other(count, txn="string")) for count in (1, 60))
    by, other = decoder(reader, {1: reader, 2: large}), framed(1, reader, {"txn": "a", "to0": None})
    messages = [
        struct.pack(">bI", 0, 2) + b"\x02" + (b"%d" % nth) + b"\x02\x02x" * times + bytes(60 + 59 * times)
        for nth, times in enumerate((0, 3, 99, 100, 20_000))
    ]
    hidden = messages[1][:8] + number(2**40)
    found = decoded(by, [*messages, other, hidden])
    assert [each["txn"] for each in found] == ["0", "1", "2", None, None, "a", None]
    assert [each[CORRUPT] for each in found] == [*[None] * 3, *messages[3:], None, hidden]
    told = "the 5 bytes after its id are no whole record of schema 2"
    deep = "it has more than 100 records of schema 2 in one another"
    assert [by.mistake(each) for each in (*messages[3:], hidden[:10])] == [deep, deep, told]


@pytest.mark.long
def test_a_file_with_records_that_are_deep_in_one_another_is_a_dead_letter(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    writer = holding_itself(["null", "shop.Payment"])
    for name, times in (("a", (0, 3)), ("b", (1, 20_000)), ("c", (2,))):
        (tmp_path / "in" / f"{name}.avro").write_bytes(
            object_file(writer, [deep(each, b"\x02") for each in times])
        )
    pipeline = pipeline_for(tmp_path, {"files": {"path": "in/*.avro", "format": "avro"}})
    run(pipeline, once=True, spark=spark)
    assert sorted(logged(pipeline, "txn")) == ["t0", "t2", "t3"]
    (letter,) = Reader(pipeline).dead_letters().to_pylist()
    assert letter["origin"].endswith("in/b.avro")
    assert "too many records in one another" in letter["raw"]
