"""CSV and Parquet files: what the fast path takes, Spark reads alike."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from latecomer.decode.arrow_csv import csv_lines
from latecomer.decode.arrow_parquet import parquet_rows
from latecomer.decode.parquet import SETTINGS, ParquetFiles
from latecomer.fast import Declined
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fast.lines_kit import COLUMNS, mutated
from latecomer.config.sources import Files
from latecomer.decode.base import FileDecoder
from latecomer.decode.columns import CORRUPT, KEPT
from latecomer.decode.csv import CsvFiles
from latecomer.decode.files import SourceFile
from latecomer.spark.errors import SPARK_ERRORS
from latecomer.spark.session import own_session

HEADER = ",".join([*COLUMNS, "other"])
PLAIN = [
    "a",
    "1",
    "2",
    "0.5",
    "true",
    "1.50",
    "2026-01-05",
    "2026-01-05T14:00:00Z",
    "2026-01-05T14:00:00",
    "x",
]
ODD = {
    "s": [
        *("", " ", " a ", '"a,b"', '" a "', '"a"', '""', '"a""b"', '"a', 'a"', 'a"b', "'a'", "a\\b", '"a\\"', "#a"),
        *("null", "NULL", "NaN", "é😀", "\u2028", "\u00a0", "\ufeff", "\x7f", "\\N", "-", '"x" ', ' "x"', '"#"'),
    ],
    "n": ["", "-0", "007", "+1", "1 ", " 1", "1.0", "1e2", "0x1F", "9223372036854775807", "9223372036854775808", '"5"'],
    "t": ["", "127", "128", "-128", "-129", "000000000000000000000001"],
    "d": [
        *("", "5", "5.", ".5", "-.5", "+.5", "-0", "-0.0", "1e400", "1e-400", "4.9e-324", "2.2250738585072011e-308"),
        *("1.7976931348623157e308", "12345678901234567890123", "9007199254740993", "1E5", "1e05", "1d", "1f", "0x1p3"),
        *("NaN", "nan", "Infinity", "-Inf", "1e", "e5", ".", "-", "--5", "1.2.3", "0.30000000000000004", "1-2"),
    ],
    "b": ["", "true", "false", "TRUE", "True", "t", "1", "yes", " true"],
    "m": [
        *("", "1", "1.5", "1.500", "1.505", "-1.50", "+1.5", "9999999.99", "10000000", "1,5", "1e2", ".5", "5.", "."),
        *("-", "-0", "0000000000000000001.5", "1.5-", "1..5", "NaN"),
    ],
    "day": ["", "2024-02-29", "2026-02-29", "2026-1-5", "2026-01-05 ", "2026-01-05T00:00:00Z", "1582-10-10", "2026"],
    "ts": [
        *("", "2026-01-05", "2026-01-05 14:00", "2026-01-05T14:00Z", "2026-01-05T14:00:00.1", "2026-01-05T24:00:00Z"),
        *("2026-01-05T14:00:00.123456789Z", "2026-01-05T14:00:00-17:59", "2026-01-05T14:00:00+18:00"),
        *("2026-01-05T14:00:00+05:30", "2026-01-05T14:00:00+05:60", "2026-01-05T14:00:00+0530"),
        *("2026-01-05T23:59:60Z", "2026-02-30T00:00:00Z", "1767621600", "2026-01-05T14:00:00 UTC", "2026", "12:30"),
        *("1969-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999-01:00"),
    ],
    "ntz": ["", "2026-01-05", "2026-01-05 14:00:00.123456789", "2026-01-05T14:00:00Z", "2026-01-05T14:00:00+00:00"],
}  # fmt: skip


def odd_lines() -> list[str]:
    """A line for each odd value, with plain ones beside it; and lines that are none."""
    places = list(COLUMNS)
    lines = [
        ",".join([*PLAIN[: places.index(name)], value, *PLAIN[places.index(name) + 1 :]])
        for name, values in ODD.items()
        for value in values
    ]
    return [*lines, ",".join(PLAIN[:-1]), ",".join([*PLAIN, "y"]), "," * (len(PLAIN) - 1), "", " ", "#"]


def mutants(count: int) -> list[str]:
    """Plain lines with a character or two changed, taken out, or put twice."""
    draw, found = random.Random(11), []
    for _ in range(count):
        line = (
            f"a{draw.choice(['', 'é', chr(92), ' '])}b,{draw.randrange(-9, 10 ** draw.randrange(1, 19))},"
            f"{draw.randrange(-128, 128)},{draw.uniform(-1e3, 1e3)!r},{draw.choice(['true', 'false', ''])},"
            f"{draw.randrange(-(10**8), 10**8) / 100:.2f},2026-0{draw.randrange(1, 10)}-1{draw.randrange(10)},"
            f"2026-01-05T14:{draw.randrange(60):02d}:00{draw.choice(['Z', '.123Z', '+05:30', ''])},"
            f"2026-01-05 0{draw.randrange(10)}:00:00,{draw.choice(['x', chr(34) + 'x,y' + chr(34)])}"
        )
        found.append(mutated(line, draw, '",:\\ 0123456789eE.+-untflTZ'))
    return found


def taken(lines: Sequence[str]) -> list[str]:
    """The lines that the fast path takes, each by itself."""
    found = []
    for line in lines:
        try:
            csv_lines(f"{HEADER}\n{line}\n".encode(), COLUMNS, ",")
        except Declined:
            continue
        found.append(line)
    return found


def there(
    decoder: FileDecoder, spark: SparkSession, files: Sequence[Path], by_line: bool = False
) -> pa.Table:
    """What Spark reads."""
    found = [SourceFile(f"file://{file}", 0, 0) for file in files]
    (read,) = decoder.parts(lambda: spark.read, found, by_line)
    values = [F.expr(decoder.value(name, by_line)).alias(name) for name in COLUMNS]
    kept = [KEPT] if KEPT in read.columns else []
    return arrow(read.select(*values, CORRUPT, *kept).coalesce(1))


def arrow(frame: DataFrame) -> pa.Table:
    return pa.table(frame.toArrow())


def shown(rows: pa.Table) -> list[str]:
    return [repr(row) for row in rows.select(list(COLUMNS)).to_pylist()]


def test_csv_that_the_fast_path_reads_spark_reads_alike(spark: SparkSession, tmp_path: Path) -> None:
    every = odd_lines()
    odd, lines = taken(every), taken(mutants(1500))
    assert 50 < len(odd) < len(every) - 50
    assert len(lines) > 600
    file = tmp_path / "odd.csv"
    file.write_bytes("\r\n".join([HEADER, *odd, *lines, ""]).encode())
    here = csv_lines(file.read_bytes(), COLUMNS, ",", unknown="keep")
    decoder = CsvFiles(
        Files(path=str(tmp_path), format="csv"), COLUMNS, lambda _: {}, False, unknown_fields="keep"
    )
    for by_line in (False, True):
        read = there(decoder, spark, [file], by_line)
        assert read.column(CORRUPT).drop_null().to_pylist() == []
        assert shown(read) == shown(here)
        assert read.column(KEPT).to_pylist() == here.column(KEPT).to_pylist()


# Parquet


def stored(draw: random.Random, count: int) -> pa.Table:
    """Rows of every type, in units and widths that a file may have."""

    def some(make: Any) -> list[Any]:
        return [None if draw.random() < 0.2 else make() for _ in range(count)]

    def moment() -> datetime:
        return datetime(2026, 1, 5, tzinfo=UTC) + timedelta(microseconds=draw.randrange(-(10**15), 10**14))

    zoned, naive = some(moment), [each and each.replace(tzinfo=None) for each in some(moment)]
    unit = draw.choice(["ms", "us", "ns"])
    zone = draw.choice(["UTC", "Asia/Kolkata"])
    texts = pa.array(some(lambda: draw.choice(["a", "", "é", "long " * 9])), pa.string())
    wide = draw.choice([pa.int32(), pa.int64()])
    floats = draw.choice([pa.float32(), pa.float64()])
    return pa.table(
        {
            "ts": pa.array(zoned, pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, zone), safe=False),
            "s": draw.choice([texts, texts.dictionary_encode(), texts.cast(pa.large_string())]),
            "n": pa.array(some(lambda: draw.randrange(-128, 128)), wide),
            "t": pa.array(some(lambda: draw.randrange(-128, 128)), pa.int8()),
            "d": pa.array(some(lambda: draw.choice([0.1, -0.0, 5e-324, draw.uniform(-9, 9)])), floats),
            "b": pa.array(some(lambda: draw.random() < 0.5), pa.bool_()),
            "other": pa.array(some(lambda: [1]), pa.list_(pa.int64())),
            "m": pa.array(some(lambda: Decimal(draw.randrange(-(10**9), 10**9)).scaleb(-2)), pa.decimal128(9, 2)),
            "day": pa.array(some(lambda: date(2026, 1, draw.randrange(1, 31))), pa.date32()),
            "ntz": pa.array(naive, pa.timestamp("us")).cast(pa.timestamp(unit), safe=False),
        }
    )  # fmt: skip


def write(file: Path, draw: random.Random, count: int, without: Sequence[str] = ()) -> Path:
    table = stored(draw, count).drop_columns(without)
    if draw.random() < 0.3:
        table = table.drop_columns([draw.choice(["s", "m", "day", "ntz"])])
    pq.write_table(
        table,
        file,
        compression=draw.choice(["snappy", "gzip", "zstd", "none"]),
        row_group_size=draw.choice([7, 1000]),
        use_dictionary=draw.random() < 0.5,
        data_page_version=draw.choice(["1.0", "2.0"]),
        store_decimal_as_integer=draw.random() < 0.5,
        version=draw.choice(["1.0", "2.4", "2.6"]) if table.schema.field("ts").type.unit != "ns" else "2.6",
        store_schema=draw.random() < 0.7,
    )
    return file


def reading_session(spark: SparkSession) -> SparkSession:
    session = own_session(spark)
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    return session


def test_parquet_that_the_fast_path_reads_spark_reads_alike(spark: SparkSession, tmp_path: Path) -> None:
    draw = random.Random(3)
    files = [write(tmp_path / f"{nth:02d}.parquet", draw, 40) for nth in range(24)]
    found = {file: parquet_rows(file, COLUMNS) for file in files}
    rows = on_spark(spark, ParquetFiles(COLUMNS), files)
    assert shown(rows) == shown(pa.concat_tables([found[file] for file in sorted(found)]))


def test_columns_of_parquet_that_are_not_declared_are_kept_alike(spark: SparkSession, tmp_path: Path) -> None:
    draw, columns = random.Random(4), {"n": "bigint", "d": "double", "t": "tinyint"}
    files = [write(tmp_path / f"{nth:02d}.parquet", draw, 30, without=["other"]) for nth in range(8)]
    found = [parquet_rows(file, columns, "keep").column(KEPT).to_pylist() for file in files]
    rows = on_spark(spark, ParquetFiles(columns, "keep"), files)
    assert rows.column(KEPT).to_pylist() == [text for each in found for text in each]
    assert all(f'"{name}":' in "".join(filter(None, found[0])) for name in ("ts", "b", "s"))


def on_spark(spark: SparkSession, decoder: ParquetFiles, files: Sequence[Path]) -> pa.Table:
    """The rows of files in their order, none of which is corrupt, and KEPT."""
    session, named = reading_session(spark), [SourceFile(f"file://{file}", 0, 0) for file in files]
    assert not any(map(decoder.misfit, named))
    place = F.expr("cast(substring_index(input_file_name(), '/', -1) as string)").alias("file")
    kept = [KEPT] if decoder.unknown_fields == "keep" else []
    read = [
        arrow(part.select(*decoder.columns, CORRUPT, *kept, place, F.col("_metadata.row_index").alias("nth")))
        for part in decoder.parts(lambda: session.read, named, by_line=False)
    ]
    rows = pa.concat_tables(read).sort_by([("file", "ascending"), ("nth", "ascending")])
    assert rows.column(CORRUPT).drop_null().to_pylist() == []
    return rows


@pytest.mark.long
def test_damaged_parquet_that_the_fast_path_reads_spark_reads_alike(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark refuses some files for damage in parts of the footer that no value depends on. What is read here of those
    is what the whole file has."""
    draw, session, read, refused = random.Random(5), reading_session(spark), 0, 0
    whole = write(tmp_path / "whole.parquet", random.Random(9), 30).read_bytes()
    undamaged = shown(parquet_rows(tmp_path / "whole.parquet", COLUMNS))
    decoder = ParquetFiles(COLUMNS)
    for nth in range(400):
        damaged = bytearray(whole)
        for _ in range(draw.randrange(1, 3)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        file = tmp_path / f"{nth}.parquet"
        file.write_bytes(damaged)
        try:
            here = parquet_rows(file, COLUMNS)
        except (Declined, pa.ArrowException):
            continue
        assert decoder.misfit(SourceFile(f"file://{file}", 0, nth)) is None
        try:
            rows = there(decoder, session, [file])
        except SPARK_ERRORS:
            assert shown(here) == undamaged, nth
            refused += 1
            continue
        assert rows.column(CORRUPT).drop_null().to_pylist() == []
        assert shown(rows) == shown(here), nth
        read += 1
    assert 40 < read < 300
    assert refused < read / 5
