"""Plain values as they are written in text, one at a time: for what Arrow does not take."""

from __future__ import annotations

import base64
import binascii
import re
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np

from latecomer.model import types
from latecomer.model.written_numbers import fits, written_number
from latecomer.model.written_times import written_date, written_moment, written_wall_clock

_EXACT = Context(prec=4_000)
_WHOLE = re.compile(r"[+-]?\d+")
_JAVA_FLOAT = re.compile(r"([+-]?)(NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEX_FLOAT = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP]([+-]?[0-9]+)[fFdD]?")
_CONTROL = "".join(map(chr, range(0x21)))
_SIZES = {"tinyint": 1 << 7, "smallint": 1 << 15, "int": 1 << 31, "bigint": 1 << 63}
_LONGEST_EXPONENT = 9


class Misfit(Exception):
    """A value that its column does not take."""


def decimal_of(text: str, whole_digits: int, scale: int) -> Decimal:
    """The number that a text means, rounded half up to so many digits after the point."""
    number = written_number(text)
    if number is None or not fits(number, whole_digits):
        raise Misfit
    rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    if not fits(rounded, whole_digits):
        raise Misfit
    return rounded


def number_in(number: int, size: int) -> int:
    """A number that is in a range."""
    if not -size <= number < size:
        raise Misfit
    return number


def float_of(text: str) -> float:
    """The number of 32 bits that is nearest to a decimal one, rounded once."""
    wide = float(text)
    with np.errstate(over="ignore"):
        near = float(np.float32(wide))
        other = float(np.nextafter(np.float32(near), np.float32(np.inf if wide > near else -np.inf)))
    middle, exact = (near + other) / 2, Decimal(text)
    if near == wide or middle != wide or exact == Decimal(middle):
        return near
    # The double was rounded to the middle of two: the text decides.
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


def value_of(text: str, kind: str) -> object:
    """What a field of CSV means in a type other than text; `Misfit` where it means nothing there."""
    if kind in _SIZES:
        if len(text) > 1_000 or _WHOLE.fullmatch(text) is None:
            raise Misfit
        return number_in(int(text), _SIZES[kind])
    if types.is_decimal(kind):
        return decimal_of(text, types.whole_digits(kind), types.scale_of(kind))
    match kind:
        case "double" | "float":
            return _float(text, kind)
        case "boolean":
            if text.lower() not in ("true", "false"):
                raise Misfit
            return text.lower() == "true"
        case "binary":
            return text.encode("utf-8", "replace")
    parse = {"date": written_date, "timestamp": written_moment, "timestamp_ntz": written_wall_clock}[kind]
    found = parse(text)
    if found is None:
        raise Misfit
    return found


def _float(text: str, kind: str) -> float:
    """As Java reads it: with `d` or `f` behind it, in hexadecimal, with blanks around it."""
    bare = text.strip(_CONTROL)
    if text in ("Inf", "-Inf"):
        return float(text)
    if (found := _HEX_FLOAT.fullmatch(bare)) is not None and len(found[3]) <= _LONGEST_EXPONENT:
        sign, digits, exponent = found.groups()
        try:
            wide = float.fromhex(f"{sign}0x{digits}p{exponent}")
        except OverflowError:
            wide = float(f"{sign}inf")
        return wide if kind == "double" else float(np.float32(wide))
    if _JAVA_FLOAT.fullmatch(bare) is None:
        raise Misfit
    if bare.endswith(("NaN", "Infinity")):
        return float(bare)
    number = bare.rstrip("fFdD")
    return float(number) if kind == "double" else float_of(number)
