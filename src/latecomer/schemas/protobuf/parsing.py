"""`.proto` text → the description of a file, as the package `protobuf` takes it (ADR 0048).

Names of types stay as they are written. The package resolves them, and checks what one statement cannot show.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2 as described

from latecomer.schemas.protobuf.words import KEYS, LABELS, SCALARS, OptionParser, mistake

LARGEST_NUMBER = 2**29 - 1
_MOST = "max"
_GROUP = described.FieldDescriptorProto.TYPE_GROUP


def parse_file(text: str) -> Any:
    """The `FileDescriptorProto` of a text. Raises SchemaError if the text is not valid."""
    return _Parser(text).file()


class _Parser(OptionParser):
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
        for field in made.field:  # the compiler puts them after the oneofs with a name
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
            name = made.oneof_decl[index].name
            raise mistake(line, f"{name} has no fields", "give it one, or leave it out")

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
        if self.next.text in LABELS:
            label = self.take().text
        if label and in_oneof:
            raise mistake(line, f"a field of a oneof is {label}", f"leave {label} out")
        if label == "required" and self.is_proto3:
            raise mistake(line, "a field of proto3 is required", "leave required out")
        made = fields.add(label=LABELS.get(label, 1))
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
        self.options_of(made, of_field=True)
        self.expect(";")

    def field_number(self, made: Any) -> None:
        self.expect("=")
        line, number = self.next.line, self.number()
        if not 1 <= number <= LARGEST_NUMBER or 19_000 <= number <= 19_999:
            fix = f"write one from 1 to {LARGEST_NUMBER}, but for 19000 to 19999"
            raise mistake(line, f"{number} is no number of a field", fix)
        made.number = number

    def group(self, made: Any, messages: Any) -> None:
        line = self.take().line
        name = self.name()
        if self.is_proto3 or not name[0].isupper():
            raise mistake(line, f"the group {name} cannot be", "write a message, and a field of its type")
        made.name, made.type, made.type_name = name.lower(), _GROUP, name
        self.field_number(made)
        self.options_of(made, of_field=True)
        self.body(messages.add(name=name))

    def map(self, made: Any, messages: Any) -> None:
        self.take()
        self.expect("<")
        line, key = self.next.line, self.name()
        if key not in KEYS:
            fix = "write string, bool or a type of whole numbers"
            raise mistake(line, f"the key of a map is {key[:40]}", fix)
        self.expect(",")
        value = self.full_name()
        self.expect(">")
        self.field_end(made)
        made.label = LABELS["repeated"]
        made.type_name = "".join(part[:1].upper() + part[1:] for part in made.name.split("_")) + "Entry"
        entry = messages.add(name=made.type_name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=1, type=SCALARS[key])
        inner = entry.field.add(name="value", number=2, label=1)
        if value in SCALARS:
            inner.type = SCALARS[value]
        else:
            inner.type_name = value

    # Enums, services, reserved numbers

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

    def ranges(self, ranges: Any, most: int, beyond: int) -> None:
        """Numbers and ranges of numbers. `beyond` is 1 for messages: the ends of their ranges are exclusive."""
        while True:
            line, start = self.next.line, self.number()
            end = start + beyond
            if self.has("to"):
                end = most if self.has(_MOST) else self.number() + beyond
            if not -(2**31) <= start <= end < 2**31:
                raise mistake(line, f"{start} to {end} is no range", "write the smaller number first")
            ranges.add(start=start, end=end)
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
        type_name = self.full_name()
        self.expect(")")
        return streams, type_name


def _unused(made: Any, name: str) -> str:
    used = {each.name for each in (*made.field, *made.oneof_decl, *made.nested_type, *made.enum_type)}
    while name in used:
        name = f"X{name}"
    return name
