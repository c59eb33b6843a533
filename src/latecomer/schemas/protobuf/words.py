"""The words of a `.proto` text, taken one by one: names, texts, numbers, blocks."""

from __future__ import annotations

from collections.abc import Callable

from google.protobuf import descriptor_pb2 as described

from latecomer.schemas import SchemaError
from latecomer.schemas.protobuf.tokens import Token, mistake, text_of, tokens

DEEPEST_MESSAGE = 32
"""Messages, and values of options, that may be defined within each other."""
LABELS = {"optional": 1, "required": 2, "repeated": 3}
KEYS = {
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64", "bool",
    "string",
}  # fmt: skip
SCALARS: dict[str, int] = {
    name: described.FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}")
    for name in (*KEYS, "float", "double", "bytes")
}


class Words:
    """A place among the words of a text."""

    def __init__(self, text: str) -> None:
        self.words = list(tokens(text))
        self.at = 0
        self.depth = 0
        self.is_proto3 = False

    @property
    def next(self) -> Token:
        return self.words[self.at]

    def take(self) -> Token:
        found = self.next
        if found.kind != "end":
            self.at += 1
        return found

    def has(self, *words: str) -> bool:
        """Whether the next words are these; then they are taken."""
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
        found = self.next
        there = "the text ends" if found.kind == "end" else f"there is {found.text[:40]}"
        return mistake(found.line, f"{there}, and {wanted} should be", f"write {wanted}")

    def name(self) -> str:
        if self.next.kind != "name":
            raise self.wrong("a name")
        return self.take().text

    def full_name(self) -> str:
        found = "." if self.has(".") else ""
        found += self.name()
        while self.has("."):
            found += f".{self.name()}"
        return found

    def string(self) -> str:
        if self.next.kind != "text":
            raise self.wrong("a text in quotes")
        found = text_of(self.take())
        while self.next.kind == "text":
            found += text_of(self.take())
        return found

    def number(self) -> int:
        sign = -1 if self.has("-") else 1
        if self.next.kind != "int":
            raise self.wrong("a whole number")
        written = self.take()
        digits = written.text.lower()
        try:
            base = 16 if digits.startswith("0x") else 8 if len(digits) > 1 and digits[0] == "0" else 10
            found = sign * int(digits, base)
        except ValueError:
            raise mistake(written.line, f"{digits[:40]} is no number", "correct it") from None
        if abs(found) >= 1 << 64:
            raise mistake(written.line, f"{digits[:40]} is too large", "correct it")
        return found

    def within(self, inside: Callable[[], None]) -> None:
        """A block in curly brackets."""
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
