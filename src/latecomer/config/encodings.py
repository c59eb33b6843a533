"""The encodings of text files, under names that both Python and Java know."""

from __future__ import annotations

import bz2
import codecs
import gzip
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import TextIOWrapper
from typing import Any, BinaryIO, TextIO

from latecomer.config.damaged_files import DamagedFile, damage_found
from latecomer.errors import nearest
from latecomer.model.words import words
from latecomer.objects.readable import Readable

UTF8 = "utf-8"
UTF16 = "utf-16"
"""The byte order mark of each file gives its byte order."""
ENCODINGS = (
    UTF8,
    "us-ascii",
    *(f"iso-8859-{part}" for part in (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 15)),
    *(f"windows-125{page}" for page in range(9)),
    *words("koi8-r utf-16 utf-16le utf-16be shift_jis euc-jp gb18030 big5 euc-kr"),
)
"""The encodings that a pipeline file may name."""
_NAMES = {**{codecs.lookup(name).name: name for name in ENCODINGS}, "utf-8-sig": UTF8}
"""Python's name of each encoding → the name in ENCODINGS."""
_PYTHONS = {"latin-1": "iso-8859-1", "cp1252": "windows-1252"}
"""Usual names of Python's."""
_UNPACKING: dict[str, Callable[[BinaryIO], AbstractContextManager[Any]]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
}
LOOKED_AT = 1 << 20
"""How many bytes of a file are read to see whether it is UTF-8."""
LOOKED_AT_FIRST = 200
"""How many of its first bytes are read to see whether its characters have two bytes."""


def known_encoding(written: str) -> str:
    """The canonical name of an encoding.

    >>> known_encoding("UTF8"), known_encoding("latin-1"), known_encoding("cp1252")
    ('utf-8', 'iso-8859-1', 'windows-1252')
    """
    try:
        return _NAMES[codecs.lookup(written.strip()).name]
    except (LookupError, ValueError):
        near = nearest(written.strip().lower(), [*ENCODINGS, *_PYTHONS], "")
        also = ", ".join(f"{name} for {known}" for name, known in _PYTHONS.items())
        raise ValueError(
            f"unknown encoding; {near}{' ' * bool(near)}there are {', '.join(ENCODINGS)}; also {also}"
        ) from None


def other_encoding(encoding: str) -> str:
    """The fix for bytes that are not in the encoding."""
    other = "utf-8" if encoding != UTF8 else "windows-1252"
    return f"if the files are in another encoding, set source.files.encoding, such as {other}"


def file_encoding(file: Readable, encoding: str) -> str:
    """The encoding of one file. With utf-16, its first two bytes give the byte order; without them it is
    little-endian."""
    if encoding != UTF16:
        return encoding
    try:
        with damage_found("text"), _open_bytes(file) as content:
            return "utf-16be" if content.read(2) == codecs.BOM_UTF16_BE else "utf-16le"
    except DamagedFile:
        return "utf-16le"  # the damage shows when the file is read


def encoding_by_bytes(head: bytes) -> str | None:
    """The two-byte encoding that the first bytes of a file suggest; None where they suggest none."""
    head = head[:LOOKED_AT_FIRST]
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return UTF16
    if 3 * head.count(0) <= len(head):  # a few zero bytes may be part of the rows
        return None
    return "utf-16le" if head.find(b"\0") % 2 else "utf-16be"


def byte_outside_utf8(head: bytes) -> int | None:
    """The position of the first byte that is not UTF-8, in the beginning of a file."""
    try:
        codecs.getincrementaldecoder(UTF8)().decode(head)
    except UnicodeDecodeError as error:
        return error.start
    return None


def first_bytes(file: Readable, size: int = LOOKED_AT) -> bytes:
    """The first bytes of a file, decompressed; none if it is damaged."""
    try:
        with damage_found("text"), _open_bytes(file) as content:
            return content.read(size)
    except (DamagedFile, OSError):
        return b""


@contextmanager
def open_text(file: Readable, encoding: str) -> Iterator[TextIO]:
    """A text file, decompressed by the ending of its name, as Spark does. Line ends are kept.

    Bytes that are not in the encoding become characters that `is_text` detects. A byte order mark is left out.
    """
    spelled = file_encoding(file, encoding)
    errors = "surrogateescape" if spelled == UTF8 else "replace"
    if spelled == UTF8:
        spelled = "utf-8-sig"
    elif spelled.startswith(UTF16) and _has_mark(file):
        spelled = UTF16
    with (
        _open_bytes(file) as content,
        TextIOWrapper(content, encoding=spelled, errors=errors, newline="") as text,
    ):
        if not spelled.startswith((UTF8, UTF16)) and content.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            content.seek(0)
        yield text


def bounded_lines(text: TextIO, longest: int, most: int) -> Iterator[str]:
    """The lines of a text without their ends, until `most` characters have been read. A line of more than `longest`
    characters is left out and never held in memory.

    >>> import io
    >>> list(bounded_lines(io.StringIO("one\\ntoo long\\ntwo"), longest=4, most=100))
    ['one', 'two']
    """
    within = False  # a line that is too long
    while most > 0 and (part := text.readline(longest + 1)):
        most -= len(part)
        ended = part.endswith(("\n", "\r"))
        if not within and (ended or len(part) <= longest):
            yield part.rstrip("\r\n")
        within = not ended


def is_text(text: str, encoding: str = UTF8) -> bool:
    """Whether a text that `open_text` read is completely in the file's encoding.

    >>> is_text("caf\\udce9"), is_text("café")
    (False, True)
    """
    if encoding != UTF8:
        return "\ufffd" not in text
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _has_mark(file: Readable) -> bool:
    with _open_bytes(file) as content:
        return content.read(2) in (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)


@contextmanager
def _open_bytes(file: Readable) -> Iterator[BinaryIO]:
    """A file, decompressed."""
    with file.open("rb") as content:
        if (unpack := _UNPACKING.get(file.suffix)) is None:
            yield content
            return
        with unpack(content) as unpacked:
            yield unpacked
