"""Parquet files that mean harm, read without Spark: they decline, the process lives on, and its memory is bounded."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from latecomer.decode.arrow_parquet import parquet_rows
from latecomer.fast import Declined

from fuzz.mutants import varint, with_footer
from latecomer.decode import arrow_parquet

AT = "2026-11-08T14:00:00Z"
READ = """
import sys
from pathlib import Path
import pyarrow as pa
from latecomer.decode.arrow_parquet import parquet_rows
from latecomer.fast import Declined
try:
    print(parquet_rows(Path(sys.argv[1]), {"at": "string", "n": "bigint"}).num_rows)
except Declined as declined:
    print(declined)
print(pa.default_memory_pool().max_memory() >> 20)
"""


def read(folder: Path, content: bytes) -> tuple[str, int]:
    """How many rows a process of its own reads, or why it does not; and how many MiB Arrow took for it."""
    file = folder / "a.parquet"
    file.write_bytes(content)
    told = subprocess.run(
        [sys.executable, "-c", READ, str(file)], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    answer, memory = told.stdout.splitlines()
    return answer, int(memory)


def grouped(*counts: int, **way: object) -> bytes:
    """A file with so many rows in each of its groups."""
    rows = pa.table({"at": [AT] * max(counts), "n": [7] * max(counts)})
    file = io.BytesIO()
    with pq.ParquetWriter(file, rows.schema, store_schema=False, **way) as writer:
        for count in counts:
            writer.write_table(rows[:count], max(count, 1))
    return file.getvalue()


def test_a_compression_that_nobody_knows_does_not_end_the_process(tmp_path: Path) -> None:
    whole = grouped(3, 0, compression="none", use_dictionary=False)
    path = b"\x19\x18\x01n"  # the column's name; what follows is how it is compressed
    assert with_footer(whole, path + b"\x15\x00", path + b"\x15\x00") == whole
    assert read(tmp_path, whole)[0] == "3"
    assert read(tmp_path, with_footer(whole, path + b"\x15\x00", path + b"\x15\x40"))[0] == (
        "a file that Arrow cannot read"
    )


def test_rows_that_a_file_does_not_name_are_not_held(tmp_path: Path) -> None:
    rows = 5_000_000
    whole = grouped(rows, compression="zstd", data_page_size=1 << 30)
    few = with_footer(whole, b"\x16" + varint(rows), b"\x16" + varint(10), first=True)
    assert pq.ParquetFile(io.BytesIO(few)).metadata.num_rows == 10
    answer, memory = read(tmp_path, few)
    assert answer == "a file with other rows than it says, or with long texts"
    assert memory < 20  # five million numbers are 40


def test_texts_that_are_long_when_unpacked_are_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_parquet, "MOST_READ", 1 << 20)
    texts = [letter * 300_000 for letter in "abcdefgh"]
    file, columns = tmp_path / "a.parquet", {"at": "string"}
    pq.write_table(pa.table({"at": texts[:3]}), file, compression="zstd", use_dictionary=False)
    assert parquet_rows(file, columns).column("at").to_pylist() == texts[:3]
    pq.write_table(pa.table({"at": texts}), file, compression="zstd", use_dictionary=False)
    with pytest.raises(Declined, match="large when it is unpacked"):
        parquet_rows(file, columns)
    size = pq.ParquetFile(file).metadata.row_group(0).total_byte_size
    file.write_bytes(with_footer(file.read_bytes(), varint(size), varint(10)))
    with pytest.raises(Declined, match="long texts"):
        parquet_rows(file, columns)
