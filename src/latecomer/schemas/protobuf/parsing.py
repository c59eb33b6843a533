"""`.proto` text → the description of a file, as the package `protobuf` takes it (ADR 0048).

Names of types stay as they are written: the package resolves them, and checks all that a single line cannot show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf import descriptor_pb2 as described

from latecomer.schemas import SchemaError
from latecomer.schemas.protobuf.tokens import Token, mistake, text_of, tokens, unquoted

DEEPEST_MESSAGE = 32
"""Messages, and values of options, that may be defined within each other."""
LARGEST_NUMBER = 2**29 - 1
_MOST = "max"
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_KEYS = {
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64", "bool",
    "string",
}  # fmt: skip
SCALARS: dict[str, int] = {
    name: described.FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}")
    for name in (*_KEYS, "float", "double", "bytes")
}
_GROUP = described.FieldDescriptorProto.TYPE_GROUP
_OPTION_KINDS = {3: int, 4: int, 5: int, 8: bool, 9: str, 13: int, 14: str}


def parse_file(text: str) -> Any:
    """The `FileDescriptorProto` of a text; `SchemaError` where it is none."""
    return _Parser(text).file()


class _Parser:
    def __init__(self, text: str) -> None:
        self.words = list(tokens(text))
        self.at = 0
        self.depth = 0
        self.is_proto3 = False

    # Words

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

    # Files

    def file(self) -> Any:
        made = described.FileDescriptorProto()
        if self.next.text == "edition":
            raise mistake(self.next.line, "editions are not supported", 'write syntax = "proto3"')
        if self.has("syntax", "="):
            line, syntax = self.next.line, self.string()
            if syntax not in ("proto2", "proto3"):
                raise mistake(line, f"the syntax {syntax[:20]!r} is not known", "write proto2 or proto3")
            self.expect(";")
            self.is_proto3 = syntax == "proto3"
            if self.is_proto3:
                made.syntax = syntax
        while self.next.kind != "end":
            if not self.has(";"):
                self.in_file(made)
        return made

    def in_file(self, made: Any) -> None:
        match self.next.text:
            case "import":
                self.take()
                kind = self.take().text if self.next.text in ("public", "weak") else ""
                made.dependency.append(self.string())
                if kind:
                    getattr(made, f"{kind}_dependency").append(len(made.dependency) - 1)
                self.expect(";")
            case "package":
                self.take()
                if made.package:
                    raise mistake(self.next.line, "there are two packages", "leave one out")
                made.package = self.full_name()
                self.expect(";")
            case "option":
                self.option(made.options)
            case "message":
                self.message(made.message_type)
            case "enum":
                self.enum(made.enum_type)
            case "extend":
                self.extend(made.extension, made.message_type)
            case "service":
                self.service(made.service)
            case _:
                raise self.wrong("message, enum, import, package or option")

    # Messages

    def message(self, beside: Any) -> None:
        self.take()
        made = beside.add(name=self.name())
        self.body(made)

    def body(self, made: Any) -> None:
        self.within(lambda: self.in_message(made))
        for field in made.field:  # they come behind those that have a name
            if field.proto3_optional:
                field.oneof_index = len(made.oneof_decl)
                made.oneof_decl.add(name=_unused(made, f"_{field.name}"))

    def in_message(self, made: Any) -> None:
        ahead = [self.words[min(self.at + nth, len(self.words) - 1)] for nth in (1, 2)]
        opens = ahead[0].kind == "name" and ahead[1].text == "{"
        match self.next.text:
            case "message" if opens:
                self.message(made.nested_type)
            case "enum" if opens:
                self.enum(made.enum_type)
            case "oneof" if opens:
                self.oneof(made)
            case "extend":
                self.extend(made.extension, made.nested_type)
            case "option":
                self.option(made.options)
            case "reserved":
                self.take()
                self.reserved(made, LARGEST_NUMBER + 1, 1)
            case "extensions":
                self.take()
                self.ranges(made.extension_range, LARGEST_NUMBER + 1, 1)
                self.options_of(described.DescriptorProto.ExtensionRange())
                self.expect(";")
            case _:
                self.field(made.field, made.nested_type)

    def oneof(self, made: Any) -> None:
        self.take()
        index, line = len(made.oneof_decl), self.next.line
        made.oneof_decl.add(name=self.name())
        before = len(made.field)

        def inside() -> None:
            if self.next.text == "option":
                self.option(made.oneof_decl[index].options)
                return
            self.field(made.field, made.nested_type, in_oneof=True)
            made.field[-1].oneof_index = index

        self.within(inside)
        if len(made.field) == before:
            raise mistake(
                line, f"{made.oneof_decl[index].name} has no fields", "give it one, or leave it out"
            )

    def extend(self, fields: Any, messages: Any) -> None:
        self.take()
        extended = self.full_name()

        def inside() -> None:
            self.field(fields, messages)
            fields[-1].extendee = extended

        self.within(inside)

    def field(self, fields: Any, messages: Any, in_oneof: bool = False) -> None:
        line = self.next.line
        label = ""
        if self.next.text in _LABELS:
            label = self.take().text
        if label and in_oneof:
            raise mistake(line, f"a field of a oneof is {label}", f"leave {label} out")
        if label == "required" and self.is_proto3:
            raise mistake(line, "a field of proto3 is required", "leave required out")
        made = fields.add(label=_LABELS.get(label, 1))
        if self.next.text == "map" and self.words[self.at + 1].text == "<":
            if label or in_oneof:
                raise mistake(line, "a map is optional, repeated or in a oneof", "leave that out")
            self.map(made, messages)
            return
        if not label and not in_oneof and not self.is_proto3:
            raise mistake(line, "a field of proto2 has no label", "write optional, required or repeated")
        made.proto3_optional = label == "optional" and self.is_proto3
        if not made.proto3_optional:
            made.ClearField("proto3_optional")
        if self.next.text == "group" and self.words[self.at + 1].kind == "name":
            self.group(made, messages)
            return
        written = self.full_name()
        if written in SCALARS:
            made.type = SCALARS[written]
        else:
            made.type_name = written
        self.field_end(made)

    def field_end(self, made: Any) -> None:
        """The name of a field, its number and its options."""
        made.name = self.name()
        self.field_number(made)
        self.field_options(made)
        self.expect(";")

    def field_number(self, made: Any) -> None:
        self.expect("=")
        line, number = self.next.line, self.number()
        if not 1 <= number <= LARGEST_NUMBER or 19_000 <= number <= 19_999:
            raise mistake(
                line,
                f"{number} is no number of a field",
                f"write one from 1 to {LARGEST_NUMBER}, but for 19000 to 19999",
            )
        made.number = number

    def group(self, made: Any, messages: Any) -> None:
        line = self.take().line
        name = self.name()
        if self.is_proto3 or not name[0].isupper():
            raise mistake(line, f"the group {name} cannot be", "write a message, and a field of its type")
        made.name, made.type, made.type_name = name.lower(), _GROUP, name
        self.field_number(made)
        self.field_options(made)
        self.body(messages.add(name=name))

    def map(self, made: Any, messages: Any) -> None:
        self.take()
        self.expect("<")
        line, key = self.next.line, self.name()
        if key not in _KEYS:
            raise mistake(
                line, f"the key of a map is {key[:40]}", "write string, bool or a type of whole numbers"
            )
        self.expect(",")
        value = self.full_name()
        self.expect(">")
        self.field_end(made)
        made.label = _LABELS["repeated"]
        made.type_name = "".join(part[:1].upper() + part[1:] for part in made.name.split("_")) + "Entry"
        entry = messages.add(name=made.type_name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=1, type=SCALARS[key])
        inner = entry.field.add(name="value", number=2, label=1)
        if value in SCALARS:
            inner.type = SCALARS[value]
        else:
            inner.type_name = value

    # Enums, services, and numbers that are not to be used

    def enum(self, beside: Any) -> None:
        self.take()
        made = beside.add(name=self.name())

        def inside() -> None:
            follows = self.words[self.at + 1]
            if self.next.text == "option" and follows.text != "=":
                self.option(made.options)
            elif self.next.text == "reserved" and follows.text != "=":
                self.take()
                self.reserved(made, 2**31 - 1, 0)
            else:
                name = self.name()
                self.expect("=")
                line, number = self.next.line, self.number()
                if not -(2**31) <= number < 2**31:
                    raise mistake(line, f"{number} is no number of a value", "write one of 32 bits")
                value = made.value.add(name=name, number=number)
                self.options_of(value)
                self.expect(";")

        self.within(inside)

    def reserved(self, made: Any, most: int, beyond: int) -> None:
        if self.next.kind in ("text", "name"):
            made.reserved_name.append(self.string() if self.next.kind == "text" else self.name())
            while self.has(","):
                made.reserved_name.append(self.string() if self.next.kind == "text" else self.name())
        else:
            self.ranges(made.reserved_range, most, beyond)
        self.expect(";")

    def ranges(self, found: Any, most: int, beyond: int) -> None:
        """Numbers and ranges of them. Those of messages end with the first that is not meant."""
        while True:
            line, start = self.next.line, self.number()
            end = start + beyond
            if self.has("to"):
                end = most if self.has(_MOST) else self.number() + beyond
            if not -(2**31) <= start <= end < 2**31:
                raise mistake(line, f"{start} to {end} is no range", "write the smaller number first")
            found.add(start=start, end=end)
            if not self.has(","):
                return

    def service(self, beside: Any) -> None:
        self.take()
        made = beside.add(name=self.name())

        def inside() -> None:
            if self.next.text == "option":
                self.option(made.options)
                return
            if not self.has("rpc"):
                raise self.wrong("rpc")
            method = made.method.add(name=self.name())
            method.client_streaming, method.input_type = self._parameter()
            if not self.has("returns"):
                raise self.wrong("returns")
            method.server_streaming, method.output_type = self._parameter()
            if self.next.text == "{":
                self.within(lambda: self.option(method.options))
            else:
                self.expect(";")

        self.within(inside)

    def _parameter(self) -> tuple[bool, str]:
        self.expect("(")
        streams = self.next.text == "stream" and self.words[self.at + 1].text != ")" and self.has("stream")
        found = self.full_name()
        self.expect(")")
        return streams, found

    # Options

    def option(self, options: Any) -> None:
        if not self.has("option"):
            raise self.wrong("option")
        self.option_value(options)
        self.expect(";")

    def options_of(self, made: Any) -> None:
        if not self.has("["):
            return
        while True:
            self.option_value(made.options)
            if not self.has(","):
                break
        self.expect("]")

    def field_options(self, made: Any) -> None:
        if not self.has("["):
            return
        while True:
            if self.has("default", "="):
                self.default(made)
            elif self.has("json_name", "="):
                made.json_name = self.string()
            else:
                self.option_value(made.options)
            if not self.has(","):
                break
        self.expect("]")

    def default(self, made: Any) -> None:
        if self.is_proto3 or made.label == _LABELS["repeated"]:
            raise mistake(
                self.next.line, f"{made.name} has a default", "leave it out: only proto2 has defaults"
            )
        if self.next.kind == "text" and made.type == SCALARS["bytes"]:
            made.default_value = "".join(
                chr(each) if 32 <= each < 127 and each not in b"\\\"'" else f"\\{each:03o}"
                for each in unquoted(self.take())
            )
        elif self.next.kind == "text":
            made.default_value = self.string()
        else:
            made.default_value = ("-" if self.has("-") else "") + self.take().text

    def option_value(self, options: Any) -> None:
        """`name = value`. What the package knows is set, and all else is kept as it is written."""
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
        kept = options.uninterpreted_option.add()
        for part, is_extension in name:
            kept.name.add(name_part=part, is_extension=is_extension)
        self.kept_value(kept)

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
            raise mistake(
                line, f"{value.text[:40]} is no value of {known.name}", "correct the option"
            ) from None

    def kept_value(self, kept: Any) -> None:
        if self.next.text == "{" and self.next.kind == "sign":
            kept.aggregate_value = self.aggregate()
        elif self.next.kind == "text":
            kept.string_value = self.string().encode()
        elif self.next.kind == "name":
            kept.identifier_value = self.name()
        else:
            sign = "-" if self.has("-") else ""
            value = self.take()
            if value.kind not in ("int", "float", "name"):
                raise mistake(value.line, f"{value.text[:40]} is no value of an option", "correct it")
            if value.kind == "int" and len(value.text) < 20:
                self.at -= 1
                number = self.number()
                if sign:
                    kept.negative_int_value = -number
                else:
                    kept.positive_int_value = number
            else:
                kept.double_value = float(f"{sign}{value.text}") if value.kind != "name" else float("inf")

    def aggregate(self) -> str:
        """What stands in curly brackets, word by word."""
        self.expect("{")
        found, depth = [], 1
        while depth:
            word = self.take()
            if word.kind == "end":
                raise self.wrong("}")
            if word.kind == "sign":
                depth += (word.text == "{") - (word.text == "}")
            found.append(word.text)
        return " ".join(found[:-1])


def _unused(made: Any, name: str) -> str:
    taken = {each.name for each in (*made.field, *made.oneof_decl, *made.nested_type, *made.enum_type)}
    while name in taken:
        name = f"X{name}"
    return name
