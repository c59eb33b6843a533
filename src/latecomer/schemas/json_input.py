"""Reads JSON from outside within limits. Text that is too large, too deep or ambiguous is an error, never a crash."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from latecomer.schemas.mistakes import Path, SchemaError, Step

MOST_CHARACTERS = 1_000_000
MOST_VALUES = 200_000
DEEPEST = 300
LONGEST_NUMBER = 1000
TOO_DEEP = "not JSON that can be read: it is nested too deeply"
"""What is wrong with a record that Python's reader of JSON cannot read for its depth."""
_MOST_BITS = 3322  # of a number with that many digits
_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|([\[{])|([\]}])', re.DOTALL)
_Place = tuple[Any, Step] | None
"""A step, and the place around it: whole paths of all values would take too much memory."""


class _Repeating(dict[str, Any]):
    """An object with the same key twice."""

    twice = ""


def read_json(text: str, most: int = MOST_CHARACTERS) -> Any:
    """The value of a JSON text of at most `most` characters."""
    if len(text) > most:
        raise SchemaError((), f"has {len(text)} characters", f"write at most {most}")
    if depth_of(text) > DEEPEST:  # Python's reader of JSON uses a stack that it shares with its caller
        raise _too_deep()
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_int=_whole, parse_float=_number, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise SchemaError((), f"is not JSON: {error.msg} at {where}", "write valid JSON", text) from None
    require_plain(value)
    return value


def require_plain(value: Any) -> None:
    """Refuse values that JSON cannot hold, and values that are too large or too deep.

    It does not recurse: Python values may be deeper than Python's stack, or contain themselves.
    """
    pending: list[tuple[Any, _Place, int]] = [(value, None, 0)]
    count = 0
    while pending:
        each, place, depth = pending.pop()
        count += 1
        if count > MOST_VALUES:
            raise SchemaError((), "holds too many values", f"write at most {MOST_VALUES}")
        if depth > DEEPEST:
            raise _too_deep()
        if isinstance(each, dict):
            _require_keys(each, place)
            pending.extend((inner, (place, key), depth + 1) for key, inner in each.items())
        elif isinstance(each, list):
            pending.extend((inner, (place, index), depth + 1) for index, inner in enumerate(each))
        else:
            _require_scalar(each, place)


def _require_keys(value: dict[Any, Any], place: _Place) -> None:
    if isinstance(value, _Repeating):
        raise SchemaError(_path(place), f"has the key {value.twice} twice", "write it once")
    for key in value:
        if not isinstance(key, str):
            raise SchemaError(_path(place), "has a key that is no text", "write the key in quotes", key)
        _require_scalar(key, place)


def _require_scalar(value: Any, place: _Place) -> None:
    match value:
        case None | bool():
            return
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise SchemaError(
                    _path(place), "holds half of a surrogate pair", "write whole characters", ascii(value)
                ) from None
        case int():
            if value.bit_length() > _MOST_BITS:
                raise _too_long(_path(place))
        case float():
            if not math.isfinite(value):
                fix = "write a number that a double can hold"
                raise SchemaError(_path(place), "is no finite number", fix, value)
        case _:
            raise SchemaError(_path(place), f"is a {type(value).__name__}", "write a value of JSON")


def _path(place: _Place) -> Path:
    steps: list[Step] = []
    while place is not None:
        place, step = place
        steps.append(step)
    return tuple(reversed(steps))


def depth_of(text: str) -> int:
    """How many lists and objects are nested in a text of JSON.

    >>> depth_of('[[], [], "[["]'), depth_of("1")
    (2, 0)
    """
    deepest = depth = 0
    for token in _BRACKETS.finditer(text):
        depth += (token[1] is not None) - (token[2] is not None)
        deepest = max(deepest, depth)
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    repeating, keys = _Repeating(value), set[str]()
    for key, _ in pairs:
        if key in keys:
            repeating.twice = key
            break
        keys.add(key)
    return repeating


def _whole(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise _too_long(())
    return int(text)


def _number(text: str) -> float:
    if len(text) > LONGEST_NUMBER:
        raise _too_long(())
    return float(text)


def _too_deep() -> SchemaError:
    return SchemaError((), "is nested too deeply", f"nest at most {DEEPEST} lists and objects")


def _too_long(path: Path) -> SchemaError:
    return SchemaError(path, "holds a number that is too long", f"write at most {LONGEST_NUMBER} digits")


def _constant(text: str) -> NoReturn:
    raise SchemaError((), f"holds {text}, which is no JSON", f'write it as text: "{text}"')
