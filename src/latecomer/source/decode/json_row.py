"""Reads one JSON record in the types of its columns, exactly, however it is written.

Arrow reads plain records by the thousand (`json_rows.py`). All others are read here: records with single quotes, NaN,
names that come twice, values of other types than their columns, objects, and text that is no JSON at all. A record that
cannot be read as a whole still gives the values that can be read: the ledger counts its amounts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from latecomer.model.paths import as_objects, paths_of, value_at
from latecomer.model.written_numbers import AS_USUAL, Numbers
from latecomer.source.decode.written import (
    NUMERIC,
    TEXT,
    WORD,
    ListOf,
    MapOf,
    Misfit,
    Struct,
    WrittenValue,
    struct_of,
    value_for,
)

DEEPEST, LONGEST_NUMBER, LONGEST_NAME = 1000, 1000, 50_000
"""Levels of objects and lists, digits of a number, characters of a name, at most."""
_WHITE = re.compile(r"[ \t\r\n]*")
_PLAIN_TEXT = r'"([^"\\\x00-\x1f]*)"'
_MEMBER = re.compile(
    rf"[ \t\r\n]*{_PLAIN_TEXT}[ \t\r\n]*:[ \t\r\n]*"
    rf"(?:(?:{_PLAIN_TEXT}|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|(true|false|null))[ \t\r\n]*([,}}]))?"
)
"""The name of a field; if its value is plain, also the value and the character after it."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"true|false|null|NaN|[+-]?Infinity|[+-]INF")
_RUN = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX = re.compile("[0-9a-fA-F]{4}")
_PAIR, _HALF = re.compile("[\ud800-\udbff][\udc00-\udfff]"), re.compile("[\ud800-\udfff]")
_AFTER = re.compile(r"[ \t\n\x0b\f\r,]*")
"""What may follow an object on its line."""


class NoJson(Exception):
    """A record that is not JSON: nothing of it is read."""


@dataclass
class ReadRecord:
    """What was read of a record."""

    values: dict[str, Any] = field(default_factory=dict)
    whole: bool = False
    """Whether all of it could be read."""
    names: list[str] = field(default_factory=list)
    """The names of its fields."""


@dataclass(frozen=True)
class JsonRow:
    """Reads records with these columns."""

    columns: Mapping[str, str]
    numbers: Numbers = AS_USUAL

    @cached_property
    def _fields(self) -> dict[str, WrittenValue]:
        """How each field is read: as a column, or as an object that holds columns."""
        values = {name: value_for(kind, self.numbers.of(name)) for name, kind in self.columns.items()}
        return {**struct_of(as_objects(values)).fields, **values}

    @cached_property
    def _paths(self) -> dict[str, tuple[str, ...]]:
        return paths_of(self.columns)

    def read(self, text: str) -> ReadRecord:
        """What is read of a text; nothing, if it is no object."""
        row = ReadRecord()
        at = _white(text, 0)
        if text[at : at + 1] != "{":
            return row
        try:
            fits, end = _read_object(text, at + 1, self._fields, row.values, 1, row.names)
        except (NoJson, RecursionError):
            return ReadRecord(names=row.names)
        after = _AFTER.match(text, end)
        row.whole = fits and after is not None and after.end() == len(text)
        for name, path in self._paths.items():
            if row.values.get(name) is None:
                row.values[name] = value_at(row.values, path)
        return row


# Reading


def _read_object(
    text: str,
    at: int,
    fields: Mapping[str, WrittenValue],
    values: dict[str, Any],
    depth: int,
    names: list[str] | None = None,
) -> tuple[bool, int]:
    """Reads an object from behind its opening brace: puts the values that fit into `values`, and returns whether all
    fit, and where the object ends."""
    fits = True
    for name, value in (steps := _Members(text, at)):
        if names is not None:
            names.append(name)
        wanted = fields.get(name)
        if steps.plain is not None and wanted is not None and type(wanted) is WrittenValue:
            token, written = steps.plain
            try:
                values[name] = None if token == WORD and written == "null" else wanted.convert(token, written)
            except Misfit:
                fits = False
        elif steps.plain is None:
            if wanted is None:
                steps.end = _skipped(text, value, depth)
                continue
            value_fits, converted, steps.end = _read(text, value, wanted, depth)
            fits &= value_fits is True
            if value_fits is not None:
                values[name] = converted
        elif steps.plain != (WORD, "null") and wanted is not None:
            fits = False
        elif wanted is not None:
            values[name] = None
    return fits, steps.end


