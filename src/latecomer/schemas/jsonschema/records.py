"""The JSON of a record, with its numbers as they are written."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, NoReturn

from latecomer.schemas.json_input import TOO_DEEP

_ESCAPED, _HIGH = r"(?<!\\)(?:\\\\)*", r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_HALF = re.compile(rf"{_ESCAPED}(?:{_HIGH}(?!\\u[dD][c-fC-F])|(?<!{_HIGH})\\u[dD][c-fC-F])")
"""A surrogate escape without its other half."""


class NotJson(ValueError):
    """A text is not JSON. The message says why."""


def read_record(text: str) -> Any:
    """The value of a record. Raises NotJson.

    >>> read_record('{"paise": 0.10, "share": 1e-1}')
    {'paise': Decimal('0.10'), 'share': Decimal('0.1')}
    """
    if "\\u" in text and _HALF.search(text):
        raise NotJson("it has an escape that is half of a character")
    try:
        return _loaded(text)
    except json.JSONDecodeError as error:
        raise NotJson(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise NotJson(TOO_DEEP) from None


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_constant)
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        if isinstance(error, NotJson):
            raise
        # Python converts no text of more than 4,300 digits to int
        return json.loads(text, parse_int=Decimal, parse_float=Decimal, parse_constant=_constant)


def _constant(name: str) -> NoReturn:
    raise NotJson(f"not JSON: {name} is no number there")
