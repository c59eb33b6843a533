"""Floating point numbers as Java writes them, with the fewest digits that identify them: stores hold this form."""

from __future__ import annotations

from decimal import Decimal
from math import isfinite, isnan


def double_text(value: float) -> str:
    """A double as Java writes it, with the fewest digits that identify it.

    >>> double_text(0.001), double_text(1e7), double_text(-0.00012), double_text(5e-324), double_text(float("-inf"))
    ('0.001', '1.0E7', '-1.2E-4', '4.9E-324', '-Infinity')
    """
    two = f"{abs(value):.1e}"  # Java writes at least two digits, and chooses the nearest number with two
    return _java(value, two if float(two) == abs(value) else repr(abs(value)))


def float_text(value: float) -> str:
    """A float as Java writes it.

    >>> float_text(0.1), float_text(3e10)
    ('0.1', '3.0E10')
    """
    import numpy as np  # reading a pipeline file does not need it

    return _java(value, np.format_float_scientific(np.float32(abs(value)), unique=True))


def _java(value: float, written: str) -> str:
    if not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign = "-" if str(value)[0] == "-" else ""
    if not value:
        return f"{sign}0.0"
    _, numerals, exponent = Decimal(written).as_tuple()
    digits = "".join(map(str, numerals)).rstrip("0")
    point = len(numerals) + int(exponent)  # the number of digits before the point
    if -3 < point <= 7:
        whole = digits[:point].ljust(point, "0") if point > 0 else "0"
        behind = digits[point:] if point > 0 else "0" * -point + digits
        return f"{sign}{whole}.{behind or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
