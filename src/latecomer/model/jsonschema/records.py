"""The JSON of a record, with its numbers as they are written.

Spark's variants hold numbers so, and a record must be the same to whoever decides and to whoever explains: a number is
exact if it has no exponent and at most 38 digits, and else the nearest double.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, NoReturn

from latecomer.model.jsonschema.values import Rough
from latecomer.model.types import MOST_DIGITS

_ESCAPED, _HIGH = r"(?<!\\)(?:\\\\)*", r"\\u[dD][89abAB][0-9a-fA-F]{2}"
HALF = rf"{_ESCAPED}(?:{_HIGH}(?!\\u[dD][c-fC-F])|(?<!{_HIGH})\\u[dD][c-fC-F])"
"""An escape that is half of a character, where the other half is not beside it. Python reads it as Java does."""
_HALF = re.compile(HALF)


class NotJson(ValueError):
    """A text is no JSON, in words."""


def read_record(text: str) -> Any:
    """The value of a record; `NotJson` if it is none.

    >>> read_record('{"paise": 0.10, "share": 1e-1}')
    {'paise': Decimal('0.10'), 'share': 0.1}
    """
    if _HALF.search(text):
        raise NotJson("it has an escape that is half of a character")
    try:
        return json.loads(text, parse_int=_whole, parse_float=_fraction, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise NotJson(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise NotJson("not JSON that can be read: it is nested too deeply") from None


def _whole(text: str) -> int | Rough:
    return int(text) if len(text.lstrip("-")) <= MOST_DIGITS else Rough(text)


def _fraction(text: str) -> Decimal | Rough:
    if "e" in text.lower():
        return Rough(text)
    whole, _, digits = text.lstrip("-").partition(".")
    exact = len((whole + digits).lstrip("0")) <= MOST_DIGITS and len(digits) <= MOST_DIGITS
    return Decimal(text) if exact else Rough(text)


def _constant(name: str) -> NoReturn:
    raise NotJson(f"not JSON: {name} is no number there")
