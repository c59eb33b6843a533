"""Reads a `.proto` text word by word: names, texts, numbers, blocks."""

from __future__ import annotations

from collections.abc import Callable

from google.protobuf import descriptor_pb2 as described

from latecomer.schemas import SchemaError
from latecomer.schemas.protobuf.tokens import Token, mistake, text_of, tokens, unquoted

DEEPEST_MESSAGE = 32
"""How deep messages and values of options may be nested."""
LABELS = {"optional": 1, "required": 2, "repeated": 3}
KEYS = {
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64", "bool",
    "string",
}  # fmt: skip
SCALARS: dict[str, int] = {
    name: described.FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}")
    for name in (*KEYS, "float", "double", "bytes")
}


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
