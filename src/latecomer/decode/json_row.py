"""One record of JSON in the types of its columns, exactly, however it is written.

Arrow reads plain records by the thousand (`arrow_json.py`). What is left for here: records with single quotes, numbers
that are none, names that come twice, values of another type than their column has, objects, and no JSON at all. A
record that cannot be read still gives what can be read of it: its amounts are in the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from latecomer.decode.written import Misfit, bytes_of, decimal_of, float_of, number_in
from latecomer.decode.written_times import written_date, written_moment, written_wall_clock
from latecomer.model import types
from latecomer.model.paths import ways_of

DEEPEST, LONGEST_NUMBER, LONGEST_NAME = 1000, 1000, 50_000
"""Objects and lists within each other, digits of a number, characters of a name."""
_WHITE = re.compile(r"[ \t\r\n]*")
_PLAIN_TEXT = r'"([^"\\\x00-\x1f]*)"'
_MEMBER = re.compile(
    rf"[ \t\r\n]*{_PLAIN_TEXT}[ \t\r\n]*:[ \t\r\n]*"
    rf"(?:(?:{_PLAIN_TEXT}|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|(true|false|null))[ \t\r\n]*([,}}]))?"
)
"""A field; and its value with what follows it, where that is plain."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"true|false|null|NaN|[+-]?Infinity|[+-]INF")
_RUN = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX = re.compile("[0-9a-fA-F]{4}")
_PAIR, _HALF = re.compile("[\ud800-\udbff][\udc00-\udfff]"), re.compile("[\ud800-\udfff]")
_AFTER = re.compile(r"[ \t\n\x0b\f\r,]*")
"""What may follow an object in its line."""
_SIZES = {"tinyint": 1 << 7, "smallint": 1 << 15, "int": 1 << 31, "bigint": 1 << 63}
_NO_NUMBERS = {
    "NaN": float("nan"),
    **dict.fromkeys(("+INF", "+Infinity", "Infinity"), float("inf")),
    **dict.fromkeys(("-INF", "-Infinity"), float("-inf")),
}
_TEXT, _NUMERIC, _WORDS, _NESTED = "text", "number", "word", "nested"

Convert = Callable[[str, str], Any]
"""A value from its kind and what is written there; `Misfit` where a column does not take it."""


class NoJson(Exception):
    """A record that is not JSON. Nothing of it is known."""


@dataclass
class Row:
    """What a record holds."""

    values: dict[str, Any] = field(default_factory=dict)
    whole: bool = False
    """Whether all of it could be read."""
    names: list[str] = field(default_factory=list)
    """The fields that it has."""


@dataclass(frozen=True)
class JsonRow:
    """Reads records with these columns."""

    columns: Mapping[str, str]

    @cached_property
    def _fields(self) -> dict[str, _Value]:
        """What is read of each field: a column, or an object on the way to some."""
        tree: dict[str, Any] = {}
        for name, way in ways_of(self.columns).items():
            inner = tree
            for part in way[:-1]:
                inner = inner.setdefault(part, {})
            inner[way[-1]] = self.columns[name]
        return {**_struct(tree).fields, **{name: _value(kind) for name, kind in self.columns.items()}}

    @cached_property
    def _ways(self) -> dict[str, tuple[str, ...]]:
        return ways_of(self.columns)

    def read(self, text: str) -> Row:
        """What a text holds, with nothing in it where it is no object."""
        row = Row()
        at = _white(text, 0)
        if text[at : at + 1] != "{":
            return row
        try:
            fits, end = _read_object(text, at + 1, self._fields, row.values, 1, row.names)
        except (NoJson, RecursionError):
            return Row(names=row.names)
        after = _AFTER.match(text, end)
        row.whole = fits and after is not None and after.end() == len(text)
        for name, way in self._ways.items():
            if row.values.get(name) is None:
                row.values[name] = _at_the_end(row.values, way)
        return row


def _at_the_end(values: Any, way: tuple[str, ...]) -> Any:
    for name in way:
        if not isinstance(values, dict):
            return None
        values = values.get(name)
    return values


# Types


@dataclass(frozen=True)
class _Value:
    """A plain value."""

    convert: Convert
    as_written: bool = False
    """Whether a list or an object is taken, too, as it is written."""


