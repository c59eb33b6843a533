"""Forms of times in text, as patterns such as `dd.MM.yyyy HH:mm:ss`: the letters are those of Spark's patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TWO = "[0-9]{1,2}"
_OFFSET = "Z|[+-][0-9]{2}(?::?[0-9]{2})?"
_PARTS = {
    "yyyy": ("year", "[0-9]{4}"),
    "yy": ("short_year", "[0-9]{2}"),
    "MMM": ("month_name", f"(?i:{'|'.join(MONTHS)})"),
    "MM": ("month", "[0-9]{2}"),
    "M": ("month", _TWO),
    "dd": ("day", "[0-9]{2}"),
    "d": ("day", _TWO),
    "HH": ("hour", "[0-9]{2}"),
    "H": ("hour", _TWO),
    "hh": ("half_hour", "[0-9]{2}"),
    "h": ("half_hour", _TWO),
    "a": ("half", "(?i:am|pm)"),
    "mm": ("minute", "[0-9]{2}"),
    "m": ("minute", _TWO),
    "ss": ("second", "[0-9]{2}"),
    "s": ("second", _TWO),
    **{"S" * count: ("fraction", f"[0-9]{{1,{count}}}") for count in range(1, 7)},
    **dict.fromkeys(("X", "XX", "XXX", "Z", "xx", "xxx"), ("offset", _OFFSET)),
}
_LEXED = re.compile(r"'(?P<quoted>[^']*)'|(?P<part>([A-Za-z])\3*)|(?P<sign>[^A-Za-z'])")
FIX = "write a pattern such as dd.MM.yyyy HH:mm:ss, d/M/yyyy hh:mm a or dd-MMM-yy HH:mm"


@dataclass(frozen=True)
class TimeFormat:
    """What a pattern means."""

    regex: str
    """Matches a whole text; each part is a group by its name."""
    parts: frozenset[str]


@cache
def time_format(pattern: str) -> TimeFormat:
    """Read a pattern; a `ValueError` says what is wrong with it, and the fix.

    >>> sorted(time_format("d/M/yyyy HH:mm").parts)
    ['day', 'hour', 'minute', 'month', 'year']
    >>> time_format("dd.MM.YYYY")
    Traceback (most recent call last):
    ValueError: has YYYY, which is no part of a time; write yyyy
    """
    read = [*_read(pattern)]
    named = [part for part, _ in read if part]
    twice = next((part for part in named if named.count(part) > 1), None)
    if twice is not None:
        raise ValueError(f"has the {twice.replace('_', ' ')} twice; {FIX}")
    parts = frozenset(named)
    for what, ways in {
        "year": {"year", "short_year"},
        "month": {"month", "month_name"},
        "day": {"day"},
    }.items():
        if len(parts & ways) != 1:
            raise ValueError(f"has {'no' if not parts & ways else 'more than one'} {what}; {FIX}")
    if ("half" in parts) != ("half_hour" in parts) or {"hour", "half_hour"} <= parts:
        raise ValueError("goes by halves of a day in part; write hh with a, or HH alone")
    clock = ("half_hour" if "half" in parts else "hour", "minute", "second", "fraction")
    missing = [part for part, finer in pairwise(clock) if part not in parts and finer in parts]
    if missing:
        raise ValueError(f"has no {missing[0]}, and something finer; {FIX}")
    return TimeFormat("^" + "".join(regex for _, regex in read) + "$", parts)


def known_pattern(pattern: str) -> str:
    """The pattern, if it is one."""
    time_format(pattern)
    return pattern


def _read(pattern: str) -> Iterator[tuple[str, str]]:
    """The parts of a pattern, each with its regular expression; a literal has no name."""
    at = 0
    while at < len(pattern):
        match = _LEXED.match(pattern, at)
        if match is None:
            raise ValueError(f"has a quote that is not closed; {FIX}")
        at = match.end()
        letters = match["part"]
        if letters is None:
            yield "", re.escape(match["sign"] or match["quoted"] or "'")
        elif letters in _PARTS:
            name, regex = _PARTS[letters]
            yield name, f"(?P<{name}>{regex})"
        else:
            near = {"YYYY": "yyyy", "YY": "yy", "DD": "dd", "D": "d", "y": "yyyy", "A": "a", "TT": "a"}.get(
                letters
            )
            hint = f"write {near}" if near else f"put words in single quotes, or {FIX}"
            raise ValueError(f"has {letters}, which is no part of a time; {hint}")