class _Members:
    """Iterates over the fields of an object: the name of each, and where its value begins. A plain value is in `plain`;
    for any other, the caller sets `end` to where it ends before the next field."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.end = text, at
        self.plain: tuple[str, str] | None = None

    def __iter__(self) -> Iterator[tuple[str, int]]:
        text, at = self.text, _white(self.text, self.end)
        if text[at : at + 1] == "}":
            self.end = at + 1
            return
        while True:
            match = _MEMBER.match(text, at)
            if match is not None and match[5] and len(match[1]) <= LONGEST_NAME:
                name, quoted, number, word, follows = match.groups()
                if number is not None:
                    _require_short(number)
                self.plain = (
                    (TEXT, quoted)
                    if word is None and number is None
                    else (NUMERIC, number)
                    if word is None
                    else (WORD, word)
                )
                at = match.end()
                yield name, at
            else:
                name, at = _name(text, at)
                self.plain = None
                yield name, at
                at = _white(text, self.end)
                follows = text[at : at + 1]
                at += 1
            if follows == "}":
                self.end = at
                return
            if follows != ",":
                raise NoJson


def _name(text: str, at: int) -> tuple[str, int]:
    """The name of a field, and where its value begins."""
    at = _white(text, at)
    if text[at : at + 1] not in _RUN:
        raise NoJson
    name, at = _text(text, at)
    at = _white(text, at)
    if text[at : at + 1] != ":" or len(name) > LONGEST_NAME:
        raise NoJson
    return name, _white(text, at + 1)


def _read(text: str, at: int, wanted: WrittenValue, depth: int) -> tuple[bool | None, Any, int]:
    """Reads the value at a place: whether it fits (None: nothing of it), what of it fits, and where it ends."""
    opening = text[at : at + 1]
    if opening == "{" or opening == "[":
        return _read_nested(text, at, wanted, depth)
    token, written, end = _token(text, at)
    return *_converted(wanted, token, written), end


def _read_nested(text: str, at: int, wanted: WrittenValue, depth: int) -> tuple[bool | None, Any, int]:
    opening = text[at]
    if opening == "{" and isinstance(wanted, Struct):
        _require_shallow(depth)
        values: dict[str, Any] = {}
        fits, end = _read_object(text, at + 1, wanted.fields, values, depth + 1)
        return fits, values, end
    if opening == "{" and isinstance(wanted, MapOf):
        _require_shallow(depth)
        return _read_map(text, at + 1, wanted.inner, depth + 1)
    if opening == "[" and isinstance(wanted, ListOf):
        return _read_list(text, at + 1, wanted.inner, depth)
    end = _skipped(text, at, depth)
    return (True, text[at:end], end) if wanted.as_written else (None, None, end)


def _read_map(text: str, at: int, inner: WrittenValue, depth: int) -> tuple[bool, list[tuple[str, Any]], int]:
    pairs: dict[str, Any] = {}
    fits = True
    for name, value in (steps := _Members(text, at)):
        value_fits: bool | None
        if steps.plain is not None:
            value_fits, pairs[name] = _converted(inner, *steps.plain)
        else:
            value_fits, pairs[name], steps.end = _read(text, value, inner, depth)
        fits &= value_fits is True
    return fits, list(pairs.items()), steps.end


def _converted(wanted: WrittenValue, token: str, written: str) -> tuple[bool | None, Any]:
    if token == WORD and written == "null":
        return True, None
    try:
        return True, wanted.convert(token, written)
    except Misfit:
        return None, None


def _read_list(text: str, at: int, inner: WrittenValue, depth: int) -> tuple[bool, list[Any], int]:
    _require_shallow(depth)
    values: list[Any] = []
    fits, at = True, _white(text, at)
    if text[at : at + 1] == "]":
        return True, values, at + 1
    while True:
        value_fits, value, at = _read(text, at, inner, depth + 1)
        fits &= value_fits is True
        values.append(value)
        at = _white(text, at)
        follows = text[at : at + 1]
        if follows == "]":
            return fits, values, at + 1
        if follows != ",":
            raise NoJson
        at = _white(text, at + 1)


def _skipped(text: str, at: int, depth: int) -> int:
    """Where the value at a place ends."""
    open_ones: list[str] = []
    while True:
        opening = text[at : at + 1]
        if opening == "{" or opening == "[":
            _require_shallow(depth + len(open_ones))
            closing = "}" if opening == "{" else "]"
            at = _white(text, at + 1)
            if text[at : at + 1] != closing:
                open_ones.append(closing)
                at = _name(text, at)[1] if closing == "}" else at
                continue
            at += 1
        else:
            at = _token(text, at)[2]
        while True:
            if not open_ones:
                return at
            at = _white(text, at)
            follows = text[at : at + 1]
            at += 1
            if follows == ",":
                at = _name(text, at)[1] if open_ones[-1] == "}" else _white(text, at)
                break
            if follows != open_ones.pop():
                raise NoJson


def _token(text: str, at: int) -> tuple[str, str, int]:
    """The plain value at a place: its kind, its text, and where it ends."""
    if text[at : at + 1] in _RUN:
        return TEXT, *_text(text, at)
    match = _WORD.match(text, at)
    if match is not None:
        return WORD, match[0], match.end()
    match = _NUMBER.match(text, at)
    if match is None:
        raise NoJson
    _require_short(match[0])
    return NUMERIC, match[0], match.end()


def _text(text: str, at: int) -> tuple[str, int]:
    """The quoted text at a place, and where it ends."""
    quote, run, parts = text[at], _RUN[text[at]], []
    at += 1
    while True:
        match = run.match(text, at)
        if match is not None:
            parts.append(match[0])
            at = match.end()
        letter = text[at : at + 1]
        at += 1
        if letter == quote:
            return _whole_characters("".join(parts)), at
        if letter != "\\":
            raise NoJson
        part, at = _escaped(text, at)
        parts.append(part)


def _escaped(text: str, at: int) -> tuple[str, int]:
    letter = text[at : at + 1]
    if letter == "u":
        digits = _HEX.match(text, at + 1)
        if digits is None:
            raise NoJson
        return chr(int(digits[0], 16)), at + 5
    if letter not in _ESCAPES:
        raise NoJson
    return _ESCAPES[letter], at + 1


def _whole_characters(text: str) -> str:
    """Two surrogates that belong together become one character; a lone surrogate becomes a question mark."""
    if not _HALF.search(text):
        return text
    joined = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _HALF.sub("?", joined)


def _require_short(number: str) -> None:
    if len(number) > LONGEST_NUMBER and sum(map(str.isdigit, number)) > LONGEST_NUMBER:
        raise NoJson


def _require_shallow(depth: int) -> None:
    if depth >= DEEPEST:
        raise NoJson


def _white(text: str, at: int) -> int:
    match = _WHITE.match(text, at)
    return at if match is None else match.end()
