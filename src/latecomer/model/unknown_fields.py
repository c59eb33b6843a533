"""Fields of a record without a column: finds them, and the text that they are kept as.

A field is known if a column has its name. An object on the way to columns such as `pricing.base` is known if all of its
fields are, and so are the objects in a list or a map. Unknown fields are kept exactly as they were written: numbers,
escapes, duplicate fields. A field that is known only in part is kept whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from latecomer.model import types
from latecomer.model.paths import paths_of

MOST_NAMES = 20
"""How many names a report lists."""
DEEPEST_CUT = 6
"""How deeply values may be nested in a record that is cut. A record that is nested more deeply is kept whole."""
MOST_RUNS = 8
"""How many times known and unknown fields may alternate in a record that is cut. Another record is kept whole."""
BETWEEN = ", \t\r\n"
"""The characters between the fields of a record."""

_WHITE = r"[ \t\r\n]*+"
_TEXT = r'"[^"\\]*+(?:\\["\\/bfnrtu][^"\\]*+)*+"'
_PLAIN = r'[^ \t\r\n,:\[\]{}"]++'
_NEXT = rf"{_WHITE}(?:,{_WHITE}(?=\")|(?=\}}))"
_NUMBERS_AS_WRITTEN = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)
_SPACE = re.compile(_WHITE)


@dataclass(frozen=True)
class KnownFields:
    """The fields of an object that columns are declared for."""

    values: frozenset[str]
    objects: Mapping[str, KnownFields] = field(default_factory=dict)
    """The objects on the way to columns."""
    lists: Mapping[str, str] = field(default_factory=dict)
    """The lists and maps of objects, and their types."""


def known_fields(columns: Iterable[str]) -> KnownFields:
    """The known fields of a record; columns may be given with their types.

    >>> known_fields(["id", "pricing.base"]).objects["pricing"].values
    frozenset({'base'})
    """
    names, kinds = list(columns), columns if isinstance(columns, Mapping) else {}
    lists = {name: kind for name, kind in kinds.items() if _has_fields(kind)}
    paths = {path: lists.get(name, "") for name, path in paths_of(names).items()}
    return KnownFields(frozenset(name for name in names if name not in lists), _objects(paths), lists)


def _objects(paths: Mapping[tuple[str, ...], str]) -> dict[str, KnownFields]:
    """The objects on paths to columns; `paths` gives the type of each list of objects."""
    objects = {}
    for name in dict.fromkeys(path[0] for path in paths):
        inner = {path[1:]: kind for path, kind in paths.items() if path[0] == name}
        last = {path[0]: kind for path, kind in inner.items() if len(path) == 1}
        objects[name] = KnownFields(
            frozenset(each for each, kind in last.items() if not kind),
            _objects({path: kind for path, kind in inner.items() if len(path) > 1}),
            {each: kind for each, kind in last.items() if kind},
        )
    return objects


def _has_fields(kind: str) -> bool:
    return "struct<" in kind


@dataclass(frozen=True)
class Member:
    """A field of an object: its name, and the positions of the field and its value in the text."""

    name: str
    begin: int
    value: int
    end: int


def members(text: str, at: int = 0) -> Iterator[Member]:
    """The fields of the object that begins at a position; raises `ValueError` where there is none."""
    at = _expected(text, _white(text, at), "{")
    at = _white(text, at)
    if text[at : at + 1] == "}":
        return
    while True:
        begin = at
        _expected(text, at, '"')
        name, at = _NUMBERS_AS_WRITTEN.raw_decode(text, at)
        value = _white(text, _expected(text, _white(text, at), ":"))
        _, end = _NUMBERS_AS_WRITTEN.raw_decode(text, value)
        yield Member(name, begin, value, end)
        at = _white(text, end)
        if text[at : at + 1] == "}":
            return
        at = _white(text, _expected(text, at, ","))


def _white(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _expected(text: str, at: int, letter: str) -> int:
    if text[at : at + 1] != letter:
        raise ValueError(f"expected {letter} at {at}")
    return at + 1


def unknown_members(text: str, known: KnownFields, at: int = 0) -> list[Member]:
    """The fields of an object that are unknown, or known only in part."""
    return [each for each in members(text, at) if not _is_known(text, each, known)]


def _is_known(text: str, member: Member, known: KnownFields) -> bool:
    if member.name in known.values:
        return True
    if member.name in known.lists:
        return next(_unknown_in(text, member.value, known.lists[member.name], ""), None) is None
    inner = known.objects.get(member.name)
    if inner is None:
        return False
    if text[member.value] == "{":
        return not unknown_members(text, inner, member.value)
    return text[member.value : member.end] == "null"


def _unknown_in(text: str, at: int, kind: str, place: str) -> Iterator[str]:
    """The unknown fields in a value of this type and in its elements; the place itself where the value has another
    type."""
    if not _has_fields(kind) or text.startswith("null", at):
        return
    match types.nested_type(kind), text[at]:
        case ("array", {"element": inner}), "[":
            for begin in _elements(text, at):
                yield from _unknown_in(text, begin, inner, f"{place}[]")
        case ("map", {"value": inner}), "{":
            for each in members(text, at):
                yield from _unknown_in(text, each.value, inner, f"{place}[]")
        case ("struct", fields), "{":
            for each in members(text, at):
                if each.name in fields:
                    yield from _unknown_in(text, each.value, fields[each.name], f"{place}.{each.name}")
                else:
                    yield f"{place}.{each.name}"
        case _:
            yield place


def _elements(text: str, at: int) -> Iterator[int]:
    """The positions of the values of the list that begins at a position."""
    at = _white(text, _expected(text, at, "["))
    while text[at : at + 1] != "]":
        yield at
        _, end = _NUMBERS_AS_WRITTEN.raw_decode(text, at)
        at = _white(text, end)
        if text[at : at + 1] != "]":
            at = _white(text, _expected(text, at, ","))


def unknown_names(text: str, known: KnownFields) -> list[str]:
    """The names of a record's unknown fields, with dots for those in objects; none if the record cannot be parsed.

    >>> unknown_names('{"id": 1, "tip": 2, "pricing": {"base": 1, "tax": 2}}', known_fields(["id", "pricing.base"]))
    ['tip', 'pricing.tax']
    """
    try:
        return list(dict.fromkeys(_names(text, known, 0)))
    except (ValueError, RecursionError):
        return []


def _names(text: str, known: KnownFields, at: int) -> Iterator[str]:
    for each in unknown_members(text, known, at):
        inner = known.objects.get(each.name)
        if inner is not None and text[each.value] == "{":
            yield from (f"{each.name}.{name}" for name in _names(text, inner, each.value))
        elif each.name in known.lists:
            yield from _unknown_in(text, each.value, known.lists[each.name], each.name)
        else:
            yield each.name


# The same in one regular expression


def cutting(known: KnownFields) -> re.Pattern[str]:
    """A pattern that matches a whole record. Its groups are the unknown fields, each with the comma after it, if any.
    It does not match a record that is nested too deeply or is not JSON.

    It never backtracks, so records that do not match take no longer.
    """
    one = f"(?:{_known(known)}{_NEXT})*+"
    value = f"{_TEXT}{_VALUE}"
    others = f"((?:(?!{_known(known, value='')}){value}{_NEXT})*+)"
    return re.compile(rf"^{_WHITE}\{{{_WHITE}{(one + others) * MOST_RUNS}{one}\}}{_WHITE}$")


def _nested_value() -> str:
    nested = ""
    for _ in range(DEEPEST_CUT):
        inner = rf"[^\[\]{{}}\"]++|{_TEXT}{nested}"
        nested = rf"|[\[{{](?:{inner})*+[\]}}]"
    return f"(?:{_TEXT}|{_PLAIN}{nested})"


_ANY = _nested_value()
_VALUE = f"{_WHITE}:{_WHITE}{_ANY}"


def _known(known: KnownFields, value: str = _VALUE) -> str:
    """A field that is known, with its value. Without it, only the names of plain values count."""
    values = [f"{_named(known.values)}{value}"] if known.values else []
    lists = [rf"{_named([name])}{_WHITE}:{_WHITE}{_known_value(kind)}" for name, kind in known.lists.items()]
    objects = [
        rf"{_named([name])}{_WHITE}:{_WHITE}(?:null|\{{{_WHITE}(?:{_known(inner)}{_NEXT})*+\}})"
        for name, inner in known.objects.items()
    ]
    return f"(?:{'|'.join([*values, *lists, *objects])})"


def _known_value(kind: str) -> str:
    """A value of this type, in which every field is known."""
    nested = types.nested_type(kind) if _has_fields(kind) else None
    if nested is None:
        return _ANY
    outer, parts = nested
    if outer == "array":
        return rf"(?:null|\[{_WHITE}(?:{_known_value(parts['element'])}{_WHITE}(?:,{_WHITE}|(?=\])))*+\])"
    named = (
        {_TEXT: parts["value"]} if outer == "map" else {_named([name]): each for name, each in parts.items()}
    )
    fields = "|".join(rf"{name}{_WHITE}:{_WHITE}{_known_value(each)}" for name, each in named.items())
    return rf"(?:null|\{{{_WHITE}(?:(?:{fields}){_NEXT})*+\}})"


def _named(names: Iterable[str]) -> str:
    written = (re.escape(json.dumps(name, ensure_ascii=False)[1:-1]) for name in sorted(names))
    return f'"(?:{"|".join(written)})"'
