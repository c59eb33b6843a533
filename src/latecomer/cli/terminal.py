"""Text from elsewhere, on a terminal and in a spreadsheet: shown, never obeyed.

On a terminal every verb's output and errors go through `HarmlessStream`, which shows the characters that it would
take for commands. In a pipe or a file the bytes stay as they are, for programs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from latecomer.errors.harmless import COMMANDS


def harmless_lines(text: str) -> str:
    """Text of several lines. Characters are replaced by JSON's escapes, so that JSON stays JSON.

    >>> harmless_lines("a\\nb \\x9b2J")
    'a\\nb \\\\u009b2J'
    """
    return COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class HarmlessStream:
    """A terminal that gets harmless text alone. Rich draws on the stream itself, and its texts are made harmless
    before."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(harmless_lines(text))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def shielded(stream: TextIO) -> TextIO:
    """The stream, made harmless if it is a terminal."""
    return cast(TextIO, HarmlessStream(stream)) if stream.isatty() else stream


@contextmanager
def shielded_terminal() -> Iterator[None]:
    """Make standard output and standard error harmless, each where it is a terminal."""
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(shielded(sys.stdout)))
        stack.enter_context(redirect_stderr(shielded(sys.stderr)))
        yield


# Spreadsheets

_FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|-?Infinity")
_escaping = False


def escape_formulas(wanted: bool) -> None:
    """Set whether CSV cells that a spreadsheet would compute begin with an apostrophe."""
    global _escaping
    _escaping = wanted


def csv_cell(value: Any) -> Any:
    """A cell of CSV: as it is, unless formulas are to be escaped.

    >>> escape_formulas(True)
    >>> csv_cell("=1+2"), csv_cell("-5.0"), csv_cell("-a")
    ("'=1+2", '-5.0', "'-a")
    >>> escape_formulas(False)
    """
    if not _escaping or not isinstance(value, str) or not _FORMULA.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"
