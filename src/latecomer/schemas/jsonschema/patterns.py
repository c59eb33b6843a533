"""Regular expressions of schemas, run by the validation library in linear time.

`jsonschema-rs` reads a pattern as ECMA-262 does with the flag `u`, and runs it with Rust's `regex`, which never
backtracks. So look-around and back references cannot be run. Syntax that JavaScript allows only without the flag is
mended first: a single brace, and a dash after `\\w` within [ ].
"""

from __future__ import annotations

import re
from functools import lru_cache

import jsonschema_rs

LONGEST_PATTERN = 10_000
_SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000)
"""Sizes of compiled patterns, in bytes. `^.{1,1000}$` is of the largest."""
_BYTES_OF_A_STEP = 100
"""So many bytes of a pattern cost as much for a character as one rule for a value, at worst."""
_TO_MEND = re.compile(r"\\[pPukK][{<][^}>]*[}>]|(\\[dDwWsS])-(?!\])|\\.|\{\d+(?:,\d*)?\}|([{}])", re.DOTALL)


class NotRun(ValueError):
    """The text is no regular expression, or has syntax that cannot be run here."""


def mended(pattern: str) -> str:
    r"""The same pattern, valid with the flag `u`.

    >>> mended(r"^[\w-.]+{x}$")
    '^[\\w\\-.]+\\{x\\}$'
    """
    return _TO_MEND.sub(
        lambda each: f"{each[1]}\\-" if each[1] else f"\\{each[2]}" if each[2] else each[0], pattern
    )


def matches(pattern: str, text: str) -> bool | None:
    """Whether a pattern fits some part of a text; None if it is not run.

    >>> matches("b+$", "abb"), matches("^(?=a)", "a")
    (True, None)
    """
    try:
        return _compiled(pattern)[0].is_valid(text)
    except NotRun:
        return None


def cost(pattern: str) -> int:
    """The steps that one character of a text may take. Raises NotRun."""
    return _compiled(pattern)[1] // _BYTES_OF_A_STEP


def options(size: int = _SIZES[-1]) -> jsonschema_rs.RegexOptions:
    return jsonschema_rs.RegexOptions(size_limit=size)


@lru_cache(maxsize=1000)
def _compiled(pattern: str) -> tuple[jsonschema_rs.Draft7Validator, int]:
    """A compiled pattern, and the smallest size limit that is enough for it."""
    if len(pattern) > LONGEST_PATTERN:
        raise NotRun(f"it has more than {LONGEST_PATTERN} characters")
    for size in _SIZES:
        try:
            validator = jsonschema_rs.Draft7Validator(
                {"pattern": mended(pattern)}, pattern_options=options(size)
            )
        except ValueError:
            continue
        return validator, size
    raise NotRun(
        "it is no regular expression of JavaScript, has look-around or a back reference, or is too large"
    )
