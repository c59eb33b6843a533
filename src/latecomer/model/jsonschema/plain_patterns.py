"""Patterns that Java runs as ECMA-262 means them, in time that grows with the text alone.

A plain pattern begins with ^ and is a row of letters and sets of letters, each with a repetition or without. Where a
repetition has no one length, none of its letters may begin what follows. So it can take all it gets and never has to
give any back: each becomes a possessive one of Java's, which does not try again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 500
MOST_REPEATED = 1000
_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_"}
_ITEM = re.compile(
    r"""(?P<set>\[(?P<negated>\^?)(?P<inner>(?:[^\]\[\\&]|\\[dw.\-/+_@:\\\]\[^$*?(){}|])+)\])
    |(?P<escape>\\[dwDW])
    |\\(?P<quoted>[.\-/+\\\]\[^$*?(){}|])
    |(?P<letter>[A-Za-z0-9 _@:/,;#%&!="'~<>-])""",
    re.VERBOSE | re.ASCII,
)
_REPEAT = re.compile(r"(?P<sign>[*+?])|\{(?P<least>[0-9]{1,4})(?P<comma>,(?P<most>[0-9]{0,4}))?\}")
_ASCII = frozenset(map(chr, range(128)))


class NotPlain(ValueError):
    """What a pattern has that is not run, in words."""


@dataclass(frozen=True)
class _Letters:
    """Which letters fit: some of ASCII, and perhaps all beyond it."""

    ascii: frozenset[str]
    others: bool = False

    def __and__(self, other: _Letters) -> bool:
        return bool(self.ascii & other.ascii) or (self.others and other.others)

    def java(self) -> str:
        codes = "".join(f"\\x{{{ord(each):x}}}" for each in sorted(self.ascii))
        return f"[{codes}{chr(92)}x{{80}}-{chr(92)}x{{10ffff}}]" if self.others else f"[{codes}]"


@dataclass(frozen=True)
class _Piece:
    letters: _Letters
    least: int = 1
    most: int | None = 1


def plain_pattern(pattern: str) -> str:
    r"""The same pattern for Java, to be found in a text.

    >>> plain_pattern("^[0-9]+x$")
    '^[\\x{30}\\x{31}\\x{32}\\x{33}\\x{34}\\x{35}\\x{36}\\x{37}\\x{38}\\x{39}]{1,}+[\\x{78}]\\z'
    """
    if len(pattern) > LONGEST:
        raise NotPlain(f"more than {LONGEST} characters")
    if not pattern.startswith("^"):
        raise NotPlain("no ^ at its beginning")
    pieces, ends = _pieces(pattern)
    written = ["^"]
    for nth, each in enumerate(pieces):
        written.append(each.letters.java())
        if (each.least, each.most) == (1, 1):
            continue
        most = "" if each.most is None else each.most
        written.append(f"{{{each.least},{most}}}")
        if each.least != each.most:
            if _may_begin(each.letters, pieces[nth + 1 :]):
                raise NotPlain("a repetition whose letters may also be what follows it")
            written.append("+")
    return "".join(written) + (r"\z" if ends else "")


def _may_begin(letters: _Letters, following: list[_Piece]) -> bool:
    """Whether what follows a repetition may begin with one of its letters."""
    for each in following:
        if letters & each.letters:
            return True
        if each.least > 0:
            return False
    return False


def _pieces(pattern: str) -> tuple[list[_Piece], bool]:
    """What a pattern consists of, and whether it reaches to the end of the text."""
    at, pieces = 1, list[_Piece]()
    while at < len(pattern):
        if pattern[at:] == "$":
            return pieces, True
        item = _ITEM.match(pattern, at)
        if item is None:
            raise NotPlain(f"{pattern[at : at + 10]} at character {at + 1}")
        at = item.end()
        letters, repeat = _letters(item), _REPEAT.match(pattern, at)
        if repeat is None:
            pieces.append(_Piece(letters))
            continue
        at = repeat.end()
        if pattern[at : at + 1] in ("?", "+", "*", "{"):
            raise NotPlain("a repetition of a repetition")
        pieces.append(_Piece(letters, *_counts(repeat)))
    return pieces, False


def _counts(repeat: re.Match[str]) -> tuple[int, int | None]:
    sign = repeat["sign"]
    if sign:
        return (1 if sign == "+" else 0), (1 if sign == "?" else None)
    least = int(repeat["least"])
    most = (int(repeat["most"]) if repeat["most"] else None) if repeat["comma"] else least
    if max(least, most or 0) > MOST_REPEATED or (most is not None and most < least):
        raise NotPlain(f"a repetition of more than {MOST_REPEATED}, or of less than none")
    return least, most


def _letters(item: re.Match[str]) -> _Letters:
    if item["letter"] or item["quoted"]:
        return _Letters(frozenset(item["letter"] or item["quoted"]))
    if item["escape"]:
        kind = item["escape"][1]
        found = _range_letters(_CLASSES[kind.lower()])
        return _Letters(found) if kind.islower() else _Letters(_ASCII - found, True)
    inner = item["inner"]
    if not inner.isascii():
        raise NotPlain("letters beyond ASCII in [ ]")
    found = _range_letters(inner)
    return _Letters(_ASCII - found, True) if item["negated"] else _Letters(found)


def _range_letters(inner: str) -> frozenset[str]:
    """The letters of what stands within [ ].

    >>> "".join(sorted(_range_letters(r"a-cx\\-")))
    '-abcx'
    """
    found, at, units = set[str](), 0, list[tuple[str, bool]]()
    while at < len(inner):
        if inner[at] == "\\":
            kind = inner[at + 1]
            if kind in _CLASSES:
                found |= _range_letters(_CLASSES[kind])
                units.append(("", False))
            else:
                units.append((kind, False))
            at += 2
        else:
            units.append((inner[at], inner[at] == "-"))
            at += 1
    nth = 0
    while nth < len(units):
        letter = units[nth][0]
        if nth + 2 < len(units) and units[nth + 1] == ("-", True):
            last = units[nth + 2][0]
            if not letter or not last or last < letter:
                raise NotPlain("a range in [ ] of no two letters")
            found |= set(map(chr, range(ord(letter), ord(last) + 1)))
            nth += 3
            continue
        found |= {letter} if letter else set()
        nth += 1
    return frozenset(found)
