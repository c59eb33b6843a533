"""Lines of text files: cut anywhere, packed or not, each is read once, and none that is too long is held."""

from __future__ import annotations

import bz2
import gzip
import os
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from examples_kit import drawn
from latecomer.config.damage import DamagedFile
from latecomer.source.decode import limits, text_lines
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


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize(("encoding", "end"), ENDS.items())
def test_each_line_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, encoding: str, end: bytes
) -> None:
    monkeypatch.setattr(limits, "_CHUNK", 4)
    file = tmp_path / name

    @given(SOME_TEXT, st.integers(4, 12), st.integers(3, 9), st.integers(2, 20), st.booleans())
    @drawn(60, suppress_health_check=list(HealthCheck))
    def check(text: bytes, longest: int, block: int, size: int, marked: bool) -> None:
        monkeypatch.setattr(text_lines, "BLOCK", block)
        content = (b"\xef\xbb\xbf" if marked else b"") + text
        file.write_bytes(PACKED[name](content))
        short: list[bytes] = []
        long: list[LongLine] = []
        for start, stop in cut(file.suffix, file.stat().st_size, size):
            for each in TextPart(file, encoding, longest, 1 << 20, start, stop).lines():
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
    first, long, last = TextPart(file, "utf-8", 1 << 20, 1 << 30).lines()
    assert tracemalloc.get_traced_memory()[1] < 40 << 20
    tracemalloc.stop()
    assert isinstance(first, Lines)
    assert isinstance(long, LongLine)
    assert isinstance(last, Lines)
    assert (first.body, long.start, long.size, last.body) == (b"{}\n", 3, (200 << 20) + 1, b"[]\n")
    with pytest.raises(DamagedFile, match="unpacks to more than 100MiB"):
        list(TextPart(file, "utf-8", 1 << 20, 100 << 20).lines())


@pytest.mark.parametrize("name", ["a.json.gz", "a.json.bz2"])
def test_a_damaged_file_is_said_to_be_one(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    whole = PACKED[name](bytes(range(256)) * 400)
    for damaged in (whole[:-9], whole[: len(whole) // 2], b"no archive", b"\x1f"):
        file.write_bytes(damaged)
        with pytest.raises(DamagedFile):
            list(TextPart(file, "utf-8", 100, 1 << 20).lines())


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
    file, real, looked = tmp_path / "a.json", os.pread, list[int]()
    file.write_bytes(b"x" * 3_000_000 + b"\nlast\n")
    monkeypatch.setattr(text_lines, "BLOCK", 1000)
    monkeypatch.setattr(os, "pread", lambda *asked: looked.append(len(found := real(*asked))) or found)
    found = [
        each
        for start, end in cut(file.suffix, file.stat().st_size, 100_000)
        for each in TextPart(file, "utf-8", 1_000_000, 1 << 40, start, end).lines()
    ]
    assert [each.size for each in found if isinstance(each, LongLine)] == [3_000_001]
    assert sum(looked) < 2 * 3_000_000
