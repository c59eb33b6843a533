"""The words of a `.proto` text in order, each with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from latecomer.schemas import SchemaError

LONGEST_TEXT = 1 << 20
"""Characters of a schema."""
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f\v]+|//[^\n]*|/\*.*?\*/)
    |(?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    |(?P<int>0[xX][0-9a-fA-F]+|\d+)(?![A-Za-z0-9_])
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<sign>[{}()\[\]<>;,=.:\-+/])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_LETTERS = dict(zip("abfnrtv", b"\a\b\f\n\r\t\v", strict=True))


class Token(NamedTuple):
    kind: str
    """name, int, float, text, sign, or end."""
    text: str
    line: int


def tokens(text: str) -> Iterator[Token]:
    """All words, and then an end.

    >>> [token.text for token in tokens("int32 id = 1; // the rest is a remark")]
    ['int32', 'id', '=', '1', ';', '']
    """
    if len(text) > LONGEST_TEXT:
        raise SchemaError((), f"has more than {LONGEST_TEXT} characters", "divide it, and import the parts")
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise mistake(
                line, f"{text[at : at + 20].splitlines()[0]!r} is no word of a .proto file", "correct it"
            )
        if match.lastgroup != "space":
            yield Token(str(match.lastgroup), match[0], line)
        line += match[0].count("\n")
        at = match.end()
    yield Token("end", "", line)


def mistake(line: int, message: str, fix: str) -> SchemaError:
    return SchemaError((f"line {line}",), message, fix)


def unquoted(token: Token) -> bytes:
    r"""The bytes of a text.

    >>> unquoted(Token("text", r'"a\n\x41\101"', 1))
    b'a\nAA'
    """

    def byte(match: re.Match[bytes]) -> bytes:
        in_hex, in_octal, short, long, letter = match.groups()
        if in_hex or in_octal:
            return bytes([int(in_hex, 16) if in_hex else int(in_octal, 8) & 0xFF])
        if short or long:
            try:
                return chr(int(short or long, 16)).encode()
            except (ValueError, OverflowError):
                raise mistake(
                    token.line, "escapes a character that does not exist", "correct the escape"
                ) from None
        return bytes([_LETTERS.get(letter.decode("latin-1"), letter[0])])

    return re.sub(_ESCAPE.pattern.encode(), byte, token.text[1:-1].encode(), flags=re.DOTALL)


def escaped(octets: bytes) -> str:
    r"""Bytes as they are written between quotes.

    >>> print(escaped(b"a\xff'"))
    a\377\047
    """
    return "".join(
        chr(each) if 32 <= each < 127 and each not in b"\\\"'" else f"\\{each:03o}" for each in octets
    )


def text_of(token: Token) -> str:
    try:
        return unquoted(token).decode()
    except UnicodeDecodeError:
        raise mistake(token.line, f"{token.text[:40]} is not UTF-8", "write text as UTF-8") from None
