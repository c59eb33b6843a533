"""Lines of text files, a few MiB at a time, in UTF-8, with the original bytes of each line.

A line ends with a line feed, a carriage return, or both; in UTF-16 with a line feed. A line that is longer than the
pipeline allows is never in memory as a whole: only its start, its size and its first bytes are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from latecomer.config.damaged_files import DamagedFile, damage_found
from latecomer.config.encodings import UTF8, UTF16
from latecomer.config.sizes import format_size
from latecomer.model.array_types import Flags, Integers
from latecomer.source.decode.base import SourceFile
from latecomer.source.decode.limits import (
    KEPT,
    LONGEST_PASSED_OVER,
    PLAIN_ENDS,
    LongLine,
    line_ends,
    unpacked,
)

PACKED = (".gz", ".bz2")
BLOCK = 4 << 20
"""About so many bytes are read together."""
_TAIL = 64 << 10
"""Bytes that are first read behind a part, to find the end of its last line."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SPACE, FEED = 0x20, 0x0A
BLANK = bytes(range(0x21))
"""The characters of blank lines."""
_WIDE_MARK = "\ufeff"
_PATTERNS = {
    PLAIN_ENDS: re.compile(rb"\r\n|\r|\n"),
    (b"\n\0",): re.compile(rb"\n\0"),
    (b"\0\n",): re.compile(rb"\0\n"),
}


@dataclass(frozen=True)
class Lines:
    """Some lines."""

    body: bytes
    """In UTF-8, each with a line feed behind it. A line that is not in its encoding is not UTF-8 here either, or has
    replacement characters."""
    raw: list[bytes] | None = None
    """The bytes of each line in the file, if they differ."""
    spoilt: frozenset[int] = field(default_factory=frozenset)
    """Lines that are known not to be in their encoding."""
    records: Mapping[int, bytes] = field(default_factory=dict)
    """Records with line feeds in them: in `body` they are empty lines."""

    @cached_property
    def letters(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self.body, np.uint8)

    @cached_property
    def controls(self) -> Integers:
        """The places of control characters."""
        return np.flatnonzero(self.letters < SPACE)

    @cached_property
    def ends(self) -> Integers:
        """The places of line feeds."""
        feeds: Integers = self.controls[self.letters[self.controls] == FEED]
        return feeds

    @cached_property
    def begins(self) -> Integers:
        return np.concatenate([np.zeros(min(len(self.ends), 1), np.int64), self.ends[:-1] + 1])

    def __len__(self) -> int:
        return len(self.ends)

    def holding(self, places: Integers) -> Integers:
        """The lines that contain these places, once each."""
        return np.unique(np.searchsorted(self.ends, places))

    def bytes_of(self, nth: int) -> bytes:
        """A line as it is in the file."""
        return self.utf8_of(nth) if self.raw is None else self.raw[nth]

    def utf8_of(self, nth: int) -> bytes:
        if nth in self.records:
            return self.records[nth]
        return self.body[self.begins[nth] : self.ends[nth]]

    def text_of(self, nth: int) -> tuple[str, bool]:
        """The text of a line, and whether all of it is in the encoding."""
        line = self.utf8_of(nth)
        try:
            return line.decode(), nth not in self.spoilt
        except UnicodeDecodeError:
            return line.decode(errors="replace"), False

    def behind_header(self) -> Lines | None:
        """The lines behind the first one that is not blank; None if all are blank."""
        header = next((nth for nth in range(len(self)) if self.utf8_of(nth).strip(BLANK)), None)
        if header is None:
            return None
        raw = None if self.raw is None else self.raw[header + 1 :]
        spoilt = frozenset(each - header - 1 for each in self.spoilt if each > header)
        return Lines(self.body[self.ends[header] + 1 :], raw, spoilt)

    def with_replaced(self, which: Flags, text: bytes, begin: int = 0, end: int | None = None) -> bytes:
        """The lines from `begin` to `end`, with a text in the place of some of them."""
        end = len(self) if end is None else end
        places = np.flatnonzero(which[begin:end]) + begin
        parts, at = [], int(self.begins[begin])
        for start, stop in zip(self.begins[places].tolist(), self.ends[places].tolist(), strict=True):
            parts += [self.body[at:start], text]
            at = stop
        return b"".join([*parts, self.body[at : int(self.ends[end - 1]) + 1]])

    def not_utf8(self) -> Integers:
        """The lines that are not UTF-8, or not in their encoding."""
        wrong = sorted(self.spoilt)
        if self.raw is None and not self.body.isascii():
            try:
                self.body.decode()
            except UnicodeDecodeError:
                foreign = self.holding(np.flatnonzero(self.letters > 0x7F))
                wrong = [nth for nth in foreign.tolist() if not self.text_of(nth)[1]]
        return np.array(wrong, np.int64)

    @classmethod
    def of(cls, text: bytes, encoding: str) -> Lines:
        """The lines of a text that ends with a line end."""
        if encoding == UTF8:
            return cls(_with_feeds(text))
        if encoding.startswith(UTF16):
            (end,) = line_ends(encoding)
            raw = text.split(end)[:-1]
        else:
            raw = _with_feeds(text).split(b"\n")[:-1]
        texts, spoilt = [], set()
        for nth, line in enumerate(raw):
            try:
                decoded = line.decode(encoding)
            except UnicodeDecodeError:
                decoded = line.decode(encoding, "replace")
                spoilt.add(nth)
            if encoding.startswith(UTF16):
                decoded = decoded.removeprefix(_WIDE_MARK).removesuffix("\r").replace("\n", "\ufffd")
            texts.append(f"{decoded}\n")
        return cls("".join(texts).encode(errors="replace"), raw, frozenset(spoilt))

    @classmethod
    def of_records(cls, records: Sequence[bytes]) -> Lines:
        """Records in UTF-8, as lines."""
        body = b"".join([each + b"\n" for each in records])
        if body.count(b"\n") == len(records):
            return cls(body)
        several = {nth: each for nth, each in enumerate(records) if b"\n" in each}
        lines = (b"" if nth in several else each for nth, each in enumerate(records))
        return cls(b"".join([each + b"\n" for each in lines]), records=several)


