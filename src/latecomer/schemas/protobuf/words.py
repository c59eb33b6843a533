"""The words of a `.proto` text, each with its line; and what is read of them: names, texts, numbers, blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from google.protobuf import descriptor_pb2 as described

from latecomer.schemas import SchemaError

LONGEST_TEXT = 1 << 20
"""Characters of a schema."""
DEEPEST_MESSAGE = 32
"""How deep messages and values of options may be nested."""
LABELS = {"optional": 1, "required": 2, "repeated": 3}
TYPES = {
    number: name.removeprefix("TYPE_").lower() for name, number in described.FieldDescriptorProto.Type.items()
}
"""Number of a type of fields → its name in a text."""
SCALARS = {name: number for number, name in TYPES.items() if name not in ("message", "enum", "group")}
KEYS = SCALARS.keys() - {"float", "double", "bytes"}
"""The types that keys of maps may have."""
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
            shown = text[at : at + 20].splitlines()[0]
            raise mistake(line, f"{shown!r} is no word of a .proto file", "correct it")
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
                message = "escapes a character that does not exist"
                raise mistake(token.line, message, "correct the escape") from None
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


def by_type(groups: Mapping[str, str]) -> dict[int, str]:
    """Group → the names of its types, as number of a type → its group."""
    group_of = {name: group for group, names in groups.items() for name in names.split()}
    return {number: group_of[name] for number, name in TYPES.items() if name in group_of}


def whole_number(token: Token) -> int:
    """The value of a whole number: decimal, octal or hexadecimal."""
    digits = token.text.lower()
    base = 16 if digits.startswith("0x") else 8 if len(digits) > 1 and digits[0] == "0" else 10
    try:
        return int(digits, base)
    except ValueError:
        raise mistake(token.line, f"{digits[:40]} is no number", "correct it") from None


class Words:
    """The words of a text, and how many of them are read."""

    def __init__(self, text: str) -> None:
        self.words = list(tokens(text))
        self.at = 0
        self.depth = 0
        self.is_proto3 = False

    @property
    def next(self) -> Token:
        return self.words[self.at]

    def take(self) -> Token:
        token = self.next
        if token.kind != "end":
            self.at += 1
        return token

    def has(self, *words: str) -> bool:
        """Read the next words, if they are these; whether they are."""
        ahead = self.words[self.at : self.at + len(words)]
        if len(ahead) < len(words) or any(
            each.text != word or each.kind == "text" for each, word in zip(ahead, words, strict=True)
        ):
            return False
        self.at += len(words)
        return True

    def expect(self, sign: str) -> None:
        if not self.has(sign):
            raise self.wrong(sign)

    def wrong(self, wanted: str) -> SchemaError:
        token = self.next
        reason = "the text ends" if token.kind == "end" else f"there is {token.text[:40]}"
        return mistake(token.line, f"{reason}, and {wanted} is expected", f"write {wanted}")

    def name(self) -> str:
        if self.next.kind != "name":
            raise self.wrong("a name")
        return self.take().text

    def full_name(self) -> str:
        name = "." if self.has(".") else ""
        name += self.name()
        while self.has("."):
            name += f".{self.name()}"
        return name

    def string(self) -> str:
        if self.next.kind != "text":
            raise self.wrong("a text in quotes")
        text = text_of(self.take())
        while self.next.kind == "text":
            text += text_of(self.take())
        return text

    def text_bytes(self) -> bytes:
        """The bytes of a text, which need not be UTF-8."""
        found = unquoted(self.take())
        while self.next.kind == "text":
            found += unquoted(self.take())
        return found

    def number(self) -> int:
        sign = -1 if self.has("-") else 1
        if self.next.kind != "int":
            raise self.wrong("a whole number")
        token = self.take()
        number = whole_number(token)
        if number >= 1 << 64:
            raise mistake(token.line, f"{token.text[:40]} is too large", "correct it")
        return sign * number

    def within(self, inside: Callable[[], None]) -> None:
        """Read a block in curly brackets; `inside` reads one statement of it."""
        self.expect("{")
        self.depth += 1
        if self.depth > DEEPEST_MESSAGE:
            raise mistake(self.next.line, "is nested too deeply", f"nest at most {DEEPEST_MESSAGE} messages")
        while not self.has("}"):
            if self.next.kind == "end":
                raise self.wrong("}")
            if not self.has(";"):
                inside()
        self.depth -= 1
