"""Values read from text one at a time, in the types of columns: those that Arrow does not read.

A field of CSV is text; a value of JSON is a text, a number, a word, a list or an object.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from latecomer.model import types
from latecomer.model.written_numbers import POINT, Signs, fits, written_number
from latecomer.model.written_times import written_date, written_moment, written_wall_clock

_EXACT = Context(prec=4_000)
_WHOLE = re.compile("[+-]?[0-9]+")
_NO_NUMBER = re.compile("NaN|[+-]?Infinity|-?Inf")
_CONTROL = "".join(map(chr, range(0x21)))
_NO_NUMBERS = {
    "NaN": float("nan"),
    **dict.fromkeys(("+INF", "+Infinity", "Infinity"), float("inf")),
    **dict.fromkeys(("-INF", "-Infinity"), float("-inf")),
}
TEXT, NUMERIC, WORD = "text", "number", "word"

Convert = Callable[[str, str], Any]
"""Makes a value from the kind of a JSON token and its text; `Misfit` where the column does not take it."""


class Misfit(Exception):
    """A value that its column does not take."""


def decimal_of(text: str, whole_digits: int, scale: int, signs: Signs = POINT) -> Decimal:
    """The number that a text means, rounded half up to `scale` digits after the point."""
    number = written_number(text, signs)
    if number is None:
        raise Misfit
    return rounded(number, whole_digits, scale)


def rounded(number: Decimal, whole_digits: int, scale: int) -> Decimal:
    """A number rounded half up; `Misfit` if it has more digits before the point."""
    if fits(number, whole_digits):
        near = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
        if fits(near, whole_digits):
            return near
    raise Misfit


def in_range(number: int, kind: str) -> int:
    """A whole number that a column of this type holds; `Misfit` for any other."""
    if not types.holds(kind, number):
        raise Misfit
    return number


def float_of(text: str) -> float:
    """The 32-bit float nearest to a decimal number, rounded only once."""
    wide = float(text)
    with np.errstate(over="ignore"):
        near = float(np.float32(wide))
        other = float(np.nextafter(np.float32(near), np.float32(np.inf if wide > near else -np.inf)))
    middle, exact = (near + other) / 2, Decimal(text)
    if near == wide or middle != wide or exact == Decimal(middle):
        return near
    # The double lies exactly between two floats because it was rounded itself: the text decides.
    return max(near, other) if exact > Decimal(middle) else min(near, other)


def bytes_of(text: str) -> bytes:
    """What a text in Base64 stands for."""
    bare = text.translate({ord(each): None for each in _CONTROL})
    if len(bare) % 4:
        raise Misfit
    try:
        return base64.b64decode(bare, validate=True)
    except (binascii.Error, ValueError):
        raise Misfit from None


def value_of(text: str, kind: str, signs: Signs = POINT) -> object:
    """A field of CSV as a value of a type other than text; `Misfit` where it is none."""
    if types.is_decimal(kind):
        return decimal_of(text, types.whole_digits(kind), types.scale_of(kind), signs)
    if types.is_numeric(kind):
        return _number(text, kind, signs)
    match kind:
        case "boolean":
            if text.lower() not in ("true", "false"):
                raise Misfit
            return text.lower() == "true"
        case "binary":
            return text.encode("utf-8", "replace")
    parse = {"date": written_date, "timestamp": written_moment, "timestamp_ntz": written_wall_clock}[kind]
    value = parse(text)
    if value is None:
        raise Misfit
    return value


def _number(text: str, kind: str, signs: Signs) -> float | int:
    if kind in types.FLOATS and _NO_NUMBER.fullmatch(text):
        return float(text)
    plain = signs.plain(text)
    if plain is None:
        raise Misfit
    if kind in types.FLOATS:
        return float(plain) if kind == "double" else float_of(plain)
    if _WHOLE.fullmatch(plain) is None:
        raise Misfit
    return in_range(int(plain), kind)


# Values of JSON


@dataclass(frozen=True)
class WrittenValue:
    """How a written value is read; by itself, a plain one."""

    convert: Convert
    as_written: bool = False
    """Whether the column takes a list or an object too, as its JSON text."""


@dataclass(frozen=True)
class ListOf(WrittenValue):
    inner: WrittenValue = field(kw_only=True)


@dataclass(frozen=True)
class MapOf(WrittenValue):
    inner: WrittenValue = field(kw_only=True)


@dataclass(frozen=True)
class Struct(WrittenValue):
    fields: Mapping[str, WrittenValue] = field(kw_only=True)


def _refused(_: str, __: str) -> Any:
    raise Misfit


def struct_of(tree: Mapping[str, Any]) -> Struct:
    return Struct(
        _refused,
        fields={name: struct_of(inner) if isinstance(inner, dict) else inner for name, inner in tree.items()},
    )


def value_for(kind: str, signs: Signs = POINT) -> WrittenValue:
    match types.nested_type(kind):
        case "array", {"element": element}:
            return ListOf(_refused, inner=value_for(element, signs))
        case "map", {"value": value}:
            return MapOf(_refused, inner=value_for(value, signs))
        case "struct", fields:
            return Struct(_refused, fields={name: value_for(each, signs) for name, each in fields.items()})
    return WrittenValue(_converter(kind, signs), as_written=kind == "string")


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
