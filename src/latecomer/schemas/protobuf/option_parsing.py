"""Options of a `.proto` text: those that Google's descriptions have a field for, and those that are kept as written."""

from __future__ import annotations

from typing import Any

from latecomer.schemas.protobuf.tokens import mistake, text_of, unquoted
from latecomer.schemas.protobuf.words import LABELS, SCALARS, Words

_OPTION_KINDS = {3: int, 4: int, 5: int, 8: bool, 9: str, 13: int, 14: str}


class OptionParser(Words):
    """Reads the options of files, messages, fields and values."""

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
        if self.is_proto3 or made.label == LABELS["repeated"]:
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
