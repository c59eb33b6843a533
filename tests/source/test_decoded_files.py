"""Parquet and Avro object files as a task decodes them, without Spark."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fuzz.mutants import varint, with_footer
from latecomer.config.damaged_files import DamagedFile
from latecomer.schemas.avro import parse_schema, reading
from latecomer.source.decode.avro_containers import AvroContainers
from latecomer.source.decode.base import FileDecoder, FileSplit, SourceFile
from latecomer.source.decode.parquet_reading import ParquetReading
from latecomer.source.decode.private_columns import CORRUPT, KEPT, POSITION
from latecomer.store.layout import source_type
from source.avro_source_kit import record

MOMENT = datetime(2026, 1, 5, 14, tzinfo=UTC)


def source_file(file: Path) -> SourceFile:
    return SourceFile(f"file://{file}", 0, file.stat().st_size)


def rows_of(decoder: FileDecoder, file: Path, size: int = 1 << 30) -> pa.Table:
    """As tasks read a file."""
    decoder, found = pickle.loads(pickle.dumps(decoder)), source_file(file)
    assert decoder.misfit(found) is None
    parts = [rows for split in decoder.splits(found, size) for rows in decoder.decode(split)]
    return pa.concat_tables(parts, promote_options="default")


def written(folder: Path, columns: dict[str, Any], **options: Any) -> Path:
    file = folder / "rows.parquet"
    pq.write_table(pa.table(columns), file, **options)
    return file


def bad_text(*texts: bytes | None) -> pa.Array:
    return pa.array(texts, pa.binary()).view(pa.string())


# Parquet


ITEM = pa.struct([("sku", pa.string()), ("qty", pa.int32())])
COLUMNS: dict[str, tuple[str, Any, Any]] = {
    "s": ("string", pa.array(["a", None, "é"]), None),
    "category": ("string", pa.array(["x", "x", None]).dictionary_encode(), ["x", "x", None]),
    "n": ("bigint", pa.array([1, None, -3], pa.int8()), None),
    "i": ("int", pa.array([1, 2, 3], pa.uint16()), None),
    "huge": ("decimal(20,0)", pa.array([2**64 - 1, None, 0], pa.uint64()), [Decimal(2**64 - 1), None, Decimal(0)]),
    "f": ("double", pa.array([0.5, None, float("inf")], pa.float32()), None),
    "b": ("boolean", pa.array([True, None, False]), None),
    "raw": ("binary", pa.array([b"\xff", None, b""]), None),
    "m": ("decimal(9,2)", pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(9, 2)), None),
    "d": ("date", pa.array([date(1500, 3, 1), date(2026, 1, 5), None]), None),
    "t": ("timestamp", pa.array([MOMENT] * 3, pa.timestamp("ms", "Asia/Kolkata")), [MOMENT] * 3),
    "old": ("timestamp_ntz", pa.array([datetime(1500, 3, 1)] * 3, pa.timestamp("us")), None),
    "nano": (
        "timestamp_ntz",
        pa.array([999, -1, None], pa.timestamp("ns")),
        [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), None],
    ),
    "list": ("array<bigint>", pa.array([[1, None], None, []], pa.list_(pa.int32())), None),
    "items": (
        "array<struct<sku:string,qty:bigint,new:string>>",
        pa.array([[{"sku": "a", "qty": 1}], None, [None]], pa.list_(ITEM)),
        [[{"sku": "a", "qty": 1, "new": None}], None, [None]],
    ),
    "map": ("map<string,int>", pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())), None),
    "text": ("string", pa.array([[[1]], None, [[None]]], pa.list_(pa.list_(pa.int32()))), ["[[1]]", None, "[[null]]"]),
}  # fmt: skip


@pytest.mark.parametrize(
    "options", [{}, {"row_group_size": 2}, {"compression": "brotli"}, {"compression": "lz4"}]
)
def test_every_type_of_parquet(tmp_path: Path, options: dict[str, Any]) -> None:
    inner = pa.array([{"base": 5, "tax": {"rate": 0.5}}, None, {"base": None, "tax": None}])
    stored = {name: column for name, (_, column, _) in COLUMNS.items()} | {"pricing": inner}
    file = written(tmp_path, stored, **options)
    kinds = {name: kind for name, (kind, _, _) in COLUMNS.items()}
    kinds |= {"pricing.base": "bigint", "pricing.tax.rate": "double", "none": "decimal(5,0)"}
    found = rows_of(ParquetReading(kinds), file, size=1)
    assert found.column_names == [*kinds, CORRUPT, POSITION]
    for name, (kind, column, expected) in COLUMNS.items():
        assert found.schema.field(name).type == source_type(kind)
        assert found.column(name).to_pylist() == (column.to_pylist() if expected is None else expected), name
    assert found.column("pricing.base").to_pylist() == [5, None, None]
    assert found.column("pricing.tax.rate").to_pylist() == [0.5, None, None]
    assert found.column("none").null_count == found.column(CORRUPT).null_count == 3
    assert found.column(POSITION).to_pylist() == [0, 1, 2]


def test_a_split_of_parquet_is_as_large_as_what_is_unpacked(tmp_path: Path) -> None:
    """Not as the file: tasks share out the work of rows."""
    numbers = pa.array([*range(1000), *[7] * 9000], pa.int64())
    file = written(tmp_path, {"n": numbers}, row_group_size=5000, compression="zstd", use_dictionary=False)
    first, second = ParquetReading({"n": "bigint"}).splits(source_file(file), 1)
    assert 40_000 < first.size < 41_000
    assert 40_000 < second.size < 41_000
    assert file.stat().st_size < 10_000


def test_moments_of_the_old_form_are_read_with_and_without_a_zone(tmp_path: Path) -> None:
    moment = pa.array([datetime(1400, 2, 3, 4)], pa.timestamp("us"))
    file = written(tmp_path, {"c": moment}, use_deprecated_int96_timestamps=True)
    assert (
        rows_of(ParquetReading({"c": "timestamp_ntz"}), file)
        .column("c")
        .cast(pa.timestamp("us"))
        .equals(pa.chunked_array([moment]))
    )
    zoned = rows_of(ParquetReading({"c": "timestamp"}), file).column("c")
    assert zoned.cast(pa.int64()).to_pylist() == moment.cast(pa.int64()).to_pylist()


def test_fields_of_parquet_that_are_no_columns(tmp_path: Path) -> None:
    item = pa.struct([("sku", pa.string()), ("color", pa.string())])
    file = written(
        tmp_path,
        {
            "n": [1, 2],
            "tip": pa.array([Decimal("1E-7"), None], pa.decimal128(9, 7)),
            "at": pa.array([MOMENT, None], pa.timestamp("ns", "UTC")),
            "tax": pa.array([{"rate": 0.5}, None]),
            "tags": pa.array([["\x01é"], None]),
            "items": pa.array([[{"sku": "a", "color": "red"}], None], pa.list_(item)),
        },
    )
    columns = {"n": "bigint", "items": "array<struct<sku:string>>"}
    kept = (
        '{"tip":1E-7,"at":"2026-01-05T14:00:00.000000Z","tax.rate":0.5,"tags":["\\u0001é"],'
        '"items":[{"sku":"a","color":"red"}]}'
    )
    assert rows_of(ParquetReading(columns, "keep"), file).column(KEPT).to_pylist() == [kept, None]
    assert KEPT not in rows_of(ParquetReading(columns), file).column_names
    del columns["items"]
    refused = rows_of(ParquetReading(columns, "dead_letter"), file)
    whole = kept.replace("{", '{"n":1,', 1).encode()
    assert refused.column(CORRUPT).to_pylist() == [whole, None]
    assert refused.column("n").to_pylist() == [1, 2]


def test_an_object_that_is_read_as_text_is_text_even_if_all_are_null(tmp_path: Path) -> None:
    file = written(tmp_path, {"tax": pa.nulls(2, pa.struct([("rate", pa.float64())]))})
    assert rows_of(ParquetReading({"tax": "string"}), file).column("tax").type == pa.string()


def test_a_text_of_parquet_that_is_not_utf_8_is_a_dead_letter_with_its_bytes(tmp_path: Path) -> None:
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 2]), bad_text(b"ok", b"l\xff"))
    file = written(tmp_path, {"é": bad_text(b"a", b"b", b"x\xffy"), "l": lists, "n": [1, 2, 3]})
    rows = rows_of(ParquetReading({"é": "string", "l": "array<string>", "n": "bigint"}), file)
    assert rows.column(CORRUPT).to_pylist() == [
        None,
        '{"é":"b","l":["l'.encode() + b'\xff"],"n":2}',
        '{"é":"x'.encode() + b'\xffy","l":[],"n":3}',
    ]
    assert rows.column("n").to_pylist() == [1, 2, 3]
    assert rows.column("é").to_pylist() == ["a", "b", "x\ufffdy"]
    assert rows.column("l").to_pylist() == [["ok"], None, []]


def test_an_object_that_is_read_as_text_may_have_a_text_that_is_not_utf_8(tmp_path: Path) -> None:
    """The row is a dead letter, and not the whole file."""
    names = bad_text(b"a", b"x\xffy", b"c")
    objects = pa.StructArray.from_arrays([names], ["name"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3]), names)
    file = written(tmp_path, {"o": objects, "l": lists, "n": [1, 2, 3]})
    rows = rows_of(ParquetReading({"o": "string", "l": "string", "n": "bigint"}), file)
    raw = b'{"o":"{\\"name\\":\\"x\xffy\\"}","l":"[\\"x\xffy\\"]","n":2}'
    assert rows.column(CORRUPT).to_pylist() == [None, raw, None]
    assert rows.column("n").to_pylist() == [1, 2, 3]
    assert rows.column("o").to_pylist() == ['{"name":"a"}', '{"name":"x\ufffdy"}', '{"name":"c"}']
    assert rows.column("l").to_pylist() == ['["a"]', '["x\ufffdy"]', '["c"]']


READ = """
import sys
import pyarrow as pa
from latecomer.config.damaged_files import DamagedFile
from latecomer.source.decode.base import SourceFile
from latecomer.source.decode.parquet_reading import ParquetReading
decoder, file = ParquetReading({"at": "string", "n": "bigint"}, sys.argv[2]), SourceFile(f"file://{sys.argv[1]}", 0, 9)
try:
    print(sum(rows.num_rows for split in decoder.splits(file, 9) for rows in decoder.decode(split)))