def _with_feeds(text: bytes) -> bytes:
    """A text in which each line ends with a line feed."""
    if b"\r" in text:
        return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text


def cut(suffix: str, whole: int, size: int) -> list[tuple[int, int | None]]:
    """The parts of a file of `whole` bytes, of about `size` bytes each. A compressed file has only one part."""
    if suffix in PACKED or whole <= size:
        return [(0, None)]
    # In UTF-16 a character has two bytes. The first part must have all of a byte order mark.
    step = max(size, 4) // 2 * 2
    starts = [start for start in range(0, whole, step) if whole - start > step // 2 or not start]
    return list(zip(starts, [*starts[1:], None], strict=True))


@dataclass(frozen=True)
class TextPart:
    """A part of a text file: the lines that begin in it."""

    file: SourceFile
    encoding: str
    longest: int
    """Bytes of a line with its end, at most."""
    most: int
    """Bytes that a compressed file unpacks to, at most."""
    start: int = 0
    end: int | None = None

    def lines(self) -> Iterator[Lines | LongLine]:
        """The lines, some at a time, and those that are too long."""
        with damage_found("text"), self.file.open("rb", ahead=BLOCK) as content:
            if self.file.suffix in PACKED:
                at, blocks = 0, self._unpacked(content.read)
            else:
                at, blocks = self._from_first_line(self._plain(content))
            for each in self._cut(blocks, at):
                yield Lines.of(each, self.encoding) if isinstance(each, bytes) else each

    def _cut(self, blocks: Iterator[bytes], at: int) -> Iterator[bytes | LongLine]:
        """Whole lines from the byte `at` on, each with its end; and those that are too long."""
        pending, long = b"", None  # `pending` begins at `at`, or continues a line that is too long
        for block in chain(blocks, [None]):
            text = pending + (block or b"")
            if at == 0 and text.startswith(BYTE_ORDER_MARK):
                text, at = text.removeprefix(BYTE_ORDER_MARK), len(BYTE_ORDER_MARK)
            if long is not None:
                end = self._next_end(text, 0, last=block is None)
                passed = end or (len(text) if block is None else max(len(text) - 1, 0))  # half an end is kept
                long = LongLine(long.start, long.size + passed, (long.first + text[:passed])[:KEPT])
                if long.size > LONGEST_PASSED_OVER:
                    raise DamagedFile(
                        f"the line at byte {long.start} has over 2 GiB, and no more are passed over"
                    )
                if end is None and block is not None:
                    pending = text[passed:]
                    continue
                yield long
                at, text, long = long.start + long.size, text[passed:], None
            upto = len(text) if block is None else self._last_end(text)
            stop = self._stop(text, upto, at)
            if stop is not None:
                yield from self._shorter(text[:stop], at)
                return
            yield from self._shorter(text[:upto], at)
            at, pending = at + upto, text[upto:]
            if len(pending) > self.longest:
                long, pending = LongLine(at, len(pending) - 1, pending[:-1][:KEPT]), pending[-1:]

    def _shorter(self, text: bytes, at: int) -> Iterator[bytes | LongLine]:
        """The lines of a text that are not too long, with an end behind the last one; and those that are."""
        if len(text) > self.longest:
            begin = 0
            for start, end in list(self._longer(text)):
                if start > begin:
                    yield text[begin:start]
                yield LongLine(at + start, end - start, text[start:end][:KEPT])
                begin = end
            text = text[begin:]
        if text:
            ends = line_ends(self.encoding)
            yield text if text.endswith(ends) else text + ends[0]

    def _longer(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Where lines that are too long begin and end. A line end within so many bytes shows that no line there is."""
        start = 0
        while len(text) - start > self.longest:
            end = start + self._last_end(text[start : start + self.longest], whole=False)
            if end == start or text[end - 1 : end + 1] == b"\r\n":
                next_end = self._next_end(text, start, last=True)
                end = len(text) if next_end is None else next_end
                if end - start > self.longest:
                    yield start, end
            start = end

    def _next_end(self, text: bytes, at: int, last: bool) -> int | None:
        """The byte behind the next line end. Unless this is the `last` text, a carriage return at its end may be half a
        line end, and does not count."""
        match = _PATTERNS[line_ends(self.encoding)].search(text, at)
        if match is None or (not last and match.end() == len(text) and match[0] == b"\r"):
            return None
        return match.end()

    def _last_end(self, text: bytes, whole: bool = True) -> int:
        """The byte behind the last line end; if it has to be `whole`, a carriage return at the end does not count."""
        ends = line_ends(self.encoding)
        stop = len(text) - 1 if whole and ends == PLAIN_ENDS and text.endswith(b"\r") else len(text)
        return max(text.rfind(end, 0, stop) + len(end) if end in text else 0 for end in ends)

    def _stop(self, text: bytes, upto: int, at: int) -> int | None:
        """Where the first line behind the part begins, if the text shows it."""
        if self.end is None or at + upto < self.end:
            return None
        width = len(line_ends(self.encoding)[0])
        if self.end <= at:
            return 0
        return self._next_end(text[:upto], max(self.end - at - width, 0), last=True)

    def _plain(self, content: BinaryIO) -> Iterator[bytes]:
        """The blocks of the file, from where the line before the part may end. A part of the usual size is one block;
        the blocks behind it become larger and larger."""
        at, tail = self._before, _TAIL
        content.seek(at)
        while True:
            if self.end is None:
                size = 2 * BLOCK
            elif at < self.end:
                size = min(self.end - at + tail, 2 * BLOCK)
            else:
                size, tail = tail, min(2 * tail, BLOCK)
            block = content.read(size)
            if not block:
                return
            yield block
            at += len(block)

    @property
    def _before(self) -> int:
        return max(self.start - len(line_ends(self.encoding)[0]), 0)

    def _from_first_line(self, blocks: Iterator[bytes]) -> tuple[int, Iterator[bytes]]:
        """Where the first line of the part begins, and the blocks from there on; no blocks if no line begins in the
        part. A line may be as long as a thousand parts."""
        ends, at, pending = line_ends(self.encoding), self._before, b""
        if self.start == 0:
            return 0, blocks
        for block in blocks:
            text = pending + block
            match = _PATTERNS[ends].search(text)
            if match is not None and (match[0] != b"\r" or match.end() < len(text)):
                return at + match.end(), chain([text[match.end() :]], blocks)
            half = len(ends[0]) - 1 if match is None else 1  # bytes that may be the first half of an end
            at, pending = at + len(text) - half, text[len(text) - half :]
            if self.end is not None and at >= self.end:
                break
        return at, iter(())

    def _unpacked(self, read: Callable[[int], bytes]) -> Iterator[bytes]:
        total = 0
        for block in _joined(unpacked(read, self.file.suffix), BLOCK):
            total += len(block)
            if total > self.most:
                limit = format_size(self.most)
                raise DamagedFile(f"it unpacks to more than {limit} (source.files.max_unpacked)")
            yield block


def _joined(parts: Iterator[bytes], least: int) -> Iterator[bytes]:
    """The parts, with small ones joined to at least so many bytes."""
    small: list[bytes] = []
    size = 0
    for part in parts:
        small.append(part)
        size += len(part)
        if size >= least:
            yield b"".join(small)
            small, size = [], 0
    if size:
        yield b"".join(small)
