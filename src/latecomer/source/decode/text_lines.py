"""Lines of text files, a few MiB at a time: cut at their ends, decoded to UTF-8, and the bytes of each at hand.

A line ends with a line feed, a carriage return, or both; in UTF-16 with a line feed. One that is longer than the
pipeline allows is never held: of it there is where it starts, and its first bytes.
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

from latecomer.config.damage import DamagedFile, damage_found
from latecomer.config.encodings import UTF8, UTF16
from latecomer.config.sizes import format_size
from latecomer.source.decode.files import SourceFile
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
"""About so many bytes are looked at together."""
_TAIL = 64 << 10
"""So many bytes are read behind a part at first: where its last line ends, as a rule."""
_MARK = b"\xef\xbb\xbf"
_SPACE, _FEED = 0x20, 0x0A
_BLANK = bytes(range(0x21))
_WIDE_MARK = "\ufeff"
_PATTERNS = {
    PLAIN_ENDS: re.compile(rb"\r\n|\r|\n"),
    (b"\n\0",): re.compile(rb"\n\0"),
    (b"\0\n",): re.compile(rb"\0\n"),
}
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Lines:
    """Some lines."""

    body: bytes
    """In UTF-8, each with a line feed behind it. Where a line is not in its encoding, it is not UTF-8 either, or has
    other characters in the place of what cannot be read."""
    raw: list[bytes] | None = None
    """The bytes of each in the file, where they are others."""
    spoilt: frozenset[int] = field(default_factory=frozenset)
    """Those that are known not to be in their encoding."""
    records: Mapping[int, bytes] = field(default_factory=dict)
    """Records that are not one line: they are empty lines in the text."""

    @cached_property
    def letters(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self.body, np.uint8)

    @cached_property
    def controls(self) -> Places:
        """Where each control character is."""
        return np.flatnonzero(self.letters < _SPACE)

    @cached_property
    def ends(self) -> Places:
        """Where each line feed is."""
        feeds: Places = self.controls[self.letters[self.controls] == _FEED]
        return feeds

    @cached_property
    def begins(self) -> Places:
        return np.concatenate([np.zeros(min(len(self.ends), 1), np.int64), self.ends[:-1] + 1])

    def __len__(self) -> int:
        return len(self.ends)

    def holding(self, places: Places) -> Places:
        """The lines in which these places are, once each."""
        return np.unique(np.searchsorted(self.ends, places))

    def bytes_of(self, nth: int) -> bytes:
        """A line, as it is in its file."""
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

    def first_written(self) -> int | None:
        """The first line with anything in it but blanks."""
        return next((nth for nth in range(len(self)) if self.utf8_of(nth).strip(_BLANK)), None)

    def after(self, nth: int) -> Lines:
        """The lines behind this one."""
        raw = None if self.raw is None else self.raw[nth + 1 :]
        spoilt = frozenset(each - nth - 1 for each in self.spoilt if each > nth)
        return Lines(self.body[self.ends[nth] + 1 :], raw, spoilt)

    def not_utf8(self) -> Places:
        """The lines that are not UTF-8, or not in their encoding."""
        found = sorted(self.spoilt)
        if self.raw is None and not self.body.isascii():
            try:
                self.body.decode()
            except UnicodeDecodeError:
                foreign = self.holding(np.flatnonzero(self.letters > 0x7F))
                found = [nth for nth in foreign.tolist() if not self.text_of(nth)[1]]
        return np.array(found, np.int64)

    @classmethod
    def of(cls, text: bytes, encoding: str) -> Lines:
        """The lines of a text that ends with one."""
        if encoding == UTF8:
            return cls(_with_feeds(text))
        if encoding.startswith(UTF16):
            (end,) = line_ends(encoding)
            raw = text.split(end)[:-1]
        else:
            raw = _with_feeds(text).split(b"\n")[:-1]
        return cls._decoded(raw, encoding)

    @classmethod
    def of_records(cls, records: Sequence[bytes]) -> Lines:
        """Records in UTF-8, as lines."""
        body = b"".join([each + b"\n" for each in records])
        if body.count(b"\n") == len(records):
            return cls(body)
        several = {nth: each for nth, each in enumerate(records) if b"\n" in each}
        held = (b"" if nth in several else each for nth, each in enumerate(records))
        return cls(b"".join([each + b"\n" for each in held]), records=several)

    @classmethod
    def _decoded(cls, raw: list[bytes], encoding: str) -> Lines:
        wide = encoding.startswith(UTF16)
        texts, spoilt = [], set()
        for nth, line in enumerate(raw):
            try:
                text = line.decode(encoding)
            except UnicodeDecodeError:
                text = line.decode(encoding, "replace")
                spoilt.add(nth)
            if wide:
                text = text.removeprefix(_WIDE_MARK).removesuffix("\r").replace("\n", "\ufffd")
            texts.append(text)
        return cls("".join([f"{text}\n" for text in texts]).encode(errors="replace"), raw, frozenset(spoilt))


def _with_feeds(text: bytes) -> bytes:
    """A text in which each line ends with a line feed."""
    if b"\r" in text:
        return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text


def cut(suffix: str, whole: int, size: int) -> list[tuple[int, int | None]]:
    """Parts of a file of `whole` bytes that can be read by themselves, of about so many bytes: what is compressed
    cannot be cut."""
    if suffix in PACKED or whole <= size:
        return [(0, None)]
    # In UTF-16 a character is two bytes; and a byte order mark is in the first part.
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
        """Whole lines, from a place on, each with its end; and those that are too long."""
        held, long = b"", None  # what is held begins at `at`, or goes on a line that is too long
        for block in chain(blocks, [None]):
            text = held + (block or b"")
            if at == 0 and text.startswith(_MARK):
                text, at = text[len(_MARK) :], len(_MARK)
            if long is not None:
                end = self._next_end(text, 0, last=block is None)
                passed = end or (len(text) if block is None else max(len(text) - 1, 0))  # half an end is held
                long = LongLine(long.start, long.size + passed, (long.first + text[:passed])[:KEPT])
                if long.size > LONGEST_PASSED_OVER:
                    raise DamagedFile(
                        f"the line at byte {long.start} has over 2 GiB, and no more are passed over"
                    )
                if end is None and block is not None:
                    held = text[passed:]
                    continue
                yield long
                at, text, long = long.start + long.size, text[passed:], None
            upto = len(text) if block is None else self._last_end(text)
            stop = self._stop(text, upto, at)
            if stop is not None:
                yield from self._shorter(text[:stop], at)
                return
            yield from self._shorter(text[:upto], at)
            at, held = at + upto, text[upto:]
            if len(held) > self.longest:
                long, held = LongLine(at, len(held) - 1, held[:-1][:KEPT]), held[-1:]

    def _shorter(self, text: bytes, at: int) -> Iterator[bytes | LongLine]:
        """Whole lines without those that are too long; with an end behind the last one."""
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
        """Where lines begin and end that are too long: one line end within so many bytes shows that none is."""
        start = 0
        while len(text) - start > self.longest:
            end = start + self._last_end(text[start : start + self.longest], whole=False)
            if end == start or text[end - 1 : end + 1] == b"\r\n":
                found = self._next_end(text, start, last=True)
                end = len(text) if found is None else found
                if end - start > self.longest:
                    yield start, end
            start = end

    def _next_end(self, text: bytes, at: int, last: bool) -> int | None:
        """Where the next line end is over; a carriage return at the end may be half of one, unless it is the last."""
        found = _PATTERNS[line_ends(self.encoding)].search(text, at)
        if found is None or (not last and found.end() == len(text) and found[0] == b"\r"):
            return None
        return found.end()

    def _last_end(self, text: bytes, whole: bool = True) -> int:
        """Where the last line end is over; likewise, if it has to be `whole`."""
        ends = line_ends(self.encoding)
        stop = len(text) - 1 if whole and ends == PLAIN_ENDS and text.endswith(b"\r") else len(text)
        return max(text.rfind(end, 0, stop) + len(end) if end in text else 0 for end in ends)

    def _stop(self, text: bytes, upto: int, at: int) -> int | None:
        """Where the first line begins that is not wanted, if it is known."""
        if self.end is None or at + upto < self.end:
            return None
        width = len(line_ends(self.encoding)[0])
        if self.end <= at:
            return 0
        return self._next_end(text[:upto], max(self.end - at - width, 0), last=True)

    def _plain(self, content: BinaryIO) -> Iterator[bytes]:
        """The file, from where the line before the part may end. A part of the usual size comes at once; behind it,
        more and more bytes."""
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
        """Where the first line begins at or after the start, and the file from there on; nothing where none begins
        before the end of the part. A line may be as long as a thousand parts."""
        ends, at, held = line_ends(self.encoding), self._before, b""
        if self.start == 0:
            return 0, blocks
        for block in blocks:
            text = held + block
            found = _PATTERNS[ends].search(text)
            if found is not None and (found[0] != b"\r" or found.end() < len(text)):
                return at + found.end(), chain([text[found.end() :]], blocks)
            half = len(ends[0]) - 1 if found is None else 1  # what may be the first half of an end
            at, held = at + len(text) - half, text[len(text) - half :]
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
    """The parts, several in one where they are small."""
    held: list[bytes] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size >= least:
            yield b"".join(held)
            held, size = [], 0
    if size:
        yield b"".join(held)