@dataclass(frozen=True)
class _List(_Value):
    inner: _Value = field(kw_only=True)


@dataclass(frozen=True)
class _Map(_Value):
    inner: _Value = field(kw_only=True)


@dataclass(frozen=True)
class _Struct(_Value):
    fields: Mapping[str, _Value] = field(kw_only=True)


def _no(_: str, __: str) -> Any:
    raise Misfit


def _struct(tree: Mapping[str, Any]) -> _Struct:
    return _Struct(
        _no,
        fields={
            name: _struct(inner) if isinstance(inner, dict) else _value(inner) for name, inner in tree.items()
        },
    )


def _value(kind: str) -> _Value:
    match types.nested_type(kind):
        case "array", {"element": element}:
            return _List(_no, inner=_value(element))
        case "map", {"value": value}:
            return _Map(_no, inner=_value(value))
        case "struct", fields:
            return _Struct(_no, fields={name: _value(each) for name, each in fields.items()})
    return _Value(_converter(kind), as_written=kind == "string")


def _converter(kind: str) -> Convert:
    if kind in _SIZES:
        return lambda token, text: _whole(token, text, _SIZES[kind])
    if types.is_decimal(kind):
        digits, scale = types.whole_digits(kind), types.scale_of(kind)
        return lambda token, text: _decimal(token, text, digits, scale)
    return {
        "string": lambda token, text: text,
        "boolean": _boolean,
        "double": lambda token, text: _float(token, text, float),
        "float": lambda token, text: _float(token, text, float_of),
        "date": lambda token, text: _time(token, text, written_date),
        "timestamp": _timestamp,
        "timestamp_ntz": lambda token, text: _time(token, text, written_wall_clock),
        "binary": _binary,
    }[kind]


def _whole(token: str, text: str, size: int) -> int:
    if token != _NUMERIC or not text.lstrip("-").isdigit():
        raise Misfit
    number = int(text)
    if not -size <= number < size:
        raise Misfit
    return number


def _decimal(token: str, text: str, digits: int, scale: int) -> Any:
    if token in (_WORDS, _NESTED):
        raise Misfit
    return decimal_of(text, digits, scale)


def _boolean(token: str, text: str) -> bool:
    if token != _WORDS or text not in ("true", "false"):
        raise Misfit
    return text == "true"


def _float(token: str, text: str, parse: Callable[[str], float]) -> float:
    if token == _NUMERIC:
        return parse(text)
    if token != _NESTED and text in _NO_NUMBERS:
        return _NO_NUMBERS[text]
    raise Misfit


def _time(token: str, text: str, parse: Callable[[str], int | None]) -> int:
    found = parse(text) if token == _TEXT else None
    if found is None:
        raise Misfit
    return found


def _timestamp(token: str, text: str) -> int:
    """A number is in seconds."""
    if token == _NUMERIC:
        return number_in(_whole(token, text, 1 << 63) * 1_000_000, 1 << 63)
    return _time(token, text, written_moment)


def _binary(token: str, text: str) -> bytes:
    if token != _TEXT:
        raise Misfit
    return bytes_of(text)


# Reading


def _read_object(
    text: str,
    at: int,
    fields: Mapping[str, _Value],
    values: dict[str, Any],
    depth: int,
    names: list[str] | None = None,
) -> tuple[bool, int]:
    """Whether all fields of the object fit that goes on there, and where it ends. What fits is among the values."""
    fits = True
    for name, at in (steps := _Members(text, at)):
        if names is not None:
            names.append(name)
        known = fields.get(name)
        if steps.plain is not None and known is not None and type(known) is _Value:
            token, written = steps.plain
            try:
                values[name] = None if token == _WORDS and written == "null" else known.convert(token, written)
            except Misfit:
                fits = False
        elif steps.plain is None:
            if known is None:
                steps.end = _skipped(text, at, depth)
                continue
            found, value, steps.end = _read(text, at, known, depth)
            fits &= found is True
            if found is not None:
                values[name] = value
        elif steps.plain != (_WORDS, "null") and known is not None:
            fits = False
        elif known is not None:
            values[name] = None
    return fits, steps.end


