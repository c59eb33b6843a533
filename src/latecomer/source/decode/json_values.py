"""JSON values in the types of columns: how a column reads a text, a number, a word, a list or an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from latecomer.model import types
from latecomer.model.written_numbers import POINT, Signs
from latecomer.model.written_times import written_date, written_moment, written_wall_clock
from latecomer.source.decode.written import Misfit, bytes_of, decimal_of, float_of, in_range

_NO_NUMBERS = {
    "NaN": float("nan"),
    **dict.fromkeys(("+INF", "+Infinity", "Infinity"), float("inf")),
    **dict.fromkeys(("-INF", "-Infinity"), float("-inf")),
}
TEXT, NUMERIC, WORD = "text", "number", "word"

Convert = Callable[[str, str], Any]
"""Makes a value from the kind of a JSON token and its text; `Misfit` where the column does not take it."""


@dataclass(frozen=True)
class Value:
    """A plain value."""

    convert: Convert
    as_written: bool = False
    """Whether the column takes a list or an object too, as its JSON text."""


@dataclass(frozen=True)
class ListOf(Value):
    inner: Value = field(kw_only=True)


@dataclass(frozen=True)
class MapOf(Value):
    inner: Value = field(kw_only=True)


@dataclass(frozen=True)
class Struct(Value):
    fields: Mapping[str, Value] = field(kw_only=True)


def _refused(_: str, __: str) -> Any:
    raise Misfit


def struct_of(tree: Mapping[str, Any]) -> Struct:
    return Struct(
        _refused,
        fields={name: struct_of(inner) if isinstance(inner, dict) else inner for name, inner in tree.items()},
    )


def value_for(kind: str, signs: Signs = POINT) -> Value:
    match types.nested_type(kind):
        case "array", {"element": element}:
            return ListOf(_refused, inner=value_for(element, signs))
        case "map", {"value": value}:
            return MapOf(_refused, inner=value_for(value, signs))
        case "struct", fields:
            return Struct(_refused, fields={name: value_for(each, signs) for name, each in fields.items()})
    return Value(_converter(kind, signs), as_written=kind == "string")


def _converter(kind: str, signs: Signs) -> Convert:
    if kind in types.INTEGERS:
        return lambda token, text: _whole(token, text, kind)
    if types.is_decimal(kind):
        digits, scale = types.whole_digits(kind), types.scale_of(kind)
        return lambda token, text: _decimal(token, text, digits, scale, signs)
    return {
        "string": lambda _, text: text,
        "boolean": _boolean,
        "double": lambda token, text: _float(token, text, float),
        "float": lambda token, text: _float(token, text, float_of),
        "date": lambda token, text: _time(token, text, written_date),
        "timestamp": _timestamp,
        "timestamp_ntz": lambda token, text: _time(token, text, written_wall_clock),
        "binary": _binary,
    }[kind]


def _whole(token: str, text: str, kind: str) -> int:
    if token != NUMERIC or not text.lstrip("-").isdigit():
        raise Misfit
    return in_range(int(text), kind)


def _decimal(token: str, text: str, digits: int, scale: int, signs: Signs) -> Any:
    if token == WORD:
        raise Misfit
    return decimal_of(text, digits, scale, signs if token == TEXT else POINT)


def _boolean(token: str, text: str) -> bool:
    if token != WORD or text not in ("true", "false"):
        raise Misfit
    return text == "true"


def _float(token: str, text: str, parse: Callable[[str], float]) -> float:
    if token == NUMERIC:
        return parse(text)
    if text in _NO_NUMBERS:
        return _NO_NUMBERS[text]
    raise Misfit


def _time(token: str, text: str, parse: Callable[[str], int | None]) -> int:
    time = parse(text) if token == TEXT else None
    if time is None:
        raise Misfit
    return time


def _timestamp(token: str, text: str) -> int:
    """A number is in seconds."""
    if token == NUMERIC:
        return in_range(_whole(token, text, "bigint") * 1_000_000, "bigint")
    return _time(token, text, written_moment)


def _binary(token: str, text: str) -> bytes:
    if token != TEXT:
        raise Misfit
    return bytes_of(text)
