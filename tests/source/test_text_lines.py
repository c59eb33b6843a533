"""Lines of text files: cut anywhere, packed or not, each is read once, and none that is too long is held."""

from __future__ import annotations

import bz2
import gzip
import re
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from examples_kit import drawn
from latecomer.config.damaged_files import DamagedFile
from latecomer.source.decode import limits, text_lines
from latecomer.source.decode.base import SourceFile
from latecomer.source.decode.limits import LongLine
from latecomer.source.decode.text_lines import Lines, TextPart, cut

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "a.json": bytes,
    "a.json.gz": lambda content: gzip.compress(content, 1),
    "a.json.bz2": bz2.compress,
}
SOME_TEXT = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"x", b"xx", b"yyyyyy", b"\0", b"\n\0", b"\0\n"]), max_size=30
).map(b"".join)
ENDS = {"iso-8859-1": rb"\r\n|\r|\n", "utf-16le": rb"\n\x00", "utf-16be": rb"\x00\n"}


def naive(content: bytes, longest: int, end: bytes) -> tuple[list[bytes], list[tuple[int, int]]]:
    """The lines, without their ends, and where those are that are too long."""
    at = 3 if content.startswith(b"\xef\xbb\xbf") else 0
    short, long = [], []
    for line in re.findall(rb".*?(?:%s)|.+$" % end, content[at:], re.DOTALL):
        if len(line) > longest:
            long.append((at, len(line)))
        else:
            short.append(re.sub(rb"(?:%s)$" % end, b"", line, count=1, flags=re.DOTALL))
        at += len(line)
    return short, long


def part(
    file: Path, longest: int, most: int, *where: int | None, encoding: str = "utf-8"
) -> Iterator[Lines | LongLine]:
    """The lines of a part of a file."""
    found = SourceFile(f"file://{file}", 0, file.stat().st_size)
    return TextPart(found, encoding, longest, most, *where).lines()


@pytest.mark.parametrize("zeros", [0, 1, 300])
def test_zeros_that_fill_up_a_gzip_file_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zeros: int
) -> None:
    monkeypatch.setattr(limits, "_CHUNK", 64)
    file = tmp_path / "a.json.gz"
    file.write_bytes(2 * (gzip.compress(b"x\ny\n") + bytes(zeros)))
    (lines,) = part(file, 100, 100)
    assert isinstance(lines, Lines)
    assert lines.body == b"x\ny\nx\ny\n"


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize(("encoding", "end"), ENDS.items())
def test_each_line_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, encoding: str, end: bytes
) -> None:
    monkeypatch.setattr(limits, "_CHUNK", 4)
    file = tmp_path / name

    @given(
        SOME_TEXT, st.integers(4, 12), st.integers(3, 9), st.integers(1, 4), st.integers(2, 20), st.booleans()
    )
    @drawn(60, suppress_health_check=list(HealthCheck))
    def check(text: bytes, longest: int, block: int, tail: int, size: int, marked: bool) -> None:
        monkeypatch.setattr(text_lines, "BLOCK", block)
        monkeypatch.setattr(text_lines, "_TAIL", tail)
        content = (b"\xef\xbb\xbf" if marked else b"") + text
        file.write_bytes(PACKED[name](content))
        short: list[bytes] = []
        long: list[LongLine] = []
        for start, stop in cut(file.suffix, file.stat().st_size, size):
            for each in part(file, longest, 1 << 20, start, stop, encoding=encoding):
                if isinstance(each, Lines):
                    short += [each.bytes_of(nth) for nth in range(len(each))]
                else:
                    long.append(each)
        expected, beyond = naive(content, longest, end)
        assert short == expected
        assert [(each.start, each.size) for each in long] == beyond
        assert all(each.first == content[each.start : each.start + each.size] for each in long)

    check()


def test_a_line_that_is_too_long_takes_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "a.json.gz"
    file.write_bytes(gzip.compress(b"{}\n" + b" " * (200 << 20) + b"\n[]\n", 1))
    tracemalloc.start()
    first, long, last = part(file, 1 << 20, 1 << 30)
    assert tracemalloc.get_traced_memory()[1] < 40 << 20
    tracemalloc.stop()
    assert isinstance(first, Lines)
    assert isinstance(long, LongLine)
    assert isinstance(last, Lines)
    assert (first.body, long.start, long.size, last.body) == (b"{}\n", 3, (200 << 20) + 1, b"[]\n")
    with pytest.raises(DamagedFile, match="unpacks to more than 100MiB"):
        list(part(file, 1 << 20, 100 << 20))


