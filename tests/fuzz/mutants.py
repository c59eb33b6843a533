"""Damaged files, drawn by a seed: bits turned over, bytes put in, taken out, overwritten and moved, files cut short,
and numbers in Parquet's page headers that are not true."""

from __future__ import annotations

import bz2
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

AT = "2026-11-08T14:00:00Z"
ROWS = 60
_TELLING = (0, 1, 0x0A, 0x0D, 0x22, 0x2C, 0x5B, 0x7B, 0x7F, 0x80, 0xC3, 0xFE, 0xFF)
"""Bytes that mean something to one of the formats, or to none."""


@dataclass(frozen=True)
class Mutant:
    name: str
    content: bytes


def parquet_files() -> list[bytes]:
    """The same rows in several ways: codecs, page versions, encodings, old times."""
    table = pa.table(
        {
            "txn": pa.array([f"t{nth % 7}" for nth in range(ROWS)]),
            "at": pa.array([AT] * ROWS),
            "paise": pa.array(range(ROWS)),
            "price": pa.array([Decimal("1.25"), None] * (ROWS // 2)),
            "ratio": pa.array([1.5] * ROWS),
            "key": pa.array([b"\xff\x00"] * ROWS),
            "seen": pa.array([1] * ROWS, pa.timestamp("ns")),
            "ok": pa.array([True, None] * (ROWS // 2)),
            "list": pa.array([[1, 2]] * ROWS),
            "kind": pa.array(["x", "y"] * (ROWS // 2)).dictionary_encode(),
            "na\u00efve": pa.array(["\u00e9"] * ROWS),
        }
    )
    ways: list[dict[str, object]] = [
        {},
        {"compression": "none", "use_dictionary": False},
        {"compression": "zstd", "data_page_version": "2.0"},
        {"compression": "gzip", "use_deprecated_int96_timestamps": True, "store_schema": False},
        {"compression": "none", "use_dictionary": False, "column_encoding": {"paise": "DELTA_BINARY_PACKED"}},
    ]
    return [_written(table, **way) for way in ways]


def text_files(form: str) -> list[bytes]:
    rows = [{"txn": f"t{nth}", "at": AT, "paise": nth, "note": 'caf\u00e9, "x"'} for nth in range(ROWS)]
    if form == "json":
        return ["".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()]
    lines = ["txn,at,paise,note", *(f'{row["txn"]},{AT},{row["paise"]},"caf\u00e9 ""x"""' for row in rows)]
    return ["\n".join(lines).encode(), "\r\n".join(lines).encode("utf-8-sig")]


def mutants(
    form: str, seed: int, count: int, footers: bool = False, encoding: str = "utf-8"
) -> Iterator[Mutant]:
    """Mutants of good files. With `footers`, only what comes after the pages of a Parquet file is touched."""
    random = Random(f"{form} {seed}")
    if form == "parquet":
        for nth, content in enumerate(_mutated(random, parquet_files(), count, footers)):
            yield Mutant(f"m{nth:06}.parquet", content)
        return
    packed = {"": bytes, ".gz": lambda content: gzip.compress(content, mtime=0), ".bz2": bz2.compress}
    texts = [text.decode().encode(encoding) for text in text_files(form)]
    files = [(suffix, pack(text)) for suffix, pack in packed.items() for text in texts]
    for nth in range(count):
        suffix, whole = random.choice(files)
        yield Mutant(f"m{nth:06}.{form}{suffix}", mutated(random, whole))


def _mutated(random: Random, files: Sequence[bytes], count: int, footers: bool) -> Iterator[bytes]:
    for _ in range(count):
        whole = random.choice(files)
        footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
        # Else mostly the pages: a footer is seldom mutated into one that can be read.
        start, stop = (footer, len(whole)) if footers or random.random() < 0.1 else (0, footer)
        yield whole[:start] + mutated(random, whole[start:stop]) + whole[stop:]


def mutated(random: Random, whole: bytes) -> bytes:
    data = bytearray(whole)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        at = random.randrange(len(data) + 1)
        match random.randrange(7):
            case 0:
                data[at : at + 1] = bytes(byte ^ 1 << random.randrange(8) for byte in data[at : at + 1])
            case 1:
                data[at : at + 1] = bytes([random.choice(_TELLING)])
            case 2:
                data[at : at + random.choice((1, 1, 2, 5, 50))] = b""
            case 3:
                data[at:at] = random.randbytes(random.choice((1, 1, 4, 30)))
            case 4:
                other = random.randrange(len(data) + 1)
                data[at : at + 8] = data[other : other + 8]
            case 5:
                data[at : at + 5] = b"\xff\xff\xff\xff\x0f"  # the largest number, as Parquet writes it
            case 6 if random.random() < 0.2:
                del data[at:]
    return bytes(data)


Claim = Literal["unpacked", "compressed", "values"]


def one_page(values: Sequence[str], **way: object) -> bytes:
    """A Parquet file of one column, `txn`, in one page."""
    return _written(pa.table({"txn": pa.array(values)}), **way)


def claiming(whole: bytes, claim: Claim, number: int, dictionary: bool = False) -> bytes:
    """A file whose first page says another number of itself: bytes unpacked or compressed, or values.

    A header is Thrift: 0x15 and a number for the kind of page, again for each of its two sizes, then a struct that
    begins with 0x15 and how many values there are.
    """
    column = pq.ParquetFile(io.BytesIO(whole)).metadata.row_group(0).column(0)
    at = column.dictionary_page_offset if dictionary else column.data_page_offset
    places = {}
    for name in ("kind", "unpacked", "compressed", "values"):
        at += 2 if name == "values" else 1
        end = next(place for place in range(at, len(whole)) if whole[place] < 0x80) + 1
        places[name], at = (at, end), end
    start, end = places[claim]
    return whole[:start] + varint(number) + whole[end:]


def with_footer(whole: bytes, old: bytes, new: bytes, first: bool = False) -> bytes:
    """A Parquet file whose footer has other bytes in one place, the last or the `first` that has the old ones."""
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    footer = whole[start:-8]
    place = footer.index(old) if first else footer.rindex(old)
    footer = footer[:place] + new + footer[place + len(old) :]
    return whole[:start] + footer + len(footer).to_bytes(4, "little") + whole[-4:]


def varint(number: int) -> bytes:
    """A number as Thrift writes it: the sign in the last bit, seven bits a byte."""
    return _seven_bits(number << 1 if number >= 0 else -2 * number - 1)


def _seven_bits(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + _seven_bits(number >> 7)


def _written(table: pa.Table, **way: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **way)
    return file.getvalue()
