"""Files on this machine that a user names and that are read whole: secrets, tokens, credentials, schemas.

Whatever is wrong with one is an `OSError` whose `strerror` says what. A pipe is read to its end, as in
`--token-file <(pass show registry)`. A device has no size, and may have no end.
"""

from __future__ import annotations

import errno
from pathlib import Path

MOST_BYTES = 4 << 20


class TooLarge(OSError):
    """A file that is larger than anything that it could hold."""


def named_file(written: str, base: Path) -> Path:
    """The path of a file as a user writes it: relative to `base`, with ~ as the home folder."""
    try:
        return base / Path(written).expanduser()
    except RuntimeError:
        raise OSError(errno.ENOENT, "there is no such user", written) from None


def small_bytes(file: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a file that has at most `most` bytes."""
    try:
        with open(file, "rb") as opened:
            content = opened.read(most + 1)
    except ValueError:
        raise OSError(errno.EINVAL, "a path cannot hold a NUL character", str(file)) from None
    if len(content) > most:
        raise TooLarge(errno.EFBIG, f"it has more than {most:,} bytes", str(file))
    return content


def small_text(file: Path) -> str:
    """The text of a small file."""
    try:
        return as_text(small_bytes(file))
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "it is no text", str(file)) from None


def as_text(content: bytes) -> str:
    """Bytes of UTF-8 as text, with the ends of its lines as newlines."""
    return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
