"""Regular expressions of schemas, run by the library of validation in time that grows with text and pattern alone.

`jsonschema-rs` reads a pattern as ECMA-262 does with the flag `u`, and hands it to Rust's `regex`, which never tries
again. So look-around and back references are not run. What JavaScript takes without the flag is mended first: a lone
brace, and a dash after `\\w` within [ ].
"""

from __future__ import annotations

import re
from functools import lru_cache

import jsonschema_rs

LONGEST_PATTERN = 10_000
_SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000)
"""Sizes of compiled patterns, in bytes. `^.{1,1000}$` is of the largest."""
_BYTES_OF_A_STEP = 100
"""So much of a pattern costs a letter of a text as long as a rule costs a value, at worst."""
_TO_MEND = re.compile(r"\\[pPukK][{<][^}>]*[}>]|(\\[dDwWsS])-(?!\])|\\.|\{\d+(?:,\d*)?\}|([{}])", re.DOTALL)


class NotRun(ValueError):
    """The text is no regular expression, or holds what is not run here."""


def mended(pattern: str) -> str:
    r"""The same pattern with the flag `u`.

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
    """The steps that a letter of a text may take. Raises NotRun."""
    return _compiled(pattern)[1] // _BYTES_OF_A_STEP


def options(size: int = _SIZES[-1]) -> jsonschema_rs.RegexOptions:
    return jsonschema_rs.RegexOptions(size_limit=size)


@lru_cache(maxsize=1000)
def _compiled(pattern: str) -> tuple[jsonschema_rs.Draft7Validator, int]:
    """A pattern that is ready, and the smallest size that is enough for it."""
    if len(pattern) > LONGEST_PATTERN:
        raise NotRun(f"it has more than {LONGEST_PATTERN} characters")
    for size in _SIZES:
        try:
            found = jsonschema_rs.Draft7Validator({"pattern": mended(pattern)}, pattern_options=options(size))
        except ValueError:
            continue
        return found, size
    raise NotRun(
        "it is no regular expression of JavaScript, has look-around or a back reference, or is too large"
    )