@pytest.mark.parametrize("name", ["a.json.gz", "a.json.bz2"])
def test_a_damaged_file_is_said_to_be_one(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    whole = PACKED[name](bytes(range(256)) * 400)
    for damaged in (whole[:-9], whole[: len(whole) // 2], b"no archive", b"\x1f"):
        file.write_bytes(damaged)
        with pytest.raises(DamagedFile):
            list(part(file, 100, 1 << 20))


@pytest.mark.parametrize("name", ["a.json.gz", "a.json.bz2"])
def test_a_bomb_is_unpacked_to_its_limit_in_little_memory(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(PACKED[name](b"\n" * (1 << 20)) * 200)  # 200 MiB, in some 200 kB
    assert sum(len(each.body) for each in part(file, 1 << 16, 200 << 20) if isinstance(each, Lines)) == (
        200 << 20
    )
    tracemalloc.start()
    with pytest.raises(DamagedFile, match=r"unpacks to more than 128MiB \(source\.files\.max_unpacked\)"):
        for _ in part(file, 1 << 16, 128 << 20):
            pass
    assert tracemalloc.get_traced_memory()[1] < 40 << 20
    tracemalloc.stop()


def test_at_most_two_gibibytes_of_a_line_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b"{}\n" + b" " * 1000 + b"\n{}\n")
    monkeypatch.setattr(text_lines, "BLOCK", 64)
    assert [each.size for each in part(file, 100, 1) if isinstance(each, LongLine)] == [1001]
    assert text_lines.LONGEST_PASSED_OVER == (2 << 30) - 1
    monkeypatch.setattr(text_lines, "LONGEST_PASSED_OVER", 1000)
    with pytest.raises(DamagedFile, match="the line at byte 3 has over 2 GiB"):
        list(part(file, 100, 1))


def test_lines_that_are_not_in_their_encoding_are_told() -> None:
    lines = Lines.of("caf\u00e9\n".encode("cp1252") + b"\x81\n" + b"tea\r\n", "windows-1252")
    assert [lines.text_of(nth) for nth in range(3)] == [("caf\u00e9", True), ("\ufffd", False), ("tea", True)]
    assert lines.not_utf8().tolist() == [1]
    assert lines.bytes_of(1) == b"\x81"
    assert Lines.of(b"a\n\xff\n\xc3\xa9\n", "utf-8").not_utf8().tolist() == [1]
    wide = Lines.of("\ufeffa\r\nb\n".encode("utf-16le") + b"\x00\xd8\n\0", "utf-16le")
    assert [wide.text_of(nth) for nth in range(3)] == [("a", True), ("b", True), ("\ufffd", False)]
    assert wide.bytes_of(0) == "\ufeffa\r".encode("utf-16le")


def test_a_line_of_many_parts_is_looked_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, looked, opened = tmp_path / "a.json", list[int](), SourceFile.open
    file.write_bytes(b"x" * 3_000_000 + b"\nlast\n")
    monkeypatch.setattr(text_lines, "BLOCK", 1000)
    monkeypatch.setattr(text_lines, "_TAIL", 100)

    def watched(self: SourceFile, *given: Any, **named: Any) -> BinaryIO:
        content = opened(self, *given, **named)
        return cast(BinaryIO, Watched(content, looked))

    monkeypatch.setattr(SourceFile, "open", watched)
    found = [
        each
        for start, end in cut(file.suffix, file.stat().st_size, 100_000)
        for each in part(file, 1_000_000, 1 << 40, start, end)
    ]
    assert [each.size for each in found if isinstance(each, LongLine)] == [3_000_001]
    assert 3_000_000 < sum(looked) < 2.1 * 3_000_000


class Watched:
    """A file, and how many bytes were read at a time."""

    def __init__(self, content: BinaryIO, looked: list[int]) -> None:
        self.content, self.looked = content, looked

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.content.close()

    def seek(self, at: int) -> int:
        return self.content.seek(at)

    def read(self, size: int) -> bytes:
        found = self.content.read(size)
        self.looked.append(len(found))
        return found
