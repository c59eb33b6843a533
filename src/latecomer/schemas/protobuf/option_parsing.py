"""Options of a `.proto` text. Those without a field in Google's descriptions are kept as they are written."""

from __future__ import annotations

from typing import Any

from latecomer.schemas.protobuf.words import LABELS, SCALARS, Words, escaped, mistake, text_of, whole_number

_OPTION_KINDS = {3: int, 4: int, 5: int, 8: bool, 9: str, 13: int, 14: str}
_LONGEST_OF_64_BITS = 23
"""Characters of the largest number of 64 bits, in octal."""


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
