"""Files of a source at a URL: tasks read no more of them than they need, and the same rows as in a folder."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import fastavro
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from examples_kit import drawn
from latecomer.config.columns import infer_columns, source_warnings
from latecomer.config.damaged_files import DamagedFile
from latecomer.config.paths import SourcePath
from latecomer.config.sources import Files
from latecomer.errors import SourceOutage
from latecomer.objects import files as objects
from latecomer.objects import open_files
from latecomer.objects.locations import Storage, Url
from latecomer.objects.readable import readable
from latecomer.schemas.avro import parse_schema
from latecomer.source.decode import text_lines
from latecomer.source.decode.avro_containers import AvroContainers
from latecomer.source.decode.base import FileDecoder, FileSplit, SourceFile
from latecomer.source.decode.csv import CsvFiles
from latecomer.source.decode.parquet_reading import ParquetReading
from latecomer.source.decode.text import JsonFiles
from latecomer.source.decode.text_lines import TextPart, cut
from latecomer.source.file_source import SPLIT_BYTES, FileSource
from latecomer.source.found_files import FileSlice, present
from latecomer.source.messages import messages_of
from latecomer.source.staging import Staging
from s3_faults import Faults, faulty
from s3_kit import Bucket
from source.source_kit import parquet_bytes, pipeline_in

MIB = 1 << 20
COLUMNS = {"txn": "string", "n": "bigint"}


@dataclass
class Memory:
    """An object store in this process, and what was asked of it."""

    store: MemoryStore = field(default_factory=MemoryStore)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    heads: int = 0

    def put(self, name: str, content: bytes) -> SourceFile:
        obstore.put(self.store, name, content)
        return present(SourceFile(f"s3://bucket/{name}", 0, 0))

    @property
    def sent(self) -> int:
        return sum(stop - start for start, stop in self.ranges)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    found, get, head = Memory(), obstore.get, obstore.head

    def asked(store: Any, path: str, *, options: Any = None) -> Any:
        answer = get(store, path, options=options)
        found.ranges.append(answer.range)
        return answer

    def looked(store: Any, path: str) -> Any:
        found.heads += 1
        return head(store, path)

    monkeypatch.setattr(obstore, "get", asked)
    monkeypatch.setattr(obstore, "head", looked)
    monkeypatch.setattr(objects, "_store", lambda *_: found.store)
    open_files._outer_range.cache_clear()
    yield found
    open_files._outer_range.cache_clear()


def rows_of(decoder: FileDecoder, file: SourceFile, size: int = SPLIT_BYTES) -> list[dict[str, Any]]:
    assert decoder.misfit(file) is None
    parts = [rows for split in decoder.splits(file, size) for rows in decoder.decode(split)]
    return [row for part in parts for row in part.to_pylist()]


def json_files(**settings: Any) -> JsonFiles:
    return JsonFiles(Files(path="x", **settings), COLUMNS)


def csv_files(**settings: Any) -> CsvFiles:
    return CsvFiles(Files(path="x", format="csv", **settings), COLUMNS, _no_folders)


def _no_folders(_: SourceFile) -> dict[str, str | None]:
    return {}


def lines(count: int, width: int = 100) -> bytes:
    return b"".join(b'{"txn":"%0*d","n":%d}\n' % (width, nth, nth) for nth in range(count))


# What is read


def test_a_split_of_text_is_one_request_for_little_more_than_itself(memory: Memory) -> None:
    content = lines(200_000)
    file, decoder = memory.put("a.json", content), json_files()
    splits = decoder.splits(file, SPLIT_BYTES)
    assert len(splits) == 6
    found = [row["n"] for split in splits for rows in decoder.decode(split) for row in rows.to_pylist()]
    assert found == list(range(200_000))
    assert memory.heads == 1
    assert len(memory.ranges) == len(splits)
    assert memory.sent < len(content) + len(splits) * 100_000


def test_a_header_is_one_more_for_a_process(memory: Memory) -> None:
    content = b"n,txn\n" + b"".join(b"%d,%0100d\n" % (nth, nth) for nth in range(200_000))
    rows = rows_of(csv_files(), memory.put("a.csv", content))
    assert [row["n"] for row in rows] == list(range(200_000))
    assert len(memory.ranges) == 5 + 1
    assert memory.sent < len(content) + 6 * 300_000


def test_of_parquet_the_footer_and_the_columns_that_are_read_are_fetched(memory: Memory) -> None:
    names = ["txn", "n", *(f"other{nth}" for nth in range(8))]
    texts = pa.array([f"{nth * 7919 % 1_000_003:09d}" * 4 for nth in range(400_000)])
    columns = dict.fromkeys(names, texts) | {"n": pa.array(range(400_000))}
    written = io.BytesIO()
    pq.write_table(pa.table(columns), written, row_group_size=100_000, use_dictionary=False)
    file, decoder = memory.put("a.parquet", written.getvalue()), ParquetReading(COLUMNS)
    assert [row["n"] for row in rows_of(decoder, file)] == list(range(400_000))
    assert memory.sent < 0.2 * file.size
    memory.ranges.clear()
    open_files._outer_range.cache_clear()
    (first, *_) = splits = decoder.splits(file, SPLIT_BYTES)
    assert memory.sent <= open_files.AHEAD  # what the driver reads
    assert len(splits) == 4
    sum(rows.num_rows for rows in decoder.decode(first))
    assert memory.sent < 0.06 * file.size


def test_what_is_small_is_one_request(memory: Memory) -> None:
    decoders: dict[str, tuple[FileDecoder, bytes]] = {
        "a.json": (json_files(), lines(1000)),
        "a.csv": (csv_files(encoding="utf-16"), "txn,n\na,1\n".encode("utf-16")),
        "a.json.gz": (json_files(), gzip.compress(lines(1000))),
        "a.parquet": (ParquetReading(COLUMNS), parquet_bytes(txn=pa.array(["a"]), n=pa.array([1]))),
        "a.avro": (avro_files(), avro_bytes(10)),
    }
    for name, (decoder, content) in decoders.items():
        file = memory.put(name, content)
        memory.ranges.clear()
        assert rows_of(decoder, file)
        assert memory.ranges == [(0, len(content))], name


def test_what_is_packed_is_read_once(memory: Memory) -> None:
    content = gzip.compress(bytes(5 * MIB) + b"\n" + lines(100_000), 0)
    found = rows_of(json_files(), memory.put("a.json.gz", content))
    assert [row["n"] for row in found if row["n"] is not None] == list(range(100_000))
    assert memory.sent == len(content)
    assert len(memory.ranges) <= 1 + len(content) // text_lines.BLOCK


AVRO = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "txn", "type": "string"}, {"name": "n", "type": "long"}],
}


def avro_files() -> AvroContainers:
    return AvroContainers(parse_schema(json.dumps(AVRO)), COLUMNS)


def avro_bytes(count: int) -> bytes:
    written = io.BytesIO()
    fastavro.writer(written, AVRO, [{"txn": "x" * 50, "n": nth} for nth in range(count)])
    return written.getvalue()


def test_an_avro_file_is_read_once(memory: Memory) -> None:
    content = avro_bytes(200_000)
    file = memory.put("a.avro", content)
    memory.ranges.clear()
    assert [row["n"] for row in rows_of(avro_files(), file)] == list(range(200_000))
    assert memory.sent < 1.1 * len(content)
    assert len(memory.ranges) <= 3


def test_messages_are_read_once(memory: Memory) -> None:
    each = (1000).to_bytes(4, "big") + bytes(1000)
    file = memory.put("a", each * 20_000)
    found = list(messages_of(file, "sized", None))  # type: ignore[arg-type]
    assert len(found) == 20_000
    assert memory.sent == file.size


def test_columns_are_inferred_from_the_object_itself(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    file = memory.put("in/a.json", lines(200_000))
    memory.ranges.clear()
    assert infer_columns([str(file)], "json") == COLUMNS
    assert memory.sent < 3 * MIB
    wide = memory.put("b.csv", "txn,n\na,1\n".encode("utf-16"))
    monkeypatch.setattr(SourcePath, "_objects", lambda _: [str(wide)])
    (said,) = source_warnings(SourcePath("s3://bucket"), "csv")
    assert "b.csv' is in utf-16" in said


# The same rows


TEXT = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"x", b"xx", b"yyyyyy", b"\0", b"\n\0", b"\0\n"]), max_size=30
).map(b"".join)
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "a.json": bytes,
    "a.json.gz": gzip.compress,
    "a.json.bz2": bz2.compress,
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16le", "utf-16be", "shift_jis"])
def test_the_lines_are_those_of_a_local_file_however_it_is_cut(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setattr(open_files, "_END", 2)

    @given(
        TEXT,
        st.sampled_from([*PACKED]),
        st.integers(1, 9),
        st.integers(1, 4),
        st.integers(2, 20),
        st.integers(4, 12),
    )
    @drawn(100, suppress_health_check=list(HealthCheck))
    def check(text: bytes, name: str, block: int, tail: int, size: int, longest: int) -> None:
        monkeypatch.setattr(text_lines, "BLOCK", block)
        monkeypatch.setattr(text_lines, "_TAIL", tail)
        content = PACKED[name](text)
        (tmp_path / name).write_bytes(content)
        whole = lines_of(SourceFile(f"file://{tmp_path / name}", 0, 0), [(0, None)], encoding, longest)
        file = memory.put(name, content)
        assert lines_of(file, cut(file.suffix, file.size, size), encoding, longest) == whole

    check()


def lines_of(
    file: SourceFile, parts: list[tuple[int, int | None]], encoding: str, longest: int
) -> list[object]:
    """Each line, and of one that is too long what is known of it."""
    found: list[object] = []
    for start, end in parts:
        for each in TextPart(file, encoding, longest, 1 << 20, start, end).lines():
            if isinstance(each, text_lines.Lines):
                found += [each.bytes_of(nth) for nth in range(len(each))]
            else:
                found.append(each)
    return found


ODD = (
    b'\xef\xbb\xbf{"txn":"a","n":1}\r\n\r\nx\r{"txn":"b","n":2}\r' + b"9" * 3000 + b'\n{"txn":"\xff","n":3}\n'
)
FORMS: dict[str, tuple[FileDecoder, bytes]] = {
    "a.json": (json_files(max_line="1KiB"), ODD + lines(300) + ODD[3:]),
    "b.json.gz": (json_files(max_line="1KiB"), gzip.compress(ODD + lines(300))),
    "c.json.bz2": (json_files(max_line="1KiB"), bz2.compress(ODD + lines(300))),
    "d.json": (json_files(encoding="utf-16"), lines(300).decode().replace("\n", "\r\n").encode("utf-16")),
    "e.csv": (
        csv_files(),
        b"\r\nn,txn,x\r\n" + b"".join(b'%d,"a,\xc3\xa9",y\r\n' % nth for nth in range(300)),
    ),
    "f.csv": (csv_files(encoding="utf-16"), ("n,txn\n" + "1,\u0a00\u000a" * 300).encode("utf-16")),
    "g.csv": (csv_files(encoding="shift_jis"), ("n,txn\n" + "1,\u30bd\r" * 300).encode("shift_jis")),
    "h.parquet": (
        ParquetReading(COLUMNS),
        parquet_bytes(txn=pa.array([f"t{nth}" for nth in range(999)]), n=pa.array(range(999))),
    ),
    "i.avro": (avro_files(), avro_bytes(3000)),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_rows_are_those_of_a_local_file(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """By ranges, in parts, with their positions."""
    decoder, content = FORMS[name]
    (tmp_path / name).write_bytes(content)
    local = present(SourceFile(f"file://{tmp_path / name}", 0, 0))
    monkeypatch.setattr(open_files, "_END", 100)
    for size in (500, 4000, 1 << 20):
        for ahead in (1, 300):
            monkeypatch.setattr(open_files, "AHEAD", ahead)
            assert rows_of(decoder, memory.put(name, content), size) == rows_of(decoder, local, size)
    assert len(rows_of(decoder, local)) >= 300


@pytest.mark.parametrize("end", [4, 1 << 20])
def test_it_is_read_like_any_open_file(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: int
) -> None:
    monkeypatch.setattr(open_files, "_END", end)
    content = bytes(range(256)) * 4
    (tmp_path / "a").write_bytes(content)
    known = memory.put("a", content)
    place = st.integers(-300, 1300)
    steps = st.lists(st.tuples(place, st.sampled_from([0, 1, 2]), place), max_size=8)

    @given(steps, st.integers(1, 50), st.booleans())
    @drawn(60, suppress_health_check=list(HealthCheck))
    def check(steps: list[tuple[int, int, int]], ahead: int, is_known: bool) -> None:
        url = readable("s3://bucket/a")
        with (
            open(tmp_path / "a", "rb") as here,
            known.open("rb", ahead=ahead) if is_known else url.open("rb") as there,
        ):
            for at, whence, size in steps:
                assert sought(there, at, whence) == sought(here, at, whence)
                assert there.tell() == here.tell()
                assert there.read(size if size >= 0 else -1) == here.read(size if size >= 0 else -1)

    check()


def sought(opened: BinaryIO, at: int, whence: int) -> int | None:
    """Where that leads; None where it cannot be."""
    try:
        return opened.seek(at, whence)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return None


@given(st.integers(1, 200), st.binary(min_size=1, max_size=3))
@drawn(200)
def test_a_damaged_footer_is_damage_there_too(place: int, bytes_there: bytes) -> None:
    """It may point anywhere, before the file as well."""
    with pytest.MonkeyPatch.context() as patch:
        memory = MemoryStore()
        patch.setattr(objects, "_store", lambda *_: memory)
        patch.setattr(open_files, "_END", 100)
        _, content = FORMS["h.parquet"]
        at = len(content) - place
        obstore.put(memory, "a", content[:at] + bytes_there + content[at + len(bytes_there) :])
        file = present(SourceFile("s3://bucket/a", 0, 0))
        open_files._outer_range.cache_clear()
        with suppress(DamagedFile):
            for split in FORMS["h.parquet"][0].splits(file, 1000):
                list(FORMS["h.parquet"][0].decode(split))


# What changes meanwhile


@pytest.mark.parametrize("name", ["a.json", "h.parquet", "i.avro"])
@pytest.mark.parametrize("size", ["same", "shorter"])
def test_an_object_that_is_replaced_while_it_is_read_is_noticed(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, name: str, size: str
) -> None:
    monkeypatch.setattr(open_files, "_END", 100)
    decoder, content = FORMS[name]
    file = memory.put(name, content)
    *_, last = decoder.splits(file, 4000)
    open_files._outer_range.cache_clear()
    memory.put(name, content[:-1] + b"\n" if size == "same" else content[:50])
    with pytest.raises(SourceOutage, match=rf"s3://bucket/{name} was changed while it was read; let files"):
        list(decoder.decode(last))
    assert rows_of(decoder, memory.put(name, content), 4000)


def test_a_replaced_object_is_read_anew_as_it_then_is(memory: Memory, tmp_path: Path) -> None:
    """All splits are of one and the same object."""
    memory.put("in/a.json", lines(60_000))
    pipeline = pipeline_in(tmp_path, files={"path": "s3://bucket/in"}, schema=COLUMNS)
    source = FileSource(pipeline, COLUMNS)
    piece = FileSlice.of([SourceFile("s3://bucket/in/a.json", 0, 5)])
    staging = Staging(_nothing, None, tmp_path)  # type: ignore[arg-type]
    splits = source.splits(piece, staging)
    assert len(splits) == 2
    assert splits[0].size > 4 * MIB - 1
    assert sum(chunk.rows.num_rows for chunk in source.read(splits[:1])) > 10_000
    memory.put("in/a.json", lines(70_000))
    with pytest.raises(SourceOutage, match="was changed while it was read"):
        list(source.read(splits[1:]))
    again = source.splits(piece, staging)
    assert sum(chunk.rows.num_rows for chunk in source.read(again)) == 70_000


def _nothing() -> Any:
    raise AssertionError("this needs no Spark")


def test_an_object_that_has_gone_may_come_back(memory: Memory) -> None:
    file = memory.put("a.json", lines(10))
    obstore.delete(memory.store, "a.json")
    with pytest.raises(
        SourceOutage, match=r"s3://bucket/a.json was found, and now it cannot be read \(there is"
    ):
        list(json_files().decode(FileSplit(file)))
    with pytest.raises(SourceOutage, match="bring it back and run again"):
        present(file)


# A real server


def test_what_a_server_sends(bucket: Bucket) -> None:
    content, passing = lines(100_000), Faults()
    with faulty(bucket.endpoint, passing) as endpoint:
        obstore.put(bucket.store, "in/a.json", content)
        reached = Storage(endpoint=endpoint, allow_http=True)
        file = present(SourceFile(f"s3://{bucket.name}/in/a.json", 0, 0, reached))
        splits = json_files().splits(file, SPLIT_BYTES)
        (first, second, last) = splits
        assert sum(rows.num_rows for rows in json_files().decode(second)) > 30_000
        assert passing.sent < SPLIT_BYTES + 100_000
        assert [each.split("/")[0] for each in passing.asked] == ["HEAD ", "GET "]
        passing.cut_within = 0.5
        rows = [part for each in (first, last) for part in json_files().decode(each)]
        assert sum(part.num_rows for part in rows) > 60_000
        assert passing.seen["cut_within"]
        passing.cut_within = 0
        obstore.put(bucket.store, "in/a.json", content)
        obstore.put(bucket.store, "in/a.json", content[:-5] + b"odd}\n")
        with pytest.raises(SourceOutage, match="was changed while it was read"):
            list(json_files().decode(second))
        obstore.delete(bucket.store, "in/a.json")
        with pytest.raises(SourceOutage, match="now it cannot be read"):
            list(json_files().decode(second))


def test_a_split_that_is_a_part_of_a_task_says_what_it_has_to_read() -> None:
    file = SourceFile("s3://bucket/a.json", 0, 10 * MIB)
    assert [part.size for part in json_files().splits(file, SPLIT_BYTES)] == [4 * MIB, 6 * MIB]
    assert file.named == Url("s3://bucket/a.json")