except DamagedFile as error:
    print("damaged:", error)
open(sys.argv[3], "w").write(str(pa.default_memory_pool().max_memory() >> 20))
"""


def read_apart(folder: Path, content: bytes, rule: str = "ignore") -> str:
    """How many rows a process of its own reads, or why it does not."""
    file = folder / "a.parquet"
    file.write_bytes(content)
    told = subprocess.run(
        [sys.executable, "-c", READ, str(file), rule, str(folder / "memory")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return told.stdout.strip()


def grouped(*counts: int, **way: object) -> bytes:
    rows = pa.table({"at": ["2026-11-08T14:00:00Z"] * max(counts), "n": [7] * max(counts)})
    file = io.BytesIO()
    with pq.ParquetWriter(file, rows.schema, store_schema=False, **way) as writer:
        for count in counts:
            writer.write_table(rows[:count], max(count, 1))
    return file.getvalue()


@pytest.mark.parametrize("rule", ["ignore", pytest.param("keep", marks=pytest.mark.long)])
def test_parquet_files_that_mean_harm_do_not_end_the_process(tmp_path: Path, rule: str) -> None:
    whole = grouped(3, 0, compression="none", use_dictionary=False)
    assert read_apart(tmp_path, whole, rule) == "3"
    path = b"\x19\x18\x01n"  # the column's name; what follows is how it is compressed
    assert read_apart(tmp_path, with_footer(whole, path + b"\x15\x00", path + b"\x15\x40"), rule).startswith(
        "damaged"
    )
    assert read_apart(tmp_path, whole[:-20], rule).startswith("damaged")
    few = grouped(50_000, compression="zstd")
    said = with_footer(few, b"\x16" + varint(50_000), b"\x16" + varint(10), first=True)
    assert "says that it has 10" in read_apart(tmp_path, said, rule)


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_long_texts_are_not_all_held_at_once(tmp_path: Path, use_dictionary: bool) -> None:
    """Also where they take little room in the file."""
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array(["x" * 200_000]))
    file, counts = tmp_path / "a.parquet", []
    pq.write_table(pa.table({"c": long}), file, compression="zstd", use_dictionary=use_dictionary)
    for rows in ParquetReading({"c": "string"}).decode(FileSplit(source_file(file))):
        assert rows.nbytes < 200 << 20
        counts.append(rows.num_rows)
    assert sum(counts) == 2000
    assert len(counts) > 2


def test_rows_that_a_file_does_not_name_are_not_held(tmp_path: Path) -> None:
    rows = 5_000_000
    whole = grouped(rows, compression="zstd", data_page_size=1 << 30)
    few = with_footer(whole, b"\x16" + varint(rows), b"\x16" + varint(10), first=True)
    assert pq.ParquetFile(io.BytesIO(few)).metadata.num_rows == 10
    answer, memory = read_apart(tmp_path, few), tmp_path / "memory"
    assert answer == "damaged: it has 5000000 rows in its groups, and says that it has 10"
    assert int(memory.read_text()) < 20  # five million numbers are 40


# Avro


CODECS = ["null", "deflate", "bzip2", "xz"]
FIELDS = [
    {"name": "n", "type": "long"},
    {"name": "s", "type": "string"},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
]
READER = record(FIELDS[:2])


def avro_file(folder: Path, codec: str = "null", count: int = 3_000) -> Path:
    file = folder / "a.avro"
    rows = [{"n": nth, "s": f"text-{nth}", "tags": ["x"] * (nth % 2)} for nth in range(count)]
    with open(file, "wb") as opened:
        fastavro.writer(opened, json.loads(record(FIELDS)), rows, codec=codec, sync_interval=4_000)
    return file


def containers(unknown: Any = "ignore") -> AvroContainers:
    reader = parse_schema(READER)
    return AvroContainers(reader, reading(reader).columns, unknown)


@pytest.mark.parametrize("codec", CODECS)
def test_object_files_in_parts(tmp_path: Path, codec: str) -> None:
    file = avro_file(tmp_path, codec)
    for size in (1 << 30, 10_000, 1):
        rows = rows_of(containers(), file, size)
        assert rows.column("n").to_pylist() == rows.column(POSITION).to_pylist() == list(range(3_000))
        assert rows.column("s")[2_999].as_py() == "text-2999"
        assert rows.column(CORRUPT).null_count == 3_000
    assert len(containers().splits(source_file(file), 1)) > 5 or codec != "null"


def test_rows_of_object_files_that_are_no_text_and_fields_that_are_no_columns(tmp_path: Path) -> None:
    file = avro_file(tmp_path, count=40)
    file.write_bytes(file.read_bytes().replace(b"text-17", b"te\xfft-17"))
    rows = rows_of(containers("keep"), file)
    dead = [nth for nth, each in enumerate(rows.column(CORRUPT).to_pylist()) if each]
    assert dead == [17]
    assert rows.column(CORRUPT)[17].as_py() == b'{"n":17,"s":"te\xfft-17","tags":["x"]}'
    assert rows.column(KEPT).to_pylist()[15:19] == ['{"tags":["x"]}', '{"tags":[]}', None, '{"tags":[]}']
    assert rows.column("n").to_pylist() == list(range(40))
    refused = rows_of(containers("dead_letter"), file)
    assert refused.column(CORRUPT)[1].as_py() == b'{"n":1,"s":"text-1","tags":["x"]}'


@pytest.mark.parametrize("cut", [1, 20, 5_000])
def test_object_files_that_are_cut_off_are_damaged(tmp_path: Path, cut: int) -> None:
    file = avro_file(tmp_path)
    file.write_bytes(file.read_bytes()[:-cut])
    with pytest.raises(DamagedFile, match="ends within a block"):
        rows_of(containers(), file)


def test_object_files_with_damaged_blocks_are_damaged(tmp_path: Path) -> None:
    file = avro_file(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
    with pytest.raises(DamagedFile, match="does not end where it says"):
        rows_of(containers(), file)
    packed = avro_file(tmp_path, "deflate").read_bytes()
    file.write_bytes(packed[:-100] + bytes(40) + packed[-60:])
    with pytest.raises(DamagedFile, match=r"cannot be unpacked|cannot be read to the end"):
        rows_of(containers(), file)
