"""Values of plain types, read from text one at a time: those that Arrow does not read."""

from __future__ import annotations

import base64
import binascii
import re
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np

from latecomer.model import types
from latecomer.model.written_numbers import POINT, Signs, fits, written_number
from latecomer.model.written_times import written_date, written_moment, written_wall_clock

_EXACT = Context(prec=4_000)
_WHOLE = re.compile("[+-]?[0-9]+")
_NO_NUMBER = re.compile("NaN|[+-]?Infinity|-?Inf")
_CONTROL = "".join(map(chr, range(0x21)))


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