class _Members:
    """The fields of an object, one after the other: the name of each, and where its value begins. A value that is plain
    has been read; of others, `end` has to be set before the next is asked for."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.end = text, at
        self.plain: tuple[str, str] | None = None

    def __iter__(self) -> Iterator[tuple[str, int]]:
        text, at = self.text, _white(self.text, self.end)
        if text[at : at + 1] == "}":
            self.end = at + 1
            return
        while True:
            found = _MEMBER.match(text, at)
            if found is not None and found[5] and len(found[1]) <= LONGEST_NAME:
                name, quoted, number, word, follows = found.groups()
                if number is not None:
                    _require_short(number)
                self.plain = (_TEXT, quoted) if word is None and number is None else (_NUMERIC, number) if word is None else (_WORDS, word)
                at = found.end()
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


def _read(text: str, at: int, known: _Value, depth: int) -> tuple[bool | None, Any, int]:
    """Whether the value that begins there fits (None: not at all), what of it fits, and where it ends."""
    opening = text[at : at + 1]
    if opening == "{" or opening == "[":
        return _read_nested(text, at, known, depth)
    token, written, end = _token(text, at)
    if token == _WORDS and written == "null":
        return True, None, end
    try:
        return True, known.convert(token, written), end
    except Misfit:
        return None, None, end


def _read_nested(text: str, at: int, known: _Value, depth: int) -> tuple[bool | None, Any, int]:
    opening = text[at]
    if opening == "{" and isinstance(known, _Struct):
        _require_shallow(depth)
        values: dict[str, Any] = {}
        fits, end = _read_object(text, at + 1, known.fields, values, depth + 1)
        return fits, values, end
    if opening == "{" and isinstance(known, _Map):
        _require_shallow(depth)
        pairs: dict[str, Any] = {}
        fits = True
        for name, value in (steps := _Members(text, at + 1)):
            begin = value if steps.plain is None else None
            if begin is None:
                found, pairs[name] = _converted(known.inner, *steps.plain)
            else:
                found, pairs[name], steps.end = _read(text, begin, known.inner, depth + 1)
            fits &= found is True
        return fits, list(pairs.items()), steps.end
    if opening == "[" and isinstance(known, _List):
        return _read_list(text, at + 1, known.inner, depth)
    end = _skipped(text, at, depth)
    return (True, text[at:end], end) if known.as_written else (None, None, end)


def _converted(known: _Value, token: str, written: str) -> tuple[bool, Any]:
    if token == _WORDS and written == "null":
        return True, None
    try:
        return True, known.convert(token, written)
    except Misfit:
        return False, None


def _read_list(text: str, at: int, inner: _Value, depth: int) -> tuple[bool, list[Any], int]:
    _require_shallow(depth)
    values: list[Any] = []
    fits, at = True, _white(text, at)
    if text[at : at + 1] == "]":
        return True, values, at + 1
    while True:
        found, value, at = _read(text, at, inner, depth + 1)
        fits &= found is True
        values.append(value)
        at = _white(text, at)
        follows = text[at : at + 1]
        if follows == "]":
            return fits, values, at + 1
        if follows != ",":
            raise NoJson
        at = _white(text, at + 1)


def _skipped(text: str, at: int, depth: int) -> int:
    """Where the value ends that begins there."""
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
    """The plain value that begins there: its kind, what it says, and where it ends."""
    if text[at : at + 1] in _RUN and at < len(text):
        return _TEXT, *_text(text, at)
    found = _WORD.match(text, at)
    if found is not None:
        return _WORDS, found[0], found.end()
    found = _NUMBER.match(text, at)
    if found is None:
        raise NoJson
    _require_short(found[0])
    return _NUMERIC, found[0], found.end()


def _text(text: str, at: int) -> tuple[str, int]:
    """The text that begins there, and where it ends."""
    quote, run, parts = text[at], _RUN[text[at]], []
    at += 1
    while True:
        found = run.match(text, at)
        if found is not None:
            parts.append(found[0])
            at = found.end()
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
    """Halves that belong together are one character; a half alone is a question mark."""
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
    found = _WHITE.match(text, at)
    return at if found is None else found.end()
