"""The words of a `.proto` text, each with its line; and what is read of them: names, texts, numbers, blocks, options.

Options without a field in Google's descriptions are kept as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

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
_OPTION_KINDS = {3: int, 4: int, 5: int, 8: bool, 9: str, 13: int, 14: str}
_LONGEST_OF_64_BITS = 23
"""Characters of the largest number of 64 bits, in octal."""
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


class OptionParser(Words):
    """Reads the options of files, messages, fields and values."""

    def option(self, options: Any) -> None:
        if not self.has("option"):
            raise self.wrong("option")
        self.option_value(options)
        self.expect(";")

    def options_of(self, made: Any, *, of_field: bool = False) -> None:
        """The options in square brackets, if there are any."""
        if not self.has("["):
            return
        while True:
            if of_field and self.has("default", "="):
                self.default(made)
            elif of_field and self.has("json_name", "="):
                made.json_name = self.string()
            else:
                self.option_value(made.options)
            if not self.has(","):
                break
        self.expect("]")

    def default(self, made: Any) -> None:
        if self.is_proto3 or made.label == LABELS["repeated"]:
            fix = "leave it out: only proto2 has defaults"
            raise mistake(self.next.line, f"{made.name} has a default", fix)
        if self.next.kind == "text" and made.type == SCALARS["bytes"]:
            made.default_value = escaped(self.text_bytes())
        elif self.next.kind == "text":
            made.default_value = self.string()
        else:
            made.default_value = ("-" if self.has("-") else "") + self.take().text

    def option_value(self, options: Any) -> None:
        """`name = value`. Options that the package knows are set; all others are kept as they are written."""
        name: list[tuple[str, bool]] = []
        while True:
            if self.has("("):
                name.append((self.full_name(), True))
                self.expect(")")
            else:
                name.append((self.name(), False))
            if not self.has("."):
                break
        self.expect("=")
        known = (
            options.DESCRIPTOR.fields_by_name.get(name[0][0]) if len(name) == 1 and not name[0][1] else None
        )
        if known is not None and known.type in _OPTION_KINDS and not known.is_repeated:
            self.known_option(options, known)
            return
        option = options.uninterpreted_option.add()
        for part, is_extension in name:
            option.name.add(name_part=part, is_extension=is_extension)
        self.kept_value(option)

    def known_option(self, options: Any, known: Any) -> None:
        line, value = self.next.line, self.take()
        kind = _OPTION_KINDS[known.type]
        try:
            if known.name == "map_entry":
                raise ValueError
            if known.enum_type is not None:
                setattr(options, known.name, known.enum_type.values_by_name[value.text].number)
            elif kind is bool:
                setattr(options, known.name, {"true": True, "false": False}[value.text])
            else:
                setattr(options, known.name, text_of(value) if value.kind == "text" else kind(value.text))
        except (KeyError, ValueError, TypeError):
            message = f"{value.text[:40]} is no value of {known.name}"
            raise mistake(line, message, "correct the option") from None

    def kept_value(self, option: Any) -> None:
        if self.next.text == "{" and self.next.kind == "sign":
            option.aggregate_value = self.aggregate()
        elif self.next.kind == "text":
            option.string_value = self.text_bytes()
        elif self.next.kind == "name":
            option.identifier_value = self.name()
        else:
            self.kept_number(option)

    def kept_number(self, option: Any) -> None:
        """A whole number where 64 bits hold it; else a double."""
        is_negative, value = self.has("-"), self.take()
        is_whole = value.kind == "int" and len(value.text) <= _LONGEST_OF_64_BITS
        if is_whole and (number := whole_number(value)) <= (1 << 63 if is_negative else (1 << 64) - 1):
            if is_negative:
                option.negative_int_value = -number
            else:
                option.positive_int_value = number
            return
        try:
            if value.kind == "name" and value.text not in ("inf", "nan"):
                raise ValueError
            option.double_value = float(f"{'-' if is_negative else ''}{value.text}")
        except ValueError:
            raise mistake(value.line, f"{value.text[:40]} is no value of an option", "correct it") from None

    def aggregate(self) -> str:
        """The words between curly brackets."""
        self.expect("{")
        words, depth = [], 1
        while depth:
            word = self.take()
            if word.kind == "end":
                raise self.wrong("}")
            if word.kind == "sign":
                depth += (word.text == "{") - (word.text == "}")
            words.append(word.text)
        return " ".join(words[:-1])
