"""Lists as JSON text, exactly as Spark's `to_json` writes them, and floating point numbers as Java writes them.

`top_k` and `collect` are published in this form: every sink, table and file can hold text.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isfinite, isnan
from typing import Any

_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord(letter): "\\" + written for letter, written in zip('\b\t\n\f\r"\\', 'btnfr"\\', strict=True)
}
_SIMPLE = re.compile(r'[^\s"=,:\[\]]+')


def json_text(value: Any) -> str:
    """A value as JSON.

    >>> json_text(["a", 1, Decimal("1.50"), 1e10, True])
    '["a",1,1.50,1.0E10,true]'
    """
    match value:
        case None:
            return "null"
        case Mapping():
            return (
                "{" + ",".join(f"{json_text(name)}:{json_text(each)}" for name, each in value.items()) + "}"
            )
        case list() | tuple():
            return "[" + ",".join(map(json_text, value)) + "]"
        case bool():
            return str(value).lower()
        case int() | Decimal():
            return str(value)
        case float():
            text = double_text(value)
            return text if isfinite(value) else f'"{text}"'
        case datetime():
            return f'"{value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27)}"'
        case date():
            return f'"{value.isoformat()}"'
        case bytes():
            return f'"{b64encode(value).decode()}"'
    return f'"{str(value).translate(_ESCAPES)}"'


def short_form(text: str) -> str | None:
    """A list of `top_k` or `collect` in the short form of transcripts; None where that is not possible.

    >>> short_form('[{"value":"DEL","count":2},{"value":"BOM","count":1}]'), short_form('["a","b"]')
    ('[DEL:2,BOM:1]', '[a,b]')
    """
    if not text.startswith("["):
        return None
    try:
        parsed = json.loads(text, parse_float=str, parse_int=str)
    except ValueError:
        return None
    written = [_short(each) for each in parsed] if isinstance(parsed, list) else [None]
    if any(each is None for each in written):
        return None
    return f"[{','.join(each for each in written if each is not None)}]"


def _short(value: Any) -> str | None:
    if isinstance(value, dict):
        if list(value) != ["value", "count"]:
            return None
        simple = _short(value["value"])
        return None if simple is None else f"{simple}:{value['count']}"
    text = str(value).lower() if isinstance(value, bool) else value
    return text if isinstance(text, str) and _SIMPLE.fullmatch(text) else None


# Floating point numbers, with the fewest digits that identify them


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
